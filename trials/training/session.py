"""One training trial in the order in which things happen: build, prove, train and time, evaluate, report."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import nn

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose, TrialFailure
from trials.measurement.clocks import CudaClock, HostClock, StepClock
from trials.measurement.environment import torch_environment
from trials.measurement.load import LoadSample, contamination, load_now
from trials.measurement.memory import HostMemory
from trials.metrics import Key, unit_of
from trials.stages import Stage
from trials.training import optimizers, precision, report
from trials.training.activations import Checkpointing, Offload, blocks_of, units_of
from trials.training.batch_plan import BatchPlan, Horizon
from trials.training.breakdown import bottleneck, profile_step, shares
from trials.training.data import BatchSampler, as_dataset, batches_in_order, to_device, train_loader
from trials.training.evaluate import quality, score_all
from trials.training.halfway import (
    examples_on_the_way,
    is_cheap,
    is_worth_it,
    quality_or_nothing,
    random_numbers_kept,
    steady_speed,
    stops,
    untimed_steps,
)
from trials.training.layout import Layout
from trials.training.loop import PipelineTrainer, StepLog, Trainer, proof_step, run_steps, short_step
from trials.training.parallel.expert import spread_experts
from trials.training.parallel.pipeline import Pipeline, PipelineReplica, StagedModel, split
from trials.training.parallel.replicas import Replica, form_replica, local_bytes, optimizer_state_bytes
from trials.training.parallel.tensor import split_blocks
from trials.training.proof import MatmulWatch, check_precision
from trials.training.task import Task, checked_model, load_task
from trials.training.world import join_world

EARLY_STEPS = 3
"""Steps after which memory and load are looked at: the optimizer's state exists, the timed window has not
begun.
"""

_RANK_STRIDE = 1_000_003
"""Apart from each other by this, the ranks' seeds for dropout and the like do not meet those of repeats."""


