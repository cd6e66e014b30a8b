"""Values to text and back: valid JSON always, with every type and every non-finite number kept.

NaN and infinities are not JSON: they are written as the words ``nan``, ``inf``, ``-inf``, and come back as
numbers where a number must stand (metrics, phases, bounds). In free facts they stay words, like in
``result.json``.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trials.contract import Measurement, MetricValue
from trials.metrics import Direction
from tuner.objectives import Bound, Constraint, LimitKind, Objective
from tuner.records.cells import as_list, as_mapping, as_text, mapping, text, whole
from tuner.records.rows import CONCURRENT, GIVEN, Forecast


def to_text(value: Any) -> str:
    """Compact JSON. ASCII only, so that odd bytes of a log (NUL, half characters) are kept by any database.

    TypeError where the value is not plain (a path, an array).
    """
    return json.dumps(_spelled(value), separators=(",", ":"), allow_nan=False)


def digest(content: str) -> str:
    """A name of 64 characters for a text of any length."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def now_text() -> str:
    """This moment, as the tables hold it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def readable(said: str) -> str:
    """Free text that any database takes: NUL, and what UTF-8 cannot hold, becomes a question mark."""
    return said.replace("\0", "?").encode("utf-8", "replace").decode("utf-8")


def measurement_to_text(measurement: Measurement) -> str:
    """What a measurement gave, without environment and examples, which are kept apart."""
    body: dict[str, Any] = {
        "metrics": {key: _metric_to_plain(metric) for key, metric in measurement.metrics.items()},
        "phases": {key: float(seconds) for key, seconds in measurement.phases.items()},
        "proof": measurement.proof,
        "facts": measurement.facts,
        "warnings": measurement.warnings,
        "message": measurement.message,
    }
    return to_text({key: value for key, value in body.items() if value})


@dataclass(frozen=True)
class Body:
    """What a measurement gave, as it is kept."""

    message: str
    metrics: Mapping[str, MetricValue]
    phases: Mapping[str, float]
    proof: Mapping[str, Any]
    facts: Mapping[str, Any]
    warnings: tuple[str, ...]


def body_from_text(kept: str | None) -> Body:
    """The opposite of ``measurement_to_text``; empty where nothing is kept (yet)."""
    raw = mapping(kept) if kept else {}
    return Body(
        message=as_text(raw.get("message", "")),
        metrics=_metrics_from_plain(as_mapping(raw.get("metrics", {}))),
        phases=numbers_from_plain(as_mapping(raw.get("phases", {}))),
        proof=as_mapping(raw.get("proof", {})),
        facts=_facts(as_mapping(raw.get("facts", {}))),
        warnings=tuple(map(as_text, as_list(raw.get("warnings", [])))),
    )


def _facts(raw: dict[str, Any]) -> dict[str, Any]:
    """Free, but for those that everybody reads."""
    as_mapping(raw.get(GIVEN, {}))
    whole(raw.get(CONCURRENT, 1))
    return raw


def _metrics_from_plain(raw: Mapping[str, Any]) -> dict[str, MetricValue]:
    return {key: _metric_from_plain(as_mapping(entry)) for key, entry in raw.items()}


def numbers_from_plain(raw: Mapping[str, Any]) -> dict[str, float]:
    """A map of numbers, words such as ``nan`` among them."""
    return {key: float(value) for key, value in raw.items()}


def examples_to_bytes(examples: Mapping[str, tuple[float, ...]]) -> bytes:
    """Per-example values, packed: one line of JSON with the lengths, then all numbers as 64-bit floats."""
    lengths = to_text({key: len(values) for key, values in examples.items()}).encode()
    numbers = b"".join(struct.pack(f"<{len(values)}d", *values) for values in examples.values())
    return zlib.compress(lengths + b"\n" + numbers)


def examples_from_bytes(packed: bytes) -> dict[str, tuple[float, ...]]:
    """The opposite of ``examples_to_bytes``."""
    head, _, numbers = zlib.decompress(packed).partition(b"\n")
    found: dict[str, tuple[float, ...]] = {}
    offset = 0
    for key, length in json.loads(head).items():
        found[key] = struct.unpack_from(f"<{length}d", numbers, offset)
        offset += 8 * length
    return found


def objectives_to_text(objectives: Iterable[Objective]) -> str:
    """Metric and direction of each."""
    return to_text([{"metric": o.metric, "direction": o.direction.value} for o in objectives])


def objectives_from_text(kept: str) -> tuple[Objective, ...]:
    """The opposite of ``objectives_to_text``."""
    found = tuple(Objective(as_text(raw["metric"]), Direction(raw["direction"])) for raw in _entries(kept))
    if not found:
        raise ValueError("no objective")
    return found


def constraints_to_text(constraints: Iterable[Constraint]) -> str:
    """Limits as written in the file."""
    return to_text(
        [{"metric": c.metric, "kind": c.kind.value, "amount": c.amount, "line": c.line} for c in constraints]
    )


def constraints_from_text(kept: str) -> tuple[Constraint, ...]:
    """The opposite of ``constraints_to_text``."""
    return tuple(
        Constraint(as_text(raw["metric"]), LimitKind(raw["kind"]), float(raw["amount"]), whole(raw["line"]))
        for raw in _entries(kept)
    )


def bounds_to_text(bounds: Iterable[Bound]) -> str:
    """Limits with their numbers frozen."""
    return to_text(
        [{"metric": b.metric, "is_upper": b.is_upper, "value": b.value, "formula": b.formula} for b in bounds]
    )


def bounds_from_text(kept: str) -> tuple[Bound, ...]:
    """The opposite of ``bounds_to_text``."""
    return tuple(
        Bound(as_text(raw["metric"]), _truth(raw["is_upper"]), float(raw["value"]), as_text(raw["formula"]))
        for raw in _entries(kept)
    )


def forecast_to_text(forecast: Forecast) -> str:
    """What a model expected of a trial."""
    expected = {key: list(map(float, interval)) for key, interval in forecast.expected.items()}
    return to_text({"expected": expected, "probability_ok": forecast.probability_ok})


def forecast_from_text(kept: str) -> Forecast:
    """The opposite of ``forecast_to_text``."""
    raw = mapping(kept)
    chance = raw["probability_ok"]
    expected = {key: (float(a), float(b), float(c)) for key, (a, b, c) in raw["expected"].items()}
    return Forecast(expected, None if chance is None else float(chance))


def _metric_to_plain(metric: MetricValue) -> dict[str, Any]:
    plain: dict[str, Any] = {"value": float(metric.value), "unit": metric.unit}
    known = {"n": metric.n, "low": metric.low, "high": metric.high}
    plain.update({key: value for key, value in known.items() if value is not None})
    plain.update({key: value for key, value in (("method", metric.method), ("flags", metric.flags)) if value})
    return plain


def _metric_from_plain(raw: Mapping[str, Any]) -> MetricValue:
    n, low, high = raw.get("n"), raw.get("low"), raw.get("high")
    return MetricValue(
        float(raw["value"]),
        as_text(raw["unit"]),
        None if n is None else whole(n),
        None if low is None else float(low),
        None if high is None else float(high),
        as_text(raw.get("method", "")),
        tuple(map(as_text, as_list(raw.get("flags", [])))),
    )


def _entries(kept: str) -> list[dict[str, Any]]:
    """JSON text of a list of objects."""
    return [as_mapping(raw) for raw in as_list(json.loads(text(kept)))]


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} instead of true or false")
    return value


def _spelled(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(float(value))
    if isinstance(value, Mapping):
        return {str(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return value
