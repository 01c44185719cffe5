"""The graph of a capture cut into stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from torch import Tensor, fx, nn

from .. import _C
from .._torch.names import pytree
from ._names import Names
from ._observe import BYTES, HANDING_OVER, Clock, Observer, Operation, last_uses, line_of, modules_of, places, takers
from ._order import orders
from ._plan import Plan, PlannedStage, Portal
from ._simulate import Value
from ._steps import Costs, blocks, shortest

_MEASURED = 3  # runs


@dataclass(frozen=True)
class Wishes:
    """The wishes for a cut."""

    stages: int
    begin: Sequence[str] = ()  # modules that a stage begins with
    most_memory: int | None = None
    micro_batches: int | None = None
    costs: Literal["estimated", "measured"] = "estimated"


class Cut:
    """The graph of a capture cut into stages."""

    def __init__(self, module: fx.GraphModule, names: Names, values: Sequence[Any], wishes: Wishes) -> None:
        self.module, self.names, self.wishes = module, names, wishes
        self.micro_batches = wishes.micro_batches or 4 * wishes.stages
        self.inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.output: fx.Node = next(iter(reversed(module.graph.nodes)))
        self.attributes: dict[fx.Node, tuple[str, Any]] = {
            node: (names.of[id(value)], value)
            for node, value in zip(self.inputs, values, strict=True)
            if isinstance(value, Tensor) and id(value) in names.of
        }
        observer = Observer(module)
        observer.run(*values)
        self.operations = observer.operations
        if wishes.costs == "measured":
            self._measure(values)
        self.again = self._cheap_to_repeat(values)
        self._choose([self.operations[i].node for i in observer.marked if i < len(self.operations)])
        self.stage_of = {
            operation.node: stage
            for stage in range(wishes.stages)
            for operation in self.operations[self.bounds[stage] : self.bounds[stage + 1]]
        }
        self.bytes = {operation.node: operation.bytes for operation in self.operations}
        self.results: list[Any] = list(pytree.tree_leaves(self.output.args[0]))
        self.own, self.needs = zip(*(self._nodes_of(stage) for stage in range(wishes.stages)), strict=True)
        self._takers: dict[fx.Node, list[int]] = {node: [] for node in module.graph.nodes}
        for stage, needs in enumerate(self.needs):
            for node in needs:
                self._takers[node].append(stage)

    def _measure(self, values: Sequence[Any]) -> None:
        clock = Clock(self.module)
        for _ in range(_MEASURED):
            clock.run(*values)
        for operation in self.operations:
            operation.cost = clock.taken[operation.node]

    def _choose(self, marked: Sequence[fx.Node]) -> None:
        """Puts the operations in the best order and finds the bounds of the stages.

        Cuts are searched for by what all values alive at them weigh, and by operations alone; of those found, and
        torchgpipe's blocks, the simulator's shortest step wins.
        """
        program = self.operations
        found: list[tuple[list[Operation], list[int]]] = []
        steps: list[tuple[float, ...]] = []
        bound: tuple[float, ...] | None = None
        refusal = None
        for order in orders(program):
            operations = [program[i] for i in order]
            costs = Costs(
                [operation.cost for operation in operations],
                [self._moving(operation) for operation in operations],
                takers(operations, self.output),
            )
            try:
                ways = [self._cuts_of(operations, costs, marked, weight) for weight in (1, 0)]
            except ValueError as error:
                refusal = refusal or error
                continue
            for cuts in ways:
                found.append((operations, cuts))
                steps.append(costs.steps(cuts, self.micro_batches))
            like_torchgpipe = self._blocks(operations, costs, marked) if operations == program else None
            if like_torchgpipe is not None:
                found.append((operations, like_torchgpipe))
                steps.append(bound := costs.steps(like_torchgpipe, self.micro_batches))
        if not found:
            assert refusal is not None
            raise refusal
        self.operations, cuts = found[shortest(steps, bound)]
        self.bounds = [0, *cuts, len(program)]

    def _blocks(self, operations: Sequence[Operation], costs: Costs, marked: Sequence[fx.Node]) -> list[int] | None:
        """Torchgpipe's, if nothing else is wished."""
        if marked or self.wishes.begin or self.wishes.most_memory is not None:
            return None
        why = places(operations, last_uses(operations, self.output))
        return blocks(costs.cost, [not reason for reason in why], self.wishes.stages)

    def _cuts_of(
        self, operations: Sequence[Operation], costs: Costs, marked: Sequence[fx.Node], weight: int
    ) -> list[int]:
        wishes = self.wishes
        last_use = last_uses(operations, self.output)
        why = places(operations, last_use)
        must = self._pinned(operations, marked)
        for i, pin in must.items():
            if i > 0 and why[i]:
                raise ValueError(f"no stage may begin at {pin} ({line_of(operations[i].node)}): {why[i]}")
        try:
            return _C.pipeline.plan_cuts(
                cost=list(costs.cost),
                moving=[weight * size for size in costs.moving],
                last_use=last_use,
                memory=self._memory(operations),
                may_cut=[not reason for reason in why],
                must_cut=[i in must for i in range(len(operations))],
                stages=wishes.stages,
                micro_batches=self.micro_batches,
                most_memory=wishes.most_memory,
            )[0]
        except ValueError as error:
            reasons = sorted({reason for reason in why if reason})
            if "places" not in str(error) or not reasons:
                raise
            more = f" and {len(reasons) - 3} more" * (len(reasons) > 3)
            raise ValueError(f"{error}: {'; '.join(reasons[:3])}{more}") from None

    def _pinned(self, operations: Sequence[Operation], marked: Sequence[fx.Node]) -> dict[int, str]:
        """Operations with which a stage must begin, and why."""
        place = {operation.node: i for i, operation in enumerate(operations)}
        parts = {operation.node: operation.part for operation in operations}
        pinned = {min(i for node, i in place.items() if parts[node] == parts[at]): "a marker" for at in marked}
        for name in self.wishes.begin:
            inside = [i for node, i in place.items() if name in modules_of(node)]
            if not inside:
                raise ValueError(f"the model calls no module {name}")
            pinned[min(inside)] = name
        return pinned

    def _memory(self, operations: Sequence[Operation]) -> list[int]:
        """The bytes that each operation adds to its stage: results, and parameters and buffers at their first use."""
        seen: set[fx.Node] = set()
        held = []
        for operation in operations:
            new = {node for node in operation.node.all_input_nodes if node not in seen and self.attribute(node)}
            seen |= new
            tensors = [attribute[1] for node in new if (attribute := self.attribute(node))]
            own = sum(value.numel() * value.element_size() for value in tensors if isinstance(value, Tensor))
            held.append(operation.bytes + own)
        return held

    def _cheap_to_repeat(self, values: Sequence[Any]) -> dict[fx.Node, int]:
        """The cost of recomputing a value from sizes and buffers, if that is cheaper than passing it on."""
        written: set[int] = set().union(*(operation.written for operation in self.operations))
        sources: dict[fx.Node, frozenset[fx.Node]] = {}  # the operations a value is computed with
        for node, value in zip(self.inputs, values, strict=True):
            if not isinstance(value, Tensor) or (node in self.attributes and not value.requires_grad):
                sources[node] = frozenset()
        cost = {operation.node: operation.cost for operation in self.operations}
        cheap = {}
        for operation in self.operations:
            inputs = operation.node.all_input_nodes
            known = all(node in sources or node.op == "get_attr" for node in inputs)
            if not known or not operation.repeats or operation.has_gradient or operation.storages & written:
                continue
            with_it = frozenset((operation.node,)).union(*(sources.get(node, ()) for node in inputs))
            if operation.crosses and sum(cost[node] for node in with_it) <= operation.bytes // BYTES + HANDING_OVER:
                cheap[operation.node] = sum(cost[node] for node in with_it)
            sources[operation.node] = with_it
        self.sources = sources
        return cheap

    def _moving(self, operation: Operation) -> int:
        return min(operation.bytes // BYTES, self.again.get(operation.node, operation.bytes // BYTES))

    def _nodes_of(self, stage: int) -> tuple[list[fx.Node], list[fx.Node]]:
        """The nodes of a stage, including repeated ones, in the graph's order."""
        own = {operation.node for operation in self.operations[self.bounds[stage] : self.bounds[stage + 1]]}
        needed = {node for operation in own for node in operation.all_input_nodes} - own
        repeated = {source for node in needed if node in self.again for source in self.sources[node]} - own
        own |= repeated
        needed |= {node for operation in repeated for node in operation.all_input_nodes}
        place = {node: i for i, node in enumerate(self.module.graph.nodes)}
        for i, operation in enumerate(self.operations[self.bounds[stage] : self.bounds[stage + 1]]):
            place[operation.node] = len(place) + i  # after all repeated ones
        return sorted(own, key=place.__getitem__), sorted(needed - own, key=place.__getitem__)

    def targets(self, node: fx.Node) -> tuple[int, ...]:
        """The other stages that use the operation's result."""
        return tuple(stage for stage in self._takers[node] if stage != self.stage_of.get(node))

    def stage(self, index: int) -> fx.GraphModule:
        """The module of a stage; `takes` and `gives` are names of values."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        attributes: dict[str, Any] = {}
        takes = [node for node in self.needs[index] if not self.attribute(node)]
        for node in takes:
            copies[node] = graph.placeholder(node.name)
        for node in self.needs[index]:
            if attribute := self.attribute(node):
                name, attributes[name] = attribute
                copies[node] = graph.get_attr(name)
        for node in self.own[index]:
            copies[node] = graph.node_copy(node, lambda of: copies[of])
        gives = [node for node in self.own[index] if self.stage_of[node] == index and self._leaves(node)]
        graph.output(tuple(copies[node] for node in gives))
        module = self.module_of(index, attributes, graph)
        module.takes, module.gives = [node.name for node in takes], [node.name for node in gives]  # type: ignore[assignment]
        return module

    def module_of(self, index: int, attributes: dict[str, Any], graph: fx.Graph) -> fx.GraphModule:
        """A stage's graph as a module in the model's mode, whose state has what the model's has of it."""
        module = fx.GraphModule(attributes, graph, class_name=f"Stage{index}")
        module.train(self.module.training)
        for name in attributes.keys() & self.names.unsaved:
            owner, _, own = name.rpartition(".")
            module.get_submodule(owner)._non_persistent_buffers_set.add(own)
        return module

    def _leaves(self, node: fx.Node) -> bool:
        return bool(self.targets(node)) or self.output in node.users

    def attribute(self, node: fx.Node) -> tuple[str, Any] | None:
        """Its name and value, if it is part of the model."""
        if node.op == "get_attr":
            return str(node.target), attrgetter(str(node.target))(self.module)
        return self.attributes.get(node)

    def plan(self, stages: Sequence[nn.Module]) -> Plan:
        """The plan of the cut, for readers."""
        rows, portals = [], []
        for i, stage in enumerate(stages):
            own = self.operations[self.bounds[i] : self.bounds[i + 1]]
            tensors = (*stage.parameters(), *stage.buffers())
            rows.append(
                PlannedStage(
                    operations=len(self.own[i]),
                    repeated=len(self.own[i]) - len(own),
                    cost=sum(operation.cost for operation in own),
                    parameters=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
                    results=sum(operation.bytes for operation in own),
                    bytes_next=sum(op.bytes for op in own if i + 1 in self.targets(op.node)),
                    bytes_in=sum(size for node, size in self.bytes.items() if i in self.targets(node)),
                    bytes_out=sum(operation.bytes * len(self.targets(operation.node)) for operation in own),
                )
            )
        for node, size in self.bytes.items():
            targets, source = self.targets(node), self.stage_of[node]
            if targets and targets[-1] > source + 1:
                relayed = targets[-1] - source
                portals.append(
                    Portal(
                        node.name, line_of(node), source, targets, size, len(targets), size * (relayed - len(targets))
                    )
                )
        values = tuple(
            Value(node.name, self.stage_of[node], targets, size)
            for node, size in self.bytes.items()
            if (targets := self.targets(node))
        )
        return Plan(tuple(rows), tuple(portals), values, self.micro_batches)
