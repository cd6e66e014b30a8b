"""Whole serving trials against a stub server whose behaviour is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.serving import serve
from trials.contract import FailureKind, Outcome


def metric(measurement: object, key: str) -> float:
    return measurement.metrics[key].value  # type: ignore[attr-defined, no-any-return]


def test_a_streaming_server_is_measured_with_tokens_waits_memory_and_counts(tmp_path: Path) -> None:
    slo = {"ttft_p90_ms": 60_000, "latency_p50_ms": 60_000}
    found = serve(tmp_path, ["--delay-ms", 5, "--token-ms", 2], slo=slo)
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "output_tokens_per_s") == pytest.approx(4 * metric(found, "requests_per_s"))
    assert metric(found, "goodput_requests_per_s") == pytest.approx(metric(found, "requests_per_s"), rel=0.2)
    assert metric(found, "latency_p50_ms") >= 11
    assert metric(found, "ttft_p50_ms") >= 5
    assert metric(found, "tpot_p50_ms") >= 1.9
    assert metric(found, "itl_p50_ms") >= 1.5
    assert metric(found, "peak_memory_gib") > 0.001
    assert metric(found, "failed_requests") == metric(found, "unfinished_requests") == 0
    assert found.proof["arguments"][-4:] == ["--delay-ms", "5", "--token-ms", "2"]
    assert found.facts["load"]["concurrency"] == 2


@pytest.mark.parametrize("api", ["openai_chat", "openai_embeddings", "kserve", "http"])
def test_every_protocol_is_loaded(tmp_path: Path, api: str) -> None:
    found = serve(tmp_path, api=api, model="m")
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "requests_per_s") > 0


def test_engine_arguments_and_parameters_reach_the_launch_line(tmp_path: Path) -> None:
    config = {"engine_args.delay_ms": 3, "engine_args.stubborn_child": False, "concurrency": 3}
    found = serve(tmp_path, config=config)
    assert found.proof["arguments"][-2:] == ["--delay-ms", "3"]
    assert found.facts["load"]["concurrency"] == 3


def test_a_stall_shows_in_full_in_the_tail_of_an_open_loop(tmp_path: Path) -> None:
    """With a request every 10 ms, a stall of 0.5 s delays the 50 that come meanwhile by 0.25 s on average."""
    load = {"request_rate_per_s": 100, "requests": 200, "warmup_requests": 20}
    stalled = serve(tmp_path, ["--stall-at", 60, "--stall-s", 0.5], api="http", load=load)
    assert metric(stalled, "latency_p99_ms") >= 430
    assert metric(stalled, "latency_p90_ms") >= 200
    assert metric(stalled, "latency_p50_ms") < metric(stalled, "latency_p90_ms") / 2
    assert metric(stalled, "unfinished_requests") == 0


def test_an_open_loop_beyond_the_server_counts_what_was_never_answered(tmp_path: Path) -> None:
    load = {"request_rate_per_s": 60, "requests": 60, "warmup_requests": 0, "request_timeout": "1.2 s"}
    found = serve(
        tmp_path, ["--slots", 1, "--delay-ms", 50], api="http", load={**load, "max_failed_pct": 100}
    )
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "requests_per_s") < 30
    assert metric(found, "failed_requests") + metric(found, "unfinished_requests") > 5
    assert metric(found, "latency_p90_ms") > 500


def test_conversations_go_on_with_what_was_answered(tmp_path: Path) -> None:
    prompts = tmp_path / "talk.jsonl"
    prompts.write_text(json.dumps({"prompt": "one", "follow_ups": ["two", "three"]}))
    load = {"prompts": str(prompts), "concurrency": 1, "requests": 12}
    for api in ("openai", "openai_chat"):
        found = serve(tmp_path, api=api, load=load)
        assert found.outcome is Outcome.COMPLETE, found.message
    assert found.facts.get("prompt_tokens_mean", 1) >= 1


def test_a_trace_is_played_as_it_was_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(json.dumps({"at_s": number / 50, "output_tokens": 2}) for number in range(50)))
    found = serve(tmp_path, load={"trace": str(trace), "warmup_requests": 10})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.facts["requests_sent"] == 40
    assert found.facts["window_s"] == pytest.approx(0.8, abs=0.01)


def test_the_load_of_several_processes_is_one_load(tmp_path: Path) -> None:
    found = serve(tmp_path, ["--delay-ms", 2], api="http", load={
        "concurrency": 4, "requests": 200, "client_processes": 2,
    })  # fmt: skip
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.metrics["requests_per_s"].n >= 150


def test_the_capacity_under_a_service_level_is_found(tmp_path: Path) -> None:
    """One place and 40 ms a request: 25/s are the end, whatever else the machine does."""
    load = {"find": "request_rate_per_s", "find_from": 5, "requests": 40, "probes": 5, "max_failed_pct": 100}
    options = ["--slots", 1, "--delay-ms", 40]
    found = serve(tmp_path, options, api="http", load=load, slo={"latency_p90_ms": 400})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "capacity_requests_per_s") < 30
    assert metric(found, "latency_p90_ms") <= 400
    assert len(found.facts["probes"]) >= 3
    assert any(not probe["is_met"] for probe in found.facts["probes"])


def test_answers_are_judged_through_the_same_server(tmp_path: Path) -> None:
    (tmp_path / "held_out.txt").write_text("some words of a text " * 100)
    choice = {"prompt": "pick ", "choices": ["wrong", "right"], "answer": 1}
    (tmp_path / "choices.jsonl").write_text("\n".join([json.dumps(choice)] * 3))
    found = serve(
        tmp_path,
        ["--loss", 1.5],
        quality={
            "perplexity_on": "held_out.txt",
            "pieces": 4,
            "piece_words": 50,
            "multiple_choice": "choices.jsonl",
        },
    )
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "val_loss_nats") == pytest.approx(1.5)
    assert metric(found, "perplexity") == pytest.approx(4.4817, rel=1e-4)
    assert metric(found, "accuracy") == 1
    assert found.examples["val_loss_nats"] == (1.5,) * 4


def test_retrieval_ranks_each_document_among_all(tmp_path: Path) -> None:
    rows = [("cat", "cat cat"), ("dog", "god of dogs"), ("xyz", "unlike")]
    text = "\n".join(json.dumps({"query": query, "document": document}) for query, document in rows)
    (tmp_path / "pairs.jsonl").write_text(text)
    found = serve(tmp_path, api="openai_embeddings", model="m", quality={"retrieval": "pairs.jsonl"})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "accuracy") == pytest.approx(2 / 3)
    assert found.examples["mean_reciprocal_rank"][:2] == (1.0, 1.0)


def test_a_function_of_the_users_own_asks_and_judges(tmp_path: Path) -> None:
    (tmp_path / "my_quality.py").write_text(
        "from trials.serving.exchange import Prompt\n"
        "def score(asker):\n"
        "    got = asker.ask([Prompt(body={'number': n}) for n in range(100)])\n"
        "    return {'f1': [float(one.value == n) for n, one in enumerate(got)]}\n"
    )
    quality = {"function": "my_quality.py:score", "metrics": ["f1"]}
    found = serve(tmp_path, ["--wrong", 0.25], api="http", quality=quality)
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "f1") == 0.75
    assert found.metrics["f1"].n == 100


def test_a_server_that_answers_fast_and_wrong_shows_it_under_load_and_after(tmp_path: Path) -> None:
    rows = [{"body": {"number": number}, "answer": number} for number in range(100)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    load = {"prompts": str(tmp_path / "rows.jsonl"), "concurrency": 2, "requests": 100, "warmup_requests": 0}
    found = serve(tmp_path, ["--wrong", 0.4], api="http", load=load, quality={"exact_match": "rows.jsonl"})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert metric(found, "accuracy") == pytest.approx(0.6)
    assert metric(found, "load_accuracy") == pytest.approx(0.6, abs=0.03)


def test_a_server_without_logprobs_is_unsupported_and_not_of_good_quality(tmp_path: Path) -> None:
    (tmp_path / "held_out.txt").write_text("some words of a text " * 100)
    found = serve(tmp_path, ["--fault", "no_logprobs"], quality={"perplexity_on": "held_out.txt"})
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert "log-probabilities" in found.message
