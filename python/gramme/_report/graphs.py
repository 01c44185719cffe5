"""Converts captured graphs to rows for the page, which hold no objects of the program."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .._logging import examples_on
from .._stack import FramePlace, frames_of
from .._torch.names import OpOverload, OpOverloadPacket, dtype_abbrs

if TYPE_CHECKING:
    from .. import _C

__all__ = ["Graph", "Row", "backward_of", "graph_of"]

_MOST_NODES = 20_000  # shown of a graph
_LONGEST = 400  # characters of a call


@dataclass
class Row:
    """One node.

    Attributes:
        kind: "input", "call" or "output".
        name: of the value.
        shape: as f32[2, 128]; of several values, all of them; empty for what is no tensor.
        call: the call, as Python writes it.
        inputs: the rows whose values it takes.
        place: file and line of the program's innermost frame, or None.

    """

    kind: str
    name: str
    shape: str
    call: str
    inputs: list[int]
    place: tuple[str, int] | None


@dataclass
class Graph:
    """The rows of a graph.

    Attributes:
        stacks: of each call, the frames of the program that led to it, the outermost first.
        grads: it is differentiated: fake inputs and a copy of the graph to make its backward of.
        left_out: rows that are not shown, of a graph with very many.

    """

    rows: list[Row]
    stacks: list[list[FramePlace]] = field(default_factory=list)
    grads: tuple[torch.fx.GraphModule, list[Any]] | None = None
    left_out: int = 0


def shape_of(value: Any) -> str:
    """f32[2, 128] for a tensor of 2 rows of 128 floats."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape))
        return f"{dtype_abbrs[value.dtype]}[{sizes}]"
    if isinstance(value, (tuple, list)):
        return ", ".join(filter(None, map(shape_of, value)))
    return ""


def graph_of(module: torch.fx.GraphModule, captured: _C.Captured) -> Graph:
    """A captured graph, with the shapes of its nodes' values."""
    with examples_on(module, captured):
        values = {node: node.meta.get("example_value") for node in module.graph.nodes}
        graph = _rows(module.graph, values)
        inputs = [values[node] for node in module.graph.nodes if node.op == "placeholder"]
        if _is_differentiated(module, values) and all(isinstance(x, torch.Tensor) for x in inputs):
            graph.grads = (torch.fx.GraphModule(module, _copy(module.graph)), inputs)
    return graph


class _PartitionedError(Exception):
    """Stops AOTAutograd once it has the backward graph."""


def backward_of(graph: Graph) -> Graph | str:
    """The backward pass as AOTAutograd traces it, in operators of ATen, for the sizes of the capture.

    A text says why there is none; it is empty if nothing is differentiated.
    """
    from functorch.compile import aot_function, default_partition, nop  # type: ignore[import-untyped]

    if graph.grads is None:
        return ""
    module, inputs = graph.grads
    found: list[torch.fx.GraphModule] = []

    def partition(joint: torch.fx.GraphModule, joint_inputs: Any, **how: Any) -> Any:
        found.append(default_partition(joint, joint_inputs, **how)[1])
        raise _PartitionedError

    mode = next((x.fake_mode for x in inputs if hasattr(x, "fake_mode")), None)
    try:
        with mode or contextlib.nullcontext(), torch.enable_grad():
            aot_function(module, fw_compiler=nop, bw_compiler=nop, partition_fn=partition)(*inputs)
    except _PartitionedError:
        pass
    except Exception as error:  # whatever AOTAutograd refuses, the rest of the report remains
        return f"AOTAutograd does not trace it: {str(error).strip().partition(chr(10))[0] or type(error).__name__}"
    if not found:
        return ""
    return _rows(found[0].graph, {node: node.meta.get("val") for node in found[0].graph.nodes})


def _is_differentiated(module: torch.fx.GraphModule, values: dict[torch.fx.Node, Any]) -> bool:
    output = next(iter(reversed(module.graph.nodes)))
    given = [values.get(node) for node in output.all_input_nodes]
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in given)


def _copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _rows(graph: torch.fx.Graph, values: dict[torch.fx.Node, Any]) -> Graph:
    nodes = list(graph.nodes)
    shown = nodes if len(nodes) <= _MOST_NODES else nodes[:_MOST_NODES]
    number = {node: i for i, node in enumerate(shown)}
    made = Graph([], left_out=len(nodes) - len(shown))
    for node in shown:
        frames = frames_of(node.meta.get("stack_trace"))
        inputs = [number[source] for source in node.all_input_nodes if source in number]
        kind = {"placeholder": "input", "output": "output"}.get(node.op, "call")
        place = (frames[-1].file, frames[-1].line) if frames else None
        call = "" if kind == "input" else _call(node)
        made.rows.append(Row(kind, node.name, shape_of(values.get(node)), call, inputs, place))
        if kind == "call":
            made.stacks.append(frames)
    return made


def _call(node: torch.fx.Node) -> str:
    if node.op == "output":
        return "return " + _text(node.args[0])
    arguments = [*map(_text, node.args), *(f"{name}={_text(value)}" for name, value in node.kwargs.items())]
    if node.op == "call_method":
        return _short(f"{arguments[0]}.{node.target}({', '.join(arguments[1:])})")
    if node.op == "get_attr":
        return f"self.{node.target}"
    return _short(f"{_target(node)}({', '.join(arguments)})")


def _target(node: torch.fx.Node) -> str:
    """torch.nn.functional.linear, aten.mm.default, operator.add."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target)
    module = {"_operator": "operator"}.get(getattr(target, "__module__", None) or "", getattr(target, "__module__", ""))
    name = getattr(target, "__name__", str(target))
    public = re.sub(r"\._\w+", "", f"{module}." if module and not module.startswith("builtins") else "torch.")
    return f"{public}{name}" if hasattr(target, "__name__") else name


def _text(value: Any) -> str:
    return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, torch.fx.Node):
        yield value.name
    elif isinstance(value, (tuple, list)):
        opened, closed = "()" if isinstance(value, tuple) else "[]"
        yield opened + ", ".join(map(_text, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        yield closed
    elif isinstance(value, dict):
        yield "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, (torch.dtype, torch.device, int, float, complex, str, slice, type(None), type(...))):
        yield repr(value)
    else:
        yield f"<{type(value).__name__}>"  # its own text would run the program's code


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
