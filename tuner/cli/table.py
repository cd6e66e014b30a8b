"""Tables that stay readable: aligned where there is room, one block a row where there is not."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from tuner.space.errors import printable

_LEAST_ROOM = 30
"""Columns that a long last cell needs beside the others; with less, it goes below them."""


def terminal_width() -> int | None:
    """Columns of the terminal on stdout (or COLUMNS); None where the output goes into a file or a pipe."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def table_width(rows: Sequence[Sequence[str]], header: Sequence[str]) -> int:
    """Columns that the table takes when nothing is wrapped."""
    header, *rows = [[printable(cell) for cell in line] for line in (header, *rows)]
    return sum(_widths(rows, header)) + 2 * (len(header) - 1)


def table(rows: Sequence[Sequence[str]], header: Sequence[str], width: int | None = None) -> str:
    """Aligned columns under a header: numbers to the right, words to the left.

    Where ``width`` columns are too few, the last cell is wrapped, or goes below the others; where even that
    does not help, each row is a block under its first cell.
    """
    header, *rows = [[printable(cell) for cell in line] for line in (header, *rows)]
    *widths, last = _widths(rows, header)
    beside = sum(widths) + 2 * len(widths)
    if width is not None and beside - 2 > width:
        return "\n".join(_block(row, header, width) for row in rows)
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    if width is None or beside + last <= width:
        return "\n".join(_aligned(line, [*widths, last], right) for line in (header, *rows))
    if width - beside >= _LEAST_ROOM:
        return "\n".join(_beside(line, widths, right, width - beside) for line in (header, *rows))
    return "\n".join(
        [_aligned(header[:-1], widths, right), *(_below(row, widths, right, width) for row in rows)]
    )


def _widths(rows: Sequence[Sequence[str]], header: Sequence[str]) -> list[int]:
    return [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=False)]
    return "  ".join(placed).rstrip()


def _beside(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], room: int) -> str:
    first, *rest = _wrapped(cells[-1], room)
    indent = " " * (sum(widths) + 2 * len(widths))
    return "\n".join([_aligned([*cells[:-1], first], [*widths, 0], right), *(indent + part for part in rest)])


def _below(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], width: int) -> str:
    return "\n".join([_aligned(cells[:-1], widths, right), *_indented(cells[-1], width)])


def _block(row: Sequence[str], header: Sequence[str], width: int) -> str:
    names = max(map(len, header[1:-1]), default=0)
    lines = [f"{header[0]} {row[0].strip()}"]
    lines += [
        f"  {name:<{names}}  {cell}" for name, cell in zip(header[1:-1], row[1:-1], strict=True) if cell
    ]
    return "\n".join([*lines, *_indented(row[-1], width)])


def _indented(text: str, width: int) -> list[str]:
    return [f"      {part}" for part in _wrapped(text, max(width - 6, 10)) if part]


def fitted(line: str, width: int | None, indent: int = 2) -> str:
    """A line of words, continued on indented ones where ``width`` columns are too few."""
    if width is None or len(line) <= width:
        return line
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _is_number(cell: str) -> bool:
    return cell[:1] in "-0123456789" or cell == ""
