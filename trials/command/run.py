"""One run of any program: arguments from the template, its exit status decides, then its metrics are read."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trials.command.metrics import Reported, Stamp, read_file, read_lines, stamp_of
from trials.command.output import Output
from trials.command.process import Ended, find_program, run_program
from trials.command.stages import LineStages
from trials.command.template import (
    MissingVariableError,
    Secrets,
    Template,
    known_values,
    shell_word,
    variables,
)
from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, TrialFailure, TrialSpec
from trials.measurement.environment import machine
from trials.measurement.load import LoadSample, contamination, load_now
from trials.metrics import Key, unit_of
from trials.stages import Stage

_SHELL = "sh"
# A program that dies of these broke by itself; any other signal was sent to it.
_OWN_FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
_SHELL_SIGNAL_BASE = 128


def run(context: TrialContext) -> Measurement:
    """Run the program of the spec once. Metrics: its own, wall time and peak memory."""
    with context.phase("startup_s"):
        loads: list[LoadSample] = []
        command = _Command(context.spec, lambda stage: context.stage(_as_disturbed(stage, loads)))
        os.makedirs(context.spec.cache_dir, exist_ok=True)  # noqa: PTH103 - a template may name it
        if section_stage := context.spec.workload.get("stage"):
            _stage(section_stage, context.spec.trial_dir)
        for remark in command.remarks():
            context.warn(remark)
    with context.phase("measured_s"):
        loads.append(load_now())
        ended = command.run()
        disturbed = contamination(loads[0], load_now())
    if ended.log_error:
        context.warn(f"the program's output is not all in the log: {ended.log_error}")
    measurement = command.measurement(ended)
    facts = {**measurement.facts, "contaminated": disturbed} if disturbed else measurement.facts
    return dataclasses.replace(measurement, environment=machine(), facts=facts)


def _as_disturbed(stage: Stage, loads: list[LoadSample]) -> Stage:
    """With what has disturbed the program since it started: nothing is concluded from such a stage."""
    return dataclasses.replace(stage, contaminated=contamination(loads[0], load_now()))


class _Command:
    """Everything one run needs, decided before it starts."""

    def __init__(self, spec: TrialSpec, say: Callable[[Stage], None]) -> None:
        section = spec.workload
        self._wanted = spec.wanted
        self._has_gpus = bool(spec.gpus)
        self._template = Template(known_values(spec))
        self._is_shell = bool(section.get("shell", False))
        self.arguments = self._arguments(section["run"])
        self._secrets = Secrets(os.environ)
        self._variables = variables(spec.config, section.get("env") or {}, self._template)
        self.folder = self._template.text(section.get("working_directory") or str(spec.trial_dir))
        metrics = section.get("metrics") or {}
        self._patterns = {name: _pattern(entry) for name, entry in (metrics.get("patterns") or {}).items()}
        self._output = Output({name: pattern for name, (pattern, _) in self._patterns.items()})
        self._sources = [
            (reader, Path(self._template.known["trial_dir"]) / self._template.text(metrics[key]))
            for key, reader in (("file", read_file), ("lines", read_lines))
            if key in metrics
        ]
        self._before: dict[Path, Stamp] = {path: stamp_of(path) for _, path in self._sources}
        self.program = ""
        lines = [path for reader, path in self._sources if reader is read_lines]
        self._stages = (
            LineStages(lines[0], self._before[lines[0]], spec.report_at, spec.wanted, say)
            if lines and spec.report_at
            else None
        )

    def _arguments(self, template: Any) -> list[str]:
        if self._is_shell:
            return [_SHELL, "-c", self._template.text(template, shell_word)]
        arguments = self._template.arguments(template)
        if not arguments:
            raise TrialFailure(
                FailureKind.ENGINE_START, "run names no program once parameters without a value are left out"
            )
        return arguments

    def remarks(self) -> list[str]:
        """Names in braces that look like a parameter written wrongly (they are left alone)."""
        if not self._template.unknown:
            return []
        import difflib  # here: most templates have no unknown braces

        near = {
            name: difflib.get_close_matches(name, self._template.known, 1) for name in self._template.unknown
        }
        return [
            f"{{{name}}} is left as it is; did you mean {{{hit[0]}}}?" for name, hit in near.items() if hit
        ]

    def run(self) -> Ended:
        """Start the program and wait for its end; TrialFailure where it cannot be started."""
        try:
            environment = {name: self._secrets.reveal(text) for name, text in self._variables.items()}
            environment = {**os.environ, **environment}
            revealed = self._revealed()
            self.program = find_program(revealed[0], self.folder, environment.get("PATH"))
            look = self._stages.look if self._stages else None
            return run_program(self.program, revealed, environment, self.folder, self._output, look=look)
        except (OSError, ValueError, MissingVariableError) as problem:
            message = f"{self.arguments[0]} could not be started in {self.folder}: {problem}"
            raise TrialFailure(FailureKind.ENGINE_START, self._secrets.hide(message)) from problem

    def _revealed(self) -> list[str]:
        """The arguments with ``${NAME}`` from the environment; they go to the program and nowhere else."""
        if not self._is_shell:
            return [self._secrets.reveal(argument) for argument in self.arguments]
        # A shell puts the environment in by itself, and ${NAME} may be a variable of its script.
        self._secrets.note(self.arguments[-1])
        return self.arguments

    def measurement(self, ended: Ended) -> Measurement:
        """The typed result: exit status first, then whether the wanted metrics are there."""
        reported = Reported()
        for reader, path in self._sources:
            reader(path, self._before[path], reported)
        reported.take_found(self._output.found(), {name: pick for name, (_, pick) in self._patterns.items()})
        metrics = {
            **_own_metrics(ended, has_gpus=self._has_gpus),
            **reported.metrics,
        }  # the program's own number wins
        reported.metrics = metrics
        proof = {
            "program": self.program,
            "arguments": self.arguments,
            "folder": self.folder,
            "exit_status": ended.status,
        }
        if ended.status != 0:
            return self._broken(ended, metrics, proof)
        missing = reported.missing(self._wanted)
        if missing:
            kept = {"metrics_before_failure": _plain(metrics)}
            message = self._with_tail(missing)
            return Measurement.failed(FailureKind.MISSING_METRIC, message, proof=proof, facts=kept)
        return Measurement(Outcome.COMPLETE, metrics=metrics, proof=proof, warnings=tuple(reported.problems))

    def _broken(self, ended: Ended, metrics: Mapping[str, MetricValue], proof: dict[str, Any]) -> Measurement:
        kind, said = ending(ended.status, self._is_shell)
        kept = {"metrics_before_failure": _plain(metrics)}
        return Measurement.failed(kind, self._with_tail(said), proof=proof, facts=kept)

    def _with_tail(self, said: str) -> str:
        tail = self._output.tail
        return self._secrets.hide(
            f"{said}; the end of its output:\n{tail}" if tail else f"{said}; it printed nothing"
        )


def _pattern(entry: str | Mapping[str, str]) -> tuple[str, str]:
    """Pattern and pick of a metric; a bare text is a pattern whose last match counts."""
    return (entry, "last") if isinstance(entry, str) else (entry["pattern"], entry.get("pick", "last"))


def _own_metrics(ended: Ended, *, has_gpus: bool) -> dict[str, MetricValue]:
    """What every program has; its peak device memory is unknown here, and on a CPU that is host memory."""
    method = "largest process, or largest sum of PSS over all (sampled at 1 Hz)"
    flags = ("upper_bound",) if ended.is_floor else ()
    memory = MetricValue(ended.peak_rss_gib, unit_of(Key.PEAK_RSS_GIB), n=1, method=method, flags=flags)
    wall_time = MetricValue(ended.wall_time_s, unit_of(Key.WALL_TIME_S), n=1, method="one run of the program")
    found = {Key.WALL_TIME_S.value: wall_time, Key.PEAK_RSS_GIB.value: memory}
    return found if has_gpus else {**found, Key.PEAK_MEMORY_GIB.value: memory}


def ending(status: int, is_shell: bool) -> tuple[FailureKind, str]:
    """The failure kind of a status that is not 0. A shell reports a signal as 128 + its number."""
    number = -status if status < 0 else status - _SHELL_SIGNAL_BASE if is_shell else 0
    try:
        sent = signal.Signals(number)
    except ValueError:
        return FailureKind.CRASH, f"the program ended with exit status {status}"
    said = f"the program was ended by {sent.name}"
    return (FailureKind.CRASH if sent in _OWN_FAULTS else FailureKind.KILLED), said


def _plain(metrics: Mapping[str, MetricValue]) -> dict[str, float]:
    return {key: metric.value for key, metric in metrics.items()}


def _stage(paths: list[str], trial_dir: Path) -> None:
    """Copy files and folders into the trial's folder, under their own names."""
    import shutil  # here: it costs 8 ms, and most commands stage nothing

    for path in paths:
        target = trial_dir / os.path.basename(path.rstrip("/"))  # noqa: PTH119
        if os.path.isdir(path):  # noqa: PTH112
            shutil.copytree(path, target, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy2(path, target)
