"""A captured graph as a file that can be run alone."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch

__all__ = ["save_graph"]

_HEAD = '''"""The graph that backend {name!r} failed on: {error}

Run it to see the failure again; the inputs have the shapes of the program's, not its numbers.
"""

import torch
from torch import device, inf, nan, tensor

'''
_TAIL = """
inputs = [
{inputs}
]
if __name__ == "__main__":
    torch.compile(GraphModule(), backend={name!r}, fullgraph=True)(*inputs)
"""


def _now(number: int | torch.SymInt) -> int:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def _input(node: torch.fx.Node) -> str:
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt):
        return f"    {_now(value)},  # {node.target}"
    if not isinstance(value, torch.Tensor):
        return f"    None,  # {node.target}"
    sizes, strides = tuple(map(_now, value.shape)), tuple(map(_now, value.stride()))
    text = f"torch.empty_strided({sizes}, {strides}, dtype={value.dtype}, device={str(value.device)!r}).zero_()"
    return f"    {text}{'.requires_grad_()' if value.requires_grad and value.is_leaf else ''},  # {node.target}"


def save_graph(graph_module: torch.fx.GraphModule, name: str, error: Exception) -> str:
    """Writes the graph into a new temporary folder.

    Returns:
        The file's path.

    """
    head = _HEAD.format(name=name, error=f"{type(error).__name__}: {error}".replace('"""', "'''").replace("\\", "/"))
    code: Any = graph_module.print_readable(print_output=False, include_stride=True)
    nodes = graph_module.graph.find_nodes(op="placeholder")
    tail = _TAIL.format(name=name, inputs="\n".join(map(_input, nodes)))
    path = os.path.join(tempfile.mkdtemp(prefix="gramme_failed_"), "graph.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + code + "\n" + tail)
    return path
