"""torch.compile, with what it made: number of graphs, breaks, and the dtypes of the products inside."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn


class Compiler:
    """Compiles a module, keeps compiled code in the study's own folder, and counts what was made.

    Without ``cache_dir`` PyTorch's own folder is used. ``patches`` are settings of the compiler: ``freezing=True``.
    """

    def __init__(self, mode: str | bool, cache_dir: Path | None, **patches: Any) -> None:
        if cache_dir is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache_dir / "inductor")
        import torch._dynamo.utils
        import torch._functorch.config
        from torch._inductor import list_mode_options

        # this cache would skip the inspection of graphs; that of compiled code, which saves time, stays
        torch._functorch.config.enable_autograd_cache = False
        self.options: dict[str, Any] = {
            **(list_mode_options(mode) if isinstance(mode, str) else {}),
            **patches,
        }
        self._counters = torch._dynamo.utils.counters
        self.products: Counter[str] = Counter()

    def compile(self, model: nn.Module, dynamic: bool | None = None) -> nn.Module:
        """A callable twin of the model with the same parameters; ``dynamic`` is that of torch.compile."""
        return cast(nn.Module, torch.compile(model, backend=self._backend, dynamic=dynamic))

    def compile_in_place(self, model: nn.Module) -> None:
        """The model itself runs compiled from now on, so that what wraps it (DDP) calls compiled code too."""

        def called(*arguments: Any, **keywords: Any) -> Any:
            # a frame of our own: PyTorch traces into its containers from others' code only
            return model._call_impl(*arguments, **keywords)  # type: ignore[no-untyped-call]  # torch's

        model._compiled_call_impl = torch.compile(called, backend=self._backend)

    @contextmanager
    def eager(self, model: nn.Module) -> Iterator[None]:
        """Inside, a model that was compiled in place runs as it was written."""
        compiled, model._compiled_call_impl = model._compiled_call_impl, None
        try:
            yield
        finally:
            model._compiled_call_impl = compiled

    def count_graphs(self) -> int:
        """Graphs compiled so far; a change during the timed window is a recompilation."""
        return int(self._counters["stats"]["unique_graphs"])

    @property
    def is_warm(self) -> bool:
        """True where all compiled code came from the cache."""
        found = self._counters["inductor"]
        return found["fxgraph_cache_hit"] > 0 and not found["fxgraph_cache_miss"]

    def shares(self) -> dict[str, float]:
        """Share of the products in the compiled graphs by dtype name."""
        total = sum(self.products.values()) or 1
        return {name: count / total for name, count in self.products.most_common()}

    def describe(self) -> dict[str, Any]:
        """For the proof."""
        breaks = self._counters["graph_break"]
        return {
            "compiled_graphs": self.count_graphs(),
            "graph_breaks": sum(breaks.values()),
            "compiled_products": dict(self.products),
        }

    def _backend(self, graph: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        def inspected(inner: Any, inner_inputs: Any, **options: Any) -> Any:
            self.products += products_in(inner)
            return compile_fx_inner(inner, inner_inputs, **options)

        return compile_fx(graph, inputs, inner_compile=inspected, config_patches=self.options)


def products_in(module: Any) -> Counter[str]:
    """Matrix products, convolutions and attention in a graph and its subgraphs, by the dtype of the first input."""
    from torch.utils.flop_counter import flop_registry

    products: Counter[str] = Counter()
    for graph in (part.graph for part in module.modules() if hasattr(part, "graph")):
        for node in graph.nodes:
            if getattr(node.target, "_overloadpacket", None) in flop_registry:
                value = next(argument for argument in node.args if hasattr(argument, "meta")).meta["val"]
                products[str(value.dtype).removeprefix("torch.")] += 1
    return products
