"""Any captured model cut into stages.

>>> import torch
>>> from torch import nn
>>> import gramme.pipeline
>>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
>>> cut = gramme.pipeline.split(model, (torch.ones(8, 4),), stages=2)
>>> [list(stage.state_dict()) for stage in cut.stages]
[['0.weight', '0.bias'], ['2.weight', '2.bias']]
>>> torch.equal(cut(torch.ones(3, 4)), model(torch.ones(3, 4)))
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from . import _C
from ._compile import compile as _compile

__all__ = ["Plan", "PlannedStage", "Portal", "Split", "split"]

# One core of a few years ago, in nanoseconds: what matters is the ratio.
_FLOPS, _BYTES, _CALL = 16, 8, 500


@dataclass
class _Operation:
    """What a run with the example showed of one node."""

    node: fx.Node
    cost: int = _CALL
    bytes: int = 0
    crosses: bool = True  # may its result be handed to another stage?
    storages: set[int] = field(default_factory=set)  # that it read or made
    written: set[int] = field(default_factory=set)
    in_mode: bool = False  # behind it grad mode or autocast is another than outside


def _modes() -> tuple[object, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


class _Observer(fx.Interpreter):
    """Runs the graph once and writes down what each node does."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.operations: list[_Operation] = []
        self.outside = _modes()
        self.kept: list[Tensor] = []  # an address stands for one storage as long as all live

    def run_node(self, n: fx.Node) -> Any:
        if n.op not in ("call_function", "call_method", "call_module"):
            return super().run_node(n)
        seen = _Operation(n)
        before = [(tensor, tensor._version) for tensor in _tensors(self.fetch_args_kwargs_from_env(n))]
        with FlopCounterMode(display=False) as flops:
            result = super().run_node(n)
        made = _tensors(result)
        self.kept += made
        seen.bytes = sum(tensor.numel() * tensor.element_size() for tensor in made)
        seen.cost += flops.get_total_flops() // _FLOPS + seen.bytes // _BYTES
        seen.crosses = isinstance(result, Tensor | int | float)
        seen.storages = {_storage(tensor) for tensor in (*made, *(tensor for tensor, _ in before))}
        seen.written = {_storage(tensor) for tensor, version in before if tensor._version != version}
        seen.in_mode = _modes() != self.outside
        self.operations.append(seen)
        return result


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def _last_uses(operations: Sequence[_Operation], output: fx.Node) -> list[int]:
    """By operation the last one that takes its result; the model's own results are not handed to a stage."""
    place = {operation.node: i for i, operation in enumerate(operations)}
    return [
        max([i, *(place[user] for user in operation.node.users if user is not output)])
        for i, operation in enumerate(operations)
    ]


def _places(operations: Sequence[_Operation], last_use: Sequence[int]) -> list[bool]:
    """Tells of each operation whether a stage may begin with it."""
    may_cut = [True] * (len(operations) + 1)

    def keep_together(first: int, last: int) -> None:
        may_cut[first + 1 : last + 1] = [False] * (last - first)

    touched: dict[int, tuple[int, int]] = {}
    written: set[int] = set()
    for i, operation in enumerate(operations):
        if not operation.crosses:
            keep_together(i, last_use[i])
        if operation.in_mode:
            may_cut[i + 1] = False
        for storage in operation.storages:
            touched[storage] = (touched.get(storage, (i, i))[0], i)
        written |= operation.written
    for storage in written:  # a stage that is cut at its inputs would write to another one's values
        keep_together(*touched[storage])
    return may_cut[:-1]


@dataclass(frozen=True)
class Portal:
    """A value that goes past at least one stage.

    Attributes:
        name: of the value in the graph.
        line: file and line of the program where it is computed, if known.
        source: the stage that computes it.
        targets: the stages that take it.
        bytes: its size for the example.
        life: how often it is given out.
        saved: bytes that relaying it from stage to stage would move more.

    """

    name: str
    line: str
    source: int
    targets: tuple[int, ...]
    bytes: int
    life: int
    saved: int


