"""Stages that receive only from the previous stage and pass only to the next, for chains of processes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx
from torch.distributed.tensor import DTensor

from .._torch.names import AsyncCollectiveTensor, is_traceable_wrapper_subclass
from ._cut import Cut
from ._observe import line_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Placement

# Numbers of a kind are passed in one tensor.
_CARRIED = {bool: torch.int64, int: torch.int64, float: torch.float64}


@dataclass(frozen=True)
class _Lane:
    """The values that cross one border: tensors, and numbers by kind."""

    tensors: list[fx.Node]
    numbers: dict[type, list[fx.Node]]

    @classmethod
    def of(cls, nodes: Sequence[fx.Node], values: dict[fx.Node, Any]) -> _Lane:
        tensors = [node for node in nodes if isinstance(values[node], Tensor)]
        rest = [node for node in nodes if not isinstance(values[node], Tensor)]
        kinds = {kind: [node for node in rest if type(values[node]) is kind] for kind in _CARRIED}
        return cls(tensors, {kind: own for kind, own in kinds.items() if own})


@dataclass(frozen=True)
class RelayStage:
    """A stage of a chain.

    Attributes:
        module: gives the next stage a tuple of tensors; the last one gives the model's tensors, or its only one.
        inputs: tensors without memory, as it takes them; of the first stage those that are arguments of the model.
        outputs: the same of what it gives.
        is_whole: its backward is not done in two parts, inputs first: some of what it gives depends on parameters
            only.

    """

    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    is_whole: bool


@dataclass(frozen=True)
class _Layout:
    """How a DTensor lies on its mesh, apart from its local part."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: torch.Size
    stride: tuple[int, ...]


