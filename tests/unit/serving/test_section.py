"""What ``tuner check`` says of a serving section: every problem with its key and a way out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trials.workloads import workload

SERVING = workload("serving")
Problems = Callable[..., dict[str, str]]
GOOD: dict[str, Any] = {
    "kind": "serving",
    "server": "custom",
    "launch": [sys.executable, "server.py", "--port", "{port}"],
    "health": "/health",
    "api": "openai",
    "load": {"prompts": ["hello"], "concurrency": 2},
    "quality": "none",
}


@pytest.fixture
def problems(tmp_path: Path) -> Problems:
    """The good section with changes (None deletes a key) -> what is wrong, by key."""

    def resolve(**changed: Any) -> dict[str, str]:
        section = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
        _, found = SERVING.resolve(section, tmp_path)
        return {problem.key: f"{problem.message}; {problem.way_out}" for problem in found}

    return resolve


def test_the_good_section_has_no_problem(problems: Problems) -> None:
    assert problems() == {}


@pytest.mark.parametrize(
    ("changed", "key", "said"),
    [
        ({"server": "vlm"}, "server", "use custom"),
        ({"server": None}, "server", "is missing"),
        ({"launch": None}, "launch", "is missing"),
        ({"url": "http://h:1"}, "launch", "exclude one another"),
        ({"launch": [sys.executable]}, "launch", "{port}"),
        ({"launch": ["no-such-server", "{port}"]}, "launch", "there is no program no-such-server"),
        ({"launch": "serve --port 80"}, "launch", "should be a list"),
        ({"launch": None, "url": "localhost:8000"}, "url", "no address"),
        ({"health": None}, "health", "is missing"),
        ({"health": "http://h/health"}, "health", "is no path"),
        ({"api": None}, "api", "is missing"),
        ({"api": "grpc"}, "api", "use http, kserve"),
        ({"start_timeout": 30}, "start_timeout", "write 30 s"),
        ({"model_name": "x"}, "model_name", "is not known"),
        ({"load": None}, "load", "is missing"),
        ({"load": {"concurrency": 2}}, "load.prompts", "is missing"),
        ({"load": {"prompts": "none.jsonl"}}, "load.prompts", "is not a file"),
        ({"load": {"prompts": ["a"], "concurrency": 0}}, "load.concurrency", "at least 1"),
        ({"load": {"prompts": ["a"], "concurency": 4}}, "load.concurency", "did you mean concurrency"),
        ({"load": {"prompts": ["a"], "concurrency": 1, "request_rate_per_s": 2}}, "load.request_rate_per_s", "twice"),
        ({"load": {"prompts": ["a"], "duration": "20"}}, "load.duration", "is not a duration"),
        ({"load": {"prompts": ["a"], "output_tokens": {"min": 5}}}, "load.output_tokens", "says no range"),
        ({"load": {"prompts": ["a"], "output_tokens": 0}}, "load.output_tokens", "at least 1"),
        ({"load": {"prompts": ["a"], "concurrency": 1, "burstiness": 2}}, "load.burstiness", "open loop"),
        ({"load": {"prompts": ["a"], "prompt_words": 5}}, "load.prompt_words", "out of a text"),
        ({"load": {"prompts": ["a"], "find": "request_rate_per_s"}}, "load.find", "there is none"),
        ({"load": {"prompts": ["a"], "probes": 4}}, "load.probes", "belongs to find"),
        ({"slo": {"ttft_ms": 800}}, "slo.ttft_ms", "write ttft_p90_ms: 800"),
        ({"slo": {"ttft_p90_ms": "fast"}}, "slo.ttft_p90_ms", "no number of milliseconds"),
        ({"api": "http", "slo": {"ttft_p90_ms": 8}}, "slo.ttft_p90_ms", "answers whole"),
        ({"quality": None}, "quality", "fast and wrong"),
        ({"quality": {"pieces": 3}}, "quality", "judges by nothing"),
        ({"quality": {"perplexity_on": "none.txt"}}, "quality.perplexity_on", "is not a file"),
        ({"quality": {"function": "score"}}, "quality.function", "no function"),
        ({"api": "kserve", "quality": {"retrieval": "none"}}, "quality.retrieval", "use a function"),
        ({"api": "kserve"}, "model", "names it"),
        ({"headers": {"a": 1}}, "headers", "no header"),
        ({"env": {"a-b": "1"}}, "env", "no variable"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_a_way_out(
    problems: Problems, changed: dict[str, Any], key: str, said: str
) -> None:
    found = problems(**changed)
    assert said in found[key], found


def test_vllm_says_what_it_needs(problems: Problems) -> None:
    found = problems(server="vllm", launch=None, health=None, model="./no-model")
    assert "is not there" in found["model"]
    assert "is missing" in found["python"]


def test_a_key_of_another_server_is_refused(problems: Problems) -> None:
    found = problems(server="vllm", python=sys.executable, model="some/model")
    assert set(found) == {"launch", "health"}


def rejected(config: dict[str, Any], **changed: Any) -> str:
    section = {**GOOD, **changed}
    problem = SERVING.rejection(section, config, {"cpus": 2, "gpus": 0})
    return "" if problem is None else f"{problem.key}: {problem.message}; {problem.way_out}"


def test_a_load_that_nobody_said_is_no_configuration() -> None:
    load = {"prompts": ["a"]}
    assert "no load is said" in rejected({}, load=load)
    assert rejected({"concurrency": 4}, load=load) == ""
    assert "twice" in rejected({"concurrency": 4, "request_rate_per_s": 1.0}, load=load)


def test_a_client_never_takes_the_last_core() -> None:
    load = {"prompts": ["a"], "concurrency": 1, "client_cpus": 2}
    assert "leave the server none" in rejected({}, load=load)


def test_engine_arguments_without_a_place_in_the_launch_line_are_said() -> None:
    assert "does not reach the server" in rejected({"engine_args.batch": 4})
    launch = [*GOOD["launch"], "{engine_args}"]
    assert rejected({"engine_args.batch": 4}, launch=launch) == ""


def test_case_vllm_4232_a_degree_that_does_not_divide_the_heads_is_rejected_with_the_legal_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 9}))
    section = {"server": "vllm", "python": sys.executable, "model": str(tmp_path)}
    said = rejected({"tensor_parallel_degree": 2}, **section)
    assert "does not divide num_attention_heads=9; use 1, 3, 9" in said
    assert SERVING.facts({**GOOD, **section}) == {"model.num_attention_heads": 9}


def test_samples_are_the_requests_of_a_window() -> None:
    def samples(config: dict[str, Any], **load: Any) -> int | None:
        return SERVING.samples({**GOOD, "load": {"prompts": ["a"], **load}}, config)

    assert samples({}, requests=300, concurrency=8) == 300
    assert samples({"concurrency": 64}, requests=300) == 640
    assert samples({}, request_rate_per_s=5, duration="20 s") == 100
    assert samples({}, concurrency=8, duration="20 s") is None


def test_metrics_follow_protocol_and_goals() -> None:
    streamed = SERVING.metrics({**GOOD, "slo": {"ttft_p90_ms": 5}})
    assert streamed is not None
    assert {"ttft_p90_ms", "output_tokens_per_s", "goodput_requests_per_s"} <= set(streamed)
    whole = SERVING.metrics({**GOOD, "api": "http"})
    assert whole is not None
    assert not {"ttft_p90_ms", "goodput_requests_per_s", "capacity_requests_per_s"} & set(whole)
    assert SERVING.metrics({**GOOD, "quality": {"function": "q.py:score"}}) is None
