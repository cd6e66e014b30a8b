"""A user's own task, outside the repository: it works, and what is wrong with it is said by name."""

import sys
import textwrap

import pytest

from trials.contract import FailureKind, Outcome

TASK = """
import torch
from torch import nn
from torch.nn import functional as F
from helper import CLASSES

class Spirals:
    def __init__(self, *, learning_rate: float = 1e-2, width: int = 16):
        self.learning_rate, self.width = learning_rate, width
        generator = torch.Generator().manual_seed(1)
        self.points = torch.randn(600, 2, generator=generator)
        self.labels = (self.points[:, 0] > 0).long()

    def model(self):
        return nn.Sequential(nn.Linear(2, self.width), nn.ReLU(), nn.Linear(self.width, CLASSES))

    def train_data(self):
        return self.points[:400], self.labels[:400]

    def validation_data(self):
        return self.points[400:], self.labels[400:]

    def loss(self, model, batch):
        points, labels = batch
        return F.cross_entropy(model(points).float(), labels)

    def score(self, model, batch):
        points, labels = batch
        return {"f1_like": (model(points).argmax(-1) == labels).float()}
"""


@pytest.fixture
def own(tmp_path, train):
    def run(replace="", by="", config=None, **more):
        assert replace in TASK
        (tmp_path / "helper.py").write_text("CLASSES = 2\n")
        sys.modules.pop("spirals", None)  # a trial's process reads it once, this one again
        (tmp_path / "spirals.py").write_text(textwrap.dedent(TASK).replace(replace, by) if replace else TASK)
        return train(f"{tmp_path / 'spirals.py'}:Spirals", config, train_for={"samples": 2000}, **more)

    return run


def test_a_task_file_outside_the_repository_is_trained_with_its_own_parameter_and_metric(own):
    found = own(config={"task.width": 24})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.metrics["f1_like"].value > 0.8
    assert found.proof["parameters"] == 2 * 24 + 24 + 24 * 2 + 2


def test_a_map_style_dataset_with_its_own_collate_is_trained(own):
    found = own(
        "        return self.points[:400], self.labels[:400]",
        "        return [(self.points[i], self.labels[i]) for i in range(400)]\n\n"
        "    def collate(self, samples):\n"
        "        return tuple(map(torch.stack, zip(*samples)))",
        config={"loader_workers": 1},
    )
    # validation data stays a pair of tensors, so its batches need no collate
    assert found.outcome is Outcome.COMPLETE, found.message


@pytest.mark.parametrize(
    ("replace", "by", "message"),
    [
        ("    def loss(", "    def lost(", "Spirals has no method loss"),
        (
            "return F.cross_entropy(model(points).float(), labels)",
            "return 3.0",
            "Spirals.loss returned float",
        ),
        (
            "return F.cross_entropy(model(points).float(), labels)",
            "return F.cross_entropy(model(points).float(), labels, reduction='none')",
            "Spirals.loss returned Tensor of shape (32,)",
        ),
        ("return nn.Sequential(", "return 7 #", "Spirals.model returned int"),
        ("return self.points[400:], self.labels[400:]", "return 5", "Spirals.validation_data returned int"),
        (
            "return self.points[:400], self.labels[:400]",
            "return self.points[:400], self.labels[:9]",
            "equal length",
        ),
        ('return {"f1_like": (model', "return 4\n        {'a': (model", "Spirals.score returned int"),
        (
            "(model(points).argmax(-1) == labels).float()",
            "torch.tensor(0.5)",
            "Spirals.score returned Tensor of shape ()",
        ),
        (
            "points, labels = batch\n        return F",
            "points, labels, rest = batch\n        return F",
            "Spirals.loss (spirals.py:",
        ),
        (
            "from helper import CLASSES",
            "from helper import CLASSES\nraise ValueError('at import')",
            "at import",
        ),
    ],
)
def test_what_is_wrong_with_a_task_is_said_by_the_name_of_its_method(own, replace, by, message):
    found = own(replace, by)
    assert found.failure_kind is FailureKind.CRASH
    assert message in found.message


def test_a_parameter_that_the_task_does_not_have_is_named(own):
    found = own(config={"task.height": 3})
    assert found.failure_kind is FailureKind.CRASH
    assert "Spirals.__init__() got an unexpected keyword argument 'height'" in found.message


def test_a_silent_fall_back_to_float32_is_unsupported(own):
    found = own(
        "return F.cross_entropy(model(points).float(), labels)",
        "with torch.autocast('cpu', enabled=False):\n"
        "            return F.cross_entropy(model(points.float()), labels)",
        config={"precision": "bf16"},
    )
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert "100% in float32" in found.message


def test_checkpointing_without_blocks_is_unsupported_and_says_how_to_name_them(own):
    found = own(config={"activation_checkpointing": "full"})
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert "blocks(model)" in found.message


def test_checkpointing_that_does_not_happen_is_unsupported(own):
    found = own(
        "    def loss(",
        "    def blocks(self, model):\n        return [model[1]]\n\n    def loss(",
        config={"activation_checkpointing": "full"},
    )
    assert found.outcome is Outcome.COMPLETE
    bypassed = own(
        "        return F.cross_entropy(model(points).float(), labels)",
        "        hidden = F.relu(F.linear(points, model[0].weight, model[0].bias))\n"
        "        return F.cross_entropy(model[2](hidden), labels)\n\n"
        "    def blocks(self, model):\n        return [model[0]]",
        config={"activation_checkpointing": "full"},
    )
    assert bypassed.failure_kind is FailureKind.UNSUPPORTED
    assert "none of the 1 blocks was recomputed" in bypassed.message


def test_a_non_finite_score_is_non_finite_by_its_metric(own):
    found = own("(model(points).argmax(-1) == labels).float()", "model(points)[:, 0] * float('nan')")
    assert found.failure_kind is FailureKind.NON_FINITE
    assert "f1_like is nan" in found.message


def test_tokens_of_a_task_without_tokens_are_unsupported(own, tmp_path, train):
    own()
    found = train(f"{tmp_path / 'spirals.py'}:Spirals", train_for={"tokens": 1000})
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert "tokens_per_sample" in found.message
