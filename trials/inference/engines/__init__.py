"""The engines there are, and what each takes. Light: an engine's own file is imported by ``make_engine`` only.

A new engine is one class in one file and one entry here, or, in another package, an entry point of the group
``tuner.engines``: name = "its.module:ENTRY", where ENTRY is an EngineEntry.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trials.contract import TrialFailure
from trials.inference.engine import (
    PRECISIONS,
    QUANTISED_PRECISIONS,
    Batch,
    Engine,
    EngineSettings,
    EngineStartError,
    ModelSource,
    Phase,
    Unsupported,
    check_description,
)
from trials.workloads.base import Knob, WorkloadProblem

ENTRY_POINT_GROUP = "tuner.engines"
CALIBRATED = "int8_static"
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
GRAPH_LEVELS = ("none", "basic", "extended", "all")
GPU_PROVIDERS = ("cuda", "tensorrt", "gpu")


@dataclass(frozen=True)
class Needs:
    """Packages that must be installed: their import names, and the command that installs them."""

    modules: tuple[str, ...]
    install: str

    @property
    def missing(self) -> str | None:
        """The first module that is not installed; nothing is imported to find out."""
        return next((module for module in self.modules if find_spec(module) is None), None)


@dataclass(frozen=True)
class EngineEntry:
    """One engine before it is imported.

    ``target`` is ``package.module:Class``. ``choices`` lists the legal values of ``precision``, ``provider`` and
    the other knobs whose values differ between engines; a knob that is not there takes only null. The first
    provider is the default (a trial with a GPU takes cuda, where there is one); ``lacks`` names the precisions that
    a provider does not have. ``takes`` are the forms of a model source. ``needs`` is needed always, ``needs_for``
    by precision.
    """

    name: str
    target: str
    help: str
    choices: Mapping[str, tuple[Any, ...]]
    takes: tuple[str, ...] = ("module",)
    needs: Needs | None = None
    needs_for: Mapping[str, Needs] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_DIFFERING = (
    *("precision", "provider", "shapes", "graph_optimization", "calibration_method", "high_precision"),
)
_ORT = Needs(("onnxruntime", "onnx", "onnxscript"), 'pip install "tuner[onnxruntime]"')
_OPENVINO = Needs(("openvino", "nncf", "onnx"), 'pip install "tuner[openvino]"')
_TORCHAO = Needs(("torchao",), 'pip install "tuner[torchao]"')
_TORCH_PRECISIONS = (
    *("fp32", "bf16", "bf16_params", "fp16"),
    *("int8_dynamic", "int8_weight_only", "int8_static", "int4_weight_only", "fp8"),
)
_FOR_TORCH = {precision: _TORCHAO for precision in _TORCH_PRECISIONS if precision.startswith(("int", "fp8"))}
_TORCH_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "precision": _TORCH_PRECISIONS,
    "provider": ("cpu", "cuda"),
    "shapes": ("dynamic", "fixed"),
    "calibration_method": ("minmax",),
    "high_precision": ("fp32", "bf16"),
}

_SHIPPED = (
    EngineEntry(
        "torch",
        "trials.inference.engines.torch_eager:TorchEngine",
        "PyTorch as it is, operation by operation",
        {**_TORCH_CHOICES, "shapes": ("dynamic",)},
        needs_for=_FOR_TORCH,
        lacks={"cpu": ("fp8",)},
    ),
    EngineEntry(
        "torch_compile",
        "trials.inference.engines.torch_compile:TorchCompileEngine",
        "torch.compile; graph_optimization is its mode",
        {**_TORCH_CHOICES, "graph_optimization": COMPILE_MODES},
        needs_for=_FOR_TORCH,
        lacks={"cpu": ("fp8",)},
    ),
    EngineEntry(
        "aot_inductor",
        "trials.inference.engines.aot_inductor:AotInductorEngine",
        "torch.export, compiled ahead of time to a .pt2 package that needs no Python source of the model",
        {**_TORCH_CHOICES, "graph_optimization": ("default", "max-autotune")},
        needs_for=_FOR_TORCH,
        lacks={"cpu": ("fp8",)},
    ),
    EngineEntry(
        "onnxruntime",
        "trials.inference.engines.onnxruntime:OnnxRuntimeEngine",
        "ONNX Runtime; provider=tensorrt is the way to TensorRT",
        {
            "precision": (
                *("fp32", "fp16"),
                *("int8_dynamic", "int8_weight_only", "int8_static", "int4_weight_only"),
            ),
            "provider": ("cpu", "cuda", "tensorrt"),
            "shapes": ("dynamic", "fixed"),
            "graph_optimization": GRAPH_LEVELS,
            "calibration_method": ("minmax", "entropy", "percentile"),
            "high_precision": ("fp32",),
        },
        takes=("module", "onnx"),
        needs=_ORT,
        lacks={
            "cpu": ("fp16",),  # there is no kernel: it would cast to float32 around every operation
            "cuda": ("int8_dynamic",),
            "tensorrt": ("int8_dynamic", "int8_weight_only", "int4_weight_only"),
        },
    ),
    EngineEntry(
        "openvino",
        "trials.inference.engines.openvino:OpenVinoEngine",
        "OpenVINO; quantised with NNCF",
        {
            "precision": ("fp32", "bf16", "fp16", "int8_weight_only", "int8_static", "int4_weight_only"),
            "provider": ("cpu", "gpu"),
            "shapes": ("dynamic", "fixed"),
            "calibration_method": ("minmax", "mean_minmax"),
            "high_precision": ("fp32", "bf16"),
        },
        takes=("module", "onnx"),
        needs=_OPENVINO,
    ),
)


def engine_names() -> list[str]:
    """The values of the knob ``engine``, plugins included."""
    return sorted(_entries())


def engine_entry(name: str) -> EngineEntry:
    """The entry of that engine; KeyError where there is none."""
    return _entries()[name]


def engine_knobs() -> tuple[Knob, ...]:
    """The knobs that are fields of EngineSettings; their choices are those of all engines together."""
    return (
        Knob("engine", str, "torch", "what runs the model", tuple(engine_names()), is_equivalent=False),
        Knob(
            "precision",
            str,
            "fp32",
            "number format of the matrix products; int8_dynamic measures activations as they come, int8_static "
            "calibrates them before, *_weight_only stores weights smaller and computes in a float format",
            PRECISIONS,
            is_equivalent=False,
        ),
        Knob("provider", str, None, "where the engine runs; default: cuda if the trial has a GPU, else cpu",
             (None, *_all("provider"))),
        Knob("threads", int, None, "threads of one operation; default: the cores that the instance has", low=1),
        Knob("graph_optimization", str, None, "how far the engine rewrites the graph",
             (None, *_all("graph_optimization"))),
        Knob("shapes", str, "dynamic", "build for any size of batch and sequence, or for exact ones",
             ("dynamic", "fixed")),
        Knob("batch_size", int, 1, "samples of one call", low=1),
        Knob("sequence_buckets", (list, int), None, "lengths that a sequence is padded to; default: the longest"),
        Knob("keep_high_precision", (list, str), None,
             "patterns of module names whose layers are not quantised", is_equivalent=False),
        Knob("high_precision", str, "fp32", "format of what a quantised precision leaves as it is",
             ("fp32", "bf16"), is_equivalent=False),
        Knob("calibration_samples", int, 128, "samples that int8_static calibrates with", low=1,
             is_equivalent=False),
        Knob("calibration_method", str, None, "how int8_static finds the range of activations",
             (None, *_all("calibration_method")), is_equivalent=False),
    )  # fmt: skip


def rejection(config: Mapping[str, Any], world: Mapping[str, Any], form: str) -> WorkloadProblem | None:
    """Why these settings cannot run, with the legal values, or None; ``form`` is the model source's.

    A missing package is a rejection too; ``missing_package`` tells it apart.
    """
    entry = engine_entry(str(config.get("engine") or "torch"))
    if form not in entry.takes:
        able = ", ".join(name for name in engine_names() if form in engine_entry(name).takes)
        return WorkloadProblem("engine", f"engine={entry.name} cannot read an ONNX file", f"use {able}")
    for knob in _DIFFERING:
        value, legal = config.get(knob), entry.choices.get(knob, ())
        if value is not None and value not in legal and not _is_moot(knob, config):
            way_out = f"use {', '.join(map(str, legal))}" if legal else "leave it out (null)"
            return WorkloadProblem(knob, f"engine={entry.name} has no {knob}={value}", way_out)
    return _provider_rejection(entry, config, world) or missing_package(config)


def missing_package(config: Mapping[str, Any]) -> WorkloadProblem | None:
    """The optional package that this engine and precision need and that is not installed, or None."""
    entry = engine_entry(str(config.get("engine") or "torch"))
    precision = str(config.get("precision") or "fp32")
    for needs, key, value in (
        (entry.needs, "engine", entry.name),
        (entry.needs_for.get(precision), "precision", precision),
    ):
        if needs and needs.missing:
            return WorkloadProblem(key, f"{key}={value} needs the package {needs.missing}", needs.install)
    return None


def start_engine(
    source: ModelSource,
    settings: EngineSettings,
    folder: Path,
    phase: Phase,
    gpus: int = 0,
) -> Engine:
    """A loaded engine that has run the example, with what it really runs checked against the settings.

    ``folder`` is empty and for this engine alone. Whatever goes wrong is typed, and printed with the engine's own
    words: Unsupported, EngineStartError, BadOutput or MemoryError.
    """
    settings = _placed(settings, gpus)
    with _typed(settings.engine):
        engine = make_engine(settings.engine)
        engine.load(source, settings, folder, phase)
        _try_out(engine, source, settings, phase)
        check_description(engine.describe(), settings)
    return engine


def quantised_layers(
    source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase, gpus: int = 0
) -> tuple[str, ...]:
    """The layers that these settings quantise, though the outputs may be useless. Raises as ``start_engine`` does."""
    settings = _placed(settings, gpus)
    with _typed(settings.engine):
        engine = make_engine(settings.engine)
        engine.load(source, settings, folder, phase)
        sizes = settings.fixed_sizes(source)
        engine.run(_batch(source, sizes[-1] if sizes else {}))
        description = engine.describe()
        engine.close()
        check_description(description, settings)
    return description.quantised


def _placed(settings: EngineSettings, gpus: int) -> EngineSettings:
    """The settings with a provider. Unsupported where a package is missing."""
    problem = missing_package({"engine": settings.engine, "precision": settings.precision})
    if problem:
        raise Unsupported(f"{problem.message}: {problem.way_out}")
    if settings.provider is not None:
        return settings
    return replace(settings, provider=default_provider(engine_entry(settings.engine), gpus))


def _try_out(engine: Engine, source: ModelSource, settings: EngineSettings, phase: Phase) -> None:
    from trials.inference.outputs import check_outputs

    for sizes in settings.fixed_sizes(source) or [{}]:
        batch = _batch(source, sizes)
        with phase("first_run_s"):
            outputs = engine.run(batch)
        check_outputs(outputs, batch)


def _batch(source: ModelSource, sizes: Mapping[str, int]) -> Batch:
    from trials.inference.outputs import sized

    return sized(source, sizes)


@contextmanager
def _typed(engine: str) -> Iterator[None]:
    """Whatever an engine raises, as one of the typed failures, with its own words in the log."""
    try:
        yield
    except (TrialFailure, MemoryError):
        raise
    except NotImplementedError as error:
        traceback.print_exc()
        raise Unsupported(f"{engine}: {first_line(error)}") from error
    except Exception as error:
        if "OutOfMemoryError" in {base.__name__ for base in type(error).__mro__}:
            raise
        traceback.print_exc()
        raise EngineStartError(f"{engine}: {type(error).__name__}: {first_line(error)}") from error


def default_provider(entry: EngineEntry, gpus: int) -> str:
    """Where an engine runs when nothing is said."""
    providers = entry.choices.get("provider", ("cpu",))
    return "cuda" if gpus and "cuda" in providers else str(providers[0])


def make_engine(name: str) -> Engine:
    """An engine that has not loaded anything yet; imports its file."""
    module, _, attribute = engine_entry(name).target.partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)()
    return engine


def forget_entries() -> None:
    """Look for plugins again, after packages have been installed or removed."""
    _entries.cache_clear()


@cache
def _entries() -> Mapping[str, EngineEntry]:
    from importlib.metadata import entry_points

    plugins = {entry.name: entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return plugins | {entry.name: entry for entry in _SHIPPED}


def _all(knob: str) -> list[Any]:
    return list(
        dict.fromkeys(value for entry in _entries().values() for value in entry.choices.get(knob, ()))
    )


def _is_moot(knob: str, config: Mapping[str, Any]) -> bool:
    """A setting that nothing reads in this configuration is no mistake."""
    precision = config.get("precision")
    is_unread = {
        "calibration_method": precision != CALIBRATED,
        "high_precision": precision not in QUANTISED_PRECISIONS,
    }
    return is_unread.get(knob, False)


def _provider_rejection(
    entry: EngineEntry, config: Mapping[str, Any], world: Mapping[str, Any]
) -> WorkloadProblem | None:
    provider = config.get("provider") or default_provider(entry, int(world.get("gpus") or 0))
    if provider in GPU_PROVIDERS and not world.get("gpus"):
        return WorkloadProblem("provider", f"provider={provider} needs a GPU, the trial has none", "use cpu")
    precision, lacking = config.get("precision"), entry.lacks.get(provider, ())
    if precision not in lacking:
        return None
    legal = ", ".join(p for p in entry.choices["precision"] if p not in lacking)
    return WorkloadProblem(
        "precision", f"engine={entry.name} has no precision={precision} on {provider}", f"use {legal}"
    )


def first_line(error: Exception) -> str:
    """The first line of what an engine says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")[:500]
