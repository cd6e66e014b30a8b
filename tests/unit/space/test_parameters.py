from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.space.conftest import Load, Refuse
from tuner.space.domains import Choices, Derived, Fixed, Range


def _domain(load: Load, name: str, text: str, kind: str = "open") -> object:
    study = load(f"workload: {{kind: {kind}}}\nparameters:\n  {name}: {text}\n")
    return study.space.by_name[name].domain


def test_a_list_is_a_choice_a_scalar_is_fixed_and_value_fixes_a_list(load: Load) -> None:
    assert isinstance(_domain(load, "x", "[1, 2]"), Choices)
    assert _domain(load, "x", "3") == Fixed(3)
    assert _domain(load, "x", "{value: [4, 8]}") == Fixed([4, 8])
    assert _domain(load, "x", "null") == Fixed(None)


def test_ranges_of_whole_numbers_stay_whole(load: Load) -> None:
    assert _grid(load, "{min: 1, max: 4}") == (1, 2, 3, 4)
    assert _grid(load, "{min: 0, max: 8, step: 4}") == (0, 4, 8)
    assert _grid(load, "{min: 4, max: 64, scale: log2}") == (4, 8, 16, 32, 64)
    assert _grid(load, "{min: 1, max: 3, scale: log}") == (1, 2, 3)
    assert all(type(value) is int for value in _grid(load, "{min: 4, max: 64, scale: log2}") or ())


def test_ranges_with_a_decimal_number_are_decimal_and_exact(load: Load) -> None:
    assert _grid(load, "{min: 0.1, max: 0.5, step: 0.1}") == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert _grid(load, "{min: 0.25, max: 1, scale: log2}") == (0.25, 0.5, 1.0)
    assert _grid(load, "{min: 1e-4, max: 1e-2, scale: log}") is None
    assert _grid(load, "{min: 0, max: 0.5}") is None


def _grid(load: Load, text: str) -> tuple[object, ...] | None:
    domain = _domain(load, "x", text)
    assert isinstance(domain, Range)
    return domain.grid()


def test_a_range_knows_what_it_contains(load: Load) -> None:
    steps = _domain(load, "x", "{min: 0.1, max: 0.5, step: 0.1}")
    assert isinstance(steps, Range)
    assert steps.contains(0.3)
    assert not any(map(steps.contains, (0.35, 0.6, 1, True, "0.3", None, [0.3])))
    whole = _domain(load, "x", "{min: 4, max: 64, scale: log2}")
    assert isinstance(whole, Range)
    assert whole.contains(8)
    assert not any(map(whole.contains, (8.0, 12, 128)))


def test_a_huge_range_of_whole_numbers_is_counted_and_not_listed(load: Load) -> None:
    domain = _domain(load, "x", "{min: 0, max: 1000000000}")
    assert isinstance(domain, Range)
    assert domain.count() == 1_000_000_001
    assert domain.grid() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{min: 8, max: 2}", "x={min: 8, max: 2, scale: linear} has its min above its max; swap them"),
        ("{min: 0, max: 8, scale: log}", "cannot begin at 0 with scale: log; write min: 1, or scale: linear"),
        ("{min: 0, max: 0.5, scale: log}", "write min: 0.005"),
        (
            "{min: 1, max: 8, scale: log, step: 2}",
            "cannot have a step with scale: log; delete the step, or write scale: log2 alone (1, "
            "2, 4, 8, ...)",
        ),
        ("{min: 1, max: 8, scale: log2, step: 2}", "cannot have a step"),
        ("{min: 1, max: 8, step: 0}", "write a step above 0"),
        ("{min: 1}", "x has no max"),
        ("{max: 1}", "x has no min"),
        ('{min: "1", max: 4}', "x.min=1 is not a number; write it without quotes"),
        ("{min: true, max: 4}", "x.min=true is not a number"),
        ("{min: .nan, max: 4}", "x.min=NaN is not a number"),
        ("{min: 1, max: .inf}", "x.max=Infinity is not a number"),
        (
            "{min: 0, max: 1, step: 1e-320}",
            "x.step=1e-320 is so near to 0 that its digits are lost; write 2.2e-308 or more",
        ),
        ("{min: -1e-310, max: 1.0}", "write 0, or 2.2e-308 or more"),
        ("{min: 1e-320, max: 1.0, scale: log2}", "is so near to 0 that its digits are lost"),
        ("{min: 0, max: 1, step: 1e-300}", "has more steps than can be counted; write a larger step, or"),
        ("{min: 1.0e+17, max: 1.1e+17, step: 20.0}", "has a step that is lost beside numbers of this size"),
        ("{min: -1e308, max: 1e308}", "is wider than numbers go; write smaller bounds"),
        (f"{{min: 0, max: {10**200}}}", f"is a whole number above {2**63 - 1}; write a smaller one"),
        ("{min: 1, max: 4, scale: lg}", "x.scale=lg is not known; write linear, log, log2"),
        ("{min: 1, max: 4, stepp: 1}", "x.stepp does not go with min; did you mean step?"),
        ("{choices: [1], min: 3}", "x.min does not go with choices"),
        ("{low: 0, high: 8, log: true}", "x.low is not known; write min"),
        ("{values: [1, 2]}", "x.values is not known; write choices"),
        ("{step: 4}", "says no values; write choices, min and max, value or expr"),
        ("[]", "x has no choices"),
        ("{}", "says no values"),
        ("{choices: 3}", "x.choices=3 is not a list"),
        ("{choices: {null: 3}}", "null is no label"),
        ("{choices: {a: 1, a: 2}}", "a is given twice"),
        ("[.nan, 1]", "x=nan is not a finite number"),
        ("{expr: [a, b]}", "put the expression in quotes"),
        ('{expr: "y +"}', "is not an expression"),
        ('{expr: "foo(3)"}', "the only functions are min(...) and max(...)"),
    ],
)
def test_what_is_no_domain_is_refused_with_the_way_out(refuse: Refuse, text: str, said: str) -> None:
    assert said in refuse(f"workload: {{kind: open}}\nparameters:\n  x: {text}\n")


