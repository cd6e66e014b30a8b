"""A trained perceptron that classifies handwritten digits: a small model to serve, trained once for a study."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from trials.tasks.digits import CLASSES, PIXELS, read_digits

TRAINED_ON, CALIBRATED_ON = 600, 200
_STEPS, _BATCH = 150, 128


class DigitsClassifier:
    """``hidden`` layers of ``width`` units. Of 1,797 digits 600 train, 200 calibrate, the other 997 are evaluated."""

    metrics = ("accuracy",)
    outputs = ("logits",)

    def __init__(self, *, width: int = 512, hidden: int = 3):
        self.width, self.hidden = width, hidden
        self.cache_dir = Path()
        images, labels = read_digits()
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        self._images, self._labels = _unique(images[order], labels[order])

    def model(self) -> nn.Module:
        """The trained perceptron; its weights are kept in the study's cache."""
        module = perceptron(self.width, self.hidden)
        path = self.cache_dir / f"digits-{self.width}-{self.hidden}.pt"
        if not path.exists():
            _write_first(path, trained(module, self._images[:TRAINED_ON], self._labels[:TRAINED_ON]))
        module.load_state_dict(torch.load(path, weights_only=True))
        return module

    def evaluation_data(self) -> dict[str, np.ndarray]:
        """Images (0-1) that were neither trained on nor calibrated with."""
        return {"images": self._images[TRAINED_ON + CALIBRATED_ON :].numpy()}

    def calibration_data(self) -> dict[str, np.ndarray]:
        """200 other images."""
        return {"images": self._images[TRAINED_ON : TRAINED_ON + CALIBRATED_ON].numpy()}

    def score(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Whether the most likely class is right."""
        answers = outputs["logits"].argmax(axis=1)
        labels = self._labels[TRAINED_ON + CALIBRATED_ON :].numpy()
        return {"accuracy": (answers == labels[: len(answers)]).astype(np.float64)}


class Perceptron(nn.Module):
    """Layers with ReLU, then a linear one: images (batch, 64) -> logits (batch, 10)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        sizes = [PIXELS] + [width] * hidden
        self.hidden = nn.ModuleList(nn.Linear(size, width) for size in sizes[:-1])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of each class."""
        for layer in self.hidden:
            images = layer(images).relu()
        logits: Tensor = self.head(images)
        return logits


def perceptron(width: int, hidden: int) -> Perceptron:
    """Not trained yet."""
    return Perceptron(width, hidden)


def trained(module: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Train for 150 steps, always from the same start; returns the weights.

    On one thread: so small a model is slower on several, and the weights would depend on their number.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train(module, images, labels)
    finally:
        torch.set_num_threads(threads)


def _train(module: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            bound = (3 / parameter.shape[-1]) ** 0.5 if parameter.ndim > 1 else 0.0
            parameter.uniform_(-bound, bound, generator=generator)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for _ in range(_STEPS):
        picked = torch.randint(len(images), (_BATCH,), generator=generator)
        loss = F.cross_entropy(module(images[picked]), labels[picked])
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not annotate it
        optimizer.step()
        optimizer.zero_grad()
    return module.state_dict()


def _unique(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Each image once, the first of its copies: none is both calibrated with and evaluated."""
    seen: set[bytes] = set()
    kept = []
    for index, image in enumerate(images):
        content = image.numpy().tobytes()
        if content not in seen:
            seen.add(content)
            kept.append(index)
    return images[kept], labels[kept]


def _write_first(path: Path, state: dict[str, Tensor]) -> None:
    """The first one to write decides: every trial of the study serves the same weights."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    torch.save(state, temporary)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink()
