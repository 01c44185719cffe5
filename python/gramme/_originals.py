"""Keeps nodes' `meta` when a graph module is captured again."""

from __future__ import annotations

import weakref
from typing import Any

import torch.fx

from ._stack import last_frame
from ._torch.names import COPY_META_FIELDS, _LazyGraphModule

__all__ = ["keep_metadata", "note"]

# Graph modules by the file name of their `forward` in tracebacks.
_known: weakref.WeakValueDictionary[str, torch.fx.GraphModule] = weakref.WeakValueDictionary()


def note(module: Any) -> None:
    """Notes a module that is compiled."""
    if isinstance(module, torch.fx.GraphModule):
        if isinstance(module, _LazyGraphModule):
            module.real_recompile()
        code = getattr(module.forward, "__code__", None)  # the program may have replaced it by anything
        if code is not None:
            _known[code.co_filename] = module


def keep_metadata(captured: torch.fx.GraphModule) -> None:
    """Gives each node made by a line of such a module the metadata of that line's own node.

    Nodes of modules that the line calls have metadata of their own.
    """
    if not _known:
        return
    last = None
    nodes_of: dict[torch.fx.GraphModule, list[torch.fx.Node]] = {}
    for node in captured.graph.nodes:
        original = last.next if node.op == "output" and last is not None else _original(node, nodes_of)
        if original is not None and (node.op == "output") == (original.op == "output"):
            _keep(original, node)
        if node.op.startswith("call_"):
            last = original


def _original(node: torch.fx.Node, nodes_of: dict[torch.fx.GraphModule, list[torch.fx.Node]]) -> torch.fx.Node | None:
    frame = last_frame(node.meta.get("stack_trace"))
    module = None if frame is None else _known.get(frame.file)
    lines = getattr(module, "_lineno_map", None)
    if frame is None or module is None or lines is None:
        return None
    code = getattr(module.forward, "__code__", None)
    at = None if code is None else lines.get(frame.line - code.co_firstlineno)
    if module not in nodes_of:
        nodes_of[module] = list(module.graph.nodes)
    nodes = nodes_of[module]  # differs from the lines if recompile() was not called
    found = nodes[at] if at is not None and at < len(nodes) else None
    return None if found is None or found.op == "call_module" else found


def _keep(original: torch.fx.Node, node: torch.fx.Node) -> None:
    for field in (*COPY_META_FIELDS, "stack_trace"):
        if field in original.meta:
            node.meta[field] = original.meta[field]
