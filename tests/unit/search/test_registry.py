"""Names, plugins and what is imported when."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from tests.contracts.sampler_suite import LOSS, training_space
from tuner.search import registry
from tuner.search.plain import RandomSampler
from tuner.search.protocol import SearchProblem

PROBLEM = SearchProblem(training_space(), (LOSS,), 0, 10)


def test_every_built_in_name_builds() -> None:
    assert registry.sampler_names()[:6] == ("auto", "random", "grid", "tpe", "gp", "nsga2")
    assert all(
        registry.build_sampler(name, PROBLEM) for name in ("auto", "random", "grid", "tpe", "gp", "nsga2")
    )


def test_an_unknown_name_gets_the_nearest_one_and_all_of_them() -> None:
    with pytest.raises(
        ValueError, match=r"search.sampler=tep .* did you mean tpe\? \(there are auto, random"
    ):
        registry.build_sampler("tep", PROBLEM)


def test_a_plugin_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", "tuner.search.plain:RandomSampler", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    assert "mine" in registry.sampler_names()
    assert isinstance(registry.build_sampler("mine", PROBLEM), RandomSampler)


def test_asking_for_the_names_imports_nothing_heavy() -> None:
    code = "from tuner.search.registry import sampler_names; sampler_names()"
    assert loaded(code, "optuna", "numpy", "scipy", "torch", "sklearn", "ray", "mlflow") == "[]"


def test_the_automatic_sampler_loads_neither_optuna_nor_torch() -> None:
    code = (
        "from tests.contracts.sampler_suite import *; from tests.contracts.sampler_suite import LOSS; "
        "auto = build_sampler('auto', SearchProblem(training_space(), (LOSS,), 0, 40)); "
        "drive(auto, (LOSS,), range(1, 14))"
    )
    assert loaded(code, "optuna", "torch", "sklearn") == "[]"


def loaded(code: str, *modules: str) -> str:
    """Which of the modules are there after the code ran in a process of its own."""
    code = f"{code}; import sys; print([m for m in {modules} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.strip()
