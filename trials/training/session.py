"""One training trial in the order in which things happen: build, prove, train and time, evaluate, report."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose, TrialFailure
from trials.measurement.clocks import CudaClock, HostClock, StepClock
from trials.measurement.environment import torch_environment
from trials.measurement.load import LoadSample, contamination, load_now
from trials.measurement.memory import HostMemory
from trials.metrics import Key, unit_of
from trials.stages import Stage
from trials.training import optimizers, precision, report
from trials.training.activations import Checkpointing, Offload, blocks_of
from trials.training.batch_plan import BatchPlan, Horizon
from trials.training.breakdown import bottleneck, profile_step, shares
from trials.training.data import BatchSampler, as_dataset, batches_in_order, train_loader
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
from trials.training.loop import StepLog, Trainer, proof_step, run_steps, short_step
from trials.training.proof import MatmulWatch, check_precision
from trials.training.task import Task, checked_model, load_task
from trials.training.world import join_world

EARLY_STEPS = 3
"""Steps after which memory and load are looked at: the optimizer's state exists, the timed window has not
begun.
"""


class Session:
    """Holds the parts of one trial; ``measure`` runs it."""

    def __init__(
        self, context: TrialContext, config: dict[str, Any], plan: BatchPlan, import_torch_s: float
    ) -> None:
        self.context, self.config, self.plan = context, config, plan
        self.section = context.spec.workload
        self.world = join_world(context.spec)
        self.precision = precision.set_up(config["precision"], self.world.device_type)
        self.memory = HostMemory()
        self.log = StepLog()
        self.facts: dict[str, Any] = {"import_torch_s": round(import_torch_s, 4)}
        self.proof: dict[str, Any] = {}
        self.metrics: dict[str, MetricValue] = {}
        self.stage_s = 0.0  # what the last look at the quality on the way took
        self.early_memory: dict[str, MetricValue] = {}  # as it was before anything was evaluated on the way

    def measure(self) -> Measurement:
        """Run the trial; raises TrialFailure where it ends otherwise than complete."""
        self._start()
        self._prove()
        self._compile()
        self._train()
        scores = self._evaluate()
        self._break_down()
        self._check_wanted()
        return Measurement(
            Outcome.COMPLETE,
            metrics=self.metrics,
            proof=self.proof,
            facts=self.facts,
            environment=torch_environment(self.world.device_type),
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
        checkpointing = self.config["activation_checkpointing"]
        self.checkpointing = (
            Checkpointing(checkpointing, blocks_of(self.task, self.model))
            if checkpointing != "none"
            else None
        )
        self.trainer = self._trainer()
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

    def _trainer(self) -> Trainer:
        offload = Offload(self.model) if self.config["activation_offload"] == "cpu" else None
        if offload and self.world.device_type == "cpu":
            self.context.warn("activation_offload=cpu on a CPU copies activations and frees nothing")
        return Trainer(
            self.task,
            self.world,
            self.plan,
            self.precision,
            self.model,
            optimizers.build_optimizer(self.config["optimizer"], self.task, self.model),
            torch.amp.GradScaler(self.world.device_type) if self.precision.has_scaler else None,
            offload,
            self.full_steps + (self.rest > 0),
        )

    def _batches(self) -> Iterator[Any]:
        if self.config["pin_memory"] and self.world.device_type == "cpu":
            raise TrialFailure(
                FailureKind.UNSUPPORTED, "pin_memory=true needs a GPU; the trial runs on the CPU"
            )
        seed = self.context.spec.seed
        sampler = BatchSampler(len(self.data), self.samples, self.plan.micro_batch_size, seed)
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
        watch = MatmulWatch()
        with self.context.phase("warmup_s"):
            proof_step(self.trainer, self.batches, watch, self.log)
        check_precision(self.precision, watch.shares())
        self.forward_flops = watch.forward_flops or 0
        self.proof |= {
            "device": self.world.device_name,
            "threads": torch.get_num_threads(),
            "matmul_flops_by_dtype": watch.shares(),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "checkpointed_blocks": self.checkpointing.settle() if self.checkpointing else 0,
            **optimizers.describe(self.trainer.optimizer),
        }
        if self.trainer.offload:
            self._prove_offload(self.trainer.offload)

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
        self.trainer.forward = self.compiler.compile(self.model)
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
        load = load_now()
        durations = self._timed(range(early, self.full_steps), clock, load)
        reason = contamination(load, load_now())
        self.memory.sample()
        self.log.check_finite()
        if self.rest:
            self.trainer.forward = self.model  # another shape would be compiled anew
            short_step(self.trainer, self.full_steps, self.batches, self.rest, self.log)
        self.batches = iter(())  # ends the loader's processes
        if reason:
            self.facts["contaminated"] = reason
            self.context.warn(f"contaminated: {reason}")
        self._report_training(durations)

    def _clock(self) -> StepClock:
        return CudaClock() if self.world.device_type == "cuda" else HostClock()

    def _timed(self, numbers: range, clock: StepClock, load: LoadSample) -> list[float]:
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
            if not is_worth_it(time.monotonic() - begin_s, done, numbers.stop - stop):
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

    def _report_stage(self, fraction: float, durations_s: list[float], load: LoadSample) -> None:
        """Throughput where it is steady, memory, and the quality on some of the held-out samples."""
        disturbed = contamination(load, load_now())
        with self.context.phase("stages_s"):
            if not self.early_memory:
                self.memory.sample()
                self.early_memory = self._memory_metrics()
            wanted = self.context.spec.wanted
            steady = self._speed_so_far(durations_s) | self.early_memory
            known = {key: metric for key, metric in steady.items() if key in wanted}
            if set(wanted) - steady.keys() and is_cheap(self.stage_s, sum(durations_s)):
                begin_s = time.monotonic()
                found = self._quality_so_far()
                self.stage_s = time.monotonic() - begin_s
                known |= {key: metric for key, metric in found.items() if key in wanted}
            kept = tuple(key for key in known if key in steady)
            self.context.stage(Stage(fraction, known, kept, disturbed))

    def _speed_so_far(self, durations_s: list[float]) -> dict[str, MetricValue]:
        try:
            window = report.cut_window(durations_s, self.log.waits_s, self.log.graphs)
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
        window = report.cut_window(durations_s, self.log.waits_s, self.log.graphs)
        phases = self.context.phases
        phases["warmup_s"] += window.warmup_s
        phases["measured_s"] = window.measured_s
        tokens = getattr(self.task, "tokens_per_sample", None)
        self.metrics |= report.speed_metrics(window, self.plan, tokens, self.world.devices)
        used = report.mfu(window, self.forward_flops, self.plan, self.precision, self.world)
        if used:
            self.metrics[Key.MFU_PCT] = used
        self.metrics[Key.TRAIN_LOSS_NATS] = report.train_loss([loss.item() for loss in self.log.losses])
        self.metrics[Key.STARTUP_S] = MetricValue(
            phases["startup_s"], unit_of(Key.STARTUP_S), 1, method="phase clock"
        )
        self.metrics |= self.early_memory or self._memory_metrics()
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

    def _memory_metrics(self) -> dict[str, MetricValue]:
        host = report.gib(Key.PEAK_RSS_GIB, self.memory.peak_bytes, "maximum of summed PSS and VmHWM")
        if self.world.device_type != "cuda":
            return {
                Key.PEAK_RSS_GIB: host,
                Key.PEAK_MEMORY_GIB: report.gib(Key.PEAK_MEMORY_GIB, self.memory.peak_bytes, host.method),
            }
        return {
            Key.PEAK_RSS_GIB: host,
            Key.PEAK_MEMORY_GIB: report.gib(
                Key.PEAK_MEMORY_GIB, torch.cuda.max_memory_allocated(), "allocator"
            ),
            Key.PEAK_RESERVED_GIB: report.gib(
                Key.PEAK_RESERVED_GIB, torch.cuda.max_memory_reserved(), "allocator"
            ),
        }

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
        return score_all(self.task, self.model, self.world, self.precision, size, self.held_out, at_most)

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
                batch, _ = next(batches_in_order(self.task, self.data, self.plan.micro_batch_size, None))
                found = shares(profile_step(self.trainer, batch), wait_pct)
            self.facts["breakdown"] = {key: round(value, 2) for key, value in found.items()}
        self.facts |= bottleneck(wait_pct, found)

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
