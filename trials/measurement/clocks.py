"""When each step ended: host clock on a CPU, events in the device's stream on a GPU."""

from __future__ import annotations

import time
from typing import Any, Protocol


class StepClock(Protocol):
    """Marks the ends of steps without making the device wait."""

    def mark(self) -> None:
        """A step ends here."""
        ...

    def durations_s(self) -> list[float]:
        """Seconds between neighbouring marks; synchronises with the device."""
        ...


class HostClock:
    """For work that has ended when the call returns (a CPU)."""

    def __init__(self) -> None:
        self._marks: list[float] = []

    def mark(self) -> None:
        """A step ends here."""
        self._marks.append(time.perf_counter())

    def durations_s(self) -> list[float]:
        """Seconds between neighbouring marks."""
        return [end - begin for begin, end in zip(self._marks, self._marks[1:], strict=False)]


class CudaClock:
    """For work that is only queued when the call returns: an event per step, read after the run."""

    def __init__(self) -> None:
        self._marks: list[Any] = []

    def mark(self) -> None:
        """A step ends here, in the order of the current stream."""
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
        event.record()
        self._marks.append(event)

    def durations_s(self) -> list[float]:
        """Seconds between neighbouring marks on the device; waits for the last one."""
        import torch

        torch.cuda.synchronize()
        return [
            begin.elapsed_time(end) / 1000 for begin, end in zip(self._marks, self._marks[1:], strict=False)
        ]
