"""Handwritten digits (8 x 8 pixels, 1,797 of them), as shipped with scikit-learn; a perceptron classifies
them.
"""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

PIXELS, CLASSES, BRIGHTEST = 64, 10, 16


class Digits:
    """A perceptron of ``depth`` hidden layers of ``width`` units; a fixed quarter of the digits is held
    out.
    """

    metrics = ("val_loss_nats", "accuracy")

    def __init__(
        self, *, learning_rate: float = 1e-3, width: int = 256, depth: int = 3, weight_decay: float = 0.0
    ):
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.width = width
        self.depth = depth
        self._images, self._labels = read_digits()
        order = torch.randperm(len(self._labels), generator=torch.Generator().manual_seed(0))
        quarter = len(order) // 4
        self._held_out, self._train = order[:quarter], order[quarter:]

    def model(self) -> nn.Module:
        """Hidden layers with ReLU, then a linear one."""
        sizes = [PIXELS] + [self.width] * self.depth
        hidden = [nn.Sequential(nn.Linear(size, self.width), nn.ReLU()) for size in sizes[:-1]]
        return nn.Sequential(*hidden, nn.Linear(self.width, CLASSES))

    def blocks(self, model: nn.Sequential) -> list[nn.Module]:
        """The hidden layers."""
        return list(model)[:-1]

    def train_data(self) -> tuple[Tensor, Tensor]:
        """Images (0-1) and labels of three quarters of the digits."""
        return self._images[self._train], self._labels[self._train]

    def validation_data(self) -> tuple[Tensor, Tensor]:
        """The held-out quarter, the same for every seed."""
        return self._images[self._held_out], self._labels[self._held_out]

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean cross-entropy."""
        images, labels = batch
        return F.cross_entropy(model(images).float(), labels)

    def score(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Cross-entropy and whether the most likely class is right, for each image."""
        images, labels = batch
        logits = model(images).float()
        return {
            "val_loss_nats": F.cross_entropy(logits, labels, reduction="none"),
            "accuracy": (logits.argmax(-1) == labels).float(),
        }


def read_digits() -> tuple[Tensor, Tensor]:
    """Images of shape (n, 64) and labels; scikit-learn's file is read directly, since importing it costs a
    second.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "the digits task reads its images from scikit-learn: pip install scikit-learn"
        )
    with gzip.open(Path(package.origin).parent / "datasets/data/digits.csv.gz", "rt") as stream:
        table = torch.from_numpy(np.loadtxt(stream, delimiter=",", dtype=np.float32))
    return table[:, :PIXELS] / BRIGHTEST, table[:, PIXELS].long()
