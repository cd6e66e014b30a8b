"""How values, numbers and tables are written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.cli.table import fitted, table
from tuner.cli.text import (
    first_line,
    shown_config,
    shown_duration,
    shown_measure,
    shown_number,
    shown_ratio,
    shown_trial,
    shown_value,
    styled,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"), ("1", '"1"'), (1.0, "1.0"), (True, "true"), ("true", '"true"'), (None, "null"), ("null", '"null"'),
        ("bf16", "bf16"), ("on", "on"), ("", '""'), ("two words", '"two words"'), ("1e-5", '"1e-5"'), (1e-05, "1e-05"),
        (0.30000000000000004, "0.3"), (12345678.9, "1.235e+07"), ([1, "a"], '[1, "a"]'), ({"a": 1}, '{"a": 1}'),
        ("é", "é"), ("\x1b[31m", '"\\u001b[31m"'),
    ],
)  # fmt: skip
def test_values_of_different_types_never_look_the_same(value: Any, text: str) -> None:
    assert shown_value(value) == text


@given(st.lists(st.one_of(st.integers(), st.text(), st.booleans(), st.none()), min_size=2, max_size=2))
def test_two_values_look_the_same_only_where_they_are(pair: list[Any]) -> None:
    one, other = pair
    assert (shown_value(one) == shown_value(other)) == (json.dumps(one) == json.dumps(other))


def test_a_configuration_is_one_line_in_the_order_asked_for() -> None:
    assert shown_config({"a": 1, "b": "x"}, ["b", "gone", "a"]) == "b=x a=1"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((15682.3, 15560.0, 15804.6), "15,682 ± 122"),
        ((2.3456, 2.3444, 2.3468), "2.3456 ± 0.0012"),
        ((0.95, 0.95, 0.95), "0.95 ± 0"),
        ((13.958, None, None), "13.96"),
        ((1e-6, 0.9e-6, 1.1e-6), "0.00000100 ± 0.00000010"),
        ((5.0, -math.inf, math.inf), "5 ± inf"),
        ((100.0, 61.2, 163.4), "100 (61.2 to 163.4)"),
        ((0.98, 0.95, 1.0), "0.980 (0.95 to 1)"),
        ((123456.7, 123456.69, 123456.71), "123,456.7 ± 0.0"),
    ],
)
def test_a_measure_has_the_digits_that_its_interval_leaves(numbers: tuple[Any, Any, Any], text: str) -> None:
    assert shown_measure(*numbers) == text


def test_ratios_durations_and_numbers() -> None:
    assert shown_ratio(1.4, 1.38, 1.42) == "x1.400 (1.380 to 1.420)"
    assert shown_ratio(1.4, None, None) == "x1.40"
    assert shown_ratio(1.4, 1.4, 1.4) == "x1.40 ± 0"
    assert [shown_duration(s) for s in (0.21, 45, 600, 9000, math.inf)] == [
        "0.2 s", "45 s", "10 min", "2.5 h", "no limit",
    ]  # fmt: skip
    assert [shown_number(n) for n in (None, math.nan, math.inf, 0, 1234.5, 0.00012345)] == [
        "-", "-", "inf", "0", "1,234", "0.0001234",
    ]  # fmt: skip


def test_a_foreign_message_cannot_play_with_the_terminal() -> None:
    assert first_line("\n \n\x1b[31mred\x07\nmore") == "[31mred"
    assert first_line("") == "(no message)"
    assert len(first_line("x" * 1000)) == 160


ROWS = [["1", "12.5", "a=1 b=22 c=333 d=4444 e=55555"], ["2", "7", "a=2"]]
HEADER = ["trial", "speed", "configuration"]


def test_a_table_is_aligned_where_there_is_room() -> None:
    assert table(ROWS, HEADER) == (
        "trial  speed  configuration\n    1   12.5  a=1 b=22 c=333 d=4444 e=55555\n    2      7  a=2"
    )


@pytest.mark.parametrize("width", [20, 30, 45, 50])
def test_a_table_fits_a_narrow_terminal_and_loses_nothing(width: int) -> None:
    text = table(ROWS, HEADER, width)
    assert max(map(len, text.splitlines())) <= width
    for cell in ("a=1", "b=22", "e=55555", "a=2", "12.5"):
        assert cell in text


def test_a_very_narrow_terminal_gets_one_block_a_row() -> None:
    assert table([["1", "12.5", "7", "a=1"]], ["trial", "speed", "cost", "configuration"], 15) == (
        "trial 1\n  speed  12.5\n  cost   7\n      a=1"
    )


def test_a_long_line_is_continued_on_an_indented_one() -> None:
    assert fitted("aaa bbb ccc", 8) == "aaa bbb\n  ccc"
    assert fitted("aaa bbb ccc", None) == "aaa bbb ccc"


def test_colour_is_for_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    terminal: Any = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    assert styled("x", "1", terminal) == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert styled("x", "1", terminal) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("x", "1", terminal) == "x"
    assert styled("x", "1") == "x"


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"precision": "bf16", "batch_size": 32}, "baseline + precision=bf16"),
        ({"precision": "fp32", "batch_size": 32}, "precision=fp32 batch_size=32"),
        ({"precision": "bf16", "batch_size": 64}, "precision=bf16 batch_size=64"),
        ({"precision": "fp32", "batch_size": 32.0}, "baseline + batch_size=32.0"),
    ],
)
def test_a_trial_is_what_differs_from_the_baseline_where_that_is_shorter(
    config: dict[str, object], shown: str
) -> None:
    baseline = {"precision": "fp32", "batch_size": 32}
    assert shown_trial(config, baseline, ["precision", "batch_size"]) == shown
