"""byte_lm that can be run in turns with another process, and keeps a clock of its own.

Two processes that take turns every few steps meet the same minutes of the machine, so that what is left of
their ratio is the cost of the loops and not the weather.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from trials.tasks.byte_lm import ByteLM

STEPS_A_TURN = 8


class PacedByteLM(ByteLM):
    """``clock`` is a file for the times of this process; ``mine`` and ``other`` are named pipes, or empty.

    With pipes a turn is `STEPS_A_TURN` whole steps, from one call of ``loss`` to another, and the file holds
    the seconds of each turn; without, it holds when ``loss`` was called.
    """

    def __init__(self, *, clock: str, mine: str = "", other: str = "", **sizes: Any):
        super().__init__(**sizes)
        self._times: list[float] = []
        self._calls, self._begin = 0, 0.0
        if mine:
            # Read and write, so that opening waits for nobody.
            self._mine, self._other = os.open(mine, os.O_RDWR), os.open(other, os.O_RDWR)
        self._is_paced = bool(mine)
        self._clock = Path(clock)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """The loss of byte_lm, after this process has its turn."""
        self._pace() if self._is_paced else self._keep(time.perf_counter())
        return super().loss(model, batch)

    def _keep(self, seconds: float) -> None:
        """Written at once: a trial's process ends without saying goodbye."""
        self._times.append(seconds)
        self._clock.write_text(json.dumps(self._times))

    def _pace(self) -> None:
        if self._calls % STEPS_A_TURN == 0:
            if self._calls:
                self._keep(time.perf_counter() - self._begin)
                os.write(self._other, b".")
            os.read(self._mine, 1)
            self._begin = time.perf_counter()
        self._calls += 1
