"""YAML text as a tree in which every key and value knows its line; scalars by the rules of YAML 1.2.

PyYAML resolves scalars by YAML 1.1 (``on`` is true, ``1e-4`` a text), so only its composer is used, and the
plain scalars are read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tuner.space.errors import Problems, Where

MAX_DEPTH = 30  # of nesting; an alias inside its own anchor would go on for ever
MAX_NODES = 100_000  # after aliases are followed, which can multiply
MAX_BYTES = 1_000_000

_PLAIN = "plain"
_STR = "tag:yaml.org,2002:str"
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(
    r"[-+]?[0-9]{1,300}"
)  # a longer one does not fit a float; it is read as infinity, and refused
_BASED = re.compile(r"0o[0-7]{1,200}|0x[0-9a-fA-F]{1,200}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class Scalar:
    """A value without parts. ``text`` is what stands in the file."""

    value: Any
    text: str
    where: Where
    is_quoted: bool = False


@dataclass
class Sequence:
    """A list."""

    items: list[Node]
    where: Where


@dataclass
class Entry:
    """A key with its value. ``key`` is stripped text; ``label`` is the key read as a scalar (1, true,
    small).
    """

    key: str
    label: Any
    where: Where
    node: Node


@dataclass
class Map:
    """A map, in the order of the file."""

    entries: list[Entry]
    where: Where

    def get(self, key: str) -> Entry | None:
        """The entry of that key, or None."""
        return next((entry for entry in self.entries if entry.key == key), None)

    @property
    def keys(self) -> list[str]:
        """The keys, in order."""
        return [entry.key for entry in self.entries]


Node = Scalar | Sequence | Map


def plain(node: Node) -> Any:
    """The tree as lists, dicts and scalars; keys are text."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {entry.key: plain(entry.node) for entry in node.entries}


def read_scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema: ``1e-4`` is a number, ``on`` a word, only true and false
    boolean.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "").lower())
    return text


def scalar_text(value: Any) -> str:
    """One text per value, words bare: ``1``, ``1.0``, ``true`` and ``"1"`` stay apart, a list is JSON."""
    if isinstance(value, str) and isinstance(read_scalar(value), str) and value[:1] not in '"[{':
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def read_yaml(text: str, where: Where, problems: Problems) -> Node | None:
    """The tree of a YAML text. None, with the problem noted, where it is not YAML.

    ``where`` names the file and its first line; a text without lines (``--set``) has line None.
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        _note_syntax_error(error, text, where, problems)
        return None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problems.add(where, f"is not YAML: {' '.join(str(error).split())}", "save it as plain UTF-8 text")
        return None
    finally:
        loader.dispose()
    if root is None:
        return Scalar(None, "", where)
    try:
        return _Builder(where, problems).build(root, 0)
    except _TooLargeError as error:
        problems.add(where, str(error), "write it without anchors that refer to one another")
        return None


class _TooLargeError(Exception):
    """The tree is deeper or larger than a space file can be."""


_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]  # the C loader where PyYAML has it
    """Composes nodes; unquoted scalars without a tag keep the mark ``plain``."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STR
        return "tag:yaml.org,2002:seq" if kind is yaml.SequenceNode else "tag:yaml.org,2002:map"


