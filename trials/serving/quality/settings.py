"""The ``quality`` section. Light: read by ``tuner check`` too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.metrics import Key
from trials.serving.reading import Reader, absolute
from trials.workloads.base import WorkloadProblem

NONE = "none"
FILES = ("perplexity_on", "exact_match", "multiple_choice", "retrieval")
KEYS = (*FILES, "function", "metrics", "pieces", "piece_words", "at_once")
_METRICS = {
    "perplexity_on": (Key.PERPLEXITY, Key.VAL_LOSS_NATS),
    "exact_match": (Key.ACCURACY,),
    "multiple_choice": (Key.ACCURACY,),
    "retrieval": (Key.MEAN_RECIPROCAL_RANK, Key.ACCURACY),
}
WAYS = (
    "write quality: {perplexity_on: held_out.txt}, {exact_match: questions.jsonl}, {multiple_choice: ...}, "
    "{retrieval: ...}, {function: my_quality.py:score, metrics: [f1]}, or quality: none"
)


@dataclass(frozen=True)
class QualitySettings:
    """Files to judge by, and the user's function. A text is judged in ``pieces`` of ``piece_words`` words;
    ``at_once`` questions are asked at the same time.
    """

    perplexity_on: str | None = None
    exact_match: str | None = None
    multiple_choice: str | None = None
    retrieval: str | None = None
    function: str | None = None
    metrics: tuple[str, ...] | None = None
    pieces: int = 20
    piece_words: int = 200
    at_once: int = 4

    @property
    def metric_keys(self) -> tuple[str, ...] | None:
        """What it reports; None where only the function knows."""
        if self.function and self.metrics is None:
            return None
        keys = [key for name in FILES if getattr(self, name) for key in _METRICS[name]]
        return tuple(dict.fromkeys([*map(str, keys), *(self.metrics or ())]))


def read_quality(
    raw: Any, problems: list[WorkloadProblem], folder: Path
) -> tuple[QualitySettings, dict[str, Any] | str | None]:
    """The settings, and the section with absolute paths."""
    if raw == NONE:
        return QualitySettings(), NONE
    if raw is None:
        problems.append(WorkloadProblem("quality", "is missing: a server may answer fast and wrong", WAYS))
        return QualitySettings(), None
    reader = Reader(raw, "quality", problems)
    reader.only(KEYS)
    resolved = dict(reader.raw)
    for key in FILES:
        if (path := reader.file(key, folder)) is not None:
            resolved[key] = path
    if isinstance(raw, dict) and not any(resolved.get(key) for key in (*FILES, "function")):
        reader.problem("", "judges by nothing", WAYS)
    function = _function(reader, folder)
    if function:
        resolved["function"] = function
    judges = [key for key in ("exact_match", "multiple_choice", "retrieval") if resolved.get(key)]
    if len(judges) > 1:
        reader.problem(judges[1], f"and {judges[0]} both give accuracy", "keep one of them")
    settings = QualitySettings(
        **{key: resolved[key] for key in FILES if isinstance(resolved.get(key), str)},
        function=function,
        metrics=_metrics(reader),
        pieces=reader.whole("pieces", 20, low=1) or 20,
        piece_words=reader.whole("piece_words", 200, low=2) or 200,
        at_once=reader.whole("at_once", 4, low=1) or 4,
    )
    return settings, resolved


def _function(reader: Reader, folder: Path) -> str | None:
    given = reader.text("function", "write function: my_quality.py:score")
    if given is None:
        return None
    place, colon, name = given.rpartition(":")
    if not colon or not place.endswith(".py") or not name.isidentifier():
        reader.problem("function", f"is {given!r}, no function", "write function: my_quality.py:score")
        return None
    path = absolute(place, folder)
    if not Path(path).is_file():
        reader.problem("function", f"there is no file {path}", "paths are relative to the space file")
    return f"{path}:{name}"


def _metrics(reader: Reader) -> tuple[str, ...] | None:
    given = reader.raw.get("metrics")
    if given is None:
        return None
    if not isinstance(given, list) or not given or not all(isinstance(key, str) and key for key in given):
        reader.problem("metrics", "should be the names that the function gives", "write metrics: [f1]")
        return None
    if "function" not in reader.raw:
        reader.problem("metrics", "are those of a function", "add function: my_quality.py:score")
    return tuple(given)
