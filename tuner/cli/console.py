"""What a person reads goes through here: names, choices and the output of trials steer no terminal.

Data for programs (JSON, exported files) does not: it is printed as it is.
"""

from __future__ import annotations

import re

import click

from tuner.space.errors import printable

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_LAYOUT = "\n\t"


def legible(text: str) -> str:
    """Text of ours with foreign parts: lines and styles stay, what else steers a terminal is spelled out."""
    parts = _STYLE.split(text)
    return "".join(part if _STYLE.fullmatch(part) else printable(part, _LAYOUT) for part in parts)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print for a person."""
    click.echo(legible(text), err=err)
