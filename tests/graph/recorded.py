"""Graphs of whole programs with symbolic sizes, as PyTorch's Dynamo records them, followed call by call."""

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import fx

from graph.binding import testing


class Followed(NamedTuple):
    """One call of a graph: what it was called with, and what it gave."""

    target: Any
    args: Any  # with SymbolicTensor and SymbolicNumber for what varies
    kwargs: Any
    outcome: Any
    real: Any
    sizes: Any  # testing.Sizes of the whole graph


class Value(NamedTuple):
    real: Any
    symbolic: Any


def record(program: Callable[..., Any], kwargs: dict[str, Any]) -> tuple[fx.GraphModule, list[Any]]:
    """The one graph of the call under dynamic=True, and its inputs."""
    kept: list[Any] = []

    def keep(graph: fx.GraphModule, inputs: list[Any]) -> Any:
        kept.append((graph, inputs))
        return graph.forward

    torch._dynamo.reset()
    with torch.no_grad(), torch._dynamo.config.patch(specialize_float=True):
        torch.compile(program, backend=keep, dynamic=True, fullgraph=True)(**kwargs)
    torch._dynamo.reset()
    assert len(kept) == 1
    graph: fx.GraphModule
    graph, inputs = kept[0]
    return graph, inputs


class Follower:
    """Makes each call of the graph for real, and infers it with symbols."""

    def __init__(self) -> None:
        self.sizes = testing.Sizes()
        self.symbols: dict[str, int] = {}
        self.values: dict[fx.Node, Value] = {}

    def number(self, value: Any) -> Any:
        hint, name = int(value), str(value.node.expr)
        if name not in self.symbols:
            self.symbols[name] = len(self.symbols)
        return self.sizes.number(hint, self.symbols[name])

    def placeholder(self, node: fx.Node, given: Any) -> Value:
        example = node.meta["example_value"]
        if isinstance(example, torch.SymInt):
            return Value(int(given), self.number(example))
        if not isinstance(given, torch.Tensor):
            return Value(given, given)
        varying = {d: size for d, size in enumerate(example.shape) if isinstance(size, torch.SymInt)}
        for size in varying.values():
            self.number(size)
        symbols = {d: self.symbols[str(size.node.expr)] for d, size in varying.items()}
        return Value(given, self.sizes.tensor(given, symbols))

    def paired(self, real: Any, result: Any) -> Any:
        if result["kind"] == "tensor":
            return testing.SymbolicTensor(real, result["ref"])
        if result["kind"] == "number":
            return testing.SymbolicNumber(real, result["ref"]) if "ref" in result else real
        if result["kind"] == "sequence":
            return tuple(self.paired(item, part) for item, part in zip(real, result["items"], strict=True))
        return real

    def run(self, graph: fx.GraphModule, inputs: list[Any]) -> Iterator[Followed]:
        given = iter(inputs)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self.placeholder(node, next(given))
            elif node.op in ("call_function", "call_method"):
                followed = self.call(node)
                if followed:
                    yield followed
            else:
                assert node.op in ("output", "get_attr"), node.op

    def call(self, node: fx.Node) -> Followed | None:
        args, real_args = self.load(node.args, 1), self.load(node.args, 0)
        kwargs, real_kwargs = self.load(node.kwargs, 1), self.load(node.kwargs, 0)
        if node.target is torch.Size:  # captures know what it gives
            self.values[node] = Value(torch.Size(real_args[0]), tuple(args[0]))
            return None
        if node.target is operator.getitem and isinstance(args[0], tuple):
            self.values[node] = Value(real_args[0][args[1]], args[0][args[1]])
            return None
        infer = self.sizes.fill if node.target == "size" else self.sizes.infer  # captures know it
        outcome = infer(node.target, *args, **kwargs)
        if node.op == "call_method":
            real = getattr(real_args[0], str(node.target))(*real_args[1:], **real_kwargs)
        else:
            real = node.target(*real_args, **real_kwargs)  # type: ignore[operator]
        self.values[node] = Value(real, None if outcome["error"] else self.paired(real, outcome["result"]))
        return Followed(node.target, args, kwargs, outcome, real, self.sizes)

    def load(self, value: Any, which: int) -> Any:
        if isinstance(value, fx.Node):
            return self.values[value][which]
        if isinstance(value, slice):
            return slice(*(self.load(part, which) for part in (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return {name: self.load(item, which) for name, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self.load(item, which) for item in value)
        return value
