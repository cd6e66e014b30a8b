"""When requests come in an open loop: arrivals of a seeded process, or those of a recorded trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from trials.contract import FailureKind, TrialFailure


@dataclass(frozen=True)
class Arrival:
    """A request comes ``at_s`` after the start; a trace may say how long its prompt and its answer are."""

    at_s: float
    words: int | None = None
    output_tokens: int | None = None


def poisson(rate: float, burstiness: float, seed: int) -> Iterator[Arrival]:
    """Endless arrivals at ``rate`` per second on average.

    Gaps are gamma distributed with shape ``burstiness``: 1 is a Poisson process, less comes in bursts, more comes
    evenly (vLLM's and SGLang's meaning of the word).
    """
    random, at_s = Random(f"{seed} arrivals"), 0.0
    while True:
        at_s += random.gammavariate(burstiness, 1 / (rate * burstiness))
        yield Arrival(at_s)


def read_trace(path: Path) -> list[Arrival]:
    """JSON lines ``{"at_s": 0.25, "prompt_words": 80, "output_tokens": 32}``, lengths as wanted, in any order.

    Times count from the first. TrialFailure names a line that is none.
    """
    arrivals = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
                arrivals.append(
                    Arrival(float(row["at_s"]), row.get("prompt_words"), row.get("output_tokens"))
                )
            except (ValueError, TypeError, KeyError, AttributeError) as problem:
                raise TrialFailure(
                    FailureKind.CRASH, f"{path}:{number}: is no arrival: {problem!r}"
                ) from None
    if not arrivals:
        raise TrialFailure(FailureKind.CRASH, f"{path} holds no arrival")
    arrivals.sort(key=lambda arrival: arrival.at_s)
    first_s = arrivals[0].at_s
    return [Arrival(one.at_s - first_s, one.words, one.output_tokens) for one in arrivals]
