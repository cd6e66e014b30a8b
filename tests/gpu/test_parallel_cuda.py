"""The CUDA forms of a trial of several processes: NCCL, a device for each rank, device memory of the fullest."""

import time

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from trials import runner  # noqa: E402
from trials.context import TrialContext  # noqa: E402
from trials.contract import Outcome, Purpose, TrialSpec  # noqa: E402
from trials.metrics import Key  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.device_count() < 2,
    reason="needs two NVIDIA GPUs that PyTorch sees",
)
LM = {"micro_batch_size": 4, "global_batch_size": 16, "task.depth": 4, "precision": "bf16"}
FORMS = [
    {"data_parallel_degree": 2},
    {"data_parallel_degree": 2, "gradient_compression": "bf16"},
    {"data_parallel_degree": 2, "zero_stage": 1},
    {"data_parallel_degree": 2, "zero_stage": 2},
    {"data_parallel_degree": 2, "zero_stage": 3, "activation_checkpointing": "full"},
    {"tensor_parallel_degree": 2},
    {"pipeline_parallel_degree": 2, "pipeline_schedule": "interleaved"},
    {"data_parallel_degree": 2, "expert_parallel_degree": 2, "task.experts": 4},
]


@pytest.fixture
def measure(tmp_path):
    def run(config, gpus):
        folder = tmp_path / f"trial{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        workload = {"kind": "training", "task": "trials.tasks.byte_lm:ByteLM", "train_for": {"steps": 30}}
        spec = TrialSpec(
            "s", 0, "m", Purpose.SEARCH, {**workload, "evaluate_on": 64}, {**LM, **config}, 0, folder,
            tmp_path / "cache", gpus=gpus,
        )  # fmt: skip
        context = TrialContext(spec, time.monotonic())
        found = runner.run(context)
        context.close()
        assert found.outcome is Outcome.COMPLETE, found.message
        return found

    return run


@pytest.mark.parametrize("config", FORMS, ids=str)
def test_two_devices_learn_what_one_learns(measure, config):
    experts = {"task.experts": config["task.experts"]} if "task.experts" in config else {}
    both, one = measure(config, ("0", "1")), measure(experts, ("0",))
    assert both.proof["backend"] == "nccl"
    assert both.metrics[Key.PEAK_MEMORY_GIB].method.startswith("allocator")
    losses = [found.facts["first_losses"] for found in (both, one)]
    if "gradient_compression" not in config:
        assert losses[0] == pytest.approx(losses[1], rel=5e-3)


def test_sharding_frees_device_memory(measure):
    wide = {"task.width": 1024, "task.heads": 16, "data_parallel_degree": 2}
    whole, sharded = measure(wide, ("0", "1")), measure({**wide, "zero_stage": 3}, ("0", "1"))
    assert sharded.metrics[Key.PEAK_MEMORY_GIB].value < 0.8 * whole.metrics[Key.PEAK_MEMORY_GIB].value
