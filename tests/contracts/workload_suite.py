"""What every kind of workload must do. Subclass it and say which kind, and a section that is right:

class TestCommandWorkload(WorkloadSuite):
    kind = "command"

    def good_section(self, folder):
        return {"kind": "command", "run": ["true"]}
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trials.metrics import CATALOGUE
from trials.workloads import Knob, Workload, WorkloadProblem, workload, workload_names

HEAVY = (
    "torch",
    "ray",
    "optuna",
    "mlflow",
    "sqlalchemy",
    "pandas",
    "numpy",
    "sklearn",
    "matplotlib",
    "plotly",
)

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_yaml = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
)

# The folder may be shared between examples, and every kind inherits the same test.
_EACH_KIND = settings(
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class WorkloadSuite:
    """The promises of ``trials.workloads.base.Workload``."""

    kind: str

    def good_section(self, folder: Path) -> dict[str, Any]:
        """A section without problems; files that it needs are made in ``folder``."""
        raise AssertionError("say in the subclass what a right section is")  # never a skipped suite

    @pytest.fixture
    def subject(self) -> Workload:
        return workload(self.kind)

    @pytest.fixture
    def resolved(self, subject: Workload, tmp_path: Path) -> Mapping[str, Any]:
        section, problems = subject.resolve(self.good_section(tmp_path), tmp_path)
        assert problems == []
        return section

    def test_the_kind_is_found_by_its_name(self, subject: Workload) -> None:
        assert self.kind in workload_names()
        assert subject.kind == self.kind
        assert subject.help

    def test_resolving_twice_changes_nothing(self, subject: Workload, resolved: Mapping[str, Any]) -> None:
        elsewhere = Path("/")  # absolute paths no longer depend on the folder
        assert subject.resolve(resolved, elsewhere) == (resolved, [])

    def test_resolving_leaves_the_given_section_alone(self, subject: Workload, tmp_path: Path) -> None:
        given_section = self.good_section(tmp_path)
        before = json.dumps(given_section)
        subject.resolve(given_section, tmp_path)
        assert json.dumps(given_section) == before

    def test_a_resolved_section_survives_the_way_into_the_trial(self, resolved: Mapping[str, Any]) -> None:
        assert json.loads(json.dumps(resolved)) == resolved

    def test_every_key_of_a_right_section_is_a_known_one(self, subject: Workload, tmp_path: Path) -> None:
        assert set(self.good_section(tmp_path)) - {"kind"} <= set(subject.section_keys())

    @_EACH_KIND
    @given(data=st.data())
    def test_an_arbitrary_section_gives_problems_and_never_an_exception(
        self, subject: Workload, tmp_path: Path, data: st.DataObject
    ) -> None:
        good = self.good_section(tmp_path)
        keys = st.sampled_from([*subject.section_keys(), *good])
        spoiled = {**good, **data.draw(st.dictionaries(keys, _yaml, max_size=4)), "kind": self.kind}
        for key in data.draw(st.sets(keys, max_size=2)) - {"kind"}:
            spoiled.pop(key, None)
        section, problems = subject.resolve(spoiled, tmp_path)
        assert isinstance(section, dict)
        assert all(
            isinstance(problem, WorkloadProblem) and problem.key and problem.message for problem in problems
        )

    def test_a_section_with_nothing_in_it_is_a_problem_with_a_way_out(
        self, subject: Workload, tmp_path: Path
    ) -> None:
        _, problems = subject.resolve({"kind": self.kind}, tmp_path)
        assert problems
        assert any(problem.way_out for problem in problems)

    def test_every_knob_explains_itself_and_accepts_its_default(
        self, subject: Workload, resolved: Mapping[str, Any]
    ) -> None:
        for name, knob in subject.knobs(resolved).items():
            assert isinstance(knob, Knob)
            assert knob.name == name
            assert len(knob.help) > 5, f"{name} has no help"
            assert knob.default is None or knob.problem(knob.default) is None, name

    def test_families_are_words(self, subject: Workload) -> None:
        assert all(family.isidentifier() for family in subject.families)

    def test_metrics_are_in_the_catalogue_or_declared_in_the_section(
        self, subject: Workload, resolved: Mapping[str, Any]
    ) -> None:
        metrics = subject.metrics(resolved)
        if metrics is None:
            return  # only running it tells
        declared = json.dumps(resolved)
        assert len(set(metrics)) == len(metrics)
        for key in metrics:
            assert key in CATALOGUE or f'"{key}"' in declared, key

    def test_the_baseline_of_defaults_is_never_rejected(
        self, subject: Workload, resolved: Mapping[str, Any]
    ) -> None:
        assert subject.rejection(resolved, {}, {"cpus": 2, "gpus": 0}) is None

    def test_facts_are_plain_values(self, subject: Workload, resolved: Mapping[str, Any]) -> None:
        facts = dict(subject.facts(resolved))
        assert json.loads(json.dumps(facts)) == facts

    def test_the_number_of_samples_is_unknown_or_positive(
        self, subject: Workload, resolved: Mapping[str, Any]
    ) -> None:
        samples = subject.samples(resolved, {})
        assert samples is None or samples > 0

    def test_the_runner_is_named_and_not_imported(self, tmp_path: Path) -> None:
        section = json.dumps(self.good_section(tmp_path))
        script = (
            "import json, sys; from pathlib import Path; from trials.workloads import workload\n"
            f"w = workload({self.kind!r})\n"
            f"section, _ = w.resolve(json.loads({section!r}), Path({str(tmp_path)!r}))\n"
            "w.knobs(section), w.metrics(section), w.facts(section), w.samples(section, {})\n"
            "w.rejection(section, {}, {'cpus': 2, 'gpus': 0})\n"
            "module, colon, function = w.runner.partition(':'); assert colon and function\n"
            f"print([name for name in (*{HEAVY!r}, module) if name in sys.modules])"
        )
        fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert fresh.stdout.strip() == "[]"
