"""The ``command`` kind: any program is the trial. Light description; ``trials.command.run`` runs it.

The section: ``run`` (a list of arguments; nested lists come or go whole; one text with ``shell: true``),
``metrics`` (``file``, ``lines``, ``patterns``), ``working_directory`` (default: the space file's folder),
``stage`` (files copied into the trial's folder), ``env``. Names in braces are explained in
``trials.command.template``; every parameter is also a ``TUNER_*`` environment variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.contract import EVENTS_FILE, LOG_FILE, RESULT_FILE, SPEC_FILE
from trials.metrics import CATALOGUE, Key
from trials.workloads.base import Knob, WorkloadProblem

PICKS = ("last", "mean", "best", "max", "min")
_METRIC_SOURCES = ("file", "lines", "patterns")
_OWN_METRICS = (Key.WALL_TIME_S.value, Key.PEAK_RSS_GIB.value, Key.PEAK_MEMORY_GIB.value)
_OWN_FILES = (SPEC_FILE, RESULT_FILE, EVENTS_FILE, LOG_FILE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEMPLATE = re.compile(
    r"\{[A-Za-z_][\w.-]*\}"
)  # any brace: what it stands for is known when the trial starts
Problems = list[WorkloadProblem]


class CommandWorkload:
    """Any program: whatever names its template uses are its parameters."""

    kind = "command"
    help = "any program: arguments from a template, metrics from its files or its output"
    runner = "trials.command.run:run"
    families: tuple[str, ...] = ("env",)

    def section_keys(self) -> Sequence[str]:
        """The keys legal in the workload section besides ``kind``."""
        return ("run", "shell", "metrics", "working_directory", "stage", "env")

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        """The section with absolute paths and every argument as text, and what is wrong with it."""
        problems: Problems = []
        resolved = {str(key): value for key, value in section.items()}
        resolved["shell"] = _shell(section, problems)
        resolved["working_directory"] = _working_directory(section, folder, problems)
        resolved["run"] = _run(section, resolved["shell"], problems)
        resolved["stage"] = _stage(section, folder, problems)
        resolved["metrics"] = _metrics(section, problems)
        resolved["env"] = _env(section, problems)
        _check_program(resolved, problems)
        return resolved, problems

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """None of its own: the template names what it wants."""
        return {}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Always: every parameter reaches the program, in the template or as ``TUNER_<NAME>``."""
        return True

    def metrics(self, section: Mapping[str, Any]) -> Sequence[str] | None:
        """The patterns' names and those that every program has; None where the program's file decides."""
        sources = section.get("metrics") or {}
        if "file" in sources or "lines" in sources:
            return None
        return tuple(dict.fromkeys((*sources.get("patterns", {}), *_OWN_METRICS)))

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """Nothing is known of the program before it runs."""
        return {}

    def rejection(
        self,
        section: Mapping[str, Any],
        config: Mapping[str, Any],
        world: Mapping[str, Any],
    ) -> WorkloadProblem | None:
        """Never: what cannot run is said by rules in the space file."""
        return None

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        """Unknown: only the program knows how often it measures."""
        return None


def _shell(section: Mapping[str, Any], problems: Problems) -> bool:
    shell = section.get("shell", False)
    if not isinstance(shell, bool):
        problems.append(WorkloadProblem("shell", f"is {shell!r}", "write true or false"))
    return shell is True


def _run(section: Mapping[str, Any], is_shell: bool, problems: Problems) -> Any:
    run = section.get("run")
    if run is None or run in ("", []):
        way_out = 'write run: [python, train.py, --batch-size, "{batch_size}"]'
        problems.append(WorkloadProblem("run", "is missing: it says which program a trial runs", way_out))
        return []
    if is_shell:
        if not isinstance(run, str):
            problems.append(
                WorkloadProblem("run", "must be one text with shell: true", "write the script as one text")
            )
        return run
    if not isinstance(run, list):
        way_out = "write it as a list, [python, train.py], or add shell: true"
        problems.append(WorkloadProblem("run", f"is {_kind(run)}, and no shell reads it", way_out))
        return []
    return [_argument(part, f"run[{index}]", problems) for index, part in enumerate(run)]


