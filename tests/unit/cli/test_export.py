"""``tuner export``: the content of the document, the rules that pick, targets, and reading it back."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import builders
from tests.unit.cli.conftest import Said, Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.export.document import build_document, nested, verify_digest
from tuner.export.plain import render_json, render_yaml
from tuner.export.reading import ExportError, read_document
from tuner.results import judge

DOCUMENT_KEYS = [
    "tuner_export", "study", "trial", "why", "gives_up", "config", "chosen", "metrics", "is_confirmed", "is_feasible",
    "limits", "verify", "environment", "provenance",
]  # fmt: skip
CONFIG = {"task.lr": 1e-05, "task.mode": "on", "flag": True, "text": "1e-05", "gone": None, "n": 1, "x": 1.0}


def exported(tuner: Tuner, *arguments: str) -> tuple[Any, Said]:
    said = tuner("export", "built", *arguments)
    assert said.code == 0, said.err
    return yaml.safe_load(said.out), said


def odd_study(**changed: Any) -> Any:
    """A confirmed winner whose values have every awkward type."""
    return builders.study(
        builders.baseline(
            {"speed": [1.0, 1.1, 0.9]}, *builders.repeats({"speed": [1.0, 1.1, 0.9]}), config={"n": 2}
        ),
        builders.trial(
            1,
            builders.measurement({"speed": 5.0}),
            *builders.repeats({"speed": [5.0, 5.1, 4.9]}),
            config=CONFIG,
        ),
        objectives=(builders.objective("speed"),),
        **changed,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("target", ["yaml", "csv"])
def test_a_full_disk_is_said_in_one_line(target: str, tuner: Tuner) -> None:
    store(odd_study())
    said = tuner("export", "built", "--to", target, "-o", "/dev/full")
    assert said.code == 2
    assert said.line == "tuner: /dev/full: the disk is full; free some space, or name another place"


@pytest.mark.parametrize("trial", [1, 2])
def test_a_file_that_verify_would_refuse_comes_with_what_to_do_first(trial: int, tuner: Tuner) -> None:
    store(
        builders.study(
            builders.trial(0, builders.measurement({"speed": 1.0}, "baseline"), by="baseline"),
            builders.trial(1, builders.measurement({"speed": 5.0})),
            builders.trial(2, builders.measurement({"speed": 2.0})),
            objectives=(builders.objective("speed"),),
        )
    )
    said = tuner("export", "built", "--trial", str(trial), "-o", "best.yaml")
    line = said.err.splitlines()[-1]
    assert "wrote best.yaml; tuner verify has nothing to compare with: speed: one value alone" in line
    assert ("; confirm it first: tuner run " in line and "confirm.finalists=1" in line) is (trial == 1)
    refused = tuner("verify", "best.yaml")
    assert refused.code == 2 and "speed: one value alone" in refused.line


def test_the_document_holds_configuration_numbers_reasons_and_where_they_come_from(tuner: Tuner) -> None:
    store(odd_study())
    document, said = exported(tuner)
    assert list(document) == DOCUMENT_KEYS
    assert document["config"] == {
        "task": {"lr": 1e-05, "mode": "on"}, "flag": True, "text": "1e-05", "n": 1, "x": 1.0,
    }  # fmt: skip
    assert isinstance(document["config"]["x"], float) and isinstance(document["config"]["n"], int)
    assert document["chosen"] == CONFIG
    assert (document["trial"], document["is_confirmed"], document["is_feasible"]) == (1, True, True)
    speed = document["metrics"]["speed"]
    assert (
        speed["value"] == pytest.approx(5.0) and speed["low"] < 5.0 < speed["high"] and speed["n_runs"] == 3
    )
    assert document["verify"]["parameters"] == {
        key: value for key, value in CONFIG.items() if value is not None
    }
    assert document["verify"]["judged_by"] == ["speed"]
    assert document["verify"]["runs"]["speed"] == [5.0, 5.1, 4.9]
    assert document["verify"]["seed"] == 3
    assert len(document["provenance"]["measurements"]) == 3
    assert document["provenance"]["records"].startswith("sqlite:///")
    assert said.err.startswith("trial 1 of 'built': ")


def test_the_document_says_on_how_many_cores_it_was_measured(tuner: Tuner) -> None:
    from dataclasses import replace

    study = odd_study()
    runs = [replace(run, environment={"cores_held": [4, 7]}) for run in study.trials[1].measurements]
    winner = replace(study.trials[1], measurements=tuple(runs))
    store(replace(study, trials=(study.trials[0], winner)))
    assert exported(tuner)[0]["verify"]["cpus"] == 2


def test_an_export_and_show_write_a_value_in_the_same_form(tuner: Tuner) -> None:
    store(odd_study())
    shown = json.loads(tuner("show", "built", "--json").out)
    assert exported(tuner)[0]["metrics"] == shown["trials"][1]["metrics"]


def test_a_password_of_the_records_is_not_exported() -> None:
    study = odd_study(notes={"workload": {"kind": "command"}})
    runs = [run.measurement_id for run in study.trials[1].measurements]
    assert runs
    from dataclasses import replace

    from tuner.records.rows import GIVEN

    trials = tuple(
        replace(t, measurements=tuple(replace(m, facts={GIVEN: dict(t.config)}) for m in t.measurements))
        for t in study.trials
    )
    study = replace(study, trials=trials)
    document = build_document(study, judge(study), 1, "why", [], "postgresql://me:secret@host/db")
    assert document["provenance"]["records"] == "postgresql://me:***@host/db"


def test_yaml_and_json_say_the_same(tuner: Tuner, workplace: Path) -> None:
    store(odd_study())
    tuner("export", "built", "-o", "best.yaml")
    said = tuner("export", "built", "-o", "best.json", "--to", "json")
    assert said.err.splitlines()[-1] == "wrote best.json; measure it again with: tuner verify best.json"
    assert said.out == ""
    one, other = (read_document(workplace / f"best.{suffix}") for suffix in ("yaml", "json"))
    for document in (one, other):
        del document["provenance"]["exported_at"]
    assert one == other
    assert sorted(path.name for path in workplace.iterdir() if "best" in path.name) == [
        "best.json",
        "best.yaml",
    ]


@pytest.mark.parametrize(
    ("pick", "trial", "reason"),
    [
        ("maximize:tokens_per_s", 1, "largest tokens_per_s"),
        ("minimize:val_loss_nats", 0, "smallest val_loss_nats"),
        ("first_objective", 1, "best tokens_per_s"),
    ],
)
def test_a_rule_picks_among_the_confirmed_and_says_why(
    pick: str, trial: int, reason: str, tuner: Tuner
) -> None:
    store(two_sided_study())
    document, said = exported(tuner, "--pick", pick)
    assert document["trial"] == trial
    assert reason in document["why"]
    for line in document["gives_up"]:
        assert f"  gives up: {line}" in said.err.splitlines()


def test_what_is_given_up_is_readable(tuner: Tuner) -> None:
    store(two_sided_study())
    document, _ = exported(tuner, "--pick", "maximize:tokens_per_s")
    assert document["gives_up"] == ["val_loss_nats 2.1 nats instead of 2 (trial 0), 5.0% higher"]


def test_any_measured_trial_can_be_exported_with_a_warning(tuner: Tuner) -> None:
    store(two_sided_study())
    document, said = exported(tuner, "--trial", "4")
    assert document["why"] == "chosen by --trial"
    assert document["is_feasible"] is False
    assert document["limits"] == [{"limit": "val_loss_nats <= 2.5", "status": "not_met"}]
    assert "  note: breaks the limit val_loss_nats <= 2.5 (3)" in said.err
    assert "  note: not confirmed by repeated measurement" in said.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--trial", "9"], 2, "has no trial 9; it has trials 0 to 4"),
        (["--trial", "3"], 2, "it has no values (out_of_memory: [31mno memory); choose another"),
        (["--pick", "maximize:token_per_s"], 2, "did you mean tokens_per_s?"),
        (["--pick", "maximize:zzz"], 2, "measured are tokens_per_s, val_loss_nats"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    arguments: list[str], code: int, words: str, tuner: Tuner
) -> None:
    store(two_sided_study())
    said = tuner("export", "built", "-o", "best.yaml", *arguments)
    assert said.code == code
    assert words in said.line
    assert not Path("best.yaml").exists()


def test_nothing_feasible_is_3_with_the_nearest_miss(tuner: Tuner) -> None:
    store(odd_study(constraints=(builders.limit("speed", "min", 99.0),)))
    said = tuner("export", "built")
    assert said.code == 3
    assert "nearest: trial 1, speed 5 < 99; export it all the same with --trial 1" in said.line
    store(builders.study(name="empty", is_frozen=False))
    assert tuner("export", "empty").code == 3


def test_a_package_adds_a_target_by_an_entry_point(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(group: str) -> list[EntryPoint]:
        if group != "tuner.exporters":
            return []
        return [
            EntryPoint("env", "tests.unit.cli.test_export:render_env", group),
            EntryPoint("broken", "tests.unit.cli.test_export:nothing", group),
        ]

    store(odd_study())
    monkeypatch.setattr("importlib.metadata.entry_points", found)
    said = tuner("export", "built", "--to", "env")
    assert (said.code, said.out) == (0, "TRIAL=1\n"), said.err
    assert "broken, env, json, torchrun, vllm, yaml" in tuner("export", "built", "--to", "toml").line
    said = tuner("export", "built", "--to", "broken", "-o", "x")
    assert said.code == 1
    assert "the plugin tests.unit.cli.test_export:nothing failed: AttributeError" in said.line
    assert not Path("x").exists()


def render_env(document: Any) -> str:
    return f"TRIAL={document['trial']}\n"


LOOKALIKES = [
    "on",
    "off",
    "yes",
    "1e-05",
    "1e5",
    "0o17",
    "0x1f",
    ".5",
    "null",
    "~",
    "true",
    "1_000",
    "2026-01-01",
]
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.sampled_from(LOOKALIKES)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "on", "1"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_values_keep_their_type_through_yaml_and_json(workplace: Path, value: Any) -> None:
    document = _least()
    document["verify"]["parameters"] = {"task.value": value}
    document = sealed(document)
    for name, text in (("x.yaml", render_yaml(document)), ("x.json", render_json(document))):
        (workplace / name).write_text(text, encoding="utf-8")
        assert _same(read_document(workplace / name), document)
    assert _same(yaml.safe_load(render_yaml(document)), document)


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _least() -> dict[str, Any]:
    return {
        "tuner_export": 1,
        "study": "s",
        "trial": 0,
        "metrics": {},
        "verify": {
            "workload": {"kind": "command"},
            "parameters": {},
            "seed": 3,
            "judged_by": ["speed"],
            "runs": {"speed": [1.0]},
            "spread": {"speed": {"sd": 1.0, "around": 2.0, "degrees": 3}},
            "within": {},
        },
    }


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """As ``tuner export`` would have written it."""
    verify = document["verify"]
    seal = {"verify_sha256": verify_digest(verify)}
    return {**document, "config": nested(verify["parameters"]), "provenance": seal}


def test_dotted_names_become_nested_maps() -> None:
    assert nested({"a": 1, "task.b": 2, "task.c.d": 3}) == {"a": 1, "task": {"b": 2, "c": {"d": 3}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "it has no key tuner_export"),
        (b"- 1", "it has no key tuner_export"),
        (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
        (b"a: [", ": is not YAML"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not YAML"),
        (b"{" * 100_000, "is not JSON"),
        (b"#" * 10_000_001, "is larger than 10,000,000 bytes"),
        (b"tuner_export: 2", "tuner_export=2 is another version, this program reads 1; export again"),
        (b"tuner_export: 1", "study is missing, and should be a name; export again"),
    ],
)
def test_a_file_that_is_no_export_is_refused(
    content: bytes | None, words: str, tuner: Tuner, workplace: Path
) -> None:
    if content is not None:
        (workplace / "x.yaml").write_bytes(content)
    before = list(workplace.iterdir())
    said = tuner("verify", "x.yaml")
    assert said.code == 2
    assert words in said.line
    assert list(workplace.iterdir()) == before


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("seed", "3", 'verify.seed is "3", and should be a whole number'),
        ("judged_by", [], "verify.judged_by is [], and should be a list of metrics"),
        ("runs", {"speed": ["a"]}, "verify.runs is"),
        ("spread", {"speed": {"sd": 1.0}}, "verify.spread is"),
        ("within", {"speed": True}, "verify.within is"),
        ("parameters", None, "verify.parameters is missing, and should be a map"),
        ("workload", {}, "verify.workload.kind is missing"),
    ],
)
def test_an_edited_file_is_refused_by_the_name_of_what_is_wrong(
    key: str, value: Any, words: str, workplace: Path
) -> None:
    document = _least()
    document["verify"][key] = value
    (workplace / "x.json").write_text(json.dumps(document))
    with pytest.raises(ExportError, match=r"export again") as problem:
        read_document(workplace / "x.json")
    assert words in str(problem.value)


def test_a_number_that_an_editor_wrote_otherwise_is_the_same_number(workplace: Path) -> None:
    document = _least()
    document["verify"]["parameters"] = {"lr": 1e-4}
    text = render_yaml(sealed(document))
    (workplace / "x.yaml").write_text(text.replace("lr: 0.0001", "lr: 1e-4"))
    assert "1e-4" in (workplace / "x.yaml").read_text()
    assert read_document(workplace / "x.yaml")["verify"]["parameters"] == {"lr": 1e-4}


@pytest.mark.parametrize(
    ("section", "changed"),
    [
        ("verify", {"verify": {**_least()["verify"], "parameters": {"tensor_parallel_degree": 7}}}),
        ("verify", {"verify": {**_least()["verify"], "runs": {"speed": [9.0]}}}),
        ("verify", {"provenance": {}}),
        ("config", {"config": {"tensor_parallel_degree": 7}}),
    ],
)
def test_a_configuration_that_was_never_measured_is_refused(
    section: str, changed: dict[str, Any], tuner: Tuner, workplace: Path
) -> None:
    (workplace / "x.json").write_text(json.dumps({**sealed(_least()), **changed}))
    said = tuner("verify", "x.json")
    assert said.code == 2
    assert f"the section {section} was edited" in said.line
    assert "tuner try s KEY=VALUE" in said.line
    assert [path.name for path in workplace.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "trainin"}, "verify.workload.kind=trainin is not known here; there are "),
        (
            {"kind": "training", "task": "/no/where/my_task.py:Task"},
            "the task's file /no/where/my_task.py is not there",
        ),
    ],
)
def test_what_cannot_be_measured_here_is_refused_before_it_runs(
    workload: dict[str, Any], words: str, tuner: Tuner, workplace: Path
) -> None:
    document = _least()
    document["verify"]["workload"] = workload
    (workplace / "x.json").write_text(json.dumps(sealed(document)))
    said = tuner("verify", "x.json")
    assert said.code == 2
    assert words in said.line
    assert [path.name for path in workplace.iterdir()] == ["x.json"]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("target", ["yaml", "csv", "optuna", "mlflow"])
def test_an_export_never_goes_over_the_records(target: str, end: str, tuner: Tuner) -> None:
    store(odd_study())
    Path("link").symlink_to(Path("tuner.db" + end).absolute())
    before = Path("tuner.db").read_bytes()
    for name in ("link", f"./tuner.db{end}"):
        said = tuner("export", "built", "--to", target, "-o", name, "--force")
        assert said.code == 2
        assert said.line == f"tuner: -o {name}: holds the records; name another file"
    assert Path("tuner.db").read_bytes() == before


@pytest.mark.parametrize("target", ["yaml", "json", "csv"])
def test_only_an_earlier_export_is_replaced_unasked(target: str, tuner: Tuner) -> None:
    store(odd_study())
    for _ in range(2):
        assert tuner("export", "built", "--to", target, "-o", "best").code == 0
    Path("mine.py").write_text("import torch\n")
    said = tuner("export", "built", "--to", target, "-o", "mine.py")
    assert said.code == 2
    assert "mine.py: is there, and no export wrote it; name another file, or say --force" in said.line
    assert Path("mine.py").read_text() == "import torch\n"
    assert tuner("export", "built", "--to", target, "-o", "mine.py", "--force").code == 0
    assert "built" in Path("mine.py").read_text() or target == "csv"