@dataclass(frozen=True)
class PlannedStage:
    """One stage.

    Attributes:
        operations: how many nodes of the graph it runs.
        cost: estimated nanoseconds of its forward.
        parameters: bytes of its parameters and buffers.
        bytes_in: what it takes from other stages, for the example.
        bytes_out: what it gives to others.

    """

    operations: int
    cost: int
    parameters: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Plan:
    """Where a model is cut, and what crosses the cuts. Printed it is a table.

    Attributes:
        stages: a :class:`PlannedStage` each.
        portals: a :class:`Portal` for each value that goes past a stage.

    """

    stages: tuple[PlannedStage, ...]
    portals: tuple[Portal, ...]

    def __str__(self) -> str:
        lines = [
            f"{'stage':>5} {'operations':>10} {'cost, us':>10} {'parameters':>12} {'bytes in':>10} {'bytes out':>10}"
        ]
        for i, stage in enumerate(self.stages):
            lines.append(
                f"{i:>5} {stage.operations:>10} {stage.cost / 1000:>10.1f} {stage.parameters:>12} {stage.bytes_in:>10}"
                f" {stage.bytes_out:>10}"
            )
        for portal in self.portals:
            targets = ", ".join(map(str, portal.targets))
            lines.append(
                f"portal {portal.name}: {portal.source} -> {targets}, {portal.bytes} bytes, life {portal.life}, saves "
                f"{portal.saved} bytes{', ' + portal.line if portal.line else ''}"
            )
        return "\n".join(lines)


_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def _line(node: fx.Node) -> str:
    places = _LINE.findall(node.meta.get("stack_trace") or "")
    return f"{places[-1][0]}:{places[-1][1]}" if places else ""


