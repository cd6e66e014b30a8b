"""Right answers: questions with one known answer, retrieval by embeddings, and the user's own function."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.statistics import mean_of
from trials.metrics import Key, unit_of
from trials.serving.apis.openai import Embeddings
from trials.serving.exchange import Prompt
from trials.serving.quality.asking import Asker, read_rows
from trials.serving.quality.settings import QualitySettings

Scores = tuple[dict[str, MetricValue], dict[str, tuple[float, ...]]]
MOST_ANSWER_TOKENS = 64


def exact_match(asker: Asker, settings: QualitySettings) -> Scores:
    """Rows ``{"prompt" | "messages" | "body", "answer"}``; a text is right when it is the answer, white space at the
    ends aside, any other value when it is equal.
    """
    rows = read_rows(str(settings.exact_match), ("answer",))
    answers = asker.ask([_prompt(row) for row in rows])
    right = [
        float(
            got.text.strip() == row["answer"].strip()
            if isinstance(row["answer"], str)
            else got.value == row["answer"]
        )
        for got, row in zip(answers, rows, strict=True)
    ]
    metric = mean_of(right, unit_of(Key.ACCURACY), "questions")
    return {Key.ACCURACY: metric}, {Key.ACCURACY: tuple(right)}


def retrieval(asker: Asker, settings: QualitySettings) -> Scores:
    """Rows ``{"query", "document"}``: the rank of each query's own document among all, by cosine."""
    rows = read_rows(str(settings.retrieval), ("query", "document"))
    queries = _vectors(asker, [row["query"] for row in rows])
    documents = _vectors(asker, [row["document"] for row in rows])
    reciprocal = []
    for number, query in enumerate(queries):
        scores = [_dot(query, document) for document in documents]
        # a tie counts against it, or a server that gives everything the same vector would be right
        not_worse = sum(score >= scores[number] for score in scores)
        reciprocal.append(1.0 / max(1, not_worse))
    first = [float(value == 1.0) for value in reciprocal]
    metrics: dict[str, MetricValue] = {
        Key.MEAN_RECIPROCAL_RANK: mean_of(reciprocal, unit_of(Key.MEAN_RECIPROCAL_RANK), "queries"),
        Key.ACCURACY: mean_of(first, unit_of(Key.ACCURACY), "queries whose document came first"),
    }
    return metrics, {Key.MEAN_RECIPROCAL_RANK: tuple(reciprocal), Key.ACCURACY: tuple(first)}


def by_function(asker: Asker, settings: QualitySettings) -> Scores:
    """``score(asker)`` of the user's file: metric -> one number per example, or a single number."""
    place, _, name = str(settings.function).rpartition(":")
    function = getattr(_module(Path(place)), name, None)
    if not callable(function):
        raise TrialFailure(FailureKind.CRASH, f"{place} has no function {name}")
    found = function(asker)
    if not isinstance(found, Mapping) or not found:
        raise TrialFailure(FailureKind.CRASH, f"{name} returned {found!r}, no map of metric to numbers")
    metrics: dict[str, MetricValue] = {}
    examples: dict[str, tuple[float, ...]] = {}
    for key, given in found.items():
        values = [float(value) for value in (given if isinstance(given, Sequence) else [given])]
        if not values:
            raise TrialFailure(FailureKind.CRASH, f"{name} gave no number for {key}")
        metrics[str(key)] = mean_of(values, unit_of(str(key)), f"examples of {name}")
        if len(values) > 1:
            examples[str(key)] = tuple(values)
    return metrics, examples


def _prompt(row: Mapping[str, Any]) -> Prompt:
    return Prompt(
        text=str(row.get("prompt", "")),
        messages=tuple(row.get("messages", ())),
        body=row.get("body"),
        output_tokens=row.get("output_tokens", MOST_ANSWER_TOKENS),
    )


def _vectors(asker: Asker, texts: Sequence[str]) -> list[list[float]]:
    """Embeddings of length 1."""
    answers = asker.ask([Prompt(text=text) for text in texts], api_name=Embeddings.name, path=Embeddings.path)
    vectors = [answer.value[0] for answer in answers]
    lengths = [math.hypot(*vector) or 1.0 for vector in vectors]
    return [[part / length for part in vector] for vector, length in zip(vectors, lengths, strict=True)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _module(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TrialFailure(FailureKind.CRASH, f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
