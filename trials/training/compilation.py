"""torch.compile, with what it made: number of graphs, breaks, and the dtypes of the products inside."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from torch import nn


class Compiler:
    """Compiles a module, keeps compiled code in the study's own folder, and counts what was made."""

    def __init__(self, mode: str | bool, cache_dir: Path) -> None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache_dir / "inductor")
        import torch._dynamo.utils
        import torch._functorch.config
        from torch._inductor import list_mode_options

        # this cache would skip the inspection of graphs; that of compiled code, which saves time, stays
        torch._functorch.config.enable_autograd_cache = False
        self._patches = list_mode_options(mode) if isinstance(mode, str) else None
        self._counters = torch._dynamo.utils.counters
        self.products: Counter[str] = Counter()

    def compile(self, model: nn.Module) -> None:
        """Compile the model in place, so that what wraps it (DDP) calls the compiled one."""
        model.compile(backend=self._backend)

    @staticmethod
    def undo(model: nn.Module) -> None:
        """The eager model again, with the weights that it has now."""
        model._compiled_call_impl = None

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
            self._count(inner)
            return compile_fx_inner(inner, inner_inputs, **options)

        return compile_fx(graph, inputs, inner_compile=inspected, config_patches=self._patches)

    def _count(self, graph: Any) -> None:
        from torch.utils.flop_counter import flop_registry

        for node in graph.graph.nodes:
            packet = getattr(node.target, "_overloadpacket", None)
            if packet in flop_registry:
                value = next(argument for argument in node.args if hasattr(argument, "meta")).meta["val"]
                self.products[str(value.dtype).removeprefix("torch.")] += 1
