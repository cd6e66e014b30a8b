"""The service level: bounds on the percentiles of what a user of the server waits for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trials.metrics import SAMPLES_NEEDED
from trials.serving.reading import Reader, is_number, shown

QUANTITIES = ("ttft", "tpot", "itl", "latency")
_KEY = re.compile(rf"({'|'.join(QUANTITIES)})_p({'|'.join(map(str, SAMPLES_NEEDED))})_ms")


@dataclass(frozen=True)
class Bound:
    """``ttft_p90_ms: 800``: of the requests, 90% have their first token within 800 ms."""

    quantity: str
    percent: int
    at_most_ms: float

    @property
    def key(self) -> str:
        """The metric that it bounds."""
        return f"{self.quantity}_p{self.percent}_ms"


@dataclass(frozen=True)
class Slo:
    """All bounds must hold. A single request is good when it is within every bound itself (goodput)."""

    bounds: tuple[Bound, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bounds)


def read_slo(reader: Reader) -> Slo:
    """The ``slo`` section."""
    bounds = []
    for key, value in reader.raw.items():
        found = _KEY.fullmatch(str(key))
        if found is None:
            reader.problem(str(key), "is no bound of a service level", _way_out(str(key)))
        elif not is_number(value) or value <= 0:
            reader.problem(str(key), f"is {shown(value)}, no number of milliseconds above 0")
        else:
            bounds.append(Bound(found[1], int(found[2]), float(value)))
    return Slo(tuple(bounds))


def _way_out(key: str) -> str:
    quantity = next((word for word in QUANTITIES if key.startswith(word)), "ttft")
    return f"write {quantity}_p90_ms: 800 (of {', '.join(QUANTITIES)}; p50, p90, p95 or p99)"
