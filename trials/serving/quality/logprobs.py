"""Perplexity of a text and multiple choice, from the log-probabilities of prompt tokens.

Completions with ``echo`` return the prompt's own tokens with their log-probabilities
(https://platform.openai.com/docs/api-reference/completions/create); one token is generated beside, and left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.statistics import deviation, mean_of, t_quantile
from trials.metrics import Key, unit_of
from trials.serving.apis.openai import Completions
from trials.serving.quality.asking import Asker, read_rows
from trials.serving.quality.settings import QualitySettings

Scores = tuple[dict[str, MetricValue], dict[str, tuple[float, ...]]]


def perplexity(asker: Asker, settings: QualitySettings) -> Scores:
    """Loss per token over pieces of a text; each piece's mean loss is an example."""
    words = Path(str(settings.perplexity_on)).read_text(encoding="utf-8").split(" ")
    size = settings.piece_words
    texts = [" ".join(words[begin : begin + size]) for begin in range(0, len(words), size)][: settings.pieces]
    losses = [[-value for value in token_logprobs(found)] for found in _echoed(asker, texts)]
    tokens, total = sum(map(len, losses)), sum(map(sum, losses))
    if not math.isfinite(total):
        raise TrialFailure(FailureKind.NON_FINITE, f"the loss of {settings.perplexity_on} is {total}")
    means = [sum(piece) / len(piece) for piece in losses]
    loss = total / tokens
    low, high = _interval(loss, means)
    method = f"{tokens} tokens in {len(means)} pieces; interval over pieces"
    return {
        Key.VAL_LOSS_NATS: MetricValue(loss, unit_of(Key.VAL_LOSS_NATS), tokens, low, high, method),
        Key.PERPLEXITY: MetricValue(
            math.exp(loss),
            unit_of(Key.PERPLEXITY),
            tokens,
            None if low is None else math.exp(low),
            None if high is None else math.exp(high),
            method,
        ),
    }, {Key.VAL_LOSS_NATS: tuple(means)}


def multiple_choice(asker: Asker, settings: QualitySettings) -> Scores:
    """Rows ``{"prompt", "choices", "answer"}`` (the number of the right choice); a choice is scored by the
    log-probability of its characters' tokens per byte, so that long choices are not at a disadvantage.
    """
    rows = read_rows(str(settings.multiple_choice), ("prompt", "choices", "answer"))
    texts = [row["prompt"] + choice for row in rows for choice in row["choices"]]
    echoed = iter(_echoed(asker, texts))
    right = []
    for row in rows:
        scores = [
            _choice_logprob(next(echoed), len(row["prompt"])) / len(choice.encode())
            for choice in row["choices"]
        ]
        right.append(float(max(range(len(scores)), key=scores.__getitem__) == row["answer"]))
    metric = mean_of(right, unit_of(Key.ACCURACY), "questions with choices")
    return {Key.ACCURACY: metric}, {Key.ACCURACY: tuple(right)}


def token_logprobs(found: Any) -> list[float]:
    """Log-probabilities of the prompt's tokens but the first; TrialFailure ``unsupported`` where there are none."""
    values, count = _logprobs(found).get("token_logprobs"), _prompt_tokens(found)
    numbers = values[1:count] if isinstance(values, list) else []
    if not numbers or not all(isinstance(value, int | float) for value in numbers):
        raise _unsupported("it gave no log-probabilities of the prompt")
    return [float(value) for value in numbers]


def _echoed(asker: Asker, texts: Sequence[str]) -> list[Any]:
    fields = {"max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
    return asker.values([{"prompt": text, **fields} for text in texts], Completions.path)


def _choice_logprob(found: Any, prompt_length: int) -> float:
    """Of the tokens that end behind the prompt; one that lies across the edge counts as the choice's."""
    offsets, numbers = _logprobs(found).get("text_offset"), token_logprobs(found)
    if not isinstance(offsets, list):
        raise _unsupported("it does not say where tokens lie in the text (text_offset)")
    ends = offsets[2 : len(numbers) + 2]
    return sum(value for value, end in zip(numbers, ends, strict=False) if end > prompt_length)


def _logprobs(found: Any) -> Mapping[str, Any]:
    try:
        logprobs = found["choices"][0]["logprobs"]
    except (KeyError, IndexError, TypeError):
        logprobs = None
    if not isinstance(logprobs, Mapping):
        raise _unsupported("its answer has no logprobs")
    return logprobs


def _prompt_tokens(found: Any) -> int | None:
    """How many of the tokens are the prompt's; without a count, all but the one generated."""
    usage = found.get("usage") or {}
    count = usage.get("prompt_tokens")
    return count if isinstance(count, int) else -1


def _unsupported(said: str) -> TrialFailure:
    return TrialFailure(
        FailureKind.UNSUPPORTED, f"quality: the server echoes no log-probabilities of prompts: {said}"
    )


def _interval(centre: float, means: Sequence[float]) -> tuple[float | None, float | None]:
    if len(means) < 2:
        return None, None
    half = t_quantile(len(means) - 1) * deviation(means) / math.sqrt(len(means))
    return centre - half, centre + half
