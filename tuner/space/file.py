"""Reads a space file: YAML to a StudyFile, or every problem at once with file and line. READ FIRST in this
folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trials.metrics import SAMPLES_NEEDED, percentile_of
from trials.workloads import WorkloadProblem, workload, workload_names
from tuner.objectives import Constraint, Objective
from tuner.space.errors import Problem, Problems, SpaceError, Where, known_names, shown
from tuner.space.fields import SECTIONS, read_section, report_unknown
from tuner.space.model import (
    Budget,
    ConfirmSettings,
    KeepSettings,
    Resources,
    SearchSettings,
    StudyFile,
    TrackingSettings,
)
from tuner.space.overrides import apply_overrides
from tuner.space.parse_goals import example_objectives, read_constraints, read_objectives, read_selection
from tuner.space.parse_parameters import read_parameters, read_rules
from tuner.space.parse_starts import read_baseline, read_try_first
from tuner.space.space import Space
from tuner.space.vocabulary import Vocabulary
from tuner.space.yaml_source import MAX_BYTES, Map, Node, Sequence, leaves, plain, read_yaml

REQUIRED = {
    "workload": "write workload: {kind: training, task: my_task.py:MyTask, train_for: {samples: 20000}}",
    "parameters": "write parameters: {precision: [fp32, bf16]}",
}
REQUIRED_SECTIONS = (*REQUIRED, "objectives")
SECTION_NAMES = (
    "study", "workload", "parameters", "rules", "baseline", "try_first", "objectives", "constraints",
    "selection", *SECTIONS,
)  # fmt: skip
_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})
OVERRIDE_MARK = "\n# --set "
"""With this each override is added to the text that is recorded; ``recorded.py`` finds them again."""
_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load_study_file(
    path: Path, overrides: Mapping[str, str] = _NO_OVERRIDES, *, cpus: int | None = None, gpus: int = 0
) -> StudyFile:
    """The space file at ``path`` with ``--set`` overrides put in.

    ``cpus`` (default: the cores that this process may use) and ``gpus`` are what the machine has; they decide
    the size of a slot where ``resources`` does not. Raises SpaceError with everything that is wrong.
    """
    return read_study_file(_read_text(path), path, overrides, cpus=cpus, gpus=gpus)[0]


def read_study_file(
    text: str, path: Path, overrides: Mapping[str, str], *, cpus: int | None = None, gpus: int = 0
) -> tuple[StudyFile, Vocabulary]:
    """The same from the text of a file that is, or was, at ``path``; and what its workload lets one say."""
    problems = Problems()
    root = read_yaml(text, Where(str(path), 1), problems)
    problems.raise_if_any()
    if not isinstance(root, Map):
        raise SpaceError([Problem(str(path), 1, f"is not a map of sections; {REQUIRED['parameters']}")])
    apply_overrides(root, overrides, problems)
    machine = {"cpus": len(os.sched_getaffinity(0)) if cpus is None else cpus, "gpus": gpus}
    study, vocabulary = _Reader(path, root, machine, problems).read()
    problems.raise_if_any()
    said = "".join(f"{OVERRIDE_MARK}{key}={value}" for key, value in overrides.items())
    return replace(study, text=text + said, warnings=tuple(problems.warnings)), vocabulary


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SpaceError(
                [Problem(str(path), None, f"is larger than {MAX_BYTES} bytes; is it a space file?")]
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise SpaceError([Problem(str(path), None, message)]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpaceError([Problem(str(path), None, f"cannot be read: {reason}; check the path")]) from None


class _Reader:
    """Reads the sections in the order in which they need one another."""

    def __init__(self, path: Path, root: Map, machine: Mapping[str, int], problems: Problems) -> None:
        self.path = path
        self.root = root
        self.machine = machine
        self.problems = problems

    def read(self) -> tuple[StudyFile, Vocabulary]:
        """The study and its vocabulary; meaningful only where no problem was noted."""
        problems = self.problems
        report_unknown(self.root, SECTION_NAMES, "", problems)
        self._check_variables()
        for key, way_out in REQUIRED.items():
            if self.root.get(key) is None:
                problems.add(self.root.where, f"{key} is missing", way_out)
        search = SearchSettings(**self._settings("search"))
        resources = self._resources(search.concurrent_trials)
        section, vocabulary = self._workload()
        space = self._space(section, vocabulary, resources)
        where = self._where("parameters")
        baseline = read_baseline(self._node("baseline"), space, vocabulary, problems, where)
        try_first = read_try_first(self._node("try_first"), baseline, space, vocabulary, problems)
        objectives = self._objectives(vocabulary)
        constraints = read_constraints(self._node("constraints"), vocabulary, problems)
        self._check_percentiles(objectives, constraints, space.resolve(baseline), vocabulary)
        self._check_examples(constraints, section.get("evaluate_on"))
        study = StudyFile(
            path=self.path,
            text="",
            name=self._name(),
            workload=section,
            space=space,
            baseline=baseline,
            try_first=try_first,
            objectives=objectives,
            constraints=constraints,
            selection=read_selection(self._node("selection"), objectives, vocabulary, problems),
            budget=Budget(**self._settings("budget")),
            search=search,
            resources=resources,
            confirm=ConfirmSettings(**self._settings("confirm")),
            tracking=TrackingSettings(**self._settings("tracking")),
            keep=KeepSettings(**self._settings("keep")),
        )
        return study, vocabulary

    def _node(self, key: str) -> Node | None:
        entry = self.root.get(key)
        return None if entry is None else entry.node

    def _where(self, key: str) -> Where:
        entry = self.root.get(key)
        return self.root.where if entry is None else entry.where

    def _settings(self, name: str) -> dict[str, Any]:
        node = self._node(name)
        return {} if node is None else read_section(name, node, self.problems)

    def _name(self) -> str:
        node = self._node("study")
        name = self.path.stem if node is None else plain(node)
        if isinstance(name, str) and _STUDY_NAME.fullmatch(name):
            return name
        way_out = "use letters, digits, _ . and -: study: lm-training"
        self.problems.add(self._where("study"), f"study={shown(name)} is no name for a study", way_out)
        return "study"

    def _resources(self, concurrent_trials: int) -> Resources:
        """What is not said is shared out: all of the machine, over the trials that run at once."""
        share = {key: count // concurrent_trials for key, count in self.machine.items()}
        given = self._settings("resources")
        for key, count in self.machine.items():
            wanted = given.get(key)
            if wanted is not None and wanted * concurrent_trials > count:
                each = f" for each of {concurrent_trials} trials at once" if concurrent_trials > 1 else ""
                message = f"resources.{key}={wanted}{each}, and this machine has {count}"
                what = "tuner run refuses this on this machine" if wanted > count else "fewer run at once"
                self.problems.warn(self._where("resources"), f"{message}: {what}")
        return Resources(**{"cpus": max(1, share["cpus"]), "gpus": share["gpus"], **given})

    def _workload(self) -> tuple[dict[str, Any], Vocabulary]:
        entry = self.root.get("workload")
        if entry is None:
            return {}, Vocabulary()
        if not isinstance(entry.node, Map):
            text = shown(plain(entry.node))
            self.problems.add(entry.where, f"workload={text} is not a map", REQUIRED["workload"])
            return {}, Vocabulary()
        kind_entry = entry.node.get("kind")
        kind = None if kind_entry is None else plain(kind_entry.node)
        names = workload_names()
        if kind_entry is None or kind not in names:
            said = (
                "workload.kind is missing"
                if kind_entry is None
                else f"workload.kind={shown(kind)} is not known"
            )
            self.problems.add((kind_entry or entry).where, said, known_names(str(kind), names))
            return {}, Vocabulary()
        return self._resolved(str(kind), entry.node)

    def _resolved(self, kind: str, node: Map) -> tuple[dict[str, Any], Vocabulary]:
        description = workload(kind)
        before = len(self.problems.found)
        report_unknown(node, ("kind", *description.section_keys()), "workload.", self.problems)
        folder = Path(os.path.abspath(self.path)).parent  # noqa: PTH100 - a link to the file stays where it is
        section, wrong = description.resolve(plain(node), folder)
        for problem in wrong:
            self._add_workload_problem(node, problem)
        is_sound = len(self.problems.found) == before
        section = {**section, "kind": kind}
        vocabulary = Vocabulary.of(description, section)
        # which metrics there are cannot be told from a section that is wrong
        return section, vocabulary if is_sound else replace(vocabulary, metrics=None)

    def _add_workload_problem(self, node: Map, problem: WorkloadProblem) -> None:
        where = _locate(node, problem.key, self._where("workload"))
        self.problems.add(where, f"workload.{problem.key} {problem.message}", problem.way_out)

    def _space(self, section: Mapping[str, Any], vocabulary: Vocabulary, resources: Resources) -> Space:
        node = self._node("parameters") or Map([], self.root.where)
        parameters, names = read_parameters(node, vocabulary, self.problems)
        rules = read_rules(self._node("rules"), names, self.problems)
        defaults = {name: knob.default for name, knob in vocabulary.knobs.items()}
        world = {"cpus": resources.cpus, "gpus": resources.gpus}
        held = {**defaults, **vocabulary.facts}
        return Space(parameters, rules, held, world, vocabulary.workload, section, vocabulary.knobs)

    def _objectives(self, vocabulary: Vocabulary) -> tuple[Objective, ...]:
        node = self._node("objectives")
        if node is None:
            self.problems.add(self.root.where, "objectives is missing", example_objectives(vocabulary))
            return ()
        return read_objectives(node, vocabulary, self.problems)

    def _check_percentiles(
        self,
        objectives: tuple[Objective, ...],
        constraints: tuple[Constraint, ...],
        config: Mapping[str, Any],
        vocabulary: Vocabulary,
    ) -> None:
        """Refuse a percentile that the baseline's own trial cannot fill with samples."""
        if self.problems.found or vocabulary.workload is None:
            return
        samples = vocabulary.workload.samples(vocabulary.section, config)
        places = {o.metric: self._where("objectives") for o in objectives}
        places |= {c.metric: Where(str(self.path), c.line or None) for c in constraints}
        for metric, where in places.items():
            percentile = percentile_of(metric)
            if percentile is not None and samples is not None and samples < SAMPLES_NEEDED[percentile]:
                needed = SAMPLES_NEEDED[percentile]
                message = f"{metric} needs {needed} samples, a trial of the baseline takes {samples}"
                fitting = [p for p in SAMPLES_NEEDED if SAMPLES_NEEDED[p] <= samples]
                lower = f"use p{max(fitting)}, or " if fitting else ""
                self.problems.add(where, message, f"{lower}make a trial longer")

    def _check_examples(self, constraints: tuple[Constraint, ...], examples: Any) -> None:
        """Report a limit that is finer than the step in which so many examples move a share, and refuse one that
        they can never decide.
        """
        if self.problems.found or not isinstance(examples, int):
            return
        for limit in constraints:
            why = limit.undecidable(examples)
            if why is not None:
                self.problems.add(Where(str(self.path), limit.line or None), why)
            message = limit.too_coarse(examples)
            if message is not None:
                self.problems.warn(Where(str(self.path), limit.line or None), message)

    def _check_variables(self) -> None:
        """``${NAME}`` is replaced when a trial starts; a name that is not set is said now."""
        for section in ("workload", "parameters"):
            node = self._node(section)
            for leaf in leaves(node) if node is not None else ():
                for name in _VARIABLE.findall(leaf.text):
                    if name not in os.environ:
                        message = f"${{{name}}} is not set in the environment"
                        self.problems.add(leaf.where, message, f"export {name}=...")


def _locate(node: Node, key: str, default: Where) -> Where:
    """The place of a dotted key (``metrics.file``, ``run[2]``), or of the deepest part that is there."""
    where = default
    for part in re.findall(r"[^.\[\]]+", key):
        if isinstance(node, Map):
            entry = node.get(part)
            if entry is None:
                return where
            where, node = entry.where, entry.node
        elif isinstance(node, Sequence) and part.isdigit() and int(part) < len(node.items):
            node = node.items[int(part)]
            where = node.where
        else:
            return where
    return where
