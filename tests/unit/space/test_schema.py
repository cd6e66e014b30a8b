from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from tuner.space.errors import Problems, Where
from tuner.space.file import SECTION_NAMES
from tuner.space.schema import schema, schema_text
from tuner.space.yaml_source import plain, read_yaml

FOLDER = Path(__file__).parents[3] / "search_spaces"


def _valid(text: str) -> bool:
    problems = Problems()
    node = read_yaml(text, Where("f", 1), problems)
    assert node is not None, problems.found
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(plain(node)))


def test_the_file_beside_the_spaces_is_the_schema_of_the_code() -> None:
    written = (FOLDER / "space.schema.json").read_text(encoding="utf-8")
    assert written == schema_text(), "run: python -m tuner.space.schema search_spaces/space.schema.json"


def test_the_schema_is_a_schema_and_has_every_section() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert set(schema()["properties"]) == set(SECTION_NAMES)


MINIMAL = "workload: {kind: training}\nobjectives: [a]\n"


@pytest.mark.parametrize(
    "parameter",
    [
        "3",
        "null",
        "[a, 1]",
        "{min: 1, max: 4, scale: log2}",
        "{choices: {a: 1}, when: 'b > 1'}",
        "{value: [4]}",
        "{expr: 'a'}",
        "{learning_rate: [1]}",
    ],
)
def test_every_form_of_a_parameter_is_valid(parameter: str) -> None:
    assert _valid(f"{MINIMAL}parameters: {{x: {parameter}}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "parameters: {x: {min: 1, max: 4, stepp: 3}}",
        "parameters: {x: []}",
        "parameters: {x: 1}\nbudgets: {}",
        "parameters: {x: 1}\nbudget: {trails: 3}",
        "parameters: {x: 1}\nbudget: {trials: 0}",
        "parameters: {x: 1}\nconstraints: {a: {maximum: 3}}",
        "parameters: {x: 1}\nselection: {rule: best}",
    ],
)
def test_an_editor_marks_the_usual_slips(text: str) -> None:
    assert not _valid(f"{MINIMAL}{text}\n")


def test_the_shipped_spaces_fit_the_schema() -> None:
    for path in FOLDER.glob("*.yaml"):
        assert _valid(path.read_text(encoding="utf-8")), path.name
