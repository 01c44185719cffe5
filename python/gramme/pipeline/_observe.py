"""What one run with an example shows of each node of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

# One core of a few years ago, in nanoseconds: what matters is the ratio.
_FLOPS, BYTES, _CALL = 16, 8, 500


@dataclass
class Operation:
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


def tensors_of(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


class Observer(fx.Interpreter):
    """Runs the graph once and writes down what each node does."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.operations: list[Operation] = []
        self.outside = _modes()
        self.kept: list[Tensor] = []  # an address stands for one storage as long as all live

    def run_node(self, n: fx.Node) -> Any:
        if n.op not in ("call_function", "call_method", "call_module"):
            return super().run_node(n)
        seen = Operation(n)
        before = [(tensor, tensor._version) for tensor in tensors_of(self.fetch_args_kwargs_from_env(n))]
        with FlopCounterMode(display=False) as flops:
            result = super().run_node(n)
        made = tensors_of(result)
        self.kept += made
        seen.bytes = sum(tensor.numel() * tensor.element_size() for tensor in made)
        seen.cost += flops.get_total_flops() // _FLOPS + seen.bytes // BYTES
        seen.crosses = isinstance(result, Tensor | int | float)
        seen.storages = {_storage(tensor) for tensor in (*made, *(tensor for tensor, _ in before))}
        seen.written = {_storage(tensor) for tensor, version in before if tensor._version != version}
        seen.in_mode = _modes() != self.outside
        self.operations.append(seen)
        return result


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def last_uses(operations: Sequence[Operation], output: fx.Node) -> list[int]:
    """By operation the last one that takes its result; the model's own results are not handed to a stage."""
    place = {operation.node: i for i, operation in enumerate(operations)}
    return [
        max([i, *(place[user] for user in operation.node.users if user is not output)])
        for i, operation in enumerate(operations)
    ]


def places(operations: Sequence[Operation], last_use: Sequence[int]) -> list[bool]:
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
