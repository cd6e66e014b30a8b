"""The small expressions of ``when``, ``rules`` and ``expr``: read once, evaluated many times, never ``eval``.

Python's grammar is used for reading only. What is allowed is listed here: names (a dotted path is one name),
literals, arithmetic, comparison, ``and or not in``, ``min max``. Every step is bounded, so that a file from a
stranger cannot make the tuner slow or large.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.space.errors import shown

MAX_LENGTH = 2_000
MAX_DEPTH = 60  # a sum of n terms is n deep
MAX_INT = 2**256
MAX_EXPONENT = 64
_TOO_LARGE = "gives a number that is too large"

Names = Mapping[str, Any]
_Step = Callable[[Names], Any]
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class ExpressionError(Exception):
    """The expression cannot be read, or has no value for these names; the message says why and what to do."""


@dataclass(frozen=True)
class Expression:
    """A text that was read; ``names`` are the names that it uses, dotted ones whole."""

    text: str
    names: frozenset[str]
    _run: _Step = field(compare=False, repr=False)

    def evaluate(self, names: Names) -> Any:
        """Its value. ExpressionError where it has none (division by zero, null in a sum, text against
        number).
        """
        try:
            return self._run(names)
        except KeyError as missing:
            raise ExpressionError(f"{missing.args[0]} has no value here") from None
        except ZeroDivisionError:
            raise ExpressionError("divides by zero") from None
        except OverflowError:
            raise ExpressionError(_TOO_LARGE) from None

    def holds(self, names: Names) -> bool:
        """Its value as true or false. ExpressionError where it is neither (a number, a list)."""
        return _truth(self.evaluate(names))

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_expression, (self.text,)

    def __str__(self) -> str:
        return self.text


def parse_expression(text: str) -> Expression:
    """Read an expression. ExpressionError says what is not allowed and what to write."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is longer than {MAX_LENGTH} characters; split it into several rules")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes and the like are not the user's Python
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"is not an expression ({_reason(error)}); {_syntax_way_out(text)}") from None
    if not _fits(tree):
        raise ExpressionError(f"is nested more than {MAX_DEPTH} deep; split it into several rules")
    reader = _Reader()
    run = reader.run(tree.body)
    return Expression(text, frozenset(reader.names), run)


