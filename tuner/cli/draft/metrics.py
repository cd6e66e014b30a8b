"""Which metrics a first study is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

from trials.metrics import CATALOGUE, Direction, Key
from tuner.cli.draft.ranges import written

_SPEEDS = (Key.TOKENS_PER_S, Key.SAMPLES_PER_S)
_QUALITIES = (Key.VAL_LOSS_NATS, Key.PERPLEXITY, Key.ACCURACY)
_LOSS_WORDS = re.compile(r"loss|error|nats|perplexity|wer|cer|mae|mse|rmse")


def objectives_of(metrics: Collection[str]) -> list[str]:
    """One speed and one quality as YAML, as far as ``metrics`` have them; the direction of an own one is a guess."""
    speed = next((key for key in _SPEEDS if key in metrics), Key.WALL_TIME_S)
    own = [name for name in metrics if name not in CATALOGUE]
    qualities = [key for key in (*_QUALITIES, *own, Key.TRAIN_LOSS_NATS) if key in metrics]
    return [speed.value, *map(_as_objective, qualities[:1])]


def _as_objective(metric: str) -> str:
    if metric in CATALOGUE:
        return str(metric)
    direction = Direction.MINIMIZE if _LOSS_WORDS.search(metric) else Direction.MAXIMIZE
    return f"{{metric: {written(metric)}, direction: {direction}}}"


def keys_in(source: Path) -> list[str]:
    """Metrics of the catalogue that stand as keys of dictionaries in a Python file."""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
    texts = {key.value for key in keys if isinstance(key, ast.Constant)}
    return [name for name in CATALOGUE if name in texts]