def _argument(part: Any, key: str, problems: Problems, *, may_nest: bool = True) -> str | list[str]:
    if isinstance(part, list) and may_nest:
        if not part:
            problems.append(WorkloadProblem(key, "is an empty list", "delete it"))
        return [str(_argument(inner, key, problems, may_nest=False)) for inner in part]
    text = _scalar_text(part)
    if text is None:
        problems.append(
            WorkloadProblem(
                key, f"is {_kind(part)}, not an argument", "write a text, in quotes if it has braces"
            )
        )
    elif "\0" in text:
        problems.append(
            WorkloadProblem(key, "holds a NUL character, which no program can be given", "delete it")
        )
    return text or ""


def _scalar_text(value: Any) -> str | None:
    """A YAML scalar as the text of an argument; None where it is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, str | int) else None


def _working_directory(section: Mapping[str, Any], folder: Path, problems: Problems) -> str:
    given = section.get("working_directory", ".")
    if not isinstance(given, str) or "\0" in given:
        problems.append(WorkloadProblem("working_directory", f"is {_kind(given)}", "write a folder"))
        return _absolute(".", folder)
    if _TEMPLATE.search(given):
        return given
    path = _absolute(given, folder)
    if not os.path.isdir(path):  # noqa: PTH112
        way_out = 'create it, or write "{trial_dir}" for the trial\'s own folder'
        problems.append(WorkloadProblem("working_directory", f"{path} is not a folder", way_out))
    return path


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / os.path.expanduser(path))  # noqa: PTH100, PTH111 - text that stays as it is


def _stage(section: Mapping[str, Any], folder: Path, problems: Problems) -> list[str]:
    given = section.get("stage")
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(path, str) and "\0" not in path for path in given):
        problems.append(
            WorkloadProblem("stage", f"is {_kind(given)}", "write a list of files: [data.csv, configs]")
        )
        return []
    paths = [_absolute(path, folder) for path in given]
    for path, name in ((path, Path(path).name) for path in paths):
        if not os.path.lexists(path):
            problems.append(
                WorkloadProblem("stage", f"{path} does not exist", "paths are relative to the space file")
            )
        elif name in _OWN_FILES or sum(Path(other).name == name for other in paths) > 1:
            problems.append(
                WorkloadProblem("stage", f"the name {name} is taken in the trial's folder", "rename the file")
            )
    return paths


def _env(section: Mapping[str, Any], problems: Problems) -> dict[str, str]:
    given = section.get("env")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(WorkloadProblem("env", f"is {_kind(given)}", "write a map: {OMP_NUM_THREADS: 2}"))
        return {}
    resolved: dict[str, str] = {}
    for name, value in given.items():
        text = _scalar_text(value)
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            problems.append(
                WorkloadProblem("env", f"{name!r} is not a name of a variable", "use letters, digits and _")
            )
        elif text is None or "\0" in text:
            problems.append(WorkloadProblem(f"env.{name}", f"is {_kind(value)}", "write a text or a number"))
        else:
            resolved[name] = text
    return resolved


def _metrics(section: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    given = section.get("metrics")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        way_out = 'write metrics: {file: "{trial_dir}/metrics.json"}'
        problems.append(WorkloadProblem("metrics", f"is {_kind(given)}", way_out))
        return {}
    for key in given:
        if key not in _METRIC_SOURCES:
            problems.append(
                WorkloadProblem(f"metrics.{key}", "is not known", f"use {', '.join(_METRIC_SOURCES)}")
            )
    resolved: dict[str, Any] = {}
    for key in ("file", "lines"):
        if key in given and (path := _metrics_path(key, given[key], problems)):
            resolved[key] = path
    if "patterns" in given:
        resolved["patterns"] = dict(_patterns(given["patterns"], problems))
    return resolved


def _metrics_path(key: str, given: Any, problems: Problems) -> str | None:
    if isinstance(given, str) and given and "\0" not in given:
        return given
    way_out = f'write metrics: {{{key}: "{{trial_dir}}/metrics.json"}}'
    problems.append(WorkloadProblem(f"metrics.{key}", f"is {_kind(given)}, not a path", way_out))
    return None


def _patterns(given: Any, problems: Problems) -> Iterator[tuple[str, dict[str, str]]]:
    if not isinstance(given, Mapping) or not given:
        way_out = "write patterns: {f1: 'F1 = ([0-9.]+)'}"
        problems.append(WorkloadProblem("metrics.patterns", f"is {_kind(given)}", way_out))
        return
    for name, entry in given.items():
        key = f"metrics.patterns.{name}"
        full = {"pattern": entry} if isinstance(entry, str) else entry
        if not isinstance(full, Mapping) or not isinstance(full.get("pattern"), str):
            problems.append(
                WorkloadProblem(key, f"is {_kind(entry)}", "write a pattern, or {pattern: '...', pick: mean}")
            )
            continue
        wrong = [*_pattern_problems(key, full["pattern"]), *_pick_problems(key, str(name), full)]
        problems.extend(wrong)
        if not wrong:
            yield str(name), {"pattern": full["pattern"], "pick": full.get("pick", "last")}


def _pattern_problems(key: str, pattern: str) -> Iterator[WorkloadProblem]:
    try:
        groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as problem:
        yield WorkloadProblem(
            key, f"{pattern!r} is not a regular expression: {problem}", "escape ( [ . * + ? with \\"
        )
        return
    if groups > 1:
        way_out = "write (?:...) around what is not the number"
        yield WorkloadProblem(key, f"{pattern!r} has {groups} groups, and one is the number", way_out)


def _pick_problems(key: str, name: str, entry: Mapping[str, Any]) -> Iterator[WorkloadProblem]:
    for unknown in entry.keys() - {"pattern", "pick"}:
        yield WorkloadProblem(f"{key}.{unknown}", "is not known", "use pattern and pick")
    pick = entry.get("pick", "last")
    if pick not in PICKS:
        yield WorkloadProblem(f"{key}.pick", f"is {pick!r}", f"use {', '.join(PICKS)}")
    elif pick == "best" and name not in CATALOGUE:
        yield WorkloadProblem(f"{key}.pick", f"which {name} is best is not known here", "write max or min")


def _check_program(resolved: Mapping[str, Any], problems: Problems) -> None:
    """Say now that a program is not installed; a template's program is known only when the trial starts."""
    first = resolved["run"][0] if resolved["run"] and not resolved["shell"] else None
    folder = resolved["working_directory"]
    if not isinstance(first, str) or not first or _TEMPLATE.search(first) or "$" in first:
        return
    if "/" in first:
        path = os.path.join(folder, first)  # noqa: PTH118
        if not _TEMPLATE.search(folder) and not os.access(path, os.X_OK):
            problems.append(
                WorkloadProblem("run", f"{path} is not a program", "check the path, or chmod +x it")
            )
        return
    import shutil  # here: the trial loads this module too, and must not pay for it

    if shutil.which(first) is None:
        is_python = re.fullmatch(r"python[0-9.]*", first)
        way_out = (
            'write "{python}" for the interpreter that runs tuner'
            if is_python
            else "install it, or write its path"
        )
        problems.append(WorkloadProblem("run", f"there is no program {first} on PATH", way_out))


def _kind(value: Any) -> str:
    """What a value is, in words of YAML."""
    if value is None or value == "":
        return "empty"
    names = {str: "a text", bool: "a boolean", list: "a list", dict: "a map"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else repr(value))
