"""Names, choices and messages that try to steer the terminal are shown as text; JSON holds them as they are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.cli.console import legible
from tuner.cli.table import table
from tuner.cli.text import shown_value, styled
from tuner.space.definition import definition_differences
from tuner.space.errors import printable, shown

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b1mb\u202ec\rd\ne\x7f"
STEERING = set("\x1b\x07\x9b\u202e\r\x7f")


@given(st.text())
def test_what_is_printable_holds_nothing_that_steers(text: str) -> None:
    said = printable(text)
    assert len(said.splitlines()) <= 1
    assert not any(char in STEERING for char in said)
    assert printable(said) == said


def test_what_can_be_read_stays_as_it_is() -> None:
    for text in ("ünïcode 日本語 😀", "a\u00a0b", "", "it's \\ here"):
        assert printable(text) == text
    assert printable("a\tb\n", "\n\t") == "a\tb\n"
    assert printable("a\n\x1b\u202e\ud800") == r"a\n\x1b\u202e\ud800"


def test_styles_and_lines_of_ours_stay() -> None:
    assert legible("\x1b[1mhead\x1b[0m\n\tx\x1b[2J") == "\x1b[1mhead\x1b[0m\n\tx\\x1b[2J"
    assert styled(EVIL, "1") == printable(EVIL)


def test_a_cell_of_several_lines_is_one_line_of_a_table() -> None:
    assert len(table([[EVIL, "x", EVIL]], ["a", "b", EVIL], width=None).splitlines()) == 2
    assert not any(char in STEERING for char in table([[EVIL, EVIL]], ["a", "b"], width=20))


def test_a_value_of_several_lines_differs_on_one_line() -> None:
    old, new = ({"workload": {"run": text}} for text in ("echo 1\necho 2\n", "echo 1\necho 3\n"))
    assert definition_differences(old, new) == [r"workload.run: was echo 1\necho 2\n, now echo 1\necho 3\n"]
    assert not any(char in STEERING for char in shown(EVIL) + shown_value(EVIL) + shown_value([EVIL]))


@pytest.fixture
def evil() -> None:
    study = two_sided_study(name=f"built{EVIL}", stopped_because=f"because {EVIL}")
    trials = [
        replace(trial, config={**trial.config, "mode": f"{EVIL}{trial.number}"}) for trial in study.trials
    ]
    failed = builders.trial(5, builders.failed("crash", EVIL), config={"x": 9, "mode": EVIL})
    store(replace(study, trials=(*trials, failed)))


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize(
    "verb",
    [("list",), ("show", f"built{EVIL}"), ("show", f"built{EVIL}", "--all"), ("show", f"built{EVIL}", "--why", "1"),
     ("show", f"built{EVIL}", f"built{EVIL}"), ("show", f"no{EVIL}"), ("export", f"built{EVIL}", "-o", "x.yaml")],
)  # fmt: skip
def test_no_verb_prints_what_steers_a_terminal(verb: tuple[str, ...], tuner: Tuner) -> None:
    said = tuner(*verb)
    assert not any(char in STEERING for char in said.out + said.err), said
    assert r"\x1b" in said.out + said.err or r"\u001b" in said.out


@pytest.mark.usefixtures("evil")
def test_json_holds_the_names_as_they_are(tuner: Tuner) -> None:
    assert json.loads(tuner("list", "--json").out)["studies"][0]["name"] == f"built{EVIL}"
    assert json.loads(tuner("show", f"built{EVIL}", "--json").out)["study"] == f"built{EVIL}"
