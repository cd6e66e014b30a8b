"""Which samplers there are, by name; nothing heavy is imported before one is built.

A package adds one through the entry point group ``tuner.samplers``: a callable that takes a SearchProblem and
returns a Sampler.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from tuner.search.protocol import Sampler, SearchProblem

ENTRY_POINT_GROUP = "tuner.samplers"

_BUILT_IN = {
    "auto": "tuner.search.auto:AutoSampler",
    "random": "tuner.search.plain:RandomSampler",
    "grid": "tuner.search.plain:GridSampler",
    "tpe": "tuner.search.optuna_backed:TpeSampler",
    "gp": "tuner.search.optuna_backed:GpSampler",
    "nsga2": "tuner.search.optuna_backed:Nsga2Sampler",
}


def sampler_names() -> tuple[str, ...]:
    """Every name that ``search.sampler`` accepts, the built-in ones first."""
    return (*_BUILT_IN, *sorted(set(_plugins()) - set(_BUILT_IN)))


def build_sampler(name: str, problem: SearchProblem) -> Sampler:
    """The sampler called ``name``. ValueError where there is none, or where it cannot search this space."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        sampler: Sampler = getattr(import_module(module), attribute)(problem)
        return sampler
    plugins = _plugins()
    if name in plugins:
        built: Sampler = plugins[name].load()(problem)
        return built
    raise ValueError(_unknown(name))


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _unknown(name: str) -> str:
    names = sampler_names()
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"search.sampler={name} is not a sampler{meant} (there are {', '.join(names)})"
