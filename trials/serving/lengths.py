"""How long prompts and answers are: a fixed number, a choice, or a distribution, drawn from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from trials.serving.reading import Reader, is_number, shown

WAYS = "write 64, [32, 64, 128], {min: 16, max: 128}, or {mean: 64, sd: 20, min: 1, max: 256}"


@dataclass(frozen=True)
class Length:
    """One of: a choice of numbers (one number is a choice of one), uniform from low to high, or normal cut off
    there.
    """

    choices: tuple[int, ...] = ()
    low: int = 1
    high: int = 1
    mean: float | None = None
    sd: float = 0.0

    def draw(self, random: Random) -> int:
        """The next length."""
        if self.choices:
            return self.choices[0] if len(self.choices) == 1 else random.choice(self.choices)
        if self.mean is None:
            return random.randint(self.low, self.high)
        return min(self.high, max(self.low, round(random.gauss(self.mean, self.sd))))


def read_length(reader: Reader, key: str, default: int | None = None) -> Length | None:
    """The length that a key of the section describes; None where it is not given and has no default."""
    raw = reader.raw.get(key, default)
    if raw is None:
        return None
    if isinstance(raw, dict):
        return _distribution(reader, key, raw)
    numbers = raw if isinstance(raw, list) else [raw]
    if not numbers or not all(_is_length(number) for number in numbers):
        reader.problem(key, f"is {shown(raw)}, no number of at least 1", WAYS)
        return None
    return Length(tuple(numbers))


def _distribution(reader: Reader, key: str, raw: dict[str, Any]) -> Length | None:
    inner = Reader(raw, f"{reader.prefix}.{key}", reader.problems)
    inner.only(("min", "max", "mean", "sd"))
    low, high = inner.whole("min", 1, low=1), inner.whole("max", None, low=1)
    mean = inner.number("mean", None, above=True)
    sd = inner.number("sd", 0.0)
    if high is None or low is None or high < low or (mean is None and "sd" in raw):
        reader.problem(key, f"is {shown(raw)}, and says no range", WAYS)
        return None
    return Length((), low, high, mean, sd or 0.0)


def _is_length(value: Any) -> bool:
    return is_number(value) and isinstance(value, int) and value >= 1
