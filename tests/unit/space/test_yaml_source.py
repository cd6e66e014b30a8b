from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.unit.space.conftest import Load, Refuse
from tuner.space import SpaceError, load_study_file
from tuner.space.errors import Problems, Where
from tuner.space.yaml_source import Map, plain, read_scalar, read_yaml


def _read(text: str) -> tuple[object, Problems]:
    problems = Problems()
    node = read_yaml(text, Where("f", 1), problems)
    return (None if node is None else plain(node)), problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3E-4", 3e-4),
        ("1.5", 1.5),
        (".5", 0.5),
        ("12", 12),
        ("-3", -3),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", math.inf),
        ("-.inf", -math.inf),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = read_scalar(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "word", ["on", "off", "yes", "no", "y", "N", "1_000", "2024-01-01", "12:30:00", "1.2.3", "e5"]
)
def test_words_of_yaml_1_1_stay_words(word: str) -> None:
    assert read_scalar(word) == word


def test_quoted_scalars_are_texts() -> None:
    assert _read("['1', \"true\", 'null']")[0] == ["1", "true", "null"]


def test_keys_and_values_know_their_line() -> None:
    node = read_yaml("a: 1\nb:\n  c: [1,\n    2]\n", Where("f", 1), Problems())
    assert isinstance(node, Map)
    inner = node.entries[1].node
    assert isinstance(inner, Map)
    assert (node.entries[1].where.line, inner.entries[0].where.line) == (2, 3)


def test_a_key_given_twice_is_an_error_that_names_both_lines() -> None:
    _, problems = _read("a: 1\nb: 2\na: 3\n")
    assert str(problems.found[0]) == "f:3: a is given twice (first in line 1); keep one"


def test_keys_are_stripped_before_they_are_compared() -> None:
    _, problems = _read('a: 1\n"a ": 3\n')
    assert "a is given twice" in str(problems.found[0])


def test_tags_are_refused() -> None:
    _, problems = _read("a: !!python/object/apply:os.system [ls]\nb: !!python/name:os.x ''\nc: !mine 3\n")
    assert "tag" in "\n".join(map(str, problems.found))


def test_anchors_work_and_an_anchor_inside_itself_is_refused() -> None:
    assert _read("a: &x [1, 2]\nb: *x\n")[0] == {"a": [1, 2], "b": [1, 2]}
    _, problems = _read("a: &x [*x]\n")
    assert "nested more than" in str(problems.found[0])


def test_anchors_that_multiply_are_refused_in_bounded_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    _, problems = _read("\n".join(lines))
    assert "more than" in str(problems.found[0])


def test_deep_nesting_is_refused() -> None:
    for text in ("[" * 500 + "]" * 500, "[" * 90_000, "{a: " * 200 + "}" * 200):
        _, problems = _read(text)
        assert problems.found


@pytest.mark.parametrize(
    "line",
    [
        "p: {choices: [1], when: a in [b, c]}",
        "p: {expr: max(a, 2)}",
        "rules: [a <= b, c in [d, e]]",
        "rules: [max(a, 2) <= b]",
        "run: [python, {batch_size}]",
        "- {trial_dir}/x",
        "rules:\n  - 'x' == a",
    ],
)
def test_an_expression_that_yaml_tears_apart_is_said_to_need_quotes(line: str) -> None:
    _, problems = _read(line)
    assert "quotes" in "\n".join(map(str, problems.found))


def test_a_torn_line_gives_one_problem_and_not_its_consequences(refuse: Refuse) -> None:
    said = refuse("parameters: {threads: {expr: max(micro_batch_size, 2)}, micro_batch_size: 4}\n")
    assert (
        said == "space.yaml:1: YAML takes the text that begins with 'max(micro_batch_size' apart at "
        "its comma; put it in quotes"
    )


def test_a_tab_as_indentation_is_named() -> None:
    _, problems = _read("a:\n\tb: 1\n")
    assert "spaces, not tabs" in str(problems.found[0])


def test_parentheses_in_one_flow_value_are_left_alone() -> None:
    value, problems = _read("a: {f1: F1 (micro), f2: (x)}")
    assert value == {"a": {"f1": "F1 (micro)", "f2": "(x)"}}
    assert not problems.found


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"a: \x00", b"", b"- 1\n", b"text", b"a: 1\n---\nb: 2\n"]
)
def test_a_file_that_is_no_space_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(SpaceError, match=r"x\.yaml"):
        load_study_file(path)


def test_a_missing_file_a_folder_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * 1_000_001)
    for path in (tmp_path / "no.yaml", tmp_path, huge, tmp_path / "nul\0.yaml"):
        with pytest.raises(SpaceError):
            load_study_file(path)


def test_a_byte_order_mark_does_no_harm(load: Load) -> None:
    assert load("\ufeffstudy: x\n").name == "x"
