"""Runs one real, small training in this process and hands the measurement back."""

import os
import time

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from trials import runner  # noqa: E402
from trials.context import TrialContext  # noqa: E402
from trials.contract import Measurement, Purpose, TrialSpec  # noqa: E402

DIGITS = "trials.tasks.digits:Digits"
BYTE_LM = "trials.tasks.byte_lm:ByteLM"
SMALL_LM = {
    "task.width": 32,
    "task.depth": 2,
    "task.heads": 2,
    "task.context_length": 16,
    "micro_batch_size": 4,
}
# one thread: on a busy machine two of them wait for each other most of the time
ONE_THREAD = {"threads": 1}


@pytest.fixture
def train(tmp_path):
    """``train(task, config, ...)`` -> Measurement; failures come back as one, as from a process."""
    count = 0

    def run(
        task=DIGITS,
        config=None,
        *,
        train_for=None,
        seed=0,
        wanted=(),
        purpose=Purpose.SEARCH,
        report_at=(),
        **section,
    ) -> Measurement:
        nonlocal count
        count += 1
        folder = tmp_path / f"trial{count}"
        folder.mkdir()
        workload = {"kind": "training", "task": task, "train_for": train_for or {"samples": 1500}, **section}
        spec = TrialSpec(
            "study",
            count,
            f"m{count}",
            purpose,
            workload,
            {**ONE_THREAD, **(config or {})},
            seed,
            folder,
            tmp_path / "cache",
            wanted=wanted,
            report_at=report_at,
        )
        context = TrialContext(spec, time.monotonic())
        threads, state = torch.get_num_threads(), torch.random.get_rng_state()
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        try:
            return Measurement.from_json(runner.run(context).to_json())
        finally:
            context.close()
            torch.set_num_threads(threads)
            torch.random.set_rng_state(state)
            if cache is None:
                os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)

    return run