def _fits(tree: ast.AST) -> bool:
    """Whether no branch is deeper than MAX_DEPTH; looked at level by level, without recursion."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


def _reason(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) and error.msg else "it cannot be read"


def _syntax_way_out(text: str) -> str:
    if "&&" in text or "||" in text or "!" in text.replace("!=", ""):
        return "write and, or, not"
    if "=" in text.replace("==", "").replace("<=", "").replace(">=", "").replace("!=", ""):
        return "write == to compare"
    return "for example \"tensor_parallel_degree > 1 and precision == 'bf16'\""


class _Reader:
    """Turns a syntax tree into nested functions, and notes the names on the way."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def run(self, node: ast.AST) -> _Step:
        read = _READERS.get(type(node))
        if read is None:
            raise ExpressionError(
                f"{_source(node)} is not allowed; "
                "use names, numbers, texts, arithmetic, comparison, and or not in, min max"
            )
        return read(self, node)

    def constant(self, node: ast.Constant) -> _Step:
        value = node.value
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise ExpressionError(f"{_source(node)} is not allowed; use numbers, texts, true, false, null")
        if isinstance(value, int):
            _bounded(value)
        return lambda names: value

    def name(self, node: ast.Name | ast.Attribute) -> _Step:
        name = _dotted(node)
        if name in _CONSTANTS:
            value = _CONSTANTS[name]
            return lambda names: value
        self.names.add(name)
        return lambda names: names[name]

    def sequence(self, node: ast.List | ast.Tuple) -> _Step:
        items = [self.run(item) for item in node.elts]
        return lambda names: [item(names) for item in items]

    def binary(self, node: ast.BinOp) -> _Step:
        operation = _ARITHMETIC.get(type(node.op))
        if operation is None:
            raise ExpressionError(
                f"{_source(node)} uses an operator that is not allowed; use + - * / // % **"
            )
        left, right, compute = self.run(node.left), self.run(node.right), operation
        return lambda names: _bounded(compute(_number(left(names)), _number(right(names))))

    def unary(self, node: ast.UnaryOp) -> _Step:
        operand = self.run(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda names: not _truth(operand(names))
        if isinstance(node.op, ast.USub):
            return lambda names: -_number(operand(names))
        if isinstance(node.op, ast.UAdd):
            return lambda names: +_number(operand(names))
        raise ExpressionError(f"{_source(node)} is not allowed; write not for the opposite")

    def boolean(self, node: ast.BoolOp) -> _Step:
        steps = [self.run(value) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda names: all(_truth(step(names)) for step in steps)
        return lambda names: any(_truth(step(names)) for step in steps)

    def comparison(self, node: ast.Compare) -> _Step:
        first = self.run(node.left)
        links = []
        for sign, right in zip(node.ops, node.comparators, strict=True):
            compare = _COMPARE.get(type(sign))
            if compare is None:
                raise ExpressionError(f"{_source(node)} is not allowed; write == to compare")
            links.append((compare, self.run(right)))

        def step(names: Names) -> bool:
            left = first(names)
            for compare, read_right in links:
                right = read_right(names)
                if not compare(left, right):
                    return False
                left = right
            return True

        return step

    def call(self, node: ast.Call) -> _Step:
        function = _FUNCTIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is None or node.keywords or not node.args:
            raise ExpressionError(
                f"{_source(node)} is not allowed; the only functions are min(...) and max(...)"
            )
        pick, steps = function, [self.run(argument) for argument in node.args]

        def step(names: Names) -> Any:
            values = [one(names) for one in steps]
            if len(values) == 1 and isinstance(values[0], list):
                values = values[0]
            if not values:
                raise ExpressionError("min and max need at least one number")
            return pick([_number(value) for value in values])

        return step


def _dotted(node: ast.AST) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ExpressionError(f"{_source(node)} has no parts that a dot could name; use a parameter's name")
    return ".".join([node.id, *reversed(parts)])


def _source(node: ast.AST) -> str:
    return shown(ast.unparse(node))


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    if value is None:
        raise ExpressionError(
            "null (the default) has no number to compute with; test for it first: x == null or ..."
        )
    raise ExpressionError(f"{shown(value)} is not a number; compute with numbers only")


def _bounded(value: Any) -> Any:
    if isinstance(value, complex):
        raise ExpressionError("the root of a negative number is not a number here")
    if isinstance(value, int) and abs(value) >= MAX_INT:
        raise ExpressionError(_TOO_LARGE)
    return value


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > MAX_EXPONENT:
        raise ExpressionError(f"an exponent of {exponent} is too large; at most {MAX_EXPONENT}")
    return base**exponent


def _truth(value: Any) -> bool:
    """A mode such as ``compile: max-autotune`` counts as true, null as false; a number must be compared
    first.
    """
    if isinstance(value, bool):
        return value
    if value is None or isinstance(value, str):
        return bool(value)
    raise ExpressionError(f"{shown(value)} is neither true nor false; compare it with something")


def _equal(left: Any, right: Any) -> bool:
    """As Python's ==, but true is not 1."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def step(left: Any, right: Any) -> bool:
        are_numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if are_numbers or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        raise ExpressionError(f"{shown(left)} and {shown(right)} have no order; compare numbers with numbers")

    return step


def _is_in(left: Any, right: Any) -> bool:
    if isinstance(right, list):
        return any(_equal(left, item) for item in right)
    if isinstance(right, str) and isinstance(left, str):
        return left in right
    raise ExpressionError(f"{shown(left)} in {shown(right)} has no meaning; write a list after in")


_READERS: dict[type[ast.AST], Callable[[_Reader, Any], _Step]] = {
    ast.Constant: _Reader.constant,
    ast.Name: _Reader.name,
    ast.Attribute: _Reader.name,
    ast.List: _Reader.sequence,
    ast.Tuple: _Reader.sequence,
    ast.BinOp: _Reader.binary,
    ast.UnaryOp: _Reader.unary,
    ast.BoolOp: _Reader.boolean,
    ast.Compare: _Reader.comparison,
    ast.Call: _Reader.call,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda left, right: not _equal(left, right),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _is_in,
    ast.NotIn: lambda left, right: not _is_in(left, right),
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"min": min, "max": max}