def test_a_maximum_that_is_never_reached_is_reported(load: Load) -> None:
    study = load(
        "workload: {kind: open}\nparameters:\n  x: {min: 4, max: 60, scale: log2}\n"
        "  y: {min: 0, max: 1, step: 0.3}\n"
    )
    said = "\n".join(study.warnings)
    assert "space.yaml:3: x: 60 is never tried, the last value is 32" in said
    assert "y: 1 is never tried, the last value is 0.9" in said


def test_the_same_value_twice_is_dropped_with_a_warning(load: Load) -> None:
    study = load(
        "workload: {kind: open}\nparameters:\n  x: [1, 2, 1, 1.0, true]\n  y: {choices: {a: 3, b: 3}}\n"
    )
    assert [c.value for c in study.space.by_name["x"].domain.choices] == [1, 2, 1.0, True]  # type: ignore[union-attr]
    said = "\n".join(study.warnings)
    assert "space.yaml:3: x: 1 is given twice and tried once" in said
    assert "y: b, the same as a, is given twice and tried once" in said


def test_labels_may_be_words_numbers_and_booleans(load: Load) -> None:
    domain = _domain(load, "x", '{choices: {off: "", 1: "--one", true: "--yes"}}')
    assert isinstance(domain, Choices)
    assert [(c.label, c.value) for c in domain.choices] == [("off", ""), (1, "--one"), (True, "--yes")]


def test_choices_may_be_lists_and_maps(load: Load) -> None:
    domain = _domain(load, "x", "[[1, 2], {a: 1}, null]")
    assert isinstance(domain, Choices)
    assert [c.label for c in domain.choices] == [[1, 2], {"a": 1}, None]


def test_an_unknown_parameter_is_an_error_with_the_nearest_name(refuse: Refuse) -> None:
    said = refuse("parameters:\n  precison: [fp32]\n  learning_rate: 1\n  compress: 3\n")
    assert "space.yaml:2: precison is no parameter of toy; did you mean precision?" in said
    assert "space.yaml:3: learning_rate is no parameter of toy; did you mean task.learning_rate?" in said
    assert "known: task.learning_rate, task.width, activation_checkpointing, " in refuse(
        "parameters: {task.lr: 1}\n"
    )


def test_a_family_whose_names_are_known_is_closed_and_others_are_open(load: Load, refuse: Refuse) -> None:
    assert "task.widht is no parameter of toy; did you mean task.width?" in refuse(
        "parameters: {task.widht: 3}\n"
    )
    names = load('parameters: {env.OMP_NUM_THREADS: ["1", "2"], engine_args.anything: 3}\n').space.by_name
    assert set(names) == {"env.OMP_NUM_THREADS", "engine_args.anything"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'x: ["a\0b", 1]', "space.yaml:3: a\\0b holds NUL, which no program can be given; write it without"),
        (r'x: "a\0b"', "holds NUL"),
        (r'x: [["a\0b"]]', "holds NUL"),
        (r'env.NAME: ["\e[31m", b]', "holds the control character U+001B; write it without"),
        (r'x: {choices: {red: "\e[31m"}}', "holds the control character U+001B"),
        (r'x: {value: {a: ["\x7f"]}}', "holds the control character U+007F"),
        (r'x: {choices: {"a\nb": 1}}', "x: 'a\\nb' cannot be printed; give the choice another name"),
        ('x: {choices: {"a\\u202eb": 1}}', "cannot be printed; give the choice another name"),
    ],
)
def test_characters_that_no_trial_can_be_given_are_refused(refuse: Refuse, text: str, said: str) -> None:
    assert said in refuse(f"workload: {{kind: open}}\nparameters:\n  {text}\n")


