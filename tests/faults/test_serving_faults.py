"""Servers that refuse, die, hang, lie or drip: each ends typed, with its log, and leaves no process."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.faults.processes import ends
from tests.serving import serve, stub_section, stub_spec
from trials.contract import FailureKind, Outcome
from trials.serving import process
from tuner.execution.lease import DriverLease
from tuner.execution.supervisor import Place, Supervisor


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (["--no-such-flag"], "engine_start", "unrecognized arguments: --no-such-flag"),
        (["--fault", "die_at_start"], "engine_start", "the stub cannot start: no such model"),
        (["--fault", "http_500"], "crash", 'x http_500 ({"error": "the stub broke"})'),
        (["--fault", "nonsense"], "crash", "x cut_stream"),
        (["--fault", "half_stream"], "crash", "x disconnected"),
        (["--fault", "wrong_counts"], "crash", "x token_count (the server counts 40 tokens in 4 pieces"),
        (["--fault", "die_under_load", "--after", 9], "crash", "exit status 3 under load; the end of its log:\n"),
        (["--fault", "kill_itself", "--after", 9], "killed", "ended by SIGKILL under load"),
    ],
)  # fmt: skip
def test_a_server_that_fails_ends_typed_with_the_end_of_its_log(
    tmp_path: Path, options: list[object], kind: str, said: str
) -> None:
    pids = tmp_path / "pids"
    found = serve(tmp_path, [*options, "--pids", pids])
    assert found.failure_kind == FailureKind(kind), found.message
    assert said in found.message
    assert not pids.exists() or all(ends(int(pid), 5) for pid in pids.read_text().split())
    assert serve(tmp_path).outcome is Outcome.COMPLETE  # the next one is unharmed


@pytest.mark.parametrize(
    ("fault", "said"),
    [("hang_in_health", "does not answer"), ("never_well", "it answers 503")],
)
def test_a_server_that_never_gets_well_is_given_up_at_its_deadline(
    tmp_path: Path, fault: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LONGEST_ASK_S", 0.3)
    found = serve(tmp_path, ["--fault", fault], start_timeout="3 s")
    assert found.failure_kind is FailureKind.ENGINE_START
    assert "/health was not well within 3 s" in found.message
    # a busy machine may need the three seconds to start the stub at all
    assert said in found.message or "refused" in found.message


def test_an_answer_that_drips_is_cut_at_the_time_of_a_request(tmp_path: Path) -> None:
    load = {"concurrency": 8, "requests": 1, "warmup_requests": 1, "request_timeout": "0.5 s"}
    found = serve(tmp_path, ["--fault", "drip"], load=load)
    assert found.failure_kind is FailureKind.CRASH
    assert "none of the first 8 requests was answered within 0.5 s" in found.message


def test_few_failures_are_counted_and_too_many_are_no_measurement(tmp_path: Path) -> None:
    load = {"concurrency": 2, "requests": 40, "warmup_requests": 2}
    options = ["--fault", "http_500", "--after", 39]
    found = serve(tmp_path, options, api="http", load={**load, "max_failed_pct": 20})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert 1 <= found.metrics["failed_requests"].value <= 4
    assert "http_500" in found.facts["failures"]
    found = serve(tmp_path, options, api="http", load=load)
    assert found.failure_kind is FailureKind.CRASH
    assert "load.max_failed_pct" in found.message


def test_a_port_that_somebody_else_took_is_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = process.free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = iter([other.getsockname()[1], free])
        monkeypatch.setattr(process, "free_port", lambda: next(ports))
        found = serve(tmp_path)
    assert found.outcome is Outcome.COMPLETE, found.message
    assert f":{free}/" in found.proof["url"]


def test_a_load_generator_beyond_its_own_ceiling_says_so(tmp_path: Path) -> None:
    load = {"request_rate_per_s": 60_000, "requests": 20_000, "warmup_requests": 0, "max_failed_pct": 100}
    found = serve(tmp_path, api="http", load=load, is_patient=False)
    assert found.failure_kind is FailureKind.UNSTABLE, found.message
    assert "load generator" in found.message


def test_a_child_that_ignores_the_polite_end_is_ended_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    found = serve(tmp_path, ["--stubborn-child", "--pids", pids])
    assert found.outcome is Outcome.COMPLETE, found.message
    assert len(pids.read_text().split()) == 2
    assert all(ends(int(pid), 5) for pid in pids.read_text().split())


def test_a_trial_cut_by_its_time_leaves_no_process_of_its_server(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    section = stub_section(tmp_path, ["--fault", "never_well", "--stubborn-child", "--pids", pids])
    spec = stub_spec(tmp_path, section, timeout_s=8.0)
    lease = DriverLease(tmp_path)
    supervisor = Supervisor(Place("no/driver:1:1", lease.address, cpus=1))
    try:
        found = supervisor.run(spec)
    finally:
        supervisor.close()
        lease.close()
    assert found.failure_kind is FailureKind.TIMEOUT
    assert all(ends(int(pid), 5) for pid in pids.read_text().split())
