"""``python -m trials.training.memory_model spec.json ...``: what a configuration holds in memory, nothing allocated.

The trial's own code builds the model and takes two optimizer steps on fake tensors (they have shapes and no
storage), in one process that pretends to be rank 0 of the layout, under PyTorch's memory tracker. One JSON line for
each spec: bytes by kind at the peak, and of the states alone. The tracker counts tensors: what the interpreter, the
libraries and an allocator's fragments take comes on top.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils._pytree import tree_map_only

from trials.contract import FailureKind, TrialFailure, TrialSpec
from trials.training import precision
from trials.training.batch_plan import BatchPlan
from trials.training.data import as_dataset
from trials.training.layout import Layout
from trials.training.session import Session
from trials.training.task import checked_model
from trials.training.world import World

STEPS = 2
"""The optimizer's state exists after the first one, so the second has the peak."""
_KINDS = {
    "Parameter": "parameter_bytes",
    "Buffer": "buffer_bytes",
    "Gradient": "gradient_bytes",
    "Optstate": "optimizer_bytes",
    "Activation": "activation_bytes",
    "Temp": "temporary_bytes",
    "Other": "other_bytes",
}


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on one rank at the moment of the peak, by kind; they add up to ``peak_bytes``. What the optimizer's step
    needs for itself counts as the optimizer's.

    ``state_bytes`` is what lies there between steps as well: parameters, buffers and the optimizer's state.
    """

    parameter_bytes: int = 0
    buffer_bytes: int = 0
    gradient_bytes: int = 0
    optimizer_bytes: int = 0
    activation_bytes: int = 0
    temporary_bytes: int = 0
    other_bytes: int = 0
    peak_bytes: int = 0
    state_bytes: int = 0

    @classmethod
    def of(cls, tracker: MemTracker) -> MemoryEstimate:
        """What a tracker has seen when whole steps are done."""
        now = _by_kind(tracker.get_tracker_snapshot("current"))
        states = sum(now.get(name, 0) for name in ("parameter_bytes", "buffer_bytes", "optimizer_bytes"))
        return cls(**_by_kind(tracker.get_tracker_snapshot("peak")), state_bytes=states)


def _by_kind(snapshot: dict[Any, dict[str, int]]) -> dict[str, int]:
    """A tracker's snapshot under our names; all devices together (the model is looked at on one)."""
    found: dict[str, int] = {}
    for kinds in snapshot.values():
        for kind, size in kinds.items():
            name = "peak_bytes" if kind == "Total" else _KINDS[str(getattr(kind, "value", kind))]
            found[name] = found.get(name, 0) + int(size)
    return found


def estimate(spec: TrialSpec) -> MemoryEstimate:
    """Rank 0's memory for the configuration of the spec. TrialFailure ``unsupported`` for what is not modelled:
    pipelines, offload and compiled code.
    """
    return _measured(_Rehearsal(spec, is_fake=True))


def tracked(spec: TrialSpec) -> MemoryEstimate:
    """The same by the tracker on real tensors in one process: what estimates are held against."""
    return _measured(_Rehearsal(spec, is_fake=False))


def _measured(rehearsal: _Rehearsal) -> MemoryEstimate:
    with _pretended(rehearsal.whole):
        rehearsal.prepare()
        tracker = MemTracker()
        tracker.track_external(rehearsal.model)
        with rehearsal.mode or nullcontext(), tracker:
            for number in range(STEPS):
                rehearsal.trainer.step(number, _Forgetting(rehearsal.step_batches, tracker))
        return _with_shared_state(MemoryEstimate.of(tracker), rehearsal.whole)


class _Forgetting:
    """The batches of a step; before each the tracker forgets which modules ran, for it takes none twice."""

    def __init__(self, batches: list[tuple[Any, float]], tracker: MemTracker) -> None:
        self._batches, self._tracker = batches, tracker

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        for batch in self._batches:
            self._tracker.reset_mod_stats()
            yield batch


