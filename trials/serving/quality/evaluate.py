"""Every judge that the section names, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.serving.quality.answers import Scores, by_function, exact_match, retrieval
from trials.serving.quality.asking import Asker
from trials.serving.quality.logprobs import multiple_choice, perplexity
from trials.serving.quality.settings import QualitySettings

_JUDGES: dict[str, Callable[[Asker, QualitySettings], Scores]] = {
    "perplexity_on": perplexity,
    "exact_match": exact_match,
    "multiple_choice": multiple_choice,
    "retrieval": retrieval,
    "function": by_function,
}


def evaluate(asker: Asker, settings: QualitySettings) -> Scores:
    """Metrics with intervals, and the numbers of single examples; TrialFailure where one is not finite."""
    metrics: dict[str, MetricValue] = {}
    examples: dict[str, tuple[float, ...]] = {}
    for name, judge in _JUDGES.items():
        if getattr(settings, name):
            found, each = judge(asker, settings)
            metrics |= found
            examples |= each
    for key, metric in metrics.items():
        if not math.isfinite(metric.value):
            raise TrialFailure(FailureKind.NON_FINITE, f"{key} is {metric.value}")
    return metrics, examples
