"""Which layers lose most when they alone are quantised: candidates for ``keep_high_precision``.

``python -m trials.inference.sensitivity spec.json`` ranks the layers of the spec's configuration; ``facts`` of the
result hold the ranking.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from math import inf
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
from trials.measurement.statistics import mean, paired_loss
from trials.metrics import CATALOGUE, Direction

Score = Callable[[Engine], tuple[Sequence[float], float]]
"""Quality of each example (larger is better), and the relative error of the outputs, of an engine."""


@dataclass(frozen=True)
class LayerSensitivity:
    """What one layer costs when it alone is quantised.

    ``quality_lost`` is the reference's quality less this one's, with its 95% interval over the same examples,
    paired; ``output_error`` the norm of the outputs' difference over the norm of the reference's. All are infinite
    where the outputs were not finite.
    """

    layer: str
    quality_lost: float
    quality_lost_low: float
    quality_lost_high: float
    output_error: float

    @property
    def is_decided(self) -> bool:
        """True where the examples show that quality is lost."""
        return self.quality_lost_low > 0

    @property
    def rank(self) -> tuple[bool, float, float, str]:
        """Sorts the most sensitive first: by quality lost where that is decided, then by output error.

        Most layers change the answer to a handful of examples or none; by that alone they would be in random order.
        """
        lost = self.quality_lost if self.is_decided else 0.0
        return not self.is_decided, -lost, -self.output_error, self.layer


def rank_layers(
    source: ModelSource,
    settings: EngineSettings,
    score: Score,
    reference: Sequence[float],
    folder: Path,
    phase: Phase = lambda _name: nullcontext(),
    report: Callable[[LayerSensitivity], None] = lambda _found: None,
) -> list[LayerSensitivity]:
    """Every layer that ``settings`` quantise, most sensitive first (``LayerSensitivity.rank``).

    Each is quantised with all others kept in high precision, and held against the quality of each example by the
    ``reference``. Unsupported where the precision quantises nothing.
    """
    if not settings.is_quantised:
        raise Unsupported(
            f"precision={settings.precision} quantises nothing; rank the layers of an int8 or int4 form"
        )
    whole = _new(folder, "all")
    layers = quantised_layers(source, settings, whole, phase)
    shutil.rmtree(whole, ignore_errors=True)  # a copy of the model for each layer would fill a disk
    found = []
    for number, layer in enumerate(layers):
        alone = replace(
            settings, keep_high_precision=tuple(_exactly(other) for other in layers if other != layer)
        )
        found.append(_measured(source, alone, layer, score, reference, _new(folder, str(number)), phase))
        report(found[-1])
    return sorted(found, key=lambda one: one.rank)


def run(context: TrialContext) -> Measurement:
    """Rank the layers by the task's own score, on its evaluation data."""
    spec = context.spec
    place = places(spec, {name: value for name, value in spec.config.items() if value is not None})[0]
    place.take()
    served = prepare(spec, place.threads)
    reference = reference_outputs(served, spec.cache_dir, spec.trial_dir / "engine-reference", context.phase)
    metric, theirs = _quality(served, reference)

    def score(engine: Engine) -> tuple[Sequence[float], float]:
        outputs = _answers(engine, served)
        return _quality(served, outputs)[1], _error(outputs, reference)

    ranked = rank_layers(
        served.source,
        served.settings,
        score,
        theirs,
        spec.trial_dir,
        context.phase,
        lambda one: context.event("layer", **asdict(one)),
    )
    facts = {
        "metric": metric,
        "reference_quality": abs(mean(theirs)),
        "examples": served.examples,
        "layers": [asdict(one) | {"is_decided": one.is_decided} for one in ranked],
    }
    return Measurement(Outcome.COMPLETE, facts=facts)


def _measured(
    source: ModelSource,
    settings: EngineSettings,
    layer: str,
    score: Score,
    reference: Sequence[float],
    folder: Path,
    phase: Phase,
) -> LayerSensitivity:
    useless = LayerSensitivity(layer, inf, inf, inf, inf)
    try:
        engine = start_engine(source, settings, folder, phase)
    except BadOutput:
        return useless
    try:
        values, error = score(engine)
    except TrialFailure as failure:
        if failure.kind is not FailureKind.NON_FINITE:
            raise
        return useless
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    return LayerSensitivity(layer, *paired_loss(values, reference), error)


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


def _quality(served: Served, outputs: Mapping[str, np.ndarray]) -> tuple[str, list[float]]:
    """The task's first score that is better when larger, for each example; where all are losses, the first, negated."""
    scores = quality.scores_of(served.task, outputs, served.examples)
    key = next((key for key in scores if not _is_minimised(key)), next(iter(scores)))
    return key, (scores[key] * (-1 if _is_minimised(key) else 1)).tolist()


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
