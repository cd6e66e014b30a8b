"""Which layers lose most when they alone are quantised: candidates for ``keep_high_precision``.

``python -m trials.inference.sensitivity spec.json`` ranks the layers of the spec's configuration; ``facts`` of the
result hold the ranking.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, Outcome, TrialFailure
from trials.inference import quality
from trials.inference.engine import BadOutput, Engine, EngineSettings, ModelSource, Phase, Unsupported
from trials.inference.engines import quantised_layers, start_engine
from trials.inference.model import Served, joined, prepare
from trials.inference.reference import reference_outputs
from trials.inference.replica import places
from trials.inference.samples import plan_pass
from trials.inference.serving import Outputs
from trials.metrics import CATALOGUE, Direction

Score = Callable[[Engine], tuple[float, float]]
"""Quality (larger is better), and the relative error of the outputs, of an engine."""


@dataclass(frozen=True)
class LayerSensitivity:
    """What one layer costs when it alone is quantised.

    ``quality_lost`` is the reference's quality less this one's; ``output_error`` the norm of the outputs' difference
    over the norm of the reference's. Both are infinite where the outputs were not finite.
    """

    layer: str
    quality_lost: float
    output_error: float


def rank_layers(
    source: ModelSource,
    settings: EngineSettings,
    score: Score,
    reference_quality: float,
    folder: Path,
    phase: Phase = lambda _name: nullcontext(),
    report: Callable[[LayerSensitivity], None] = lambda _found: None,
) -> list[LayerSensitivity]:
    """Every layer that ``settings`` quantise, most sensitive first: by quality lost, then by output error.

    Each is quantised with all others kept in high precision. Unsupported where the precision quantises nothing.
    """
    if not settings.is_quantised:
        raise Unsupported(
            f"precision={settings.precision} quantises nothing; rank the layers of an int8 or int4 form"
        )
    layers = quantised_layers(source, settings, _new(folder, "all"), phase)
    found = []
    for number, layer in enumerate(layers):
        alone = replace(
            settings, keep_high_precision=tuple(_exactly(other) for other in layers if other != layer)
        )
        found.append(
            _measured(source, alone, layer, score, reference_quality, _new(folder, str(number)), phase)
        )
        report(found[-1])
    return sorted(found, key=lambda one: (-one.quality_lost, -one.output_error, one.layer))


def run(context: TrialContext) -> Measurement:
    """Rank the layers by the task's own score, on its evaluation data."""
    spec = context.spec
    place = places(spec, {name: value for name, value in spec.config.items() if value is not None})[0]
    place.take()
    served = prepare(spec, place.threads)
    reference = reference_outputs(served, spec.cache_dir, spec.trial_dir / "engine-reference", context.phase)
    metric, best = _quality(served, reference)

    def score(engine: Engine) -> tuple[float, float]:
        outputs = _answers(engine, served)
        return _quality(served, outputs)[1], _error(outputs, reference)

    ranked = rank_layers(
        served.source,
        served.settings,
        score,
        best,
        spec.trial_dir,
        context.phase,
        lambda one: context.event("layer", **asdict(one)),
    )
    facts = {
        "metric": metric,
        "reference_quality": best,
        "examples": served.examples,
        "layers": [asdict(one) for one in ranked],
    }
    return Measurement(Outcome.COMPLETE, facts=facts)


def _measured(
    source: ModelSource,
    settings: EngineSettings,
    layer: str,
    score: Score,
    reference_quality: float,
    folder: Path,
    phase: Phase,
) -> LayerSensitivity:
    try:
        engine = start_engine(source, settings, folder, phase)
    except BadOutput:
        return LayerSensitivity(layer, float("inf"), float("inf"))
    try:
        value, error = score(engine)
    except TrialFailure as failure:
        if failure.kind is not FailureKind.NON_FINITE:
            raise
        return LayerSensitivity(layer, float("inf"), float("inf"))
    finally:
        engine.close()
    return LayerSensitivity(layer, reference_quality - value, error)


def _answers(engine: Engine, served: Served) -> dict[str, np.ndarray]:
    outputs: Outputs = {}
    settings = served.settings
    for planned in plan_pass(
        served.evaluation, served.padding, settings.batch_size, is_fixed=settings.is_fixed
    ):
        found = engine.run(planned.arrays(served.evaluation))
        for row, index in enumerate(planned.indices):
            outputs[index] = {name: array[row] for name, array in found.items()}
    return joined(outputs)


def _quality(served: Served, outputs: Mapping[str, np.ndarray]) -> tuple[str, float]:
    """The task's first score that is better when larger, and its mean."""
    scores = quality.scores_of(served.task, outputs, served.examples)
    key = next((key for key in scores if not _is_minimised(key)), next(iter(scores)))
    return key, float(scores[key].mean()) * (-1 if _is_minimised(key) else 1)


def _is_minimised(key: str) -> bool:
    return key in CATALOGUE and CATALOGUE[key].direction is Direction.MINIMIZE


def _error(outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> float:
    floats = [name for name, array in reference.items() if np.issubdtype(array.dtype, np.floating)]
    distance = sum(float(np.square(outputs[name] - reference[name]).sum()) for name in floats)
    norm = sum(float(np.square(reference[name]).sum()) for name in floats)
    return float(np.sqrt(distance / norm)) if norm else 0.0


def _exactly(layer: str) -> str:
    """A pattern that only this name matches."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in layer)


def _new(folder: Path, name: str) -> Path:
    path = folder / f"engine-{name}"
    path.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    from trials.runner import main

    sys.exit(main(sys.argv[1:], time.monotonic(), run))
