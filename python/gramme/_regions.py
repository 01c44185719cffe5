"""torch._dynamo.config.use_graph_deduplication: equal regions of a graph become calls of one subgraph.

PyTorch's pass does it. What it takes for equal is decided here, since it compares no constants and no wiring: equal are
operations that the same line of the program calls with equal constants, on tensors that are alike, wired alike. Graphs
that write, draw random numbers, call functions of the program or change the thread's modes stay as they are: regions
move within the graph.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import torch

from ._shared import UnknownError, is_of_torch, spelt
from ._stack import last_frame
from ._torch.names import TorchDispatchMode

if TYPE_CHECKING:
    from torch import fx

__all__ = ["share_regions"]

_log = logging.getLogger("gramme")
_Values = dict["fx.Node", Any]


def share_regions(graph_module: fx.GraphModule, by_aot: bool) -> None:
    """Turns equal regions into calls of one subgraph.

    Subgraphs are differentiated by AOTAutograd alone; what other compilers get must need no gradients.
    """
    try:
        found = _with_subgraphs(graph_module, by_aot)
    except UnknownError:
        return
    except Exception as error:
        _log.warning("equal regions of a graph stay as they are: %s: %s", type(error).__name__, error)
        return
    if found is None:
        return
    graph, subgraphs = found
    for name, subgraph in subgraphs.items():
        graph_module.add_module(name, subgraph)
    graph_module.graph = graph
    graph_module.recompile()


def _with_subgraphs(graph_module: fx.GraphModule, by_aot: bool) -> tuple[fx.Graph, dict[str, fx.GraphModule]] | None:
    """A copy of the graph that calls subgraphs, and these by name; None if no regions are equal."""
    from ._torch.names import apply_graph_deduplication

    graph = _copy(graph_module.graph)
    values = _Computed(graph).values
    if torch.is_grad_enabled() and not (by_aot or _are_constants(values)):
        return None
    for node, value in values.items():
        node.meta["example_value"] = value
    output = _Output(graph, _tracker(graph, values))
    inputs = [node.name for node in graph.find_nodes(op="placeholder")]
    apply_graph_deduplication(output)
    for node in graph.find_nodes(op="get_attr"):
        if not node.users:
            graph.erase_node(node)
            del output.nn_modules[str(node.target)]
    graph.lint()
    if [node.name for node in graph.find_nodes(op="placeholder")] != inputs:
        raise AssertionError("the pass has moved inputs")
    return (graph, output.nn_modules) if output.nn_modules else None


def _copy(graph: fx.Graph) -> fx.Graph:
    copied, made = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in graph.nodes:
        other = made[node] = copied.node_copy(node, made.__getitem__)
        if hasattr(node, "_dynamo_source"):
            other._dynamo_source = node._dynamo_source
    return copied


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses operators that write or draw random numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        keeps = any(argument.name == "running_mean" for argument in schema.arguments)  # an unstated write
        if func.namespace not in ("aten", "prim") or schema.is_mutable or keeps:
            raise UnknownError
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise UnknownError
        return func(*args, **(kwargs or {}))


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class _Computed:
    """The values of the graph's nodes as fake tensors; views share memory."""

    def __init__(self, graph: fx.Graph) -> None:
        self.values: _Values = {}
        inputs = graph.find_nodes(op="placeholder")
        modes = {getattr(node.meta.get("example_value"), "fake_mode", None) for node in inputs}
        mode = modes.pop() if len(modes) == 1 else None
        if mode is None:
            raise UnknownError
        with mode, _Watch():  # type: ignore[no-untyped-call]
            for node in graph.nodes:
                if node.op != "output":
                    self.values[node] = self._value(node)

    def _value(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return node.meta["example_value"]
        if node.op not in ("call_function", "call_method") or not is_of_torch(node):
            raise UnknownError
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        target: Any = getattr(type(args[0]), str(node.target)) if node.op == "call_method" else node.target
        value = target(*args, **kwargs)
        each = _each(value)
        if not each or not all(isinstance(item, torch.Tensor) for item in each):
            raise UnknownError
        return value


def _are_constants(values: _Values) -> bool:
    """Whether they are constants to autograd."""
    return not any(item.requires_grad for value in values.values() for item in _each(value))


def _described(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return tuple(_described(item) for item in value)
    place = (tuple(value.shape), value.stride(), value.storage_offset())
    return (*place, value.dtype, value.device, value.requires_grad, value.is_conj(), value.is_neg())


def _tracker(graph: fx.Graph, values: _Values) -> Any:
    """PyTorch's tracker, with the equal nodes."""
    from ._torch.names import GraphRegionTracker

    described = {node: _described(value) for node, value in values.items()}
    keys: dict[fx.Node, Hashable] = {}
    equal: dict[Hashable, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op in ("call_function", "call_method"):
            frame = last_frame(node.meta.get("stack_trace"))
            place = frame and (frame.file, frame.line)
            words = spelt(node.args, described), spelt(node.kwargs, described)
            keys[node] = (node.op, node.target, *words, described[node], place)
            equal[keys[node]].append(node)

    class Tracker(GraphRegionTracker):
        def get_identical_regions(self, graph: fx.Graph) -> list[list[list[fx.Node]]]:
            groups = []
            for regions in super().get_identical_regions(graph):
                form = _form(regions[0], keys)
                alike = [region for region in regions if _form(region, keys) == form]
                if len(alike) > 1:
                    groups.append(alike)
            return groups

    tracker: Any = Tracker()
    tracker.hash_to_duplicates.update(equal)
    tracker.node_to_duplicates.update({node: equal[key] for node, key in keys.items()})
    return tracker


def _form(region: list[fx.Node], keys: dict[fx.Node, Hashable]) -> Hashable:
    """The form of a region without its inputs: its operations, with their operands by number."""
    numbers: dict[fx.Node, Hashable] = {node: index for index, node in enumerate(region)}
    form: list[Hashable] = []

    def number(node: fx.Node) -> fx.Node:
        form.append(numbers.setdefault(node, ("from outside", len(numbers))))
        return node

    for node in region:
        form.append(keys[node])
        torch.fx.map_arg((node.args, node.kwargs), number)
    return tuple(form)


class _Output:
    """The part of PyTorch's own captures that the pass uses."""

    def __init__(self, graph: fx.Graph, region_tracker: Any) -> None:
        self.graph, self.region_tracker = graph, region_tracker
        self.nn_modules: dict[str, Any] = {}

    def install_subgraph(self, name: str, subgraph: fx.GraphModule) -> str:
        made = f"{name}_{len(self.nn_modules)}"
        subgraph.__name__ = made  # type: ignore[assignment]
        subgraph.torchdynamo_force_dynamic = False  # type: ignore[assignment]
        self.nn_modules[made] = subgraph
        return made
