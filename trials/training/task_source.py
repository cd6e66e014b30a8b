"""What a task's source says about it, without importing it (a task imports torch, a check must not)."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

UNREADABLE = object()
"""The default of a parameter whose source is not a literal."""
REQUIRED = object()
"""The default of a parameter that has none."""


class TaskProblem(ValueError):  # noqa: N818 - a wrong input, worded for the user
    """The task cannot be found or read; the message says why, ``way_out`` what to do."""

    def __init__(self, message: str, way_out: str) -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out


@dataclass(frozen=True)
class TaskParameter:
    """A keyword of the task's ``__init__``. ``types`` is empty where neither annotation nor default tells."""

    name: str
    types: tuple[type, ...]
    default: Any
    choices: tuple[Any, ...] | None
    line: int


@dataclass(frozen=True)
class TaskSource:
    """A task class as read: parameters in order, methods, literal class attributes.

    ``tokens_parameter`` names the parameter that ``self.tokens_per_sample = ...`` is set from, if it is;
    ``has_unread_base`` is True where a base class cannot be read from here (it may hold methods).
    """

    file: Path
    class_name: str
    doc: str = ""
    parameters: dict[str, TaskParameter] = field(default_factory=dict)
    methods: frozenset[str] = frozenset()
    attributes: dict[str, Any] = field(default_factory=dict)
    tokens_parameter: str | None = None
    has_unread_base: bool = False


def split_target(target: str) -> tuple[str, str]:
    """``place:Class`` -> (place, Class); TaskProblem where it is not of that form."""
    place, _, name = target.rpartition(":")
    if not place or not name.isidentifier():
        raise TaskProblem(
            f"{target!r} is not a task", "write package.module:Class, or my_task.py:MyTask beside this file"
        )
    return place, name


def locate(place: str) -> Path:
    """The source file of ``package.module`` or of a ``.py`` path; imports nothing."""
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise TaskProblem(f"there is no file {path}", "the path of a task is relative to the space file")
        return path
    return _module_file(place)


def read_task(target: str) -> TaskSource:
    """Read a task; TaskProblem where file or class is not there. Read again when the file changes."""
    place, name = split_target(target)
    path = locate(place)
    return _read(path, name, path.stat().st_mtime_ns)


@cache
def _read(path: Path, name: str, _mtime_ns: int) -> TaskSource:
    tree = _tree(path)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        known = ", ".join(classes) or "no class at all"
        raise TaskProblem(f"{path.name} has no class {name}", f"it has {known}")
    node = classes[name]
    bases = [_base(base, tree, path) for base in reversed(node.bases)]
    found = TaskSource(path, name, has_unread_base=None in bases)
    for base in bases:
        found = _over(base, found) if base else found
    return _over(_own(node, path), found)


def _own(node: ast.ClassDef, path: Path) -> TaskSource:
    functions = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    parameters, tokens = _dataclass_parameters(node), None
    if "__init__" in functions:
        parameters = _init_parameters(functions["__init__"])
        tokens = _tokens_parameter(functions["__init__"], parameters)
    doc = ast.get_docstring(node) or ""
    return TaskSource(path, node.name, doc, parameters, frozenset(functions), dict(_literals(node)), tokens)


def _over(upper: TaskSource, lower: TaskSource) -> TaskSource:
    """A class over its base: an own ``__init__`` hides the base's, unless it passes ``**kwargs`` on."""
    has_own = "__init__" in upper.methods and "**" not in upper.parameters
    parameters = upper.parameters if has_own else {**lower.parameters, **upper.parameters}
    tokens = upper.tokens_parameter or lower.tokens_parameter
    return TaskSource(
        upper.file,
        upper.class_name,
        upper.doc or lower.doc,
        {name: parameter for name, parameter in parameters.items() if name != "**"},
        upper.methods | lower.methods,
        {**lower.attributes, **upper.attributes},
        tokens if tokens in parameters else None,
        upper.has_unread_base or lower.has_unread_base,
    )


