"""The graph of a capture cut into stages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from .. import _C
from ._observe import BYTES, Observer, last_uses, places
from ._plan import Plan, PlannedStage, Portal

_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def _line(node: fx.Node) -> str:
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    return f"{found[-1][0]}:{found[-1][1]}" if found else ""


class Cut:
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
        observer = Observer(module)
        observer.run(*values)
        self.operations = observer.operations
        last_use = last_uses(self.operations, self.output)
        cuts = _C.pipeline.plan_cuts(
            cost=[operation.cost for operation in self.operations],
            moving=[operation.bytes // BYTES for operation in self.operations],
            last_use=last_use,
            may_cut=places(self.operations, last_use),
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
