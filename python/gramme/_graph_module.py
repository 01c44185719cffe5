"""The class of the graph modules that backends are given, and which of its nodes raised."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

__all__ = ["LazyGraphModule", "assign_examples", "locate"]

# FX names a graph's nodes while it prints them, in the nodes themselves: two threads that print one graph at once get
# each other's names. One lock for all graphs, since a finalizer that runs meanwhile may call another one.
_generating = threading.RLock()


class LazyGraphModule(_LazyGraphModule):
    """A graph module whose Python is generated at the first call of `forward`.

    Calls do not go through Module.__call__: hooks registered for all modules are meant for the program's, and nothing
    is printed where a graph raises.
    """

    def real_recompile(self) -> None:
        with _generating:
            super().real_recompile()
            type(self).__call__ = LazyGraphModule.__call__  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return type(self).forward(self, *args, **kwargs)

    forward = _lazy_forward


def locate(module: LazyGraphModule, error: BaseException) -> int | None:
    """The call in `module` that raised, counted from 0; `error` loses the traceback down to the generated code."""
    if type(module).forward is LazyGraphModule._lazy_forward:
        return None
    code = type(module).forward.__code__
    entry: TracebackType | None = error.__traceback__
    while entry is not None and entry.tb_frame.f_code is not code:
        entry = entry.tb_next
    if entry is None:
        return None
    line_map: dict[int, int | None] = module._lineno_map or {}
    index = line_map.get(entry.tb_lineno - module._prologue_start)
    if index is None:
        return None
    error.__traceback__ = entry.tb_next
    inputs: int = sum(node.op == "placeholder" for node in module.graph.nodes)
    return index - inputs


def assign_examples(
    module: torch.fx.GraphModule,
    examples: list[Any],
    nodes: Sequence[torch.fx.Node],
    around: Sequence[torch.fx.Node] | None = None,
) -> Iterator[tuple[torch.fx.Node, Any]]:
    """Nodes with what `Captured.examples` says of them, those of bodies too.

    The caller assigns each pair to `meta["example_value"]` before it takes the next: an input of a body has the value
    of the node around it, and what a body returns has the values of its nodes.
    """
    for node, example in zip(nodes, examples, strict=True):
        if isinstance(example, list):
            body = getattr(module, str(node.target))
            yield from assign_examples(body, example, list(body.graph.nodes), nodes)
        elif around is not None and isinstance(example, int):
            if (outer := around[example].meta.get("example_value")) is not None:
                yield node, outer
        elif isinstance(example, tuple):
            yield node, example[0]
        elif example is not None:
            yield node, example
    if around is not None:
        output = nodes[-1]
        yield output, torch.fx.map_arg(output.args[0], lambda of: of.meta.get("example_value"))