def _base(base: ast.expr, tree: ast.Module, path: Path) -> TaskSource | None:
    """A base class of the same file, or imported by name at its top; None where it cannot be read."""
    imported = {
        (alias.asname or alias.name): (statement.module, alias.name)
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level
        for alias in statement.names
    }
    if not isinstance(base, ast.Name):
        return None
    try:
        if base.id not in imported:
            return _read(path, base.id, path.stat().st_mtime_ns)
        module, name = imported[base.id]
        sibling = path.parent / f"{module}.py"
        return read_task(f"{sibling if sibling.is_file() else module}:{name}")
    except TaskProblem:
        return None


def _init_parameters(init: ast.FunctionDef) -> dict[str, TaskParameter]:
    arguments = init.args
    positional = [*arguments.posonlyargs, *arguments.args][1:]  # without self
    missing: list[ast.expr | None] = [None] * max(0, len(positional) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults[-len(positional) :]] if positional else []
    pairs = [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    found = {
        argument.arg: _parameter(argument.arg, argument.annotation, default) for argument, default in pairs
    }
    if arguments.kwarg:
        found["**"] = TaskParameter("**", (), None, None, init.lineno)
    return found


def _dataclass_parameters(node: ast.ClassDef) -> dict[str, TaskParameter]:
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return {}
    fields = [
        item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    return {
        item.target.id: _parameter(item.target.id, item.annotation, item.value)
        for item in fields
        if isinstance(item.target, ast.Name)
    }


def _parameter(name: str, annotation: ast.expr | None, default: ast.expr | None) -> TaskParameter:
    value = REQUIRED if default is None else _literal(default)
    types, choices = _types(annotation)
    if annotation is None and value not in (REQUIRED, UNREADABLE) and value is not None:
        types = (type(value),)
    line = getattr(annotation or default, "lineno", 0)
    return TaskParameter(name, types, value, choices, line)


_NAMED_TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "dict": dict,
    "None": type(None),
}


def _types(annotation: ast.expr | None) -> tuple[tuple[type, ...], tuple[Any, ...] | None]:
    """Types and choices of an annotation such as ``int``, ``float | None`` or ``Literal["a", "b"]``."""
    if annotation is None:
        return (), None
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Literal"):
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return (), tuple(_literal(item) for item in inner)
    names = [part.strip().partition("[")[0] for part in str(text).split("|")]
    types = tuple(_NAMED_TYPES[name] for name in names if name in _NAMED_TYPES)
    return (types if len(types) == len(names) else ()), None


def _tokens_parameter(init: ast.FunctionDef, parameters: dict[str, TaskParameter]) -> str | None:
    for statement in ast.walk(init):
        if (
            isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "self.tokens_per_sample"
            and isinstance(statement.value, ast.Name)
            and statement.value.id in parameters
        ):
            return statement.value.id
    return None


def _literals(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for item in node.body:
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        value = getattr(item, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            literal = _literal(value)
            if literal is not UNREADABLE:
                yield target.id, literal


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return UNREADABLE


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as problem:
        raise TaskProblem(
            f"{path.name}:{problem.lineno}: {problem.msg}", "the task must be valid Python"
        ) from problem
    except UnicodeDecodeError as problem:
        raise TaskProblem(f"{path.name}: {problem.reason}", "write the task as UTF-8") from problem


def _module_file(module: str) -> Path:
    """Walk down from the top package, because asking for a submodule would import its parents."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ValueError, ImportError):
        spec = None
    if spec is None:
        raise TaskProblem(
            f"there is no module {top}", "install it, or write my_task.py:MyTask for a file beside this one"
        )
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    if not rest and spec.origin and Path(spec.origin).is_file():
        return Path(spec.origin)
    for folder in folders:
        for candidate in (folder.joinpath(*rest).with_suffix(".py"), folder.joinpath(*rest, "__init__.py")):
            if candidate.is_file():
                return candidate
    raise TaskProblem(f"{top} has no module {'.'.join(rest)}", "check the name after the dot")