def test_a_prompt_of_several_lines_is_a_choice_like_any_other(load: Load) -> None:
    domain = _domain(load, "x", r'["one\n\ttwo", "ünïcode"]')
    assert isinstance(domain, Choices)
    assert domain.contains("one\n\ttwo") and domain.contains("ünïcode")


@pytest.mark.parametrize("name", ["a b", "a/b", "batch-size", "1x", "a..b", ".a", "a."])
def test_names_that_expressions_could_not_use_are_refused(refuse: Refuse, name: str) -> None:
    assert "is no name for a parameter; use letters" in refuse(
        f'workload: {{kind: open}}\nparameters: {{"{name}": 3}}\n'
    )


def test_a_value_and_a_group_of_the_same_name_are_refused(refuse: Refuse) -> None:
    said = refuse("workload: {kind: open}\nparameters:\n  a: 3\n  a.b: 4\n")
    assert "space.yaml:4: a.b lies inside a, which has a value of its own (line 3)" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("precision: [fp32, bf61]", "precision=bf61 is not one of fp32, bf16, fp16; did you mean bf16?"),
        ("pin_memory: [on, off]", "pin_memory=on must be true or false; write true"),
        ("pin_memory: [on, off]", "pin_memory=off must be true or false; write false"),
        ('threads: ["1", 2]', "threads=1 must be a whole number; write 1 without quotes"),
        ("threads: [33.5]", "threads=33.5 must be a whole number; write 33 or 34"),
        ("task.learning_rate: [fast]", "task.learning_rate=fast must be a number"),
        ("threads: [1.0]", "threads=1.0 must be a whole number; write 1"),
        ("threads: 1_000", "threads=1_000 must be a whole number; write 1000"),
        ("micro_batch_size: {min: 0, max: 8}", "micro_batch_size=0 must be at least 1"),
        ("micro_batch_size: {min: 0.5, max: 8}", "micro_batch_size=0.5 must be a whole number; write 1"),
        (
            "activation_checkpointing: true",
            "activation_checkpointing=true is not one of none, selective, full",
        ),
        ("precision: {choices: {small: fp8}}", "precision=fp8 is not one of"),
        ("precision: {value: fp8}", "precision=fp8 is not one of"),
    ],
)
def test_a_value_that_the_knob_refuses_is_an_error_with_the_way_out(
    refuse: Refuse, text: str, said: str
) -> None:
    assert said in refuse(f"parameters:\n  {text}\n")


def test_each_value_of_a_list_over_several_lines_has_its_own_line(refuse: Refuse) -> None:
    said = refuse("parameters:\n  precision:\n    - fp32\n    - fp8\n  threads: [1,\n    zwei]\n")
    assert "space.yaml:4: precision=fp8" in said
    assert "space.yaml:6: threads=zwei" in said


