"""What a training task is: a plain class with five methods. Nothing needs to be imported from here to write
one.

    class Spirals:
        metrics = ("val_loss_nats", "accuracy")    # optional: what `score` gives, so that a check knows it

        def __init__(self, *, learning_rate: float = 1e-3, width: int = 64):   # task.* parameters
            self.learning_rate = learning_rate     # read by the trainer
            self.width = width

        def model(self):                           # the seed is set before
            return nn.Sequential(nn.Linear(2, self.width), nn.ReLU(), nn.Linear(self.width, 3))

        def train_data(self):                      # tensors whose rows are samples, or a map-style dataset
            return points, labels

        def validation_data(self):                 # the same form; never trained on
            return held_out_points, held_out_labels

        def loss(self, model, batch):              # a scalar: the mean over the batch
            points, labels = batch
            return F.cross_entropy(model(points), labels)

        def score(self, model, batch):             # metric -> one number per sample of the batch
            points, labels = batch
            logits = model(points).float()
            return {
                "val_loss_nats": F.cross_entropy(logits, labels, reduction="none"),
                "accuracy": (logits.argmax(-1) == labels).float(),
            }

The trainer owns everything else: device, precision, batches, order of the data, optimizer, checkpointing,
compile, timing. Batches arrive on the device; under ``bf16_params`` their floating-point tensors are in
bfloat16.

Optional, as attributes or methods:

- ``learning_rate`` (1e-3) and ``weight_decay`` (0), read after ``__init__``;
- ``tokens_per_sample``: gives ``tokens_per_s``, and ``train_for: {tokens: N}`` needs it;
- ``schedule(self, progress)``: factor on the learning rate, ``progress`` runs from 0 to 1 over the training;
- ``blocks(self, model)``: the modules that activation checkpointing works on (default: the members of the
  model's largest ``nn.ModuleList``);
- ``tensor_parallel_plan(self, model)``: how layers are split, ``{"blocks.0.qkv": "column", ...: "row"}`` (default:
  by the names of the blocks' linear layers); ``pipeline_stages(self, model, count)``: modules to be run one after
  the other (default: even runs of an ``nn.Sequential``); ``spread_experts(self, model, rank, degree, new_exchange)``:
  keep the rank's share of each layer's experts, give the layer an exchange (``trials.training.parallel.expert``) and
  return the parameters kept (no default); ``divided_by = {"tensor_parallel_degree": "heads"}``, a
  literal: parameters whose values a degree must divide, so that a check knows it;
- ``collate(self, samples)``: makes a batch of a list of samples, for a dataset (default: PyTorch's);
- ``summary(self, scores)``: metrics that are no means, from all per-sample scores: ``{"f1": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from trials.contract import FailureKind, TrialFailure
from trials.user_code import make_task

METHODS = ("model", "train_data", "validation_data", "loss", "score")


class Task(Protocol):
    """The methods that every task has; the module's text shows them in use."""

    def model(self) -> nn.Module:
        """A freshly initialised model, on the CPU in float32."""
        ...

    def train_data(self) -> Any:
        """Tensors whose rows are samples (one, or a tuple), or an object with ``__len__`` and
        ``__getitem__``.
        """
        ...

    def validation_data(self) -> Any:
        """Held-out samples, in the same form."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The mean loss of the batch, a scalar that ``backward`` can start from."""
        ...

    def score(self, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        """Metric key -> one number per sample, called without gradients in evaluation mode."""
        ...


def load_task(target: str, config: Mapping[str, Any]) -> Task:
    """Import the task and construct it with the ``task.*`` values; TrialFailure says what is wrong with
    it.
    """
    task: Task = make_task(target, config, METHODS)
    return task


def checked_model(task: Task) -> nn.Module:
    """The task's model, or a failure that names the method."""
    model = task.model()
    if not isinstance(model, nn.Module):
        raise wrong_return(task, "model", model, "a torch.nn.Module")
    return model


def checked_loss(task: Task, loss: object) -> Tensor:
    """The loss, or a failure that names the method."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise wrong_return(task, "loss", loss, "a scalar tensor that depends on the model's parameters")
    return loss


def wrong_return(task: Task, method: str, got: object, wanted: str) -> TrialFailure:
    """The failure of a method that returned something else."""
    shape = f" of shape {tuple(got.shape)}" if isinstance(got, Tensor) else ""
    name = type(task).__name__
    return TrialFailure(
        FailureKind.CRASH, f"{name}.{method} returned {type(got).__name__}{shape}; it must return {wanted}"
    )
