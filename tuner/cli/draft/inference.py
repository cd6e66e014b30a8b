"""The draft for a trained model to serve: the engines that are installed here, with what they can do."""

from __future__ import annotations

import os
from pathlib import Path

from trials.inference import engines
from trials.metrics import Key
from trials.training.task_source import REQUIRED, TaskProblem, TaskSource, read_task, split_target
from trials.workloads import workload
from trials.workloads.inference import MODEL_METHODS, TASK_METHODS, model_form
from tuner.cli.draft.metrics import keys_in
from tuner.cli.draft.ranges import choices, doublings, written
from tuner.cli.draft.text import Draft, Parameter, study_name
from tuner.cli.errors import CliError
from tuner.cli.hardware import Hardware

EXAMPLE_TASK = "trials.tasks.digits_classifier:DigitsClassifier"
_BATCH_SIZE = 16
_FIRST_PRECISIONS = ("bf16", "int8_dynamic")
_COMPILED = ("torch_compile", "aot_inductor")


def is_served(task: str) -> bool:
    """Whether a task has the methods of one to serve rather than to train."""
    try:
        methods = read_task(task).methods
    except TaskProblem:
        return False
    return set(TASK_METHODS) <= methods and bool(set(MODEL_METHODS) & methods)


def inference_draft(task: str, folder: Path, hardware: Hardware) -> Draft:
    """The draft of a space file in ``folder``; a ``.py`` file in ``task`` is relative to where we are."""
    try:
        source = read_task(task)
        place, name = split_target(task)
    except TaskProblem as problem:
        raise CliError(f"--task {task}: {problem.message}; {problem.way_out}") from problem
    if place.endswith(".py"):
        place = os.path.relpath(place, folder)
    section = {"task": f"{place}:{name}"}
    resolved, problems = workload("inference").resolve(section, folder)
    if problems:
        raise CliError(f"--task {task}: {problems[0].message}; {problems[0].way_out}")
    _refuse_required(source)
    usable = _usable_engines(model_form(resolved), hardware)
    return Draft(
        study=study_name(name),
        about=f"Which engine, number format and layout serves {name} fastest, and how accurately?",
        workload=["kind: inference", f"task: {written(section['task'])}"],
        parameters=_parameters(usable, hardware),
        metrics=_metrics(source),
        memory=(Key.PEAK_MEMORY_GIB, hardware.trial_memory_gib),
        limits={"accuracy_recovery_pct: {min: 99}": "of float32 on the same examples"}
        if Key.ACCURACY in _metrics(source)
        else {},
        ideas=_ideas(usable, source),
    )


def _usable_engines(form: str, hardware: Hardware) -> list[str]:
    """Those that read the model and are installed, the plain one first; compiling is left to the user."""
    world = {"cpus": hardware.cores, "gpus": hardware.gpus}
    usable = [
        name for name in engines.engine_names() if engines.rejection({"engine": name}, world, form) is None
    ]
    if not usable:
        raise CliError('no engine that reads this model is installed; pip install "tuner[onnxruntime]"')
    usable = [name for name in usable if name not in _COMPILED] or usable
    return sorted(usable, key=lambda name: (name != "torch", name))


def _parameters(usable: list[str], hardware: Hardware) -> dict[str, Parameter]:
    cores = hardware.cores // max(1, hardware.gpus) or 1
    found = {
        "engine": Parameter(choices(usable), usable[0]),
        "precision": Parameter(choices(_precisions(usable, hardware)), "fp32"),
        "batch_size": Parameter(doublings(_BATCH_SIZE, down=2, up=2), _BATCH_SIZE),
    }
    if cores > 1 and not hardware.gpus:
        found["instances"] = Parameter("[1, 2]", 1, "copies of the model, each on its share of the cores")
    return found


def _precisions(usable: list[str], hardware: Hardware) -> list[str]:
    """float32, and the formats that are fast here and that an installed engine has."""
    world = {"cpus": hardware.cores, "gpus": hardware.gpus}
    fast = [p for p in _FIRST_PRECISIONS if p != "bf16" or p in hardware.precisions]
    forms = ("module", "onnx")
    able = [
        precision
        for precision in fast
        if any(
            engines.rejection({"engine": name, "precision": precision}, world, form) is None
            for name in usable
            for form in forms
        )
    ]
    return ["fp32", *able]


def _metrics(source: TaskSource) -> list[str]:
    own = source.attributes.get("metrics") or keys_in(source.file)
    return [Key.SAMPLES_PER_S, *(own if isinstance(own, list | tuple) else ())]


def _refuse_required(source: TaskSource) -> None:
    for parameter in source.parameters.values():
        if parameter.default is REQUIRED:
            raise CliError(
                f"--task: {source.class_name}.__init__ ({source.file.name}) has no default for "
                f"{parameter.name}; give it the value that you use today"
            )


def _ideas(usable: list[str], source: TaskSource) -> list[str]:
    absent = [name for name in engines.engine_names() if name not in usable]
    buckets = ["sequence_buckets: {choices: {longest: null, three: [16, 64, 256]}}"]
    return [
        *(
            [f"engines that are left out: {', '.join(absent)} (tuner doctor: which are installed)"]
            if absent
            else []
        ),
        *(buckets if "padding" in source.attributes else []),
        "keep_high_precision: {choices: {none: null, head: [head]}, when: \"precision != 'fp32'\"}",
    ]
