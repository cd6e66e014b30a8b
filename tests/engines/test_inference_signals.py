"""Engines that come and go leave the process able to take a signal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import faulthandler, os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from tests.contracts.served_model import batch, encoder_source
from trials.inference.engine import EngineSettings
from trials.inference.engines import start_engine

faulthandler.enable()  # with a stack of its own for handlers, as pytest and many programs have
taken = []
signal.signal(signal.SIGCHLD, lambda *_: taken.append(1))

def started(number):
    folder = Path(sys.argv[2]) / str(number)
    folder.mkdir()
    settings = EngineSettings.of({"engine": sys.argv[1], "precision": "fp32", "threads": 1})
    engine = start_engine(encoder_source(), settings, folder, lambda _name: nullcontext())
    engine.run(batch(2, seed=1))
    return engine

first, second = started(1), started(2)
first.close()
del first
third = started(3)
second.close()
del second
third.close()
del third
taken.clear()
os.kill(os.getpid(), signal.SIGCHLD)
assert taken
"""


def test_a_signal_is_taken_after_openvino_engines_were_closed_in_any_order(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "openvino", str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
