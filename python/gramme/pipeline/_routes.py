"""Which value goes from which stage to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn

from ._observe import writes_unseen
from ._program import ATTRIBUTE, Program, attributes
from ._simulate import Value
from ._split import Split


@dataclass(frozen=True)
class Routes:
    """The routes of values between stages.

    Attributes:
        programs: by stage, what it runs.
        needs: by stage, the values that it, or the loss behind the last one, takes.
        sources: by value, the stage that gives it; none for what is there from the start.
        targets: by value, the stages that take it, ascending.
        written: by stage, attributes that it writes to.
        results: the values in the model's result.

    """

    stages: Sequence[nn.Module]
    programs: Sequence[Program]
    needs: Sequence[Sequence[str]]
    sources: Mapping[str, int]
    targets: Mapping[str, tuple[int, ...]]
    written: Sequence[Collection[str]]
    results: Collection[str]

    def attribute(self, stage: int, name: str) -> Tensor:
        """A stage's attribute by the name that programs have for it."""
        value: Tensor = attrgetter(name.removeprefix(ATTRIBUTE))(self.stages[stage])
        return value

    def values(self, sizes: Mapping[str, int]) -> tuple[Value, ...]:
        """For the simulator; written attributes stay where they are."""
        return tuple(
            Value(name, self.sources.get(name), targets, sizes.get(name, 0), is_weight=name.startswith(ATTRIBUTE))
            for name, targets in self.targets.items()
            if not all(name in self.written[stage] for stage in targets)
        )


class Programs:
    """The stages of a split as programs, and what is needed to route values between them."""

    def __init__(self, split: Split, backend: str) -> None:
        self._split = split
        stages: Sequence[Any] = list(split.stages)
        own = [attributes(stage) for stage in stages]
        users: dict[int, set[int]] = defaultdict(set)
        for stage, tensors in enumerate(own):
            for tensor in tensors.values():
                users[id(tensor)].add(stage)
        written = [_written(stage, split) for stage in stages]
        # Each stage has its own leaf of a tied parameter; a micro-batch writes to a copy of a buffer.
        lifted = [
            {name for name, tensor in tensors.items() if _is_trained(tensor) and len(users[id(tensor)]) > 1} | writes
            for tensors, writes in zip(own, written, strict=True)
        ]
        self.programs = [Program(stage, names, backend) for stage, names in zip(stages, lifted, strict=True)]
        self._written = [frozenset(map(ATTRIBUTE.__add__, names)) for names in written]

    def routes(self, *, with_loss: bool, returned: Collection[str] = ()) -> Routes:
        """The routes for a loss in the last stage, which takes the model's results, including returned inputs."""
        needs = [list(program.inputs) for program in self.programs]
        sources = {name: stage for stage, program in enumerate(self.programs) for name in program.outputs}
        results = dict.fromkeys([*self._split.result_names, *sorted(returned)])
        last = len(needs) - 1
        if with_loss:
            needs[last] += [name for name in results if name not in needs[last] and sources.get(name) != last]
        targets: dict[str, list[int]] = defaultdict(list)
        for stage, names in enumerate(needs):
            for name in names:
                targets[name].append(stage)
        return Routes(
            stages=list(self._split.stages),
            programs=self.programs,
            needs=needs,
            sources=sources,
            targets={name: tuple(stages) for name, stages in targets.items()},
            written=self._written,
            results=frozenset(results),
        )


def _is_trained(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) or tensor.requires_grad


def _written(stage: fx.GraphModule, split: Split) -> set[str]:
    """The attributes of a stage that it writes to, or may."""
    found = set()
    for name, tensor in attributes(stage).items():
        if _is_trained(tensor) or tensor.layout != torch.strided:
            continue
        users = [
            user for node in stage.graph.nodes if node.op == "get_attr" and node.target == name for user in node.users
        ]
        if tensor.untyped_storage()._cdata in split.written_storages or any(map(writes_unseen, users)):
            found.add(name)
    return found
