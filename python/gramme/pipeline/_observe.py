"""Observes each node of a graph in one run with an example."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.utils.flop_counter import FlopCounterMode

from .._torch import names
from .._torch.names import TorchDispatchMode, free_unbacked_symbols, pytree
from .._torch.names import functorch_in_c as _functorch

# One core of a few years ago, in nanoseconds: what matters is the ratio.
_FLOPS, BYTES, _CALL = 16, 8, 500
HANDING_OVER = 5_000  # cost of passing a value, independent of its size

_library: Any = cast(Any, torch.library.Library)("gramme_pipeline", "DEF")
_library.define("cut() -> ()")
_library.impl("cut", lambda: None, "BackendSelect")
torch.library.register_fake("gramme_pipeline::cut", lambda: None, lib=_library)
# An operator, since functions of this package are not captured.
cut: Callable[[], None] = torch.ops.gramme_pipeline.cut
cut.__doc__ = "Marks a place in a model where a stage ends and the next one begins. Elsewhere it does nothing."
_MARKERS = (cut, torch.ops.gramme_pipeline.cut.default)


@dataclass
class Operation:
    """The observations of one node in a run with the example."""

    node: fx.Node
    cost: int = _CALL
    bytes: int = 0
    crosses: bool = True  # whether its result may be passed to another stage
    data_dependent_size: bool = False  # its result's size is known only after it ran
    storages: set[int] = field(default_factory=set)  # storages that it read or made
    written: set[int] = field(default_factory=set)
    in_mode: bool = False  # after it, grad mode or autocast differs from outside, or a transform is entered
    has_gradient: bool = False  # a result needs a gradient
    repeats: bool = True  # a second run outside such modes gives the same: it draws no random numbers
    stays: bool = False  # it keeps its order among others that stay
    part: int = 0  # operations of a part run before those of the next


_AUTOCASTS = ("cpu", "cuda")


def _casts() -> tuple[bool, ...]:
    return tuple(torch.is_autocast_enabled(device) for device in _AUTOCASTS)


def _modes() -> tuple[object, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), _casts(), _functorch.maybe_current_level()


class _Draws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Detects operators that draw random numbers."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found = self.found or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _is_same(tensor: Tensor, copy: Tensor) -> bool:
    tensor, copy = _unwrapped(tensor).detach(), _unwrapped(copy)
    if tensor.is_meta:  # nothing is known
        return False
    return tensor.layout == torch.strided and not tensor.is_quantized and torch.equal(tensor, copy)


def tensors_of(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _data_dependent_sizes(graph: fx.Graph) -> set[fx.Node]:
    """Nodes with tensors whose sizes come from data; varying sizes of inputs do not count."""

    def symbols(node: fx.Node) -> set[Any]:
        values = pytree.tree_leaves(node.meta.get("example_value"))
        return set[Any]().union(
            *(free_unbacked_symbols(leaf) for leaf in values if isinstance(leaf, (Tensor, torch.SymInt)))
        )

    of_inputs = set[Any]().union(*map(symbols, graph.find_nodes(op="placeholder")))
    return {node for node in graph.nodes if symbols(node) - of_inputs and tensors_of(node.meta["example_value"])}


def writes_unseen(node: fx.Node) -> bool:
    """Whether it may write without raising the version: these two do, and operators of others might."""
    if node.op != "call_function":
        return node.op == "call_module"
    name = getattr(node.target, "__name__", "")
    module = getattr(node.target, "__module__", None) or ""
    is_torchs = module.split(".")[0] in ("torch", "_operator") or isinstance(node.target, BuiltinFunctionType)
    if isinstance(node.target, names.OpOverload | names.OpOverloadPacket):
        is_torchs = str(node.target).startswith("aten.")
    return not is_torchs or "batch_norm" in name or "instance_norm" in name


class Observer(fx.Interpreter):
    """Runs the graph once and records each node."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.operations: list[Operation] = []
        self.marked: list[int] = []  # operations after a marker
        self.outside, self.casts_outside = _modes(), _casts()
        self.kept: list[Tensor] = []  # addresses identify storages while all are alive
        self.part = 0
        self._data_dependent_sizes = _data_dependent_sizes(module.graph)

    def run_node(self, n: fx.Node) -> Any:
        if n.op not in ("call_function", "call_method", "call_module"):
            return super().run_node(n)
        if n.target in _MARKERS:
            self.marked.append(len(self.operations))
            self.part += 1
            return None
        seen = Operation(n, data_dependent_size=n in self._data_dependent_sizes, part=self.part)
        taken = tensors_of(self.fetch_args_kwargs_from_env(n))
        before = [(tensor, tensor._version) for tensor in taken]
        copies = [(tensor, tensor.detach().clone()) for tensor in taken] if writes_unseen(n) else []
        modes, casts = _modes(), _casts() != self.casts_outside
        with FlopCounterMode(display=False) as flops, _Draws() as draws:  # type: ignore[no-untyped-call]
            result = super().run_node(n)
        made = tensors_of(result)
        self.kept += made
        seen.bytes = sum(tensor.numel() * tensor.element_size() for tensor in made)
        seen.cost += flops.get_total_flops() // _FLOPS + seen.bytes // BYTES
        seen.crosses = isinstance(result, Tensor | int | float)
        seen.storages = {_storage(tensor) for tensor in (*made, *(tensor for tensor, _ in before))}
        seen.written = {_storage(tensor) for tensor, version in before if tensor._version != version}
        seen.written |= {_storage(tensor) for tensor, copy in copies if not _is_same(tensor, copy)}
        seen.in_mode = _modes() != self.outside
        seen.has_gradient = any(tensor.requires_grad for tensor in made)
        seen.repeats = not (draws.found or casts or seen.written or modes[-1] != self.outside[-1])
        seen.stays = draws.found or result is None or _is_of_a_library(n)
        if _modes() != modes:
            seen.part, self.part = self.part + 1, self.part + 2
        self.operations.append(seen)
        return result


