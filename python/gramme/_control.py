"""Control flow as backends without a tracer of their own run it: by Python's meaning, gradients included.

PyTorch's operators trace their functions again for each gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl as map_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx._lazy_graph_module import _LazyGraphModule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OWN", "with_own"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[torch.Tensor, ...],
    additional_inputs: tuple[Any, ...],
) -> tuple[torch.Tensor, ...]:
    if not cond_fn(*carried_inputs, *additional_inputs):
        return tuple(value.clone() for value in carried_inputs)
    carried = body_fn(*carried_inputs, *additional_inputs)
    while cond_fn(*carried, *additional_inputs):
        carried = body_fn(*carried, *additional_inputs)
    made: tuple[torch.Tensor, ...] = carried
    return made


def map_impl(f: Callable[..., Any], xs: Sequence[torch.Tensor], pos_args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    made = [f(*items, *pos_args) for items in zip(*(x.unbind() for x in xs), strict=True)]
    return tuple(torch.stack(column) for column in zip(*made, strict=True))


def scan(
    combine_fn: Callable[..., Any],
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    additional_inputs: Sequence[Any],
) -> tuple[torch.Tensor, ...]:
    carry, made = list(init), []
    for items in zip(*(x.unbind() for x in xs), strict=True):
        result = combine_fn(*carry, *items, *additional_inputs)
        carry = result[: len(carry)]
        made.append(result[len(carry) :])
    return (*carry, *(torch.stack(column) for column in zip(*made, strict=True)))


OWN: dict[Any, Callable[..., Any]] = {
    cond_op: cond,
    while_loop_op: while_loop,
    map_op: map_impl,
    scan_op: scan,
}


def with_own(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the module that calls these in the place of PyTorch's operators; itself if it calls none."""
    bodies = {
        name: with_own(body) if isinstance(body, torch.fx.GraphModule) else body
        for name, body in graph_module.named_children()
    }
    calls = any(node.target in OWN for node in graph_module.graph.nodes if node.op == "call_function")
    if not calls and all(getattr(graph_module, name) is body for name, body in bodies.items()):
        return graph_module
    graph = torch.fx.Graph()
    output = graph.graph_copy(graph_module.graph, {})
    graph.output(output)
    for node in graph.nodes:
        if node.op == "call_function":
            node.target = OWN.get(node.target, node.target)
    return _LazyGraphModule(bodies, graph)
