"""An ordinary training script, tuned through its command line: it imports nothing of this repository.

A small network learns scikit-learn's handwritten digits; the numbers go to the JSON file named by ``--out``.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

WARM_UP_STEPS = 3
DTYPES = {"fp32": None, "bf16": torch.bfloat16}
Data = tuple[torch.Tensor, torch.Tensor]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", choices=DTYPES, default="fp32")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument(
        "--samples", type=int, default=10_000, help="training samples to see, repeats included"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the results")
    return parser.parse_args()


def digits(seed: int) -> tuple[Data, Data]:
    """Training and held-out pictures with their labels; the same split for every seed-equal run."""
    pixels, labels = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
    train, held_out = order[:1400], order[1400:]
    return (inputs[train], targets[train]), (inputs[held_out], targets[held_out])


def network(width: int, dropout: float) -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(width, 10),
    )


def autocast(precision: str) -> torch.autocast:
    """Matrix products in the precision asked for."""
    dtype = DTYPES[precision]
    return torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def train(model: nn.Module, data: Data, given: argparse.Namespace) -> float:
    """Train, and return samples per second of the steps after the warm-up."""
    inputs, targets = data
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr)
    steps = max(int(given.samples // given.batch_size), WARM_UP_STEPS + 1)
    begin = time.perf_counter()
    for step in range(steps):
        if step == WARM_UP_STEPS:
            begin = time.perf_counter()
        picked = torch.randint(len(inputs), (given.batch_size,))
        with autocast(given.precision):
            loss = nn.functional.cross_entropy(model(inputs[picked]), targets[picked])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not annotate it
        optimizer.step()
    timed_samples = (steps - WARM_UP_STEPS) * int(given.batch_size)
    return timed_samples / (time.perf_counter() - begin)


def evaluate(model: nn.Module, data: Data, precision: str) -> dict[str, float]:
    """Held-out accuracy (0-1) and loss, in the precision that was trained in."""
    inputs, targets = data
    model.eval()
    with torch.no_grad(), autocast(precision):
        scores = model(inputs).float()
    right = (scores.argmax(1) == targets).float().mean()
    return {"accuracy": right.item(), "val_loss_nats": nn.functional.cross_entropy(scores, targets).item()}


def main() -> None:
    """Train, evaluate, write the numbers."""
    given = options()
    torch.manual_seed(given.seed)
    training, held_out = digits(seed=0)
    model = network(given.width, given.dropout)
    samples_per_s = train(model, training, given)
    found = {"samples_per_s": samples_per_s, **evaluate(model, held_out, given.precision)}
    given.out.write_text(json.dumps(found))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
