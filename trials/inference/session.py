"""One inference trial in the order in which things happen: reference, load, warm up, time, judge, report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose, TrialFailure
from trials.inference import quality
from trials.inference.device_memory import device_memory_gib
from trials.inference.engine import EngineSettings, Unsupported
from trials.inference.fleet import Fleet
from trials.inference.model import Served, joined, prepare
from trials.inference.outputs import check_outputs
from trials.inference.reference import reference_engine, reference_outputs
from trials.inference.replica import Loaded, Place, Replica
from trials.inference.samples import padding_waste
from trials.inference.serving import LEAST_REQUESTS
from trials.inference.speed import Rate, latencies, summed
from trials.measurement.load import contamination, load_now
from trials.measurement.memory import HostMemory
from trials.metrics import SAMPLES_NEEDED, Key, percentile_of, unit_of
from trials.workloads.inference import DEFAULT_WINDOW_S

_BUILD_METRICS = (Key.EXPORT_S, Key.CALIBRATION_S, Key.QUANTIZE_S, Key.COMPILE_S)


class Session:
    """Holds the parts of one trial; ``measure`` runs it."""

    def __init__(
        self,
        context: TrialContext,
        places: Sequence[Place],
        environment: Mapping[str, Any],
    ) -> None:
        self.context, self.places = context, places
        self.spec = context.spec
        self.environment = dict(environment)
        self.cores = set(environment["cores_held"])
        self.memory = HostMemory()
        self.device_gib_before = device_memory_gib(self.spec.gpus)
        self.metrics: dict[str, MetricValue] = {}
        self.facts: dict[str, Any] = {}
        self.proof: dict[str, Any] = {}

    def measure(self) -> Measurement:
        """Run the trial; raises TrialFailure where it ends otherwise than complete."""
        served = self._prepared()
        try:
            reference = self._reference(served)
            first = Replica(self.spec, self.places[0], self.context.phase, self.context.phases, served)
            with Fleet(self.spec, first, list(self.places[1:])) as fleet:
                self._load(fleet)
                outputs = self._serve(fleet, served)
                self._answer_requests(fleet)
                self._prove(fleet)
                self._weigh(first)
        finally:
            _delete_engine_folders(self.spec.trial_dir)
        examples = self._judge(served, outputs, reference)
        self._check_wanted()
        return Measurement(
            Outcome.COMPLETE,
            metrics=self.metrics,
            proof=self.proof,
            facts=self.facts,
            environment=self.environment,
            examples=examples,
        )

    def _prepared(self) -> Served:
        with self.context.phase("data_s"):
            return prepare(self.spec, self.places[0].threads)

    def _reference(self, served: Served) -> dict[str, np.ndarray]:
        """Before anything is built, so that nothing of it is in the way of what is timed."""
        with self.context.phase("reference_s"):
            self.facts["reference"] = f"{reference_engine(served)} fp32"
            folder = self.spec.trial_dir / "engine-reference"
            outputs = reference_outputs(served, self.spec.cache_dir, folder, self.context.phase)
        check_outputs(outputs, served.evaluation.batch(range(len(served.evaluation)), served.padding.longest))
        for name in ("first_run_s", "load_s", "export_s"):
            self.context.phases.pop(name, None)  # the reference's, not this trial's
        return outputs

    def _load(self, fleet: Fleet) -> None:
        loaded: list[Loaded] = fleet.each("load")
        phases = {key: max(one.phases.get(key, 0.0) for one in loaded) for key in loaded[0].phases}
        self.context.phases["startup_s"] = time.monotonic() - self.context.started_at
        method = f"phase clock, slowest of {len(loaded)} instances" if len(loaded) > 1 else "phase clock"
        spent = {key: phases.get(key, 0.0) for key in _BUILD_METRICS}
        spent |= {Key.LOAD_S: phases["load_total_s"], Key.STARTUP_S: self.context.phases["startup_s"]}
        self.metrics |= {
            key: MetricValue(seconds, unit_of(key), 1, method=method) for key, seconds in spent.items()
        }

    def _serve(self, fleet: Fleet, served: Served) -> dict[str, np.ndarray]:
        """Warm up, then throughput at the batch; gives the outputs of every sample."""
        self.memory.reset()
        with self.context.phase("warmup_s"):
            calls = fleet.each("warm_up")
        if not all(calls):
            raise TrialFailure(
                FailureKind.UNSTABLE,
                f"{len(self.places)} instances share fewer batches than that; evaluate on more, "
                "or use a smaller batch",
            )
        self.memory.sample()
        window_s = float(self.spec.workload.get("window_s", DEFAULT_WINDOW_S))
        load = load_now(self.cores)
        found = fleet.serve(window_s, self.spec.trial_dir)
        reason = contamination(load, load_now(self.cores))
        self.memory.sample()
        self._report_throughput(served, [rate for _, rate in found])
        if reason:
            self.facts["contaminated"] = reason
            self.context.warn(f"contaminated: {reason}")
        return joined({index: row for outputs, _ in found for index, row in outputs.items()})

    def _report_throughput(self, served: Served, rates: list[Rate]) -> None:
        phases = self.context.phases
        phases["warmup_s"] += max(rate.warmup_s for rate in rates)
        phases["measured_s"] = max(rate.measured_s for rate in rates)
        throughput = summed([rate.value for rate in rates])
        self.metrics[Key.SAMPLES_PER_S] = throughput
        if served.evaluation.is_ragged:
            self._report_text(served, throughput)
        if not all(rate.is_steady for rate in rates):
            self.facts["still_trending"] = True
            self.context.warn("the time of a batch was still trending at the half of the run; raise window_s")

    def _report_text(self, served: Served, throughput: MetricValue) -> None:
        tokens = float(served.evaluation.lengths.mean())
        low, high = (None if end is None else end * tokens for end in (throughput.low, throughput.high))
        unit = unit_of(Key.TOKENS_PER_S)
        self.metrics[Key.TOKENS_PER_S] = MetricValue(
            throughput.value * tokens, unit, throughput.n, low, high, throughput.method, throughput.flags
        )
        waste = padding_waste(served.evaluation, served.pass_over(0, 1))
        self.metrics[Key.PADDING_WASTE_PCT] = MetricValue(
            100 * waste, "%", len(served.evaluation), method="positions of one pass over the data"
        )
        self.facts["padded_lengths"] = list(served.padding.lengths)

    def _answer_requests(self, fleet: Fleet) -> None:
        needed = [SAMPLES_NEEDED[p] for key in self.spec.wanted if (p := percentile_of(key))]
        with self.context.phase("requests_s"):
            durations_s = fleet.first.answer_requests(max((LEAST_REQUESTS, *needed)))
        self.metrics |= latencies(durations_s)
        self._report_memory()

    def _report_memory(self) -> None:
        peak = self.memory.peak_bytes / 2**30
        method = "maximum of summed PSS and VmHWM while serving"
        self.metrics[Key.PEAK_RSS_GIB] = MetricValue(peak, unit_of(Key.PEAK_RSS_GIB), 1, method=method)
        if self.spec.gpus:
            now = device_memory_gib(self.spec.gpus)
            if now is None or self.device_gib_before is None:
                return
            peak, method = now - self.device_gib_before, "the driver's count after serving, less that before"
        self.metrics[Key.PEAK_MEMORY_GIB] = MetricValue(peak, unit_of(Key.PEAK_MEMORY_GIB), 1, method=method)

    def _prove(self, fleet: Fleet) -> None:
        """What ran, and that each replica kept to its cores."""
        self.proof |= fleet.first.describe() | {"instances": len(self.places)}
        self._check_kept(fleet.first.served.settings)
        cores = fleet.each("cores")
        self.proof["cores_by_instance"] = [list(held) for held in cores]
        for place, held in zip(self.places, cores, strict=True):
            if place.cpus and not set(held) <= set(place.cpus):
                raise Unsupported(
                    f"instance {place.instance} holds cores {place.cpus}, and threads of its engine may run on {held}"
                )

    def _check_kept(self, settings: EngineSettings) -> None:
        """A pattern that keeps nothing is a slip, and would be taken for a layer that makes no difference."""
        kept = self.proof["kept_layers"]
        idle = [
            pattern
            for pattern in settings.keep_high_precision
            if not any(map(replace(settings, keep_high_precision=(pattern,)).keeps, kept))
        ]
        if settings.is_quantised and idle:
            layers = ", ".join(self.proof["quantised_layers"][:20])
            raise Unsupported(
                f"keep_high_precision: no layer that could be quantised matches {', '.join(idle)}; there are {layers}"
            )

    def _weigh(self, first: Replica) -> None:
        """Size of the model's files, which are written for that and deleted.

        To write them may take as long as the trial, so that a search does it only where the size is judged.
        """
        is_judged = Key.MODEL_SIZE_MIB in self.spec.wanted
        if self.spec.purpose in (Purpose.SEARCH, Purpose.RETRY) and not is_judged:
            return
        try:
            size = self._model_bytes(first)
        except Unsupported as problem:
            if is_judged:
                raise
            self.context.warn(f"this configuration cannot be exported: {problem.message}")
            return
        self.metrics[Key.MODEL_SIZE_MIB] = MetricValue(
            size / 2**20, unit_of(Key.MODEL_SIZE_MIB), 1, method="files as exported"
        )

    def _model_bytes(self, first: Replica) -> int:
        folder = self.spec.trial_dir / "artifact"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with self.context.phase("artifact_s"):
                return first.engine.artifact(folder).model_bytes
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _judge(
        self, served: Served, outputs: dict[str, np.ndarray], reference: dict[str, np.ndarray]
    ) -> dict[str, tuple[float, ...]]:
        with self.context.phase("evaluation_s"):
            inputs = served.evaluation.batch(range(len(served.evaluation)), served.padding.longest)
            check_outputs(outputs, inputs)
            scores = quality.scores_of(served.task, outputs, served.examples)
            theirs = quality.scores_of(served.task, reference, served.examples)
            self.metrics |= quality.qualities(scores)
            self.metrics |= quality.recoveries(scores, theirs)
            self.metrics[Key.PREDICTION_AGREEMENT_PCT] = quality.agreement(served.task, outputs, reference)
        self.facts |= {
            "examples": served.examples,
            "batch_size": served.settings.batch_size,
            "reference_quality": {key: float(values.mean()) for key, values in theirs.items()},
            "data": served.evaluation.fingerprint()[:16],
        }
        wanted = self.spec.workload.get("evaluate_on")
        if wanted and served.examples < wanted:
            self.context.warn(f"evaluate_on={wanted}, but the task has {served.examples} examples")
        return {key: tuple(values.tolist()) for key, values in scores.items()}

    def _check_wanted(self) -> None:
        missing = [key for key in self.spec.wanted if key not in self.metrics]
        if missing:
            raise TrialFailure(
                FailureKind.MISSING_METRIC,
                f"{', '.join(missing)} was not measured here; this trial gives {', '.join(sorted(self.metrics))}",
            )


def _delete_engine_folders(trial_dir: Path) -> None:
    """What engines built for this trial alone: the study keeps results, not models."""
    for folder in trial_dir.glob("engine-*"):
        shutil.rmtree(folder, ignore_errors=True)