def test_all_problems_are_said_at_once_in_the_order_of_the_file(refuse: Refuse) -> None:
    said = refuse(
        "studdy: x\nworkload: {kind: toy, tsk: 3}\nparameters:\n  precison: 3\n  threads: {min: 8, max: 2}\n"
        "rules: ['a < 3']\nbudget: {trials: 0}\nobjectives: [tokens]\n"
    )
    lines = [int(line.split(":")[1]) for line in said.splitlines()]
    assert lines == sorted(lines)
    assert set(lines) == {1, 2, 4, 5, 6, 7, 8}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            "['micro_batch < 3']",
            "rule=micro_batch < 3 names micro_batch, which is not known; did you mean micro_batch_size?",
        ),
        ("[precision == bf16]", "names bf16, which is not known; if it is a text, put it in quotes: 'bf16'"),
        ("['model.num_heads > 3']", "did you mean model.num_attention_heads?"),
        ("[{a: b}]", "put the expression in quotes"),
        ("[true]", "put the expression in quotes"),
        ("'a < b'", "rules=a < b is not a list"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(refuse: Refuse, rules: str, said: str) -> None:
    assert said in refuse(f"rules: {rules}\n")


def test_conditions_name_what_comes_later_and_order_follows(load: Load) -> None:
    study = load(
        "parameters:\n"
        '  gradient_compression: {choices: [none, fp16], when: "data_parallel_degree > 1"}\n'
        '  threads: {expr: "cpus // data_parallel_degree"}\n'
        "  data_parallel_degree: [1, 2]\n"
    )
    assert [p.name for p in study.space.parameters] == [
        "data_parallel_degree",
        "gradient_compression",
        "threads",
    ]
    assert isinstance(study.space.by_name["threads"].domain, Derived)


@pytest.mark.parametrize("text", ['x: {value: 1, when: "x > 1"}', 'x: {expr: "y"}\n  y: {expr: "x"}'])
def test_conditions_that_wait_for_one_another_are_refused(refuse: Refuse, text: str) -> None:
    assert "wait for one another" in refuse(f"workload: {{kind: open}}\nparameters:\n  {text}\n")


def test_a_bundle_sets_several_parameters_together(load: Load) -> None:
    study = load(
        "parameters:\n"
        "  size: {choices: {small: {micro_batch_size: 4, task: {width: 8}}, large: "
        "{micro_batch_size: 16, task.width: 32}}}\n"
        'rules: ["micro_batch_size * task.width < 500"]\n'
        "baseline: {size: small}\n"
    )
    assert study.baseline == {"size": "small"}
    assert study.space.resolve({"size": "large"}) == {"micro_batch_size": 16, "task.width": 32}
    assert study.space.enumerate_valid(10) == [{"size": "small"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "size: {choices: {s: {micro_batch: 4}}}",
            "size: micro_batch is no parameter of toy; did you mean micro_batch_size?",
        ),
        (
            "size: {choices: {s: {micro_batch_size: 0}}}",
            "size, choice s: micro_batch_size=0 must be at least 1",
        ),
        ("size: {choices: {s: {threads: 4}}}\n  threads: 2", "size sets threads, which threads sets too"),
    ],
)
def test_a_bundle_is_checked_like_its_parts(refuse: Refuse, text: str, said: str) -> None:
    assert said in refuse(f"parameters:\n  {text}\n")


_YAML_TEXT = st.text(alphabet="abmin:{}[],'\"- \n0189.e#&*!|>?%@`~()=<", max_size=120)


@settings(max_examples=200, deadline=None)
@given(_YAML_TEXT)
def test_any_text_as_parameters_is_read_or_refused(text: str) -> None:
    from tuner.space.errors import Problems, Where
    from tuner.space.parse_parameters import read_parameters
    from tuner.space.vocabulary import Vocabulary
    from tuner.space.yaml_source import read_yaml

    problems = Problems()
    node = read_yaml(text, Where("f", 1), problems)
    if node is None:
        assert problems.found
        return
    parameters, _ = read_parameters(node, Vocabulary(), problems)
    assert problems.found or isinstance(parameters, tuple)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["min", "max", "step", "scale", "choices", "value", "expr", "when", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(_VALUES)
def test_any_value_of_a_parameter_is_read_or_refused(value: object) -> None:
    import json

    from tuner.space.errors import Problems, Where
    from tuner.space.parse_parameters import read_parameters
    from tuner.space.space import Space
    from tuner.space.vocabulary import Vocabulary
    from tuner.space.yaml_source import read_yaml

    problems = Problems()
    node = read_yaml(json.dumps({"x": value}, ensure_ascii=False), Where("f", 1), problems)
    if node is None:
        assert problems.found
        return
    parameters, _ = read_parameters(node, Vocabulary(), problems)
    if not problems.found:
        space = Space(parameters)
        config = space.configure({})
        assert space.contains(config) or space.rejection(config)
        json.dumps(space.describe(), allow_nan=False)
        space.size()


_BOUNDS = (
    st.integers(-(10**310), 10**310) | st.integers(-40, 40) | st.floats(allow_nan=False) | st.floats(-9, 9)
)


@settings(max_examples=300, deadline=None)
@given(_BOUNDS, _BOUNDS, st.none() | _BOUNDS, st.sampled_from(["linear", "log", "log2"]))
def test_any_numbers_of_a_range_are_refused_or_counted_and_hold_their_own_ends(
    low: float, high: float, step: float | None, scale: str
) -> None:
    import json

    from tuner.space.errors import Problems, Where
    from tuner.space.parse_domains import read_domain
    from tuner.space.vocabulary import Vocabulary
    from tuner.space.yaml_source import read_yaml

    described = {"min": low, "max": high, "scale": scale, **({} if step is None else {"step": step})}
    problems = Problems()
    node = read_yaml(json.dumps(described), Where("space.yaml", 1), problems)
    assert node is not None
    domain = read_domain("x", node, Vocabulary(), problems)
    if domain is None:
        assert all(str(problem).startswith("space.yaml:1: x") for problem in problems.found)
        return
    assert isinstance(domain, Range)
    assert domain.contains(domain.low) and domain.contains(domain.last)
    assert domain.low <= domain.last <= domain.high
    assert domain.count() is None or len(set(domain.grid() or ())) in (0, domain.count())