class _Watch(fx.Interpreter):
    """Runs the graph and keeps each node's value, tensors without their memory; of a DTensor its local part.

    Attributes:
        seen: the values.
        layouts: those of DTensors.
        awaited: results of collectives that may be under way.
        refused: the class of other values that wrap tensors.

    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.seen: dict[fx.Node, Any] = {}
        self.layouts: dict[fx.Node, _Layout] = {}
        self.awaited: set[fx.Node] = set()
        self.refused: dict[fx.Node, str] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, DTensor):
            self.layouts[n] = _Layout(result.device_mesh, result.placements, result.shape, result.stride())
        elif isinstance(result, AsyncCollectiveTensor):
            self.awaited.add(n)
        elif is_traceable_wrapper_subclass(result):
            self.refused[n] = type(result).__name__
        self.seen[n] = _outline(result) if isinstance(result, Tensor) else result
        return result


def local_part(value: Any) -> Any:
    """The local tensor of a DTensor, the result of a collective as a plain tensor; any other value itself."""
    local = value.to_local() if isinstance(value, DTensor) else value
    return local.clone() if isinstance(local, AsyncCollectiveTensor) else local  # it waits


def _distributed(local: Tensor, layout: _Layout) -> DTensor:
    made: DTensor = DTensor.from_local(
        local, layout.mesh, layout.placements, run_check=False, shape=layout.shape, stride=layout.stride
    )
    return made


def _outline(tensor: Tensor) -> Tensor:
    tensor = local_part(tensor)
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    return made.requires_grad_(tensor.requires_grad)


def _order(tensor: Tensor) -> list[int] | None:
    """The dimensions in memory order, if the tensor is passed on in another order than its own."""
    sizes, strides = list(tensor.size()), list(tensor.stride())
    order = sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], sizes[dim] == 1, dim))
    moved = tensor.permute(order)
    return order if moved.is_contiguous() and not tensor.is_contiguous() else None


def _inverse(order: list[int]) -> list[int]:
    return [order.index(dim) for dim in range(len(order))]


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0].contiguous()


def _passed(tensor: Tensor) -> Tensor:
    """The tensor as neither view nor leaf nor parameter: the engine detaches it in place and sends its gradient."""
    alias: Tensor = _Passed.apply(tensor)  # type: ignore[no-untyped-call]
    return alias


class Relay:
    """A cut graph as a chain of stages.

    Every value goes through all stages between where it is computed and where it is used; so do the arguments of the
    model and a parameter that needs a gradient and is used by several stages: it belongs to the first of them, where
    gradients meet in the order of the uncut model.
    """

    def __init__(self, cut: Cut, returned: Sequence[fx.Node], values: Sequence[Any], device: torch.device) -> None:
        self.cut, self.returned, self.device = cut, returned, device
        self.number = len(cut.own)
        watch = _Watch(cut.module)
        watch.run(*values)
        self.values, self.layouts, self._refused = watch.seen, watch.layouts, watch.refused
        self.wrapped = {*watch.layouts, *watch.awaited}
        for node in returned:
            if node in self.layouts:
                raise ValueError(
                    f"the model returns a DTensor ({line_of(node)}), which a stage cannot: return its to_local() or "
                    "full_tensor()"
                )
        self._home = dict.fromkeys(cut.inputs, 0) | cut.stage_of
        self._tied: set[fx.Node] = set()
        self._data_dependent = {operation.node for operation in cut.operations if operation.data_dependent_size}
        for node in cut.module.graph.nodes:
            users = [stage for stage, needs in enumerate(cut.needs) if node in needs]
            users += [self.number - 1] * (node in returned and self.number - 1 not in users)
            attribute = cut.attribute(node)
            if attribute is None or not users:
                continue
            self._home[node] = users[0]
            if len(users) > 1 and isinstance(attribute[1], Tensor) and attribute[1].requires_grad:
                self._tied.add(node)
        self.lanes = [_Lane.of(self._crossing(border), self.values) for border in range(1, self.number)]

    def _crossing(self, border: int) -> list[fx.Node]:
        """Values from before the border that later stages use."""
        wanted = {node for needs in self.cut.needs[border:] for node in needs} | set(self.returned)
        crossing = [
            node
            for node in self.cut.module.graph.nodes
            if node in wanted
            and self._home.get(node, border) < border
            and (self.cut.attribute(node) is None or node in self._tied)
        ]
        for node in crossing:
            if node in self._data_dependent:
                line = line_of(node)
                raise ValueError(f"{node.name} is handed to another process, but its size depends on data ({line})")
            refused = self._refused.get(node, "")
            if not refused and not isinstance(self.values[node], (Tensor, *_CARRIED)):
                refused = type(self.values[node]).__name__
            if refused:
                raise ValueError(f"{node.name} is a {refused}, which is not handed over ({line_of(node)})")
            if node in self.layouts and any(placement.is_partial() for placement in self.layouts[node].placements):
                raise ValueError(
                    f"{node.name} is a DTensor with a Partial placement, which is not handed over ({line_of(node)}): "
                    "redistribute it, or let a stage begin elsewhere (begin=)"
                )
        return crossing

    def stage(self, index: int) -> RelayStage:
        """The module of a stage, with its inputs and outputs."""
        building = _Building(self, index)
        building.take()
        for node in self.cut.own[index]:
            building.copies[node] = building.graph.node_copy(node, lambda of: building.copies[of])
        building.give()
        module = self.cut.module_of(index, building.attributes, building.graph)
        first = [self.values[node] for node in self.arguments if isinstance(self.values[node], Tensor)]
        return RelayStage(
            module,
            tuple(first) if index == 0 else self._outlines(index - 1),
            tuple(self.values[node] for node in self.returned) if index == self.number - 1 else self._outlines(index),
            index < self.number - 1 and building.gives_without_taking(),
        )

    @property
    def arguments(self) -> list[fx.Node]:
        """What the first stage takes."""
        return [node for node in self.cut.inputs if self.cut.attribute(node) is None]

    def _outlines(self, lane: int) -> tuple[Tensor, ...]:
        made = []
        for node in self.lanes[lane].tensors:
            value = self.values[node]
            order = _order(value) or list(range(value.dim()))
            packed = torch.empty([value.size(dim) for dim in order], dtype=value.dtype, device="meta")
            made.append(packed.requires_grad_(value.requires_grad))
        for kind, nodes in self.lanes[lane].numbers.items():
            made.append(torch.empty(len(nodes), dtype=_CARRIED[kind], device="meta"))
        return tuple(made)


class _Building:
    """The graph of one stage as it is made."""

    def __init__(self, relay: Relay, index: int) -> None:
        self.relay, self.index = relay, index
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        self.attributes: dict[str, Any] = {}

    def take(self) -> None:
        relay, graph = self.relay, self.graph
        if self.index == 0:
            for node in relay.arguments:
                self.copies[node] = graph.placeholder(node.name)
        else:
            lane = relay.lanes[self.index - 1]
            taken = [graph.placeholder(node.name) for node in lane.tensors]
            packs = {kind: graph.placeholder(f"{kind.__name__}s") for kind in lane.numbers}
            for node, got in zip(lane.tensors, taken, strict=True):
                order = _order(relay.values[node])
                if relay.values[node].requires_grad:
                    got = graph.call_function(_passed, (got,))
                got = graph.call_method("permute", (got, _inverse(order))) if order else got
                if layout := relay.layouts.get(node):
                    self.attributes[name := f"layout_of_{node.name}"] = layout
                    got = graph.call_function(_distributed, (got, graph.get_attr(name)))
                self.copies[node] = got
            for kind, nodes in lane.numbers.items():
                numbers = graph.call_method("tolist", (packs[kind],))
                for place, node in enumerate(nodes):
                    number = graph.call_function(operator.getitem, (numbers, place))
                    self.copies[node] = graph.call_function(bool, (number,)) if kind is bool else number
        returned = relay.returned if self.index == relay.number - 1 else ()
        for node in (*relay.cut.needs[self.index], *returned):
            if relay.cut.attribute(node):
                self._copy(node)

    def give(self) -> None:
        relay, graph = self.relay, self.graph
        if self.index == relay.number - 1:
            self._return()
            return
        lane = relay.lanes[self.index]
        given = []
        for node in lane.tensors:
            order, value = _order(relay.values[node]), self._copy(node)
            if node in relay.wrapped:
                value = graph.call_function(local_part, (value,))
            value = graph.call_method("permute", (value, order)) if order else value
            value = graph.call_method("contiguous", (value,))
            given.append(graph.call_function(_passed, (value,)) if relay.values[node].requires_grad else value)
        for kind, nodes in lane.numbers.items():
            numbers = [self._copy(node) for node in nodes]
            options: dict[str, Any] = {"dtype": _CARRIED[kind], "device": relay.device}
            given.append(graph.call_function(torch.tensor, (numbers,), options))
        graph.output(tuple(given))

    def gives_without_taking(self) -> bool:
        """Whether an output that needs a gradient depends on no input."""
        depends = {node for node in self.graph.nodes if node.op == "placeholder"}
        for node in self.graph.nodes:
            if depends.intersection(node.all_input_nodes):
                depends.add(node)
        tensors = self.relay.lanes[self.index].tensors
        return any(self.relay.values[node].requires_grad and self.copies[node] not in depends for node in tensors)

    def _return(self) -> None:
        own = set(self.relay.cut.own[self.index])
        given = [
            self._copy(node) if node in own else self.graph.call_function(_passed, (self._copy(node),))
            for node in self.relay.returned
        ]
        self.graph.output(given[0] if len(given) == 1 else tuple(given))

    def _copy(self, node: fx.Node) -> fx.Node:
        if node not in self.copies and (attribute := self.relay.cut.attribute(node)):
            name, self.attributes[name] = attribute
            self.copies[node] = self.graph.get_attr(name)
        return self.copies[node]
