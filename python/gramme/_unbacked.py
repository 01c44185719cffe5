"""Sets what PyTorch's passes expect on nodes of a graph with sizes or numbers from data.

Only imported when there are such: sympy takes most of a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._torch.names import (
    FakeTensorMode,
    ShapeEnv,
    Source,
    StatefulSymbolicContext,
    compute_unbacked_bindings,
    enable_python_dispatcher,
)

__all__ = ["propagate"]


class _Propagation(torch.fx.Interpreter):
    """Runs the graph on fakes and notes each node's value and the symbols that first occur in it."""

    def __init__(self, graph_module: torch.fx.GraphModule, env: ShapeEnv) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self._env = env

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.op not in ("placeholder", "output"):
            found = compute_unbacked_bindings(self._env, value)
            if found:
                n.meta["unbacked_bindings"] = found
            n.meta["example_value"] = value
        return value


def propagate(
    graph_module: torch.fx.GraphModule,
    env: ShapeEnv,
    inputs: Sequence[Any],
    contexts: Sequence[StatefulSymbolicContext | None],
    sources: Sequence[Source | None],
    prepare: Callable[[FakeTensorMode], None],
) -> None:
    """Sets nodes' example values, made in a prepared mode of their own, and the symbols that they bring."""
    mode = FakeTensorMode(shape_env=env)
    prepare(mode)
    fakes = []
    for value, context, source in zip(inputs, contexts, sources, strict=False):
        if isinstance(value, torch.Tensor):
            value = mode.from_tensor(value, static_shapes=context is None, source=source, symbolic_context=context)
        fakes.append(value)
    grad = torch.is_grad_enabled()
    try:
        with enable_python_dispatcher(), mode:
            _Propagation(graph_module, env).run(*fakes)
    finally:
        torch.set_grad_enabled(grad)
