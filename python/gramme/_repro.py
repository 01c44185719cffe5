"""Writes a captured graph to a file that can be run on its own."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

__all__ = ["save_graph"]

_PREFIX = "gramme_failed_"
_MOST_KEPT = 10
_numbers = itertools.count()

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
    text = _jagged(value) if value.layout == torch.jagged else _dense(value)
    return f"    {text}{'.requires_grad_()' if value.requires_grad and value.is_leaf else ''},  # {node.target}"


def _dense(value: torch.Tensor) -> str:
    sizes, strides = tuple(map(_now, value.shape)), tuple(map(_now, value.stride()))
    return f"torch.empty_strided({sizes}, {strides}, dtype={value.dtype}, device={str(value.device)!r}).zero_()"


def _jagged(value: Any) -> str:
    """All rows are in the first part: the lengths are numbers of the program's."""
    rows, parts, dimension = _now(value._values.shape[value._ragged_idx - 1]), value.size(0), value._ragged_idx
    offsets = f"torch.tensor([0] + [{rows}] * {_now(parts)}, device={str(value.device)!r})"
    return f"torch.nested.nested_tensor_from_jagged({_dense(value._values)}, {offsets}, jagged_dim={dimension})"


@functools.cache
def _folder_of(process: int) -> str:
    """Makes a new folder, and deletes the user's earlier ones except the last few."""
    found = [path for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if path.stat().st_uid == os.getuid()]
    for path in sorted(found, key=lambda path: path.stat().st_mtime)[: 1 - _MOST_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
    return tempfile.mkdtemp(prefix=_PREFIX)


def _folder() -> str:
    return _folder_of(os.getpid())


def save_graph(graph_module: torch.fx.GraphModule, name: str, error: Exception) -> str:
    """Writes the graph into the process's temporary folder, where the last graphs are kept, as are the last folders.

    Returns:
        The file's path.

    """
    head = _HEAD.format(name=name, error=f"{type(error).__name__}: {error}".replace('"""', "'''").replace("\\", "/"))
    code: Any = graph_module.print_readable(print_output=False, include_stride=True)
    nodes = graph_module.graph.find_nodes(op="placeholder")
    tail = _TAIL.format(name=name, inputs="\n".join(map(_input, nodes)))
    number = next(_numbers)
    Path(_folder(), f"graph_{number - _MOST_KEPT}.py").unlink(missing_ok=True)
    path = os.path.join(_folder(), f"graph_{number}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + code + "\n" + tail)
    return path