class _Cut:
    """The graph of a capture cut into stages."""

    def __init__(self, module: fx.GraphModule, names: dict[int, str], values: Sequence[Any], stages: int) -> None:
        self.module = module
        self.inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.output: fx.Node = next(iter(reversed(module.graph.nodes)))
        self.attributes: dict[fx.Node, tuple[str, Any]] = {
            node: (names[id(value)], value)
            for node, value in zip(self.inputs, values, strict=True)
            if isinstance(value, Tensor) and id(value) in names
        }
        observer = _Observer(module)
        observer.run(*values)
        self.operations = observer.operations
        last_use = _last_uses(self.operations, self.output)
        cuts = _C.pipeline.plan_cuts(
            cost=[operation.cost for operation in self.operations],
            moving=[operation.bytes // _BYTES for operation in self.operations],
            last_use=last_use,
            may_cut=_places(self.operations, last_use),
            stages=stages,
        )
        self.bounds = [0, *cuts, len(self.operations)]
        self.stage_of = {
            operation.node: stage
            for stage in range(stages)
            for operation in self.operations[self.bounds[stage] : self.bounds[stage + 1]]
        }
        self.bytes = {operation.node: operation.bytes for operation in self.operations}
        self.results: list[Any] = list(pytree.tree_leaves(self.output.args[0]))

    def targets(self, node: fx.Node) -> tuple[int, ...]:
        """The other stages that take its result."""
        return tuple(
            sorted({self.stage_of[user] for user in node.users if user in self.stage_of} - {self.stage_of[node]})
        )

    def stage(self, index: int) -> fx.GraphModule:
        """The module of a stage; `takes` and `gives` are names of values."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        attributes: dict[str, Any] = {}
        own = [op.node for op in self.operations[self.bounds[index] : self.bounds[index + 1]]]
        needed = {node for operation in own for node in operation.all_input_nodes} - set(own)
        takes = [node for node in self.module.graph.nodes if node in needed and not self._attribute(node)]
        for node in takes:
            copies[node] = graph.placeholder(node.name)
        for node in self.module.graph.nodes:
            if node in needed and (attribute := self._attribute(node)):
                name, attributes[name] = attribute
                copies[node] = graph.get_attr(name)
        for node in own:
            copies[node] = graph.node_copy(node, lambda of: copies[of])
        gives = [node for node in own if self.targets(node) or self.output in node.users]
        graph.output(tuple(copies[node] for node in gives))
        module = fx.GraphModule(attributes, graph, class_name=f"Stage{index}")
        module.train(self.module.training)
        module.takes, module.gives = [node.name for node in takes], [node.name for node in gives]  # type: ignore[assignment]
        return module

    def _attribute(self, node: fx.Node) -> tuple[str, Any] | None:
        if node.op == "get_attr":
            value: Any = self.module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return str(node.target), value
        return self.attributes.get(node)

    def plan(self, stages: Sequence[nn.Module]) -> Plan:
        """What was decided, for people."""
        rows, portals = [], []
        for i, stage in enumerate(stages):
            own = self.operations[self.bounds[i] : self.bounds[i + 1]]
            tensors = (*stage.parameters(), *stage.buffers())
            rows.append(
                PlannedStage(
                    operations=len(own),
                    cost=sum(operation.cost for operation in own),
                    parameters=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
                    bytes_in=sum(size for node, size in self.bytes.items() if i in self.targets(node)),
                    bytes_out=sum(operation.bytes * len(self.targets(operation.node)) for operation in own),
                )
            )
        for node, size in self.bytes.items():
            targets, source = self.targets(node), self.stage_of[node]
            if targets and targets[-1] > source + 1:
                relayed = targets[-1] - source
                portals.append(
                    Portal(node.name, _line(node), source, targets, size, len(targets), size * (relayed - len(targets)))
                )
        return Plan(tuple(rows), tuple(portals))


class Split(nn.Module):
    """A model in stages. Called like the model, it runs them one after the other.

    Attributes:
        stages: the stages, modules whose parameters are the model's own, under the model's names. Each takes the values
            named in `takes` and gives a tuple of those named in `gives`.
        plan: where it was cut and why, a :class:`Plan`.

    """

    stages: nn.ModuleList
    plan: Plan

    def __init__(self, model: nn.Module, stages: int) -> None:
        super().__init__()
        self._number = stages
        self._names = {id(tensor): name for name, tensor in _named_tensors(model)}
        self._compiled = [_compile(model, backend=self._backend, fullgraph=True, dynamic=True)]  # not a submodule
        self._cut: _Cut | None = None
        self._refusal: Exception | None = None

    def _backend(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._cut is not None:
            self._refusal = RuntimeError(
                "the model takes another way for these arguments than for the example: another mode, requires_grad, or "
                "sizes that were equal in the example and are not now; split it anew"
            )
            raise self._refusal
        return lambda *values: self._run(module, values)

    def _run(self, module: fx.GraphModule, values: Sequence[Any]) -> tuple[Any, ...]:
        if self._cut is None:
            state = torch.get_rng_state()
            kept = [(tensor, tensor.detach().clone()) for tensor in _tensors(values) if not tensor.requires_grad]
            try:
                cut = _Cut(module, self._names, values, self._number)
            except ValueError as error:
                self._refusal = error
                raise
            torch.set_rng_state(state)
            with torch.no_grad():
                for tensor, before in kept:
                    if not torch.equal(tensor, before):
                        tensor.copy_(before)
            stages = [cut.stage(i) for i in range(self._number)]
            self.stages, self.plan, self._cut = nn.ModuleList(stages), cut.plan(stages), cut
        known = {node.name: value for node, value in zip(self._cut.inputs, values, strict=True)}
        for stage in self.stages:
            known.update(
                zip(_names(stage, "gives"), stage(*(known[name] for name in _names(stage, "takes"))), strict=True)
            )
        return tuple(known[leaf.name] if isinstance(leaf, fx.Node) else leaf for leaf in self._cut.results)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs all stages.

        Args:
            args: the model's own, of any batch size and length.
            kwargs: the same.

        Returns:
            What the model returns.

        Raises:
            RuntimeError: the model takes another way for these arguments than for the example.

        """
        try:
            return self._compiled[0](*args, **kwargs)
        except Exception:
            refusal, self._refusal = self._refusal, None
            if refusal is None:
                raise
        raise refusal


def _names(stage: nn.Module, which: str) -> list[str]:
    names: list[str] = stage.__dict__[which]
    return names


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The first name of each: of tied parameters there is one."""
    seen: set[int] = set()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def split(model: nn.Module, example_args: tuple[Any, ...], *, stages: int) -> Split:
    """Cuts a model into stages of about the same cost.

    The model is captured as one graph in which sizes vary. Of all cuts of the graph's order, those are taken whose
    dearest stage is cheapest, with what it takes and hands over; of these, those that hand over least. A value that
    later stages take goes there directly (a portal); inputs and parameters are delivered where they are used. No cut
    separates writes to a tensor from its other uses, or lies where grad mode or autocast is another than around the
    model.

    Args:
        model: any module that is captured whole; neither it nor its buffers nor random numbers are changed.
        example_args: arguments to measure with, the model's shapes. Later ones may have other sizes, where those that
            are equal here are equal too; all else (requires_grad, the model's mode) stays as it is now.
        stages: how many there shall be.

    Returns:
        The stages, which is called like the model.

    Raises:
        CaptureError: the model is not one graph; it names file, line and reason.
        ValueError: there are fewer operations, or places to cut, than stages.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
        >>> print(split(model, (torch.ones(2, 4),), stages=2).plan)
        stage operations   cost, us   parameters   bytes in  bytes out
            0          2        1.0           80          0         32
            1          2        1.0           80         32          0

    """
    if stages < 1:
        raise ValueError(f"stages must be a positive number, not {stages}")
    made = Split(model, stages)
    state = torch.get_rng_state()
    kept = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        made(*example_args)
    finally:
        torch.set_rng_state(state)
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
    return made
