"""Keeps nodes' metadata when a program is exported again."""

from __future__ import annotations

import re
from typing import Any

import torch

from .._torch.names import COPY_META_FIELDS

__all__ = ["keep_what_nodes_said"]

_FRAME = re.compile(r'  File "([^"]+)", line (\d+), in ')
_FIELDS = ("stack_trace", *COPY_META_FIELDS)


class _Code:
    """The nodes of a graph module by the lines of its code."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._nodes = list(module.graph.nodes)
        self._first = type(module).forward.__code__.co_firstlineno
        self._by_line: dict[int, int | None] = getattr(module, "_lineno_map", None) or {}

    def at(self, line: int) -> dict[str, Any]:
        index = self._by_line.get(line - self._first)
        return {} if index is None else self._nodes[index].meta


def _codes(module: torch.nn.Module) -> dict[str, _Code]:
    """The codes by the file name that generated code pretends to come from."""
    parts = [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return {type(part).forward.__code__.co_filename: _Code(part) for part in parts}


def _innermost(trace: str | None) -> tuple[str, int] | None:
    frames = _FRAME.findall(trace or "")
    return (frames[-1][0], int(frames[-1][1])) if frames else None


def keep_what_nodes_said(module: torch.nn.Module, graph: torch.fx.GraphModule) -> None:
    """Copies lines, modules and annotations from a graph module's nodes to the new nodes of their calls.

    Without them unflatten() knows no submodules, and messages name lines of generated code.
    """
    codes = _codes(module)
    if not codes:
        return
    for part in graph.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.nodes:
            place = _innermost(node.meta.get("stack_trace"))
            said = codes[place[0]].at(place[1]) if place is not None and place[0] in codes else {}
            node.meta.update({field: said[field] for field in _FIELDS if field in said})