class Session:
    """Holds the parts of one trial; ``measure`` runs it."""

    has_values = True
    """False where the model is only looked at (fake tensors)."""

    def __init__(
        self, context: TrialContext, config: dict[str, Any], plan: BatchPlan, import_torch_s: float
    ) -> None:
        self.context, self.config, self.plan = context, config, plan
        self.section = context.spec.workload
        self.world = join_world(context.spec, Layout.of(config))
        self.precision = precision.set_up(config["precision"], self.world.device_type)
        self.memory = HostMemory()
        self.log = StepLog()
        self.facts: dict[str, Any] = {"import_torch_s": round(import_torch_s, 4)}
        self.proof: dict[str, Any] = {}
        self.metrics: dict[str, MetricValue] = {}
        self.stage_s = 0.0  # what the last look at the quality on the way took
        self.early_memory: dict[str, MetricValue] = {}  # as it was before passes of another size

    def measure(self) -> Measurement:
        """Run the trial; raises TrialFailure where it ends otherwise than complete."""
        self._start()
        self._prove()
        self._compile()
        self._train()
        scores = self._evaluate()
        self._break_down()
        self._check_wanted()
        self.world.leave()
        return Measurement(
            Outcome.COMPLETE,
            metrics=self.metrics,
            proof=self.proof,
            facts=self.facts,
            environment=torch_environment(self.world.device_type, self.world.root_pid),
            examples={key: tuple(values) for key, values in scores.items()},
        )

    @cached_property
    def task(self) -> Task:
        """The user's task, constructed."""
        self.facts["before_task_s"] = round(time.monotonic() - self.context.started_at, 4)
        return load_task(str(self.section["task"]), self.config)

    def _start(self) -> None:
        """Seed, then build everything that the first step needs."""
        _seed(self.context.spec.seed)
        self.model = checked_model(self.task).to(self.world.device, self.precision.parameters).train()
        self.data = as_dataset(self.task, "train_data")
        self.samples = self._horizon()
        self.full_steps, self.rest = divmod(self.samples, self.plan.global_batch_size)
        if self.full_steps == 0:
            raise TrialFailure(
                FailureKind.UNSTABLE,
                f"{self.samples} samples are less than one step of {self.plan.global_batch_size}; "
                "train for longer",
            )
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.trainer = self._trainer(self._distributed())
        if self.world.place.data:
            torch.manual_seed(self.context.spec.seed + _RANK_STRIDE * self.world.place.data)
        self.batches = self._batches()
        self.context.phases["startup_s"] = time.monotonic() - self.context.started_at
        if self.context.spec.report_at:
            self.context.stage(Stage(0.0))

    def _horizon(self) -> int:
        horizon = Horizon.of(self.section["train_for"])
        try:
            return horizon.samples(self.plan, getattr(self.task, "tokens_per_sample", None))
        except ValueError as problem:
            raise TrialFailure(
                FailureKind.UNSUPPORTED, f"{problem}; count samples, or set it in the task"
            ) from problem

    def _distributed(self) -> Replica:
        """Split the model as the layout says: within its layers, into stages, over data-parallel ranks; with its
        checkpoints in place before anything is wrapped around.
        """
        world, layout, config = self.world, self.world.layout, self.config
        units = units_of(self.task, self.model)
        kind = config["activation_checkpointing"]
        chosen = blocks_of(self.task, self.model)[:: config["checkpoint_every"]] if kind != "none" else []
        if layout.tensor_degree > 1:
            moved = to_device(self._first_batch(), world.device, self.precision.batch_dtype)
            batch = moved if self.has_values else None
            self.proof["tensor_parallel_plan"] = split_blocks(self.task, self.model, units, world, batch)
        stages = {}
        if layout.pipeline_degree > 1:
            stages = split(self.task, self.model, world, config["pipeline_schedule"])
            self.model = nn.ModuleList(stages.values())  # lets go of the other ranks' stages
        own = set(self.model.modules())
        here = [block for block in chosen if block in own]
        self.checkpointing = Checkpointing(kind, here) if here else None
        if stages:
            pipeline = Pipeline(self.task, stages, units, world, config)
            model = self.model = StagedModel(pipeline, stages)
            return PipelineReplica(model, pipeline)
        spread = spread_experts(self.task, self.model, world) if layout.expert_degree > 1 else None
        return form_replica(self.model, units, world, config, spread)

    def _first_batch(self) -> Any:
        return next(batches_in_order(self.task, self.data, [0], self.plan.micro_batch_size, len(self.data)))

    def _trainer(self, replica: Replica) -> Trainer:
        offload = Offload(self.model) if self.config["activation_offload"] == "cpu" else None
        if offload and self.world.device_type == "cpu":
            self.context.warn("activation_offload=cpu on a CPU copies activations and frees nothing")
        if self.config["optimizer_offload"] == "cpu" and self.world.device_type == "cpu":
            self.context.warn(
                "optimizer_offload=cpu on a CPU keeps a second copy of the parameters and frees nothing"
            )
        kind: type[Trainer] = PipelineTrainer if isinstance(replica, PipelineReplica) else Trainer
        return kind(
            self.task,
            self.world,
            self.plan,
            self.precision,
            replica,
            optimizers.build_optimizer(
                self.config["optimizer"],
                self.task,
                self.model,
                replica.shard_group(),
                is_on_host=self.config["optimizer_offload"] == "cpu",
            ),
            torch.amp.GradScaler(self.world.device_type) if self.precision.has_scaler else None,
            offload,
            self.full_steps + (self.rest > 0),
        )

    def _batches(self) -> Iterator[Any]:
        if self.config["pin_memory"] and self.world.device_type == "cpu":
            raise TrialFailure(
                FailureKind.UNSUPPORTED, "pin_memory=true needs a GPU; the trial runs on the CPU"
            )
        rank, seed = self.world.place.data, self.context.spec.seed
        is_piped = self.world.layout.pipeline_degree > 1
        self.short_parts = self.plan.short_parts(self.rest, rank, is_piped) if self.rest else []
        sampler = BatchSampler(len(self.data), self.samples, self.plan, seed, rank, self.short_parts)
        config = self.config
        return iter(
            train_loader(
                self.task,
                self.data,
                sampler,
                config["loader_workers"],
                config["prefetch_factor"],
                config["pin_memory"],
            )
        )

    def _prove(self) -> None:
        """The first step, watched: dtypes, checkpointed blocks, bytes offloaded; a fall-back ends the trial
        here.
        """
        watch = MatmulWatch(self.world.world_size)
        with self.context.phase("warmup_s"):
            proof_step(self.trainer, self.batches, watch, self.log)
        check_precision(self.precision, watch.shares())
        is_piped = self.world.layout.pipeline_degree > 1  # its first forward pass is not one micro-batch's
        self.forward_flops = 0 if is_piped else watch.forward_flops or 0
        self.proof |= {
            "device": self.world.device_name,
            "threads": torch.get_num_threads(),
            "matmul_flops_by_dtype": watch.shares(),
            "parameters": self.parameters,
            "checkpointed_blocks": self.checkpointing.settle() if self.checkpointing else 0,
            **optimizers.describe(self.trainer.optimizer),
        }
        if self.trainer.offload:
            self._prove_offload(self.trainer.offload)
        if self.world.world_size > 1:
            self._prove_world(watch)

    def _prove_world(self, watch: MatmulWatch) -> None:
        """What really lies on each rank and what was sent: a form that shards nothing shows here."""
        held = self.world.gather(
            (local_bytes(self.model.parameters()), optimizer_state_bytes(self.trainer.optimizer))
        )
        self.proof |= {
            "world_size": self.world.world_size,
            "backend": "gloo" if self.world.device_type == "cpu" else "nccl",
            "data_parallel_form": self.trainer.replica.form,
            "parameter_bytes_by_rank": [parameters for parameters, _ in held],
            "optimizer_state_bytes_by_rank": [state for _, state in held],
            "bytes_sent_per_step": round(watch.sent_bytes),
        }

    def _prove_offload(self, offload: Offload) -> None:
        self.proof["bytes_offloaded_per_step"] = offload.bytes_moved
        if not offload.bytes_moved:
            raise TrialFailure(
                FailureKind.UNSUPPORTED, "activation_offload=cpu moved no byte: no activation is large enough"
            )

    def _compile(self) -> None:
        """Compile, and take the step that triggers it; ``compile_s`` holds both."""
        self.compiler = None
        if self.config["compile"] is False:
            return
        from trials.training.compilation import Compiler

        self.compiler = Compiler(self.config["compile"], self.context.spec.cache_dir)
        self.compiler.compile_in_place(self.model)
        with self.context.phase("compile_s"):
            self._run(range(1, min(2, self.full_steps)))
        self.proof |= self.compiler.describe()
        if not self.compiler.count_graphs():
            raise TrialFailure(FailureKind.UNSUPPORTED, "compile: torch.compile made no graph of this model")
        check_precision(self.precision, self.compiler.shares())
        method = f"first compiled step, {'warm' if self.compiler.is_warm else 'cold'} cache"
        self.metrics[Key.COMPILE_S] = MetricValue(
            self.context.phases["compile_s"], unit_of(Key.COMPILE_S), 1, method=method
        )

    def _train(self) -> None:
        """The rest of the horizon; the steady window is cut out of it afterwards."""
        first = 1 if self.compiler is None else min(2, self.full_steps)
        early = min(first + EARLY_STEPS - 1, self.full_steps)
        clock = self._clock()
        self.memory.reset()
        self._reset_device_peak()
        self.log.waits_s.clear()
        self.log.graphs.clear()
        clock.mark()
        self._run(range(first, early), clock)
        self.memory.sample()
        load = self._load()
        durations = self._timed(range(early, self.full_steps), clock, load)
        reason = self._disturbance(load)
        self.memory.sample()
        self.log.check_finite()
        if self.rest:
            if self.world.layout.pipeline_degree > 1:  # which takes the short step in one large pass
                self.early_memory = self.early_memory or report.memory_metrics(
                    self.world.gather(self._record(durations))
                )
            with self._eager():
                short_step(self.trainer, self.full_steps, self.batches, self.short_parts, self.log)
        self.batches = iter(())  # ends the loader's processes
        if reason:
            self.facts["contaminated"] = reason
            self.context.warn(f"contaminated: {reason}")
        self._report_training(durations)

    def _load(self) -> LoadSample | None:
        """Rank 0 looks for all: at the cores of the whole trial, and at all its processes as our own."""
        return load_now(root=self.world.root_pid) if self.world.rank == 0 else None

    def _disturbance(self, since: LoadSample | None) -> str | None:
        now = self._load()
        return contamination(since, now) if since and now else None

    def _clock(self) -> StepClock:
        return CudaClock() if self.world.device_type == "cuda" else HostClock()

    def _timed(self, numbers: range, clock: StepClock, load: LoadSample | None) -> list[float]:
        """Durations of the timed steps; at the points that the spec names the clock stands, and a stage is
        reported.
        """
        config, at, begin_s = self.config, numbers.start, time.monotonic()
        untimed = untimed_steps(
            config["loader_workers"], config["prefetch_factor"], self.plan.gradient_accumulation_steps
        )
        durations: list[float] = []
        for fraction, stop in stops(self.context.spec.report_at, numbers.start, numbers.stop, untimed):
            self._run(range(at, stop), clock)
            at, done = stop, stop - numbers.start
            if not self.world.agree(is_worth_it(time.monotonic() - begin_s, done, numbers.stop - stop)):
                break
            durations += clock.durations_s()
            self._report_stage(fraction, durations, load)
            self._run(range(at, at + untimed))
            del self.log.waits_s[-untimed:]
            if self.log.graphs:
                del self.log.graphs[-untimed:]
            at, clock = at + untimed, self._clock()
            clock.mark()
        self._run(range(at, numbers.stop), clock)
        return durations + clock.durations_s()

    def _report_stage(self, fraction: float, durations_s: list[float], load: LoadSample | None) -> None:
        """Throughput where it is steady, memory, and the quality on some of the held-out samples."""
        disturbed = self._disturbance(load)
        with self.context.phase("stages_s"):
            if not self.early_memory:
                self.memory.sample()
            ranks = self.world.gather(self._record(durations_s))
            self.early_memory = self.early_memory or report.memory_metrics(ranks)
            wanted = self.context.spec.wanted
            steady = self._speed_so_far(ranks) | self.early_memory
            known = {key: metric for key, metric in steady.items() if key in wanted}
            is_cheap_now = self.world.agree(is_cheap(self.stage_s, sum(durations_s)))
            if set(wanted) - steady.keys() and is_cheap_now:
                begin_s = time.monotonic()
                found = self._quality_so_far()
                self.stage_s = time.monotonic() - begin_s
                known |= {key: metric for key, metric in found.items() if key in wanted}
            kept = tuple(key for key in known if key in steady)
            self.context.stage(Stage(fraction, known, kept, disturbed))

    def _speed_so_far(self, ranks: list[report.RankRecord]) -> dict[str, MetricValue]:
        try:
            window = report.window_of(ranks, self.log.graphs)
        except TrialFailure:
            return {}
        tokens = getattr(self.task, "tokens_per_sample", None)
        return steady_speed(report.speed_metrics(window, self.plan, tokens, self.world.devices), window)

    def _quality_so_far(self) -> dict[str, MetricValue]:
        available = min(len(self.held_out), self.section.get("evaluate_on") or len(self.held_out))
        with random_numbers_kept(self.world.device_type):
            return quality_or_nothing(
                lambda: quality(self.task, self._scores(examples_on_the_way(available)))
            )

    def _run(self, numbers: range, clock: StepClock | None = None) -> None:
        graphs = self.compiler.count_graphs if self.compiler else None
        run_steps(self.trainer, self.batches, numbers, clock or HostClock(), self.log, graphs)

    def _report_training(self, durations_s: list[float]) -> None:
        ranks = self.world.gather(self._record(durations_s))
        window = report.window_of(ranks, self.log.graphs)
        phases = self.context.phases
        phases["warmup_s"] += window.warmup_s
        phases["measured_s"] = window.measured_s
        tokens = getattr(self.task, "tokens_per_sample", None)
        self.metrics |= report.speed_metrics(window, self.plan, tokens, self.world.devices)
        flops = sum(rank.forward_flops for rank in ranks) // self.world.layout.tensor_degree
        used = report.mfu(window, flops // self.world.devices, self.plan, self.precision, self.world)
        if used:
            self.metrics[Key.MFU_PCT] = used
        losses = report.losses_of(ranks)
        self.metrics[Key.TRAIN_LOSS_NATS] = report.train_loss(losses)
        self.facts["first_losses"] = losses[: report.FIRST_LOSSES]
        self.metrics[Key.STARTUP_S] = MetricValue(
            phases["startup_s"], unit_of(Key.STARTUP_S), 1, method="phase clock"
        )
        self.metrics |= self.early_memory or report.memory_metrics(ranks)
        self.facts |= {
            "global_batch_size": self.plan.global_batch_size,
            "micro_batch_size": self.plan.micro_batch_size,
            "gradient_accumulation_steps": self.plan.gradient_accumulation_steps,
            "optimizer_steps": len(self.log.losses),
            "samples_seen": self.samples,
            "warmup_steps": window.warmup_steps + self.full_steps - len(durations_s),
        }
        if not window.is_steady:
            self.facts["still_trending"] = True
            self.context.warn("the step time was still trending at the half of the run; train for longer")

    @property
    def _has_loss(self) -> bool:
        """Of a pipeline only the ranks of the last stage see the loss."""
        replica = self.trainer.replica
        return not isinstance(replica, PipelineReplica) or replica.pipeline.is_last

    def _record(self, durations_s: list[float]) -> report.RankRecord:
        is_gpu = self.world.device_type == "cuda"
        return report.RankRecord(
            durations_s,
            self.log.waits_s,
            [loss.item() for loss in self.log.losses] if self._has_loss else [],
            self.forward_flops,
            self.memory.peak_bytes,
            torch.cuda.max_memory_allocated() if is_gpu else None,
            torch.cuda.max_memory_reserved() if is_gpu else None,
        )

    def _reset_device_peak(self) -> None:
        if self.world.device_type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()

    def _evaluate(self) -> dict[str, list[float]]:
        with self.context.phase("evaluation_s"):
            scores = self._scores(self.section.get("evaluate_on"))
            self.metrics |= quality(self.task, scores)
        return scores

    def _scores(self, at_most: int | None) -> dict[str, list[float]]:
        size = self.plan.micro_batch_size
        with self._eager():
            return score_all(self.task, self.model, self.world, self.precision, size, self.held_out, at_most)

    def _eager(self) -> AbstractContextManager[None]:
        """Inside, nothing compiled runs: other shapes would be compiled anew."""
        return self.compiler.eager(self.model) if self.compiler else nullcontext()

    @cached_property
    def held_out(self) -> Any:
        """The validation data, made when first needed: it must not count as memory of the training."""
        return as_dataset(self.task, "validation_data")

    def _break_down(self) -> None:
        """Once per study, on its baseline: it names the knobs worth searching first."""
        wait_pct = self.metrics[Key.DATA_WAIT_PCT].value
        found = None
        if self.context.spec.purpose is Purpose.BASELINE:
            with self.context.phase("breakdown_s"):
                found = shares(profile_step(self.trainer, self._first_batch()), wait_pct)
            self.facts["breakdown"] = {key: round(value, 2) for key, value in found.items()}
        self.facts |= bottleneck(wait_pct, found, recomputes=self.checkpointing is not None)

    def _check_wanted(self) -> None:
        missing = [key for key in self.context.spec.wanted if key not in self.metrics]
        if missing:
            raise TrialFailure(
                FailureKind.MISSING_METRIC,
                f"{', '.join(missing)} was not measured here; "
                f"this trial gives {', '.join(sorted(self.metrics))}",
            )


def _seed(seed: int) -> None:
    """Every generator that a task may use; numpy's only where something has loaded it."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
