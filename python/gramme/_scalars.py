"""Finds sizes and ints of a captured graph that operators convert to a narrow dtype.

Eager raises for those that do not fit. A compiler's code may not: it drops unused values, or computes them after writes
that eager does later. So such numbers become constants, and whether they fit is decided from metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["narrowed"]

_NARROW = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16}
# Numbers among their arguments are sizes, strides, dimensions or indices.
_OF_SIZES = {
    *("view", "reshape", "unflatten", "flatten", "expand", "repeat", "tile", "roll", "as_strided"),
    *("getitem", "__getitem__", "narrow", "select", "split", "chunk", "unbind"),
    *("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty"),
    *("unsqueeze", "squeeze", "transpose", "permute", "movedim"),
}


def narrowed(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The placeholders whose numbers are, or are computed into what is."""
    found: dict[torch.fx.Node, None] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output") or getattr(node.target, "__name__", node.target) in _OF_SIZES:
            continue
        operands = node.all_input_nodes
        values = [each.meta.get("example_value") for each in (node, *operands)]
        if any(isinstance(value, torch.Tensor) and value.dtype in _NARROW for value in values):
            for operand in operands:
                found.update(dict.fromkeys(_numbers_behind(operand)))
    return list(found)


def _numbers_behind(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    if isinstance(node.meta.get("example_value"), torch.Tensor):
        return
    if node.op == "placeholder":
        yield node
    for operand in node.all_input_nodes:
        yield from _numbers_behind(operand)
