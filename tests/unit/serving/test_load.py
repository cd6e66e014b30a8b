"""Prompts, lengths and arrivals: seeded, and of the shape that was asked for."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from random import Random
from typing import Any

import pytest

from trials.contract import TrialFailure
from trials.serving.lengths import Length, read_length
from trials.serving.load_settings import Load, PromptSettings, read_load
from trials.serving.prompts import Prompts, row_problem
from trials.serving.reading import Reader
from trials.serving.schedule import poisson, read_trace
from trials.workloads.base import WorkloadProblem


def length(raw: Any) -> Length:
    problems: list[WorkloadProblem] = []
    found = read_length(Reader({"n": raw}, "load", problems), "n")
    assert problems == []
    assert found is not None
    return found


def load(**raw: Any) -> Load:
    problems: list[WorkloadProblem] = []
    found, _ = read_load(Reader({"prompts": ["a"], **raw}, "load", problems))
    assert problems == []
    return found


def test_lengths_are_fixed_chosen_uniform_or_normal_and_never_outside() -> None:
    random = Random(0)
    assert {length(64).draw(random) for _ in range(9)} == {64}
    assert {length([8, 16]).draw(random) for _ in range(99)} == {8, 16}
    uniform = [length({"min": 3, "max": 7}).draw(random) for _ in range(500)]
    assert (min(uniform), max(uniform)) == (3, 7)
    normal = [length({"mean": 50, "sd": 30, "min": 20, "max": 90}).draw(random) for _ in range(2000)]
    assert (min(normal), max(normal)) == (20, 90)
    assert statistics.mean(normal) == pytest.approx(52, abs=4)


def test_prompts_are_the_same_for_the_same_seed_and_others_for_another(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{number}" for number in range(5000)))
    settings = PromptSettings(str(text), words=Length((10,)), output_tokens=Length((), 1, 99))
    asked = [Prompts(settings, 1).prompt(number) for number in range(50)]
    assert asked == [Prompts(settings, 1).prompt(number) for number in range(50)]
    assert asked != [Prompts(settings, 2).prompt(number) for number in range(50)]
    assert {len(prompt.text.split()) for prompt in asked} == {10}
    assert len({prompt.text for prompt in asked}) == 50


def test_shared_prefixes_begin_prompts_that_go_on_differently(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{number}" for number in range(5000)))
    settings = PromptSettings(
        str(text), words=Length((10,)), shared_prefix_words=30, shared_prefixes=2, turns=3
    )
    asked = [Prompts(settings, 0).prompt(number) for number in range(40)]
    assert len({tuple(prompt.text.split()[:30]) for prompt in asked}) == 2
    assert len({tuple(prompt.text.split()[30:]) for prompt in asked}) == 40
    assert {len(prompt.follow_ups) for prompt in asked} == {2}


def test_a_file_of_prompts_is_asked_in_order_and_again_from_the_start(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a"}\n\n{"body": {"x": 1}, "answer": 3, "output_tokens": 7}\n')
    prompts = Prompts(PromptSettings(str(file), output_tokens=Length((5,))), 0)
    assert [prompts.prompt(n).text for n in range(3)] == ["a", "", "a"]
    assert [prompts.prompt(n).output_tokens for n in range(2)] == [5, 7]
    assert prompts.distinct == 2


def test_a_line_that_is_no_prompt_is_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a"}\n{"text": "b"}\n')
    with pytest.raises(TrialFailure, match=r"p\.jsonl:2: should be an object with one of prompt"):
        Prompts(PromptSettings(str(file)), 0)


@pytest.mark.parametrize(
    "row",
    [{"prompt": 1}, {"messages": []}, {"prompt": "a", "body": 1}, {"prompt": "a", "output_tokens": 0}, [1]],
)
def test_rows_that_are_none_are_refused(row: Any) -> None:
    assert row_problem(json.dumps(row))


def gaps(rate: float, burstiness: float) -> list[float]:
    times = [arrival.at_s for arrival in itertools.islice(poisson(rate, burstiness, 3), 4000)]
    return [b - a for a, b in itertools.pairwise([0.0, *times])]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 100.0])
def test_arrivals_come_at_the_rate_and_scatter_as_their_burstiness_says(burstiness: float) -> None:
    found = gaps(20.0, burstiness)
    assert statistics.mean(found) == pytest.approx(1 / 20, rel=0.12)
    variation = statistics.stdev(found) / statistics.mean(found)
    assert variation == pytest.approx(burstiness**-0.5, rel=0.12)


def test_a_trace_starts_at_zero_in_order_and_names_a_line_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"at_s": 7.5}\n{"at_s": 5, "prompt_words": 3, "output_tokens": 9}\n')
    first, second = read_trace(file)
    assert (first.at_s, first.words, first.output_tokens) == (0, 3, 9)
    assert second.at_s == 2.5
    file.write_text('{"at": 7.5}\n')
    with pytest.raises(TrialFailure, match=r"t\.jsonl:1"):
        read_trace(file)


def test_a_window_holds_ten_requests_of_every_client_after_two_of_warm_up() -> None:
    closed = load(concurrency=16, requests=20)
    assert (closed.measured_requests, closed.warmup) == (160, 32)
    assert load(concurrency=2, requests=200).measured_requests == 200
    assert load(request_rate_per_s=4.0, duration="30 s").measured_requests == 120


def test_a_parameter_takes_the_place_of_the_sections_level() -> None:
    assert load(concurrency=4).with_config({"request_rate_per_s": 2.0}).is_open
    assert not load(request_rate_per_s=4.0).with_config({"concurrency": 2}).is_open
    assert load(concurrency=4).with_config({"other": 1}).concurrency == 4
