"""The launcher, with ranks that are shell programs: no torch, so that each case takes a fraction of a second."""

import json
import time

import pytest

from trials.context import TrialContext
from trials.contract import FailureKind, Outcome, Purpose, TrialSpec
from trials.measurement.memory import process_tree
from trials.training.layout import Layout
from trials.training.parallel.launch import launch


@pytest.fixture
def ranks(tmp_path):
    """``ranks(script)`` runs the shell script in two ranks that know their $RANK; the measurement."""

    def run(script, cpus=()):
        workload = {
            "kind": "command",
            "shell": True,
            "run": script,
            "working_directory": str(tmp_path),
            "metrics": {"patterns": {"score": "score=([0-9.]+)"}},
        }
        spec = TrialSpec(
            "s",
            0,
            "m",
            Purpose.SEARCH,
            workload,
            {},
            0,
            tmp_path,
            tmp_path / "cache",
            cpus,
            wanted=("score",),
        )
        context = TrialContext(spec, time.monotonic())
        try:
            return launch(context, Layout(data_degree=2))
        finally:
            context.close()

    return run


def test_the_measurement_is_rank_0s(ranks):
    found = ranks('echo "score=$((7 + RANK))"')
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.metrics["score"].value == 7


def test_what_rank_0_says_on_the_way_is_said_by_the_trial(ranks, tmp_path):
    ranks('echo "score=1"')
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert len(events) > 1
    assert events[-1]["event"] == "ranks_ended"


def test_each_rank_knows_the_rendezvous_and_has_its_own_cores(ranks, tmp_path):
    found = ranks('echo "score=1"; env > env$RANK; grep Cpus_allowed_list /proc/self/status > cores$RANK')
    assert found.outcome is Outcome.COMPLETE, found.message
    seen = [dict(line.split("=", 1) for line in (tmp_path / f"env{rank}").read_text().splitlines() if "=" in line)
            for rank in (0, 1)]  # fmt: skip
    assert [one["RANK"] for one in seen] == ["0", "1"]
    assert {one["WORLD_SIZE"] for one in seen} == {"2"}
    assert seen[0]["MASTER_PORT"] == seen[1]["MASTER_PORT"] != "0"
    assert seen[0]["GLOO_SOCKET_IFNAME"] == "lo"
    spec = json.loads((tmp_path / "rank1" / "spec.json").read_text())
    allowed = (tmp_path / "cores1").read_text().split()[-1]
    assert allowed == str(spec["cpus"][0]) or len(spec["cpus"]) > 1
    assert {one["OMP_NUM_THREADS"] for one in seen} == {str(len(spec["cpus"]))}


@pytest.mark.parametrize("dying", [0, 1])
def test_a_rank_that_is_killed_ends_the_trial_with_all_its_processes(ranks, dying):
    """Its neighbour would sleep for minutes, and so would that one's own child."""
    before = set(process_tree())  # other tests' servers are children of this process too
    found = ranks(f'if [ $RANK = {dying} ]; then kill -9 $PPID; fi; sleep 600 & echo "score=1"; sleep 600')
    assert found.failure_kind is FailureKind.KILLED
    assert f"rank {dying} of 2" in found.message
    assert set(process_tree()) <= before


def test_a_rank_that_fails_gives_the_trial_its_kind_and_its_number(ranks):
    found = ranks('if [ $RANK = 1 ]; then exit 3; fi; echo "score=1"; sleep 600')
    assert found.failure_kind is FailureKind.CRASH
    assert found.message.startswith("rank 1 of 2: ")
