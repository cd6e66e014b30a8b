"""Server-sent events out of the pieces in which a body arrived, each with the time at which it was whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def events(chunks: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """(time, data) of every event. An event counts from the piece that completed it; comments and other fields are
    passed over, and so is an event that was never finished.
    """
    rest, data = b"", []
    for at_s, chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield at_s, b"\n".join(data)
                data = []