class Clock(fx.Interpreter):
    """Runs the graph and measures each node, in nanoseconds."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.taken: dict[fx.Node, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        began = time.perf_counter_ns()
        result = super().run_node(n)
        taken = time.perf_counter_ns() - began
        self.taken[n] = min(taken, self.taken.get(n, taken))
        return result


def _is_of_a_library(node: fx.Node) -> bool:
    """Whether the operator is not PyTorch's, and so may have effects."""
    return getattr(node.target, "namespace", "aten") not in ("aten", "prims", "torchvision")


def _unwrapped(tensor: Tensor) -> Tensor:
    """The tensor inside wrappers of torch.func's transforms."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def _storage(tensor: Tensor) -> int:
    tensor = _unwrapped(tensor)
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def takers(operations: Sequence[Operation], output: fx.Node) -> list[list[int]]:
    """The users of each operation's result; the model's results are not passed to a stage."""
    place = {operation.node: i for i, operation in enumerate(operations)}
    return [[place[user] for user in operation.node.users if user is not output] for operation in operations]


def last_uses(operations: Sequence[Operation], output: fx.Node) -> list[int]:
    """The last user of each operation's result, or the operation itself."""
    return [max([i, *users]) for i, users in enumerate(takers(operations, output))]


def places(operations: Sequence[Operation], last_use: Sequence[int]) -> list[str]:
    """For each operation, why no stage may begin with it; empty if one may."""
    why = [""] * (len(operations) + 1)

    def keep_together(first: int, last: int, reason: str) -> None:
        for i in range(first + 1, last + 1):
            why[i] = why[i] or f"{reason} ({line_of(operations[first].node) or operations[first].node.name})"

    touched: dict[int, tuple[int, int]] = {}
    written: set[int] = set()
    for i, operation in enumerate(operations):
        if not operation.crosses:
            keep_together(i, last_use[i], "several values of one operation are used")
        elif operation.data_dependent_size:
            keep_together(i, last_use[i], "a tensor is used whose size depends on data")
        if operation.in_mode:
            keep_together(i, i + 1, "grad mode, autocast or torch.func's transforms are others than around the model")
        for storage in operation.storages:
            touched[storage] = (touched.get(storage, (i, i))[0], i)
        written |= operation.written
    for storage in written:  # a stage, cut at its inputs, would write another stage's values
        keep_together(*touched[storage], "a tensor is used that is written to")
    return why[:-1]


_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def line_of(node: fx.Node) -> str:
    """File and line of the program, if they are known."""
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    return f"{found[-1][0]}:{found[-1][1]}" if found else ""


def modules_of(node: fx.Node) -> set[str]:
    """The names of the model's modules in whose calls the node is."""
    paths = (path for path, _ in (node.meta.get("nn_module_stack") or {}).values())
    return {path.removeprefix("L['self'].") for path in paths}
