"""Numbers from files that programs write."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trials.command.metrics import (
    LARGEST_FILE_BYTES,
    Reported,
    read_file,
    read_lines,
    resolved_pick,
    stamp_of,
)


def read(path: Path, text: str | bytes, reader: str = "file") -> Reported:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    reported = Reported()
    {"file": read_file, "lines": read_lines}[reader](path, None, reported)
    return reported


def values(reported: Reported) -> dict[str, float]:
    return {key: metric.value for key, metric in reported.metrics.items()}


def test_nested_keys_are_reached_with_dots(tmp_path: Path) -> None:
    reported = read(
        tmp_path / "m.json", '{"f1": 0.5, "eval": {"test": {"loss": 2}}, "name": "x", "ok": true, "l": [1]}'
    )
    assert values(reported) == {"f1": 0.5, "eval.test.loss": 2.0}


def test_units_are_read_off_the_key(tmp_path: Path) -> None:
    reported = read(tmp_path / "m.json", '{"samples_per_s": 3, "latency_ms": 2}')
    assert {key: metric.unit for key, metric in reported.metrics.items()} == {
        "samples_per_s": "samples/s",
        "latency_ms": "ms",
    }


def test_numbers_that_are_not_finite_are_passed_on(tmp_path: Path) -> None:
    found = values(read(tmp_path / "m.json", '{"a": NaN, "b": -Infinity, "c": 1%s}' % ("0" * 400)))
    assert math.isnan(found["a"])
    assert found["b"] == -math.inf
    assert found["c"] == math.inf


@pytest.mark.parametrize(
    "garbage",
    ["", "{", "[1]", "3", '"x"', b"\xff\xfe\x00", "[" * 100_000, '{"a":' * 5_000, '{"f1": 1} trailing'],
)
@pytest.mark.parametrize("reader", ["file", "lines"])
def test_garbage_is_a_problem_in_words(tmp_path: Path, garbage: str | bytes, reader: str) -> None:
    reported = read(tmp_path / "m.json", garbage, reader)
    assert values(reported) == {}
    assert "f1 was not reported" in (reported.missing(["f1"]) or "")
    if garbage or reader == "file":
        assert str(tmp_path / "m.json") in reported.problems[0]


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.binary(max_size=60))
def test_no_bytes_make_the_reader_fail(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    read(path, data)
    read(path, data, "lines")


def test_of_json_lines_the_last_that_has_the_key_counts(tmp_path: Path) -> None:
    lines = '{"step": 1, "f1": 0.1}\n\n{"step": 2, "f1": 0.4}\n{"step": 3}\n{"step": 4, "f'
    reported = read(tmp_path / "m.jsonl", lines, "lines")
    assert values(reported) == {"step": 3.0, "f1": 0.4}
    assert "1 lines" in reported.problems[0]


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    reported = Reported()
    read_file(tmp_path / "m.json", None, reported)
    assert "was not written" in (reported.missing(["f1"]) or "")


def test_a_file_from_before_this_run_is_not_a_result(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"f1": 1}')
    reported = Reported()
    read_file(path, stamp_of(path), reported)
    assert reported.metrics == {}
    assert "before this run" in reported.problems[0]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    with path.open("wb") as stream:
        stream.truncate(LARGEST_FILE_BYTES + 1)
    reported = Reported()
    read_file(path, None, reported)
    assert "more than" in reported.problems[0]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.json")
    reported = Reported()
    read_file(tmp_path / "m.json", None, reported)
    assert "is not a file" in reported.problems[0]


def test_a_missing_metric_names_what_came_and_the_nearest(tmp_path: Path) -> None:
    reported = read(tmp_path / "m.json", '{"f1_score": 1, "eval": {"auc": 2}, "note": null}')
    said = reported.missing(["f1_scor", "auc", "note"]) or ""
    assert "f1_scor was not reported (did you mean f1_score?)" in said
    assert "did you mean eval.auc?" in said
    assert "note is None, not a number" in said
    assert said.endswith("reported: eval.auc, f1_score")


def test_the_best_follows_the_catalogues_direction() -> None:
    assert resolved_pick("accuracy", "best") == "max"
    assert resolved_pick("wall_time_s", "best") == "min"
    assert resolved_pick("f1", "mean") == "mean"
