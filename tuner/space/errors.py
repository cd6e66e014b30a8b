"""What is wrong in a space file, all of it at once.

SpaceError           the file cannot be used; ``problems`` lists why
ExpressionError      a condition, rule or derived value cannot be read or computed (expressions.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_CLOSE_ENOUGH = 0.6  # difflib's ratio; lower proposes names that have nothing to do with the typo


@dataclass(frozen=True)
class Where:
    """A place that the user can go to: a file and a line, or the ``--set`` option (line None)."""

    path: str
    line: int | None


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, and what with the way out."""

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


class SpaceError(Exception):
    """The space file is wrong; ``problems`` holds everything that is, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass
class Problems:
    """Collects problems and warnings while a file is read.

    ``left_out``: parameters that are in the file and could not be read, and those that were probably meant, so
    that to name one elsewhere is no further mistake.
    """

    found: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    _torn: set[Where] = field(default_factory=set)

    def add(self, where: Where, message: str, way_out: str = "") -> None:
        """Note a problem, once. What else is odd in a line that YAML tore apart follows from that, and is
        not said.
        """
        problem = Problem(where.path, where.line, f"{message}; {way_out}" if way_out else message)
        if where not in self._torn and problem not in self.found:
            self.found.append(problem)

    def add_torn(self, where: Where, message: str, way_out: str) -> None:
        """Note that YAML took the line apart where the user meant one text."""
        self.add(where, message, way_out)
        self._torn.add(where)

    def warn(self, where: Where, message: str) -> None:
        """Note something that the user should know and that stops nothing."""
        text = str(Problem(where.path, where.line, message))
        if text not in self.warnings:
            self.warnings.append(text)

    def raise_if_any(self) -> None:
        """Raise SpaceError where anything was found."""
        if self.found:
            raise SpaceError(sorted(self.found, key=lambda problem: problem.line or 0))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: the same last word (``task.lr`` for ``lr``), or a similar
    spelling.
    """
    import difflib

    names = list(dict.fromkeys(known))
    same_tail = [other for other in names if other.endswith(f".{name}")]
    if same_tail:
        return same_tail[0]
    close = difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE_ENOUGH)
    return close[0] if close else None


def known_names(name: str, known: Iterable[str]) -> str:
    """The way out of an unknown name: the nearest known one, else the list of them."""
    names = sorted(set(known))
    found = nearest(name, names)
    if found:
        return f"did you mean {found}?"
    family = name.rpartition(".")[0]  # of a task's parameters the task's own come first
    names.sort(key=lambda other: not (family and other.startswith(f"{family}.")))
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"known: {shown}" if names else "none is known here"


def printable(text: str, kept: str = "") -> str:
    """The text with every character that steers a terminal or cannot be seen spelled out (``\\x1b``, ``\\n``,
    ``\\u202e``), those ``kept`` aside.
    """
    if text.isprintable():
        return text
    return "".join(c if c in kept or _is_seen(c) else c.encode("unicode_escape").decode() for c in text)


def _is_seen(character: str) -> bool:
    import unicodedata

    return character.isprintable() or unicodedata.category(character) == "Zs"


def is_control(character: str) -> bool:
    """Whether it steers a terminal, or is half a character, rather than being read."""
    import unicodedata

    return unicodedata.category(character) in ("Cc", "Cs")


def shown(value: object) -> str:
    """A value as the user would write it: true, null, fp32, [1, 2]."""
    import json

    text = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else f"{text[:77]}..."
