"""The ``inference`` workload as a space file sees it: knobs, section keys, static checks. Imports no engine.

The section: ``task`` (a class), ``model`` (instead of the task's own: ``my_model.py:build`` or ``model.onnx``),
``evaluate_on`` (examples, from the first; default all), ``window_s`` (least time to measure throughput over).
``trials.inference.task`` says what a task is, ``trials.inference.engines`` which engines there are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trials.inference import engines
from trials.metrics import Key
from trials.training.task_source import TaskProblem, TaskSource, locate, split_target
from trials.workloads.base import Knob, WorkloadProblem
from trials.workloads.of_task import (
    evaluate_on_problems,
    missing_methods,
    missing_parameter,
    resolve_task,
    task_knobs,
    task_source,
    threads_rejection,
)

TASK_METHODS = ("evaluation_data", "score")
MODEL_METHODS = ("model", "onnx_file")
DEFAULT_WINDOW_S = 3.0
ONNX = ".onnx"

_INSTANCES = Knob(
    "instances",
    int,
    1,
    "copies of the model, each in an engine and a process of its own on its own cores",
    low=1,
)
_COMMON_METRICS = (
    Key.SAMPLES_PER_S,
    Key.LATENCY_P50_MS,
    Key.LATENCY_P90_MS,
    Key.LATENCY_P99_MS,
    Key.PREDICTION_AGREEMENT_PCT,
    Key.PEAK_MEMORY_GIB,
    Key.PEAK_RSS_GIB,
    Key.MODEL_SIZE_MIB,
    Key.LOAD_S,
    Key.EXPORT_S,
    Key.CALIBRATION_S,
    Key.QUANTIZE_S,
    Key.COMPILE_S,
    Key.STARTUP_S,
)
_TEXT_METRICS = (Key.PADDING_WASTE_PCT, Key.TOKENS_PER_S)
_RECOVERIES = {
    Key.ACCURACY: Key.ACCURACY_RECOVERY_PCT,
    Key.MEAN_RECIPROCAL_RANK: Key.MEAN_RECIPROCAL_RANK_RECOVERY_PCT,
}


class InferenceWorkload:
    """A trained model served by an engine: speed, memory, and quality of the very engine that was timed."""

    kind = "inference"
    help = "serve a trained model and measure throughput, latency, memory, and accuracy against float32"
    runner = "trials.inference.run:run"
    families = ("task", "env")

    def section_keys(self) -> Sequence[str]:
        """``task`` is required; the module's text explains the others."""
        return ("task", "model", "evaluate_on", "window_s")

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        """The section with absolute paths of the task's and the model's file, and everything wrong with it."""
        task, source, problems = resolve_task(section, folder, "names the task class")
        model, model_problems = _resolve_model(section.get("model"), folder)
        resolved = {**section, "task": task, "model": model}
        resolved = {key: value for key, value in resolved.items() if key in section}
        problems = [*problems, *model_problems, *evaluate_on_problems(section), *_window_problems(section)]
        if source is not None:
            problems += missing_methods(source, TASK_METHODS) or _no_model(source, section.get("model"))
            problems += _missing_packages(source)
        return resolved, problems

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """The engines' knobs, ``instances``, and the task's own as ``task.NAME``, read from its source."""
        own = task_knobs(task_source(section))
        return {knob.name: knob for knob in (*engines.engine_knobs(), _INSTANCES, *own)}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Never: every knob is known, the task's too."""
        return False

    def metrics(self, section: Mapping[str, Any]) -> Sequence[str] | None:
        """The metrics of inference and the task's ``metrics``; None where the task does not list them."""
        source = task_source(section)
        own = source.attributes.get("metrics")
        if own is None:
            return None
        text = _TEXT_METRICS if "padding" in source.attributes else ()
        return (*_COMMON_METRICS, *text, *own, *(_RECOVERIES[key] for key in own if key in _RECOVERIES))

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """None: a model is not looked at before it runs."""
        return {}

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """What the engine does not have, more instances or threads than cores, a missing parameter."""
        source = task_source(section)
        problem = _layout_rejection(config, world) or missing_parameter(source, config)
        if problem is None:
            problem = engines.rejection(config, world, model_form(section))
        if problem is not None and problem == engines.missing_package(config):
            return replace(problem, is_not_installed=True)
        return problem

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        """Unknown: as many requests are timed as the wanted percentile needs."""
        return None


def model_form(section: Mapping[str, Any]) -> str:
    """``onnx`` where the model is an ONNX file, else ``module``."""
    model = section.get("model")
    if model is not None:
        return "onnx" if str(model).endswith(ONNX) else "module"
    return "onnx" if "onnx_file" in task_source(section).methods else "module"


def _resolve_model(model: Any, folder: Path) -> tuple[Any, list[WorkloadProblem]]:
    way_out = "write model: model.onnx, or model: my_model.py:build (a function that returns the module)"
    if model is None:
        return None, []
    if not isinstance(model, str) or "\0" in model:
        return model, [WorkloadProblem("model", "names the model to serve", way_out)]
    if model.endswith(ONNX):
        path = Path(os.path.realpath(folder / model))  # resolve() raises for a link to itself
        return str(path), [] if path.is_file() else [
            WorkloadProblem("model", f"there is no file {path}", way_out)
        ]
    try:
        place, name = split_target(model)
        if place.endswith(".py"):
            place = os.path.realpath(folder / place)
        locate(place)
    except TaskProblem as problem:
        return model, [WorkloadProblem("model", problem.message, way_out)]
    return f"{place}:{name}", []


def _no_model(source: TaskSource, model: Any) -> list[WorkloadProblem]:
    """One of the task's methods, or the section's ``model``, gives the model; not several."""
    own = [name for name in MODEL_METHODS if name in source.methods]
    if len(own) > 1:
        said = f"{source.class_name} has both {' and '.join(own)}"
        return [WorkloadProblem("task", said, "keep the one that gives the model")]
    if own or model is not None or source.has_unread_base:
        return []
    return [
        WorkloadProblem(
            "task",
            f"{source.class_name} ({source.file.name}) has no method model or onnx_file",
            "give it one, or name the model beside it: model: my_model.py:build, or model.onnx",
        )
    ]


def _missing_packages(source: TaskSource) -> list[WorkloadProblem]:
    """The task's ``needs``: module -> the command that installs it."""
    needs = source.attributes.get("needs")
    if not isinstance(needs, Mapping):
        return []
    return [
        WorkloadProblem("task", f"{source.class_name} needs the package {module}", str(install))
        for module, install in needs.items()
        if find_spec(str(module)) is None
    ]


def _window_problems(section: Mapping[str, Any]) -> list[WorkloadProblem]:
    window = section.get("window_s", DEFAULT_WINDOW_S)
    if isinstance(window, int | float) and not isinstance(window, bool) and 0 < window < float("inf"):
        return []
    return [
        WorkloadProblem("window_s", f"{window!r} is not a number of seconds above 0", "write window_s: 3")
    ]


def _layout_rejection(config: Mapping[str, Any], world: Mapping[str, Any]) -> WorkloadProblem | None:
    instances, cpus = config.get("instances") or 1, world.get("cpus")
    if cpus and instances > cpus:
        return WorkloadProblem(
            "instances",
            f"instances={instances} want a core each, a trial has {cpus}",
            f"use at most {cpus}",
        )
    return threads_rejection(config.get("threads"), cpus, instances)
