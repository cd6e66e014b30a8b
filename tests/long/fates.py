"""What becomes of a made-up trial, and the program that makes it so: ``fates.py X FOLDER [FATE]``.

The fate hangs on x alone, through a checksum, so whoever looks at the records later knows what should be there; FATE
overrules it.
"""

import os
import signal
import sys
import time
import zlib
from collections.abc import Iterator

SHARES = {"crash": 0.10, "hang": 0.05, "memory": 0.05, "killed": 0.02, "garbage": 0.02}
TYPED_AS = {
    "fine": ("complete",),
    "crash": ("crash",),
    "hang": ("timeout",),
    "memory": ("out_of_memory",),
    "killed": ("killed",),
    "garbage": ("missing_metric", "non_finite"),
}
NOT_FINITE = b'{"speed": NaN, "cost": 1e999}'
GARBAGE = (NOT_FINITE, b"", b"\xff\x00\xfe garbage", b"[1, 2", b'{"speed": "fast"}')
TAKEN_BYTES = 2**29


def fate_of(x: int, seed: int = 0) -> str:
    """The fate of a configuration; over many, each comes as often as its share says."""
    place = zlib.crc32(f"{seed}:{x}".encode()) / 2**32
    for fate, share in SHARES.items():
        if place < share:
            return fate
        place -= share
    return "fine"


def xs_of(fate: str) -> Iterator[int]:
    """The configurations with that fate, in order."""
    return (x for x in range(1, 10**6) if fate_of(x) == fate)


def main(x: int, folder: str, fate: str) -> int:
    """Do what fate says; returns the exit status."""
    if fate == "crash":
        return 9
    if fate == "hang":
        time.sleep(600)
    if fate == "memory":
        taken = bytearray(b"x") * TAKEN_BYTES
        time.sleep(600)
        return len(taken) % 2
    if fate == "killed":  # the program alone, or the process that measures it
        os.kill(os.getpid() if x % 2 else os.getppid(), signal.SIGKILL)
        time.sleep(600)
    numbers = GARBAGE[x % len(GARBAGE)] if fate == "garbage" else b'{"speed": %d, "cost": %d}' % (x, x * x)
    with open(f"{folder}/metrics.json", "wb") as stream:  # noqa: PTH123 - pathlib costs each trial 5 ms
        stream.write(numbers)
    return 0


if __name__ == "__main__":
    number = int(sys.argv[1])
    sys.exit(main(number, sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else fate_of(number)))
