"""torch._dynamo.config.use_graph_deduplication: equal regions of a graph are calls of one subgraph."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo as dynamo
from torch import nn

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="beside PyTorch's front end")

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    def region(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.sin() + b.cos()).exp()

    return region(x, y) + region(x * 2, y)


def in_a_row(x: torch.Tensor, y: torch.Tensor) -> Any:
    for _ in range(4):
        x = torch.tanh(x * 2 + y).cos()
    return x


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4)) for _ in range(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        for layer in self.layers:
            x = x + layer(x) * y
        return x


def with_parts(x: torch.Tensor, y: torch.Tensor) -> Any:
    results = []
    for each in (x, y):
        values, places = torch.topk(each.sin(), 2)
        results.append((values.cos() + 1).sum() + places.float().mean())
    return results


def one_line_other_constants(x: torch.Tensor, y: torch.Tensor) -> Any:
    for by in (2.0, 3.0):
        x = (x * by).sin().cos()
    return x


def one_line_wired_otherwise(x: torch.Tensor, y: torch.Tensor) -> Any:
    def region(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.sin() - b.cos()).exp()

    return region(x, x) + region(x, y) * region(y, x)


def wired_within(x: torch.Tensor, y: torch.Tensor) -> Any:
    total = x
    for swap in (False, True):
        a, b = x.sin(), y.sin()
        total = total + (torch.sub(*((b, a) if swap else (a, b)))).exp()
    return total


def written(x: torch.Tensor, y: torch.Tensor) -> Any:
    total = torch.zeros_like(x)
    for each in (x, y):
        z = each.sin().cos()
        total.add_(z)
        z.mul_(total)
        total = total + z.exp()
    return total


def writes_an_input(x: torch.Tensor, y: torch.Tensor) -> Any:
    for _ in range(2):
        x = (x + y).sin()
        y.mul_(0.5)
    return x


def random(x: torch.Tensor, y: torch.Tensor) -> Any:
    for each in (x, y):
        x = x + torch.nn.functional.dropout(each.sin().cos(), 0.5)
    return x


def views(x: torch.Tensor, y: torch.Tensor) -> Any:
    results = []
    for each in (x, y):
        results.append(each[1:].t().unsqueeze(0) * 2)
        results.append(each[1:].t())
    return results


def modes(x: torch.Tensor, y: torch.Tensor) -> Any:
    total = x
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            z = (x.sin() + y).exp().tanh()
        total = total + z
    return total


SHARED = [twice, in_a_row, Layers(), with_parts]
OTHERS = [
    one_line_other_constants,
    one_line_wired_otherwise,
    wired_within,
    written,
    writes_an_input,
    random,
    views,
    modes,
    nn.BatchNorm1d(4),
]


def values(program: Program) -> Any:
    """Results, gradients, and what was written to."""
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_(torch.is_grad_enabled())
    y = torch.linspace(0, 2, 12).view(3, 4)
    result = program(x, y)
    several = result if isinstance(result, list) else [result]
    if torch.is_grad_enabled():
        sum(each.sum() for each in several).backward()
    return [*several, x.grad, y, torch.rand(2)]


def ignoring_the_second(program: Any) -> Program:
    return (lambda x, y: program(x)) if isinstance(program, nn.BatchNorm1d) else program


def calls_of_subgraphs(graph: torch.fx.GraphModule) -> int:
    return sum("invoke_subgraph" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager", "callable"])
@pytest.mark.parametrize("program", SHARED + OTHERS, ids=lambda p: getattr(p, "__name__", type(p).__name__))
def test_as_eager(program: Any, backend: Any) -> None:
    dynamo.reset()
    function = ignoring_the_second(program)
    wanted = values(function)
    chosen = (lambda graph, inputs: graph.forward) if backend == "callable" else backend
    with dynamo.config.patch(use_graph_deduplication=True):
        compiled = gramme.compile(function, backend=chosen)
        for _ in range(2):
            torch.testing.assert_close(values(compiled), wanted)


@pytest.mark.parametrize("program", SHARED, ids=lambda p: getattr(p, "__name__", type(p).__name__))
def test_gradients_of_subgraphs(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph that AOTAutograd gets, of which it makes the backward pass."""
    from torch._dynamo.backends import registry

    counts: list[int] = []
    aot_eager = dynamo.lookup_backend("aot_eager")

    def counted(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        counts.append(calls_of_subgraphs(graph))
        return aot_eager(graph, inputs)

    monkeypatch.setitem(registry._COMPILER_FNS, "aot_eager", counted)
    wanted = values(program)
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        with dynamo.config.patch(use_graph_deduplication=True):
            torch.testing.assert_close(values(front(program, backend="aot_eager")), wanted)
    assert counts[0] == counts[1] > 1


@pytest.mark.parametrize("program", SHARED, ids=lambda p: getattr(p, "__name__", type(p).__name__))
def test_equal_regions_are_one_subgraph(program: Program) -> None:
    counts = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        graphs: list[torch.fx.GraphModule] = []

        def backend(graph: torch.fx.GraphModule, inputs: Any, graphs: list[Any] = graphs) -> Any:
            graphs.append(graph)
            return graph.forward

        with dynamo.config.patch(use_graph_deduplication=True):
            with torch.no_grad():  # PyTorch fails where autograd runs such a graph as it is
                values(front(program, backend=backend))
        counts.append([calls_of_subgraphs(graph) for graph in graphs])
    assert counts[0] == counts[1]
    assert counts[0][0] > 1


@pytest.mark.parametrize("program", OTHERS, ids=lambda p: getattr(p, "__name__", type(p).__name__))
def test_without_the_setting_there_are_none(program: Any) -> None:
    dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    values(gramme.compile(ignoring_the_second(program), backend=backend))
    assert not any(map(calls_of_subgraphs, graphs))
