"""Starts PyTorch without its compiler where nothing is compiled: importing that costs 1.1-1.3 s per trial.

PyTorch's optimizers import ``torch._dynamo`` for two things only: to keep a function out of tracing
(``disable``) and to end a traced graph (``graph_break``). Neither means anything while nothing is traced. So
the package is registered unexecuted, with those two as what they are in an untraced program. Whoever asks for
anything else in it, a task that compiles on its own for instance, gets the real one: it is executed then.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
_LIGHT = f"{_NAME}.config"  # plain settings; activation checkpointing reads one


class _Unexecuted(ModuleType):
    """A package that executes itself when it is asked for an attribute that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{_NAME}.{name}" == _LIGHT:
            return importlib.import_module(_LIGHT)
        _execute(self)
        return getattr(self, name)


class _SubmoduleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Executes the package before the first of its submodules is imported, as an ordinary import would."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """A spec that hands out the submodule where executing the package has imported it already."""
        package = sys.modules.get(_NAME)
        if not fullname.startswith(f"{_NAME}.") or fullname == _LIGHT or not isinstance(package, _Unexecuted):
            return None
        _execute(package)
        found = sys.modules.get(fullname)
        if found is None:
            return None
        # importlib would take the spec of a module that appeared meanwhile, and load that one a second time
        state, found.__spec__ = found.__spec__, None
        return ModuleSpec(fullname, self, loader_state=state)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that is there."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed; only its own spec has to come back."""
        assert module.__spec__ is not None  # importlib has just set it
        module.__spec__ = module.__spec__.loader_state


def defer_compiler() -> None:
    """Register the compiler's front end unexecuted; does nothing where it is loaded already."""
    import torch

    spec = importlib.util.find_spec(_NAME) if _NAME not in sys.modules else None
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Unexecuted
    module.__dict__.update(disable=_unchanged, graph_break=_nothing)
    sys.modules[_NAME] = module
    torch._dynamo = module  # what the import statement would do
    sys.meta_path.insert(0, _SubmoduleFinder())


def _execute(package: ModuleType) -> None:
    """Make an ordinary package of it, in place: whoever holds it holds the real one from here on."""
    package.__class__ = ModuleType
    spec = package.__spec__
    assert spec is not None and spec.loader is not None  # set by module_from_spec
    spec.loader.exec_module(package)


def _unchanged(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    """``disable`` where nothing is traced: the function itself; used with options, a decorator."""
    return function if function is not None else (lambda decorated: decorated)


def _nothing(*_: Any, **__: Any) -> None:
    """``graph_break`` where nothing is traced."""
