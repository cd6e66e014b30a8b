"""Starts PyTorch without its compiler where nothing is compiled: importing that costs 1.1-1.3 s per trial.

PyTorch's optimizers import ``torch._dynamo`` for two things only: to keep a function out of tracing
(``disable``) and to end a traced graph (``graph_break``). Neither means anything while nothing is traced. So
the module is registered unexecuted, with those two as what they are in an untraced program. Whoever asks it
for anything else gets the real module: it is executed then, in place.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
_LIGHT = f"{_NAME}.config"  # plain settings; activation checkpointing reads one


class _Unexecuted(ModuleType):
    """A module that executes itself when it is asked for an attribute that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{_NAME}.{name}" == _LIGHT:
            return importlib.import_module(_LIGHT)
        self.__class__ = ModuleType  # type: ignore[assignment]  # an ordinary module from here on
        self.__dict__.pop("disable", None)
        self.__dict__.pop("graph_break", None)
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


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


def _unchanged(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    """``disable`` where nothing is traced: the function itself; used with options, a decorator."""
    return function if function is not None else (lambda decorated: decorated)


def _nothing(*_: Any, **__: Any) -> None:
    """``graph_break`` where nothing is traced."""
