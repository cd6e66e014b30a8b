"""The compiler's package stays unexecuted until somebody needs it, and is then the real one, loaded once."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

PROGRAM = """
import sys, torch
from trials.training.lean_start import defer_compiler
defer_compiler()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
torch.utils.checkpoint.checkpoint(model, torch.randn(2, 4), use_reentrant=False).sum().backward()
optimizer.step()
assert "torch._dynamo.convert_frame" not in sys.modules, "executed by an optimizer or a checkpoint"
{use}
assert torch._dynamo is sys.modules["torch._dynamo"]
assert torch._dynamo.convert_frame.counters is torch._dynamo.utils.counters, "loaded twice"
assert torch._dynamo.disable.__module__.startswith("torch._dynamo"), "still the stand-in"
assert torch._dynamo.utils.__spec__.name == "torch._dynamo.utils"
"""


@pytest.mark.parametrize(
    "use", ["import torch._dynamo.utils", "torch._dynamo.reset()"], ids=["import", "attribute"]
)
def test_whoever_asks_for_the_compiler_gets_the_real_one(use):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(use=use)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