@dataclass
class _Builder:
    base: Where
    problems: Problems
    nodes: int = field(default=0)

    def build(self, node: Any, depth: int) -> Node:
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise _TooLargeError(f"is nested more than {MAX_DEPTH} deep")
        if self.nodes > MAX_NODES:
            raise _TooLargeError(f"has more than {MAX_NODES} values")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, depth)
        return self._map(node, depth)

    def _where(self, node: Any) -> Where:
        return Where(self.base.path, None if self.base.line is None else node.start_mark.line + 1)

    def _scalar(self, node: Any) -> Scalar:
        where = self._where(node)
        self._refuse_nul(node.value, where)
        if node.tag == _PLAIN:
            return Scalar(read_scalar(node.value), node.value, where)
        if node.tag != _STR:
            self.problems.add(where, f"{node.value} has the tag {node.tag}", "write it without a tag")
        return Scalar(node.value, node.value, where, is_quoted=True)

    def _sequence(self, node: Any, depth: int) -> Sequence:
        built = Sequence([self.build(item, depth + 1) for item in node.value], self._where(node))
        if node.flow_style:
            self._look_for_torn([_text(item) for item in built.items], built.where)
        for item, source in zip(built.items, node.value, strict=True):
            if isinstance(item, Map) and source.flow_style and _is_bare_name(item):
                text = f'"{{{item.entries[0].key}}}"'
                self.problems.add_torn(
                    item.where, f"{text[1:-1]} is a map to YAML", f"put it in quotes: {text}"
                )
        return built

    def _map(self, node: Any, depth: int) -> Map:
        entries: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            entry = self._entry(key_node, value_node, depth)
            if entry is None:
                continue
            first = entries.get(entry.key)
            if first is not None:
                self.problems.add(
                    entry.where, f"{entry.key} is given twice (first in line {first.where.line})", "keep one"
                )
                continue
            entries[entry.key] = entry
        built = Map(list(entries.values()), self._where(node))
        if node.flow_style:
            texts = [text for entry in built.entries for text in (entry.key, _text(entry.node))]
            self._look_for_torn(texts, built.where)
        return built

    def _entry(self, key_node: Any, value_node: Any, depth: int) -> Entry | None:
        where = self._where(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            self.problems.add_torn(
                where, "a key is a list or a map", "put a text with brackets or braces in quotes"
            )
            return None
        key = key_node.value.strip()
        self._refuse_nul(key, where)
        label = read_scalar(key) if key_node.tag == _PLAIN else key
        if not key:
            self.problems.add(where, "a key is empty", "give it a name")
            return None
        return Entry(key, label, where, self.build(value_node, depth + 1))

    def _refuse_nul(self, text: str, where: Where) -> None:
        if "\0" in text:
            shown = text.replace("\0", "\\0")
            self.problems.add(
                where, f"{shown:.80} holds NUL, which no program can be given", "write it without"
            )

    def _look_for_torn(self, texts: list[str], where: Where) -> None:
        """``{gpus: max(tp, 2)}`` is two entries to YAML: one text leaves a parenthesis open, a later one
        closes it.
        """
        balances = [text.count("(") - text.count(")") for text in texts]
        if any(balance > 0 for balance in balances) and any(balance < 0 for balance in balances):
            begin = next(text for text, balance in zip(texts, balances, strict=True) if balance > 0)
            self.problems.add_torn(
                where,
                f"YAML takes the text that begins with {begin!r} apart at its comma",
                "put it in quotes",
            )


def _text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) and not node.is_quoted else ""


def _is_bare_name(node: Map) -> bool:
    if len(node.entries) != 1:
        return False
    value = node.entries[0].node
    return isinstance(value, Scalar) and value.text == "" and not value.is_quoted


_EXPRESSION_SIGNS = re.compile(r"\b(when|expr|rules|in|and|or|not|min|max)\b|[<>=*/%(\[{]")


def _note_syntax_error(error: yaml.MarkedYAMLError, text: str, where: Where, problems: Problems) -> None:
    mark = error.problem_mark or error.context_mark
    line = None if where.line is None or mark is None else mark.line + 1
    said = ", ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    source = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in source[: len(source) - len(source.lstrip())]:
        way_out = "indent with spaces, not tabs"
    elif _EXPRESSION_SIGNS.search(source):
        way_out = "if this is an expression or a text with brackets, braces or commas, put it in quotes"
    else:
        way_out = "look for a missing quote, colon or closing bracket"
    problems.add(Where(where.path, line), f"is not YAML: {said}", way_out)


def leaves(node: Node) -> Iterator[Scalar]:
    """Every scalar value of a tree."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from leaves(item)
    else:
        for entry in node.entries:
            yield from leaves(entry.node)
