"""One serving trial: start, wait until well, load, ask whether the answers are good, end every process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from trials.command.template import Secrets
from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, TrialFailure
from trials.measurement.environment import machine
from trials.measurement.load import contamination, cpu_s, load_now
from trials.measurement.memory import largest_resident_bytes, proportional_bytes
from trials.metrics import Key, unit_of
from trials.serving import report
from trials.serving.apis.base import MODEL
from trials.serving.capacity import Probe, Ramp, fell_behind
from trials.serving.client import Target
from trials.serving.generator import SATURATED
from trials.serving.load_settings import RATE, Load
from trials.serving.loading import Loader
from trials.serving.process import LOG_FILE, ServerProcess, start_on_free_port
from trials.serving.prompts import Prompts
from trials.serving.quality.asking import Asker
from trials.serving.quality.evaluate import evaluate
from trials.serving.window import Window
from trials.workloads.serving import ServingSettings, read_section

GIB = 2**30
_PROBE_DRAIN_S = 10.0


def run(context: TrialContext) -> Measurement:
    """Measure the configuration of the spec; the server is gone when this returns."""
    settings, _ = read_section(context.spec.workload, [], context.spec.trial_dir)
    trial = _ServingTrial(context, settings)
    with context.phase("startup_s"):
        server = trial.start()
    try:
        return trial.measure(server)
    finally:
        with context.phase("stop_s"):
            server.stop()
            trial.close()


class _ServingTrial:
    """Everything one trial holds."""

    def __init__(self, context: TrialContext, settings: ServingSettings) -> None:
        self.context, self.settings, spec = context, settings, context.spec
        self.load = settings.load.with_config(spec.config)
        self.name = settings.server.model(spec.workload)
        cores = sorted(spec.cpus or os.sched_getaffinity(0))
        reserved = self.load.client_cpus
        self.server_cpus = cores[:-reserved] if reserved else cores
        self.client_cpus = cores[-reserved:] if reserved else ()
        self.secrets = Secrets(os.environ)
        self.metrics: dict[str, MetricValue] = {}
        self.facts: dict[str, Any] = {}
        self.loader: Loader | None = None

    def start(self) -> ServerProcess:
        """The server, once it is well; where it runs elsewhere, once it says that it is."""
        spec, settings = self.context.spec, self.settings
        return start_on_free_port(
            lambda port: settings.server.launch(spec, port),
            spec.trial_dir / LOG_FILE,
            self.server_cpus,
            settings.start_timeout_s,
        )

    def measure(self, server: ServerProcess) -> Measurement:
        """Load it, then judge it."""
        settings = self.settings
        started = MetricValue(
            self.context.phases["startup_s"], unit_of(Key.STARTUP_S), 1, method="launch to health"
        )
        self.metrics[Key.STARTUP_S] = started
        headers = {name: self.secrets.reveal(text) for name, text in settings.headers.items()}
        base = server.launch.base_url
        path = settings.path.replace(MODEL, self.name)
        self.loader = Loader(
            Target(base + path, headers), settings.api.name, self.name, self.context.spec.seed,
            self.load.client_processes, self.client_cpus,
        )  # fmt: skip
        with self.context.phase("measured_s"):
            window = self._find(server) if self.load.find else self._one(server, self.load)
        self._report(window)
        with self.context.phase("evaluation_s"):
            asker = Asker(
                base, settings.path, settings.api.name, self.name, headers, self.load.request_timeout_s,
                settings.quality.at_once,
            )  # fmt: skip
            found, examples = self._judged(server, asker)
        self.metrics |= found
        self._sample_memory(server)
        server.check_alive(FailureKind.CRASH, "before the trial had ended")
        return Measurement(
            Outcome.COMPLETE,
            metrics=self.metrics,
            proof=self._proof(server),
            facts=self.facts,
            environment=machine(),
            examples=examples,
        )

    def close(self) -> None:
        """End the load generator's processes."""
        if self.loader:
            self.loader.close()

    # --- load -----------------------------------------------------------------------------------------------

    def _one(self, server: ServerProcess, load: Load) -> Window:
        """A window of load that is a measurement; TrialFailure where it is none."""
        window = self._loaded(server, load, load.request_timeout_s)
        report.check_is_measurement(window, load)
        return window

    def _loaded(self, server: ServerProcess, load: Load, drain_s: float) -> Window:
        assert self.loader is not None
        self._sample_memory(server)
        counters = self.settings.server.counters(server.launch.base_url)
        before, busy_s = load_now(), cpu_s(server.processes())
        window, recordings = self.loader.window(load, drain_s)
        after, spent_s = load_now(), cpu_s(server.processes()) - busy_s
        server.check_alive(FailureKind.CRASH, "under load")
        if server.trim_log():
            self.context.warn("the server's log grew beyond 64 MiB and was emptied")
        if window is None:
            cut = next((one.cut for one in recordings if one.cut), "")
            busy = max(one.cpu_share for one in recordings)
            said = cut or f"the load never reached its window (the load generator was {busy:.0%} busy)"
            is_ours = not cut or cut.startswith(SATURATED)
            raise TrialFailure(FailureKind.UNSTABLE if is_ours else FailureKind.CRASH, server.with_tail(said))
        self._sample_memory(server)
        self._note(server, window, counters, spent_s / (after.at_s - before.at_s))
        disturbed = contamination(before, after)
        self.facts.pop("contaminated", None)
        if disturbed:
            self.facts["contaminated"] = disturbed
        return window

    def _note(self, server: ServerProcess, window: Window, before: Any, cores: float) -> None:
        """What is known only while this window is the last one."""
        if server.is_ours:
            self.metrics[Key.SERVER_CPU_PCT] = MetricValue(
                100 * cores, unit_of(Key.SERVER_CPU_PCT), 1, method="processor time of its processes / time"
            )
        after = self.settings.server.counters(server.launch.base_url)
        if after:
            self.facts["server_counters"] = {
                key: value - before.get(key, 0.0) if key.endswith("_total") else value
                for key, value in after.items()
            }
        self.facts["requests_sent"] = window.counted

    def _find(self, server: ServerProcess) -> Window:
        """The largest load that meets the service level."""
        find = self.load.find
        assert find is not None

        def probe(level: float) -> Probe:
            load = self.load.at(find.what, level)
            try:
                window = self._loaded(server, load, _PROBE_DRAIN_S)
            except TrialFailure as failure:
                if failure.kind is not FailureKind.UNSTABLE:
                    raise
                return Probe(level, (failure.message,), is_behind=True, window=None)
            if not window.served:
                return Probe(level, ("no request was answered",), is_behind=True, window=window)
            is_behind = fell_behind(window, load.rate) or report.saturation(window) is not None
            return Probe(level, tuple(report.misses(window, self.settings.slo)), is_behind, window)

        ramp = Ramp(find, probe, self.context.event)
        final, capacity = ramp.run(find.low or self._first_level(server))
        assert final.window is not None
        self.metrics[Key.CAPACITY_REQUESTS_PER_S] = capacity
        self.facts["probes"] = [
            {"level": p.level, "is_met": p.is_met, "misses": list(p.misses), "is_behind": p.is_behind}
            for p in ramp.probes
        ]
        self.load = self.load.at(find.what, final.level)
        report.check_is_measurement(final.window, self.load)
        return final.window

    def _first_level(self, server: ServerProcess) -> float:
        """One client's own pace: where nothing is known, the ramp starts there."""
        find = self.load.find
        if find is None or find.what != RATE:
            return 1.0
        alone = self.load.at("concurrency", 1)
        window = self._loaded(server, alone, _PROBE_DRAIN_S)
        report.check_is_measurement(window, alone)
        return len(window.in_time) / window.seconds

    # --- results --------------------------------------------------------------------------------------------

    def _report(self, window: Window) -> None:
        load = self.load
        self.metrics |= report.load_metrics(window, self.settings.slo)
        for remark in report.remarks(window):
            self.context.warn(remark)
        if window.failed:
            self.facts["failures"] = window.failures()
        tokens = sorted({one.answer.tokens_by for one in window.served if one.answer.tokens_by})
        prompts = [one.answer.prompt_tokens for one in window.served if one.answer.prompt_tokens]
        self.facts |= {
            "load": {"concurrency": load.concurrency, "request_rate_per_s": load.rate, "trace": load.trace},
            "window_s": round(window.seconds, 3),
            "distinct_prompts": Prompts(load.prompts, self.context.spec.seed).distinct,
            "client_cpu_share": round(window.cpu_share, 3),
            **({"tokens_counted_by": tokens} if tokens else {}),
            **({"prompt_tokens_mean": round(sum(prompts) / len(prompts), 1)} if prompts else {}),
        }

    def _judged(self, server: ServerProcess, asker: Asker) -> Any:
        try:
            return evaluate(asker, self.settings.quality)
        except TrialFailure:
            server.check_alive(FailureKind.CRASH, "while its answers were judged")
            raise

    def _sample_memory(self, server: ServerProcess) -> None:
        """Outside windows only: reading the pages of a large process holds it up."""
        pids: Sequence[int] = server.processes()
        if not pids or server.exit_status() is not None:
            return
        peak = max(proportional_bytes(pids), largest_resident_bytes(pids)) / GIB
        known = self.metrics.get(Key.PEAK_RSS_GIB)
        method = "largest sum of PSS over the server's processes, or resident peak of one"
        metric = MetricValue(
            max(peak, known.value if known else 0.0), unit_of(Key.PEAK_RSS_GIB), 1, method=method
        )
        self.metrics[Key.PEAK_RSS_GIB] = metric
        if not self.context.spec.gpus:
            self.metrics[Key.PEAK_MEMORY_GIB] = metric

    def _proof(self, server: ServerProcess) -> dict[str, Any]:
        return {
            "server": self.settings.server.name,
            "arguments": server.shown_arguments(),
            "url": server.launch.base_url + self.settings.path.replace(MODEL, self.name),
            "api": self.settings.api.name,
            "server_cores": list(self.server_cpus) if server.is_ours else [],
        }
