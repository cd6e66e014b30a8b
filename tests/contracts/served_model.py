"""A small encoder with every kind of layer that an engine must know, as a model source; weights from a seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from trials.inference.engine import ModelSource

WORDS, WIDTH, CLASSES, LENGTH = 97, 64, 16, 16
AXES = {name: {0: "batch", 1: "sequence"} for name in ("tokens", "mask")}
LINEAR_LAYERS = ("block.qkv", "block.out", "block.up", "block.down", "head")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        query, key, value = (
            part.view(batch, length, 4, -1).transpose(1, 2) for part in self.qkv(hidden).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return hidden + self.down(F.gelu(self.up(self.norm(hidden))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.block, self.head = Block(), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = self.block(self.words(tokens), mask.bool())
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return self.head((hidden * weights).sum(1) / weights.sum(1))


def encoder() -> nn.Module:
    """The same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Encoder()


def batch(rows: int, seed: int, length: int = LENGTH) -> dict[str, np.ndarray]:
    """Token ids, and a mask that hides the end of some rows."""
    random = np.random.default_rng(seed)
    ends = random.integers(2, length + 1, (rows, 1))
    return {
        "tokens": random.integers(0, WORDS, (rows, length)),
        "mask": (np.arange(length) < ends).astype(np.int64),
    }


class Calibration:
    """Eight batches of sixteen, as often as asked."""

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (batch(16, seed=1000 + number, length=8 + number) for number in range(8))


def encoder_source() -> ModelSource:
    return ModelSource(
        example=batch(3, seed=1), outputs=("logits",), axes=AXES, factory=encoder, calibration=Calibration()
    )


def reference(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The outputs in float32, by PyTorch alone."""
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    with torch.no_grad():
        return encoder().eval()(**tensors).numpy()


def relative_error(outputs: np.ndarray, wanted: np.ndarray) -> float:
    """Norm of the difference over the norm of what is wanted."""
    return float(np.linalg.norm(outputs - wanted) / np.linalg.norm(wanted))
