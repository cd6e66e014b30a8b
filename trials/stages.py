"""What a trial reports before it is over: lines of its events file that whoever started it may act on.

``{"event": "stage", "at_s": 12.3, "fraction": 0.25, "metrics": {...}, "steady": [...], "contaminated": null}``.
``fraction`` is the share of its work that is done; a metric named in ``steady`` is as good as its final value
but for the noise from run to run, any other is a value on the way. Standard library only, like the contract.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trials.contract import EVENTS_FILE, MetricValue

STAGE = "stage"
"""The kind of event."""
PARTIAL = "partial"
"""The flag of a metric that a trial had reported on the way when it was cut short."""
LARGEST_READ_BYTES = 4 * 2**20
"""What is read at once; a longer events file says nothing that anybody could act on."""


@dataclass(frozen=True)
class Stage:
    """What is known when ``fraction`` (0-1) of the work is done; ``contaminated`` says what disturbed it."""

    fraction: float
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    steady: tuple[str, ...] = ()
    contaminated: str | None = None

    def as_event(self) -> dict[str, Any]:
        """The fields of its line."""
        return asdict(self)

    @classmethod
    def from_event(cls, raw: Mapping[str, Any]) -> Stage:
        """From the fields of a line; ValueError, KeyError or TypeError where it is none."""
        metrics = {str(key): _metric(entry) for key, entry in raw["metrics"].items()}
        finite = {key: metric for key, metric in metrics.items() if metric.is_finite}
        steady = tuple(str(key) for key in raw["steady"] if key in finite)
        contaminated = raw.get("contaminated")
        fraction = float(raw["fraction"])
        if not 0 <= fraction <= 1:
            raise ValueError(f"a stage at {fraction} of the work")
        return cls(fraction, finite, steady, None if contaminated is None else str(contaminated))


def stages_of(lines: Iterable[str]) -> list[Stage]:
    """The stages among the lines of an events file; whatever else stands there is passed over."""
    found = []
    for line in lines:
        try:
            raw = json.loads(line)
            if isinstance(raw, dict) and raw.get("event") == STAGE:
                found.append(Stage.from_event(raw))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue  # a line of another program in the same file, or one cut in two by a kill
    return found


def read_stages(trial_dir: Path, offset: int = 0) -> tuple[list[Stage], int]:
    """The stages in whole lines from ``offset`` on, and the offset of what is not read yet."""
    try:
        with (trial_dir / EVENTS_FILE).open("rb") as stream:
            stream.seek(offset)
            text = stream.read(LARGEST_READ_BYTES)
    except OSError:
        return [], offset
    whole = text[: text.rfind(b"\n") + 1]
    return stages_of(whole.decode("utf-8", "replace").splitlines()), offset + len(whole)


def _metric(raw: Mapping[str, Any]) -> MetricValue:
    low, high, n = raw.get("low"), raw.get("high"), raw.get("n")
    return MetricValue(
        float(raw["value"]),
        str(raw.get("unit", "")),
        None if n is None else int(n),
        _end(low),
        _end(high),
        str(raw.get("method", "")),
        tuple(map(str, raw.get("flags", ()))),
    )


def _end(raw: Any) -> float | None:
    return None if raw is None or not math.isfinite(float(raw)) else float(raw)