class _Rehearsal(Session):
    """A session that is built and takes steps, and neither meets other ranks nor measures time."""

    has_values = False  # ranks that are not there send none

    def __init__(self, spec: TrialSpec, *, is_fake: bool) -> None:
        from torch._subclasses import FakeTensorMode

        from trials.workloads.training import TrainingWorkload

        given = {name: value for name, value in spec.config.items() if value is not None}
        config = {**{knob.name: knob.default for knob in TrainingWorkload().knobs({}).values()}, **given}
        _refuse_what_is_not_modelled(config)
        self.whole = Layout.of(config)
        self.config, self.plan = config, BatchPlan.of(given)
        self.section, self.proof, self.facts = spec.workload, {}, {}
        self.mode = FakeTensorMode() if is_fake else None
        self.precision = precision.set_up(config["precision"], "cpu")
        self.full_steps, self.rest = STEPS, 0
        # gradients that DDP averages are views of its buckets: a rank holds what a single process holds
        layout = self.whole if _is_in_shards(self.whole) else Layout()
        self.world = World(0, layout.world_size, "cpu", "cpu", layout)

    def prepare(self) -> None:
        """The model, the optimizer and the batches of a step."""
        from trials.training.task import load_task

        self.__dict__["task"] = load_task(str(self.section["task"]), self.config)
        self.data = as_dataset(self.task, "train_data")
        batch = self._first_batch()
        with self.mode or nullcontext():
            self.model = self._built().train()
        replica = self._distributed()  # outside: a mesh of ranks has real numbers
        with self.mode or nullcontext():
            self.trainer = self._trainer(replica)
        if self.mode is not None:
            batch = tree_map_only(Tensor, self.mode.from_tensor, batch)
        passes = self.plan.gradient_accumulation_steps
        self.step_batches = [(batch, 1.0 / passes)] * passes

    def _built(self) -> nn.Module:
        """The model in the precision's dtype; fake parameters cannot change theirs once they are there."""
        if self.mode is None:
            return checked_model(self.task).to("cpu", self.precision.parameters)
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.precision.parameters)
        try:
            return checked_model(self.task)
        finally:
            torch.set_default_dtype(before)


def _is_in_shards(layout: Layout) -> bool:
    return layout.is_sharded or layout.tensor_degree > 1


def _refuse_what_is_not_modelled(config: dict[str, Any]) -> None:
    refused = {
        "pipeline_parallel_degree": config["pipeline_parallel_degree"] > 1,
        "expert_parallel_degree": config["expert_parallel_degree"] > 1,
        "activation_offload": config["activation_offload"] != "none",
        "optimizer_offload": config["optimizer_offload"] != "none",
        "compile": config["compile"] is not False,
    }
    for knob, is_refused in refused.items():
        if is_refused:
            raise TrialFailure(
                FailureKind.UNSUPPORTED, f"the memory model does not know {knob}={config[knob]}"
            )


def _with_shared_state(found: MemoryEstimate, layout: Layout) -> MemoryEstimate:
    """ZeRO 1 shares the optimizer's state out, parameter by parameter, so about evenly."""
    if layout.zero_stage != 1:
        return found
    less = (found.state_bytes - found.parameter_bytes - found.buffer_bytes) * (1 - 1 / layout.data_degree)
    return replace(
        found,
        optimizer_bytes=found.optimizer_bytes - round(less),
        peak_bytes=found.peak_bytes - round(less),
        state_bytes=found.state_bytes - round(less),
    )


@contextmanager
def _pretended(layout: Layout) -> Iterator[None]:
    """A process group of the layout's size in which nothing is ever sent."""
    if not _is_in_shards(layout):
        yield
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=layout.world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def main(files: list[str]) -> int:
    """Print one JSON line for each spec; returns the exit status."""
    for file in files:
        spec = TrialSpec.from_json(Path(file).read_text(encoding="utf-8"))
        try:
            print(json.dumps(asdict(estimate(spec))), flush=True)
        except TrialFailure as failure:
            print(json.dumps({"refused": failure.message}), flush=True)
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
