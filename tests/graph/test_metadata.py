"""What nodes say of the program: the same as PyTorch's own front end writes, program by program."""

import copy
import itertools
import re
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme._stack import is_shown
from torch import nn

PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}

Make = Callable[[], tuple[Any, tuple[Any, ...]]]


def program(make: Make) -> Make:
    PROGRAMS[make.__name__] = make
    return make


def row() -> torch.Tensor:
    return torch.linspace(-1, 1, 8).reshape(2, 4)


@program
def several_lines() -> tuple[Any, tuple[Any, ...]]:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        z = (
            torch.add(
                y,
                x.sin(),
            )
            * 2
        )
        return z, (y - 1).relu(), -x  # fmt: skip

    return f, (row(),)


@program
def helpers() -> tuple[Any, tuple[Any, ...]]:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).cos()

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + inner(inner(x))

    return (lambda x: outer(x) - inner(x)), (row(),)


@program
def recursion() -> tuple[Any, tuple[Any, ...]]:
    def down(x: torch.Tensor, depth: int) -> torch.Tensor:
        return x.sin() if depth == 0 else down(x + depth, depth - 1) * 2

    return (lambda x: down(x, 7) + down(x, 2)), (row(),)


@program
def mutual_recursion() -> tuple[Any, tuple[Any, ...]]:
    def even(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x: torch.Tensor, n: int) -> torch.Tensor:
        return even(x * 2, n - 1)

    return (lambda x: even(x, 8)), (row(),)


@program
def comprehensions() -> tuple[Any, tuple[Any, ...]]:
    def f(x: torch.Tensor) -> Any:
        rows = [part * i for i, part in enumerate(x.unbind())]
        return sum(r.sum() for r in rows), {k: r + k for k, r in enumerate(rows)}

    return f, (row(),)


@program
def several_results() -> tuple[Any, tuple[Any, ...]]:
    def f(x: torch.Tensor) -> Any:
        left, right = x.split(2, -1)
        values, where = torch.max(x, dim=0)
        return left * right, values, where

    return f, (row(),)


@program
def in_place() -> tuple[Any, tuple[Any, ...]]:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = 2.0
        y.mul_(3).add_(1)
        y += x
        return y

    return f, (row(),)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) * self.scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.helper(x) + 1


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Plain(), Plain()])
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Tanh()))
        self.named = nn.ModuleDict({"a b": nn.Sigmoid()})
        self._hidden = nn.GELU()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        x = self.seq(x) + self._hidden(x)
        return self.norm(self.named["a b"](x))


@program
def module() -> tuple[Any, tuple[Any, ...]]:
    return Plain(), (row(),)


@program
def nested_modules() -> tuple[Any, tuple[Any, ...]]:
    return Nested(), (row(),)


@program
def module_as_argument() -> tuple[Any, tuple[Any, ...]]:
    return (lambda x, m, table: m(x) + table["k"](x)), (row(), Nested(), {"k": nn.Tanh()})


@program
def called_twice() -> tuple[Any, tuple[Any, ...]]:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.alias = self.layer
            self.plain = Plain()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layer(self.layer(x))
            x = self.alias(x) + self.layer.forward(x)
            return self.plain(x) + self.plain(x)

    return Twice(), (row(),)


@program
def hooks() -> tuple[Any, tuple[Any, ...]]:
    model = Nested()
    model.seq[0].register_forward_hook(lambda module, args, result: result * 2)
    model.norm.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return model, (row(),)


@program
def made_inside() -> tuple[Any, tuple[Any, ...]]:
    layer = nn.Linear(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.Flatten(0)(layer(x))

    return f, (row(),)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.norms = Attention(width, heads), nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


@program
def transformer() -> tuple[Any, tuple[Any, ...]]:
    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.layers = nn.ModuleList(Layer(8, 2) for _ in range(2))
            self.head = nn.Linear(8, 20)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.encode(self.embed(tokens)))

    return Transformer().eval(), (torch.arange(6).reshape(2, 3),)


# ---- comparison

KEYS = ("nn_module_stack", "source_fn_stack", "stack_trace")


def record(compile: Callable[..., Any], function: Any, args: tuple[Any, ...]) -> torch.fx.GraphModule:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compile(function, backend=backend, fullgraph=True)(*args)
    assert len(graphs) == 1
    return graphs[0]


def calls(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op.startswith("call_")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_say_what_pytorch_says(name: str) -> None:
    function, args = PROGRAMS[name]()
    expected = record(torch.compile, function, args)
    actual = record(gramme.compile, function, args)
    for mine, theirs in itertools.zip_longest(calls(actual), calls(expected)):
        assert mine.target == theirs.target
        for key in KEYS:
            assert mine.meta.get(key) == theirs.meta.get(key), (mine, key)
            assert type(mine.meta.get(key)) is type(theirs.meta.get(key))


@pytest.mark.parametrize("name", ["module", "nested_modules", "transformer"])
def test_placeholders_say_where_they_were_first_used(name: str) -> None:
    function, args = PROGRAMS[name]()
    expected = record(torch.compile, function, args)
    actual = record(gramme.compile, function, args)
    inputs = [graph.graph.find_nodes(op="placeholder") for graph in (actual, expected)]
    for mine, theirs in zip(*inputs, strict=True):
        assert mine.meta.get("nn_module_stack") == theirs.meta.get("nn_module_stack"), mine
        lines = [re.findall(r"  File .*", node.stack_trace) for node in (mine, theirs)]
        assert lines[0] == lines[1], mine


def test_a_node_shares_nothing_that_can_be_written() -> None:
    function, args = PROGRAMS["nested_modules"]()
    first, *rest = calls(record(gramme.compile, function, args))
    kept = [copy.deepcopy([node.meta.get(key) for key in KEYS]) for node in rest]
    first.meta["nn_module_stack"].clear()
    first.meta["source_fn_stack"].append("mine")
    first.meta["stack_trace"] = ""
    assert kept == [[node.meta.get(key) for key in KEYS] for node in rest]


def test_lines_after_a_break_are_the_functions() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(end="")
        return y * 2

    stacks: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        stacks.extend(node.stack_trace or "" for node in calls(graph))
        return graph.forward

    gramme.compile(f, backend=backend)(row())
    assert [re.findall(r"line (\d+), in (\w+)\n    (.*)", stack) for stack in stacks] == [
        [(str(f.__code__.co_firstlineno + 1), "f", "y = x + 1")],
        [(str(f.__code__.co_firstlineno + 3), "f", "return y * 2")],
    ]


def test_code_of_a_graph_shows_the_users_lines() -> None:
    function, args = PROGRAMS["helpers"]()
    text = record(gramme.compile, function, args).print_readable(print_output=False)
    assert re.search(r"# File: .*test_metadata.py:\d+ in inner, code: return \(x \* 2\)\.cos\(\)", text)


def test_source_that_cannot_be_read() -> None:
    scope: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x + 1\n", "<made up>", "exec"), scope)
    (node,) = calls(record(gramme.compile, scope["f"], (row(),)))
    assert node.stack_trace == '  File "<made up>", line 2, in f\n'


def test_files_that_are_not_shown() -> None:
    from torch.fx.experimental.symbolic_shapes import uninteresting_files

    assert [file for file in uninteresting_files() if is_shown(file)] == []
    assert not is_shown(nn.functional.__file__.replace("functional", "modules/linear"))
    assert not is_shown(gramme.__file__)
    assert is_shown(nn.functional.__file__)
    assert is_shown(__file__)
