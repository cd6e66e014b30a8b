"""Patterns and tail over a program's output, in bounded memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trials.command.output import LONGEST_LINE, TAIL_BYTES, Output


def fed(pattern: str, *chunks: bytes) -> Output:
    output = Output({"f1": pattern})
    for chunk in chunks:
        output.feed(chunk)
    output.close()
    return output


@pytest.mark.parametrize(("pick", "value"), [("last", 2.0), ("mean", 3.0), ("min", 1.0), ("max", 6.0)])
def test_one_of_several_matches_is_picked(pick: str, value: float) -> None:
    found = fed(r"f1=([\d.]+)", b"f1=1\nf1=6\nf1=3 f1=2\n").found()["f1"]
    assert found.n == 4
    assert found.value(pick) == value


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.integers(1, 8), max_size=20))
def test_how_the_output_is_cut_into_chunks_does_not_matter(sizes: list[int]) -> None:
    text = b"f1=0.25\r\nnoise\nf1=0.5\rf1=0.75"
    chunks, rest = [], text
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]
    found = fed(r"f1=(\S+)", *chunks, rest).found()["f1"]
    assert (found.n, found.last) == (3, 0.75)


def test_a_pattern_without_a_group_is_the_number_itself() -> None:
    assert fed(r"\d+\.\d+", b"took 1.5 s\n").found()["f1"].last == 1.5


@pytest.mark.parametrize("pick", ["last", "mean", "min", "max"])
def test_a_nan_among_the_matches_shows(pick: str) -> None:
    assert math.isnan(fed(r"=(\S+)", b"a=1\na=3\na=nan\n").found()["f1"].value(pick))


def test_the_minimum_stays_nan_after_later_numbers() -> None:
    assert math.isnan(fed(r"=(\S+)", b"a=nan\na=3\n").found()["f1"].value("min"))


def test_what_is_no_number_is_kept_for_the_message() -> None:
    found = fed(r"f1=(\S+)", b"f1=3,5\n").found()["f1"]
    assert (found.n, found.not_a_number) == (0, "3,5")


def test_the_tail_is_bounded_and_starts_at_a_line() -> None:
    output = Output({})
    for number in range(100_000):
        output.feed(b"line %d\n" % number)
    assert len(output.tail) <= TAIL_BYTES
    assert output.tail.startswith("line ")
    assert output.tail.endswith("line 99999")


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    output = Output({"f1": "f1=(1)"})
    for _ in range(100):
        output.feed(b"x" * LONGEST_LINE)
        assert len(output._line) <= LONGEST_LINE


def test_bytes_that_are_no_text_are_passed_over() -> None:
    assert fed(r"f1=(\d)", b"\xff\xfe f1=1 \xff\n").found()["f1"].last == 1
