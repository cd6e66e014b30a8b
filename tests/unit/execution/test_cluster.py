"""What a cluster cannot run is refused before anything is asked of it."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.execution import cluster
from tuner.execution.cluster import refuse_what_no_node_has
from tuner.execution.protocol import ExecutionError, Slots


def node(cpus: float, gpus: float = 0, alive: bool = True, accelerator: str = "") -> dict[str, Any]:
    resources = {"CPU": cpus, "memory": 1e9} | ({"GPU": gpus} if gpus else {})
    if accelerator:
        resources[f"accelerator_type:{accelerator}"] = 1.0
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "slots"),
    [
        ([node(4)], Slots(2, cpus=2)),
        ([node(2), node(2)], Slots(2, cpus=2)),
        ([node(4, gpus=2)], Slots(2, cpus=1, gpus=1)),
        ([node(8), node(2, gpus=1, accelerator="H100")], Slots(1, cpus=2, gpus=1, accelerator="H100")),
    ],
)
def test_slots_that_fit_are_accepted(nodes: list[dict[str, Any]], slots: Slots) -> None:
    refuse_what_no_node_has("host:1", slots, nodes)


@pytest.mark.parametrize(
    ("nodes", "slots", "expected"),
    [
        ([node(4), node(4)], Slots(1, cpus=8), r"resources\.cpus=8, but .* has 4; use at most 4"),
        ([node(8, alive=False), node(2)], Slots(1, cpus=8), r"has 2; use at most 2"),
        (
            [node(8), node(1, gpus=4)],
            Slots(1, cpus=4, gpus=2),
            r"no single node of host:1 has 4 cpus and 2 gpus together",
        ),
        (
            [node(4), node(3)],
            Slots(4, cpus=2),
            r"concurrent_trials=4, but host:1 has room for 3 at once; use 3",
        ),
        (
            [node(8, gpus=1, accelerator="A100")],
            Slots(1, cpus=1, gpus=1, accelerator="H100"),
            r"accelerator=H100.* A100",
        ),
        ([node(8)], Slots(1, cpus=1, gpus=1, accelerator="H100"), r"has none"),
    ],
)
def test_slots_that_do_not_fit_are_refused_with_what_would(
    nodes: list[dict[str, Any]], slots: Slots, expected: str
) -> None:
    with pytest.raises(ExecutionError, match=expected):
        refuse_what_no_node_has("host:1", slots, nodes)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            Exception("The current node timed out during startup.\nmore"),
            "The current node timed out during startup.",
        ),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_ray_that_does_not_start_is_said_in_one_line_whatever_it_raises(
    problem: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: Any) -> None:
        raise problem

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    with pytest.raises(ExecutionError) as caught:
        cluster._start(None, Slots(1, cpus=1), tmp_path)
    assert str(caught.value) == f"cannot start a Ray of our own: {said}"


def test_a_ray_that_was_too_slow_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def init(**given: Any) -> None:
        calls.append(given)
        if len(calls) < 3:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    cluster._start(None, Slots(1, cpus=1), tmp_path)
    assert len(calls) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_ray_starts_reaches_the_caller_and_never_rays_own_handler(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def init(**_: Any) -> None:
        signal.signal(number, lambda *_: sys.exit(15))  # as Ray does
        os.kill(os.getpid(), number)

    fake = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    before = signal.signal(number, lambda got, _: told.append(got))
    try:
        with cluster.connected(None, Slots(1, cpus=1), tmp_path):
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)
    assert told == [number, number]
