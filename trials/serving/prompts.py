"""Which prompt the n-th request asks. The same seed gives the same prompts to every configuration."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from trials.contract import FailureKind, TrialFailure
from trials.serving.exchange import Prompt
from trials.serving.lengths import Length
from trials.serving.load_settings import PromptSettings

PARTS = ("prompt", "messages", "body")
_GOLDEN = 0.618


class Prompts:
    """Prompts by number, each drawn from a generator of its own, so that shares of a load agree on them."""

    def __init__(self, settings: PromptSettings, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._rows: list[Prompt] = []
        self._words: list[str] = []
        self._offset = 0
        self._prefixes: list[list[str]] = []
        if settings.is_text:
            self._words = Path(str(settings.source)).read_text(encoding="utf-8").split()
            if not self._words:
                raise TrialFailure(FailureKind.CRASH, f"{settings.source} holds no word")
            self._offset = Random(f"{seed} offset").randrange(len(self._words))
            self._prefixes = [
                self._cut(
                    Random(f"{seed} prefix {number}").randrange(len(self._words)),
                    settings.shared_prefix_words,
                )
                for number in range(settings.shared_prefixes)
            ]
        else:
            source = settings.source
            self._rows = _rows(Path(source)) if isinstance(source, str) else [Prompt(text=t) for t in source]

    @property
    def distinct(self) -> int | None:
        """How many there are before they repeat; None where they are cut out of a text as they are needed."""
        return None if self._settings.is_text else len(self._rows)

    def prompt(self, number: int, words: int | None = None, output_tokens: int | None = None) -> Prompt:
        """The prompt of a number; a trace may say its lengths."""
        random = Random(f"{self._seed} {number}")
        settings = self._settings
        limit = output_tokens or _drawn(settings.output_tokens, random)
        if not settings.is_text:
            row = self._rows[number % len(self._rows)]
            return row if row.output_tokens is not None or limit is None else _limited(row, limit)
        count = words or _drawn(settings.words, random) or 1
        prefix = random.choice(self._prefixes)
        text = " ".join([*prefix, *self._cut(self._place(number), count)])
        places = [random.randrange(len(self._words)) for _ in range(settings.turns - 1)]
        later = tuple(" ".join(self._cut(place, count)) for place in places)
        return Prompt(text=text, output_tokens=limit, follow_ups=later)

    def _place(self, number: int) -> int:
        """Where a prompt begins: scattered over the text, and none twice before every word began one, since a
        repeated prompt would be answered out of a cache.
        """
        size = len(self._words)
        stride = next(n for n in range(max(1, int(size * _GOLDEN)), 2 * size + 1) if math.gcd(n, size) == 1)
        return (self._offset + number * stride) % size

    def _cut(self, begin: int, count: int) -> list[str]:
        """So many words from there on, from the start again where the text ends."""
        cut = self._words[begin : begin + count]
        while len(cut) < count:
            cut = cut + self._words[: count - len(cut)]
        return cut


def _drawn(length: Length | None, random: Random) -> int | None:
    return None if length is None else length.draw(random)


def _limited(row: Prompt, limit: int) -> Prompt:
    return Prompt(row.text, row.messages, row.body, limit, row.answer, row.follow_ups)


def _rows(path: Path) -> list[Prompt]:
    """The lines of a file of prompts; TrialFailure names the first that is none."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            problem = row_problem(line)
            if problem:
                raise TrialFailure(FailureKind.CRASH, f"{path}:{number}: {problem}")
            rows.append(_row(json.loads(line)))
    if not rows:
        raise TrialFailure(FailureKind.CRASH, f"{path} holds no prompt")
    return rows


def row_problem(line: str) -> str | None:
    """What is wrong with a line of a file of prompts, or None."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as problem:
        return f"is not JSON: {problem}"
    if not isinstance(row, dict) or sum(part in row for part in PARTS) != 1:
        return f"should be an object with one of {', '.join(PARTS)}"
    if "prompt" in row and not isinstance(row["prompt"], str):
        return "its prompt is no text"
    if "messages" in row and not _are_messages(row["messages"]):
        return "its messages are no list of {role, content}"
    limit = row.get("output_tokens")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        return f"its output_tokens={limit!r} is no number of at least 1"
    later = row.get("follow_ups", [])
    if not isinstance(later, list) or not all(isinstance(text, str) for text in later):
        return "its follow_ups are no list of texts"
    return None


def _are_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and {"role", "content"} <= one.keys() for one in value)
    )


def _row(row: Mapping[str, Any]) -> Prompt:
    return Prompt(
        text=row.get("prompt", ""),
        messages=tuple(row.get("messages", ())),
        body=row.get("body"),
        output_tokens=row.get("output_tokens"),
        answer=row.get("answer"),
        follow_ups=tuple(row.get("follow_ups", ())),
    )
