"""captured() shows what a compiled function has captured so far, without a capture or a call."""

import gc
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.front import GRAMME
from e2e.test_sharing import Block, X, compiled, totals

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")
BACKENDS = ["native", "eager", "aot_eager"]


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("between")
    return y.relu() + 1


def shown(graph: torch.fx.GraphModule) -> list[Any]:
    """All that can be read of a graph but what belongs to a call: examples, and the types of inputs."""
    found: list[Any] = [graph.meta]
    for node in graph.graph.nodes:
        meta = {key: value for key, value in node.meta.items() if key != "example_value"}
        found.append((node.op, node.name, node.target, str(node.args), str(node.kwargs), str(meta)))
        if node.op == "get_attr" and isinstance(body := getattr(graph, node.target), torch.fx.GraphModule):
            found += shown(body)
    return found


def texts(found: gramme.Explanation) -> list[Any]:
    return [shown(graph) for graph in found.graphs]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_graphs_are_those_of_explain(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = compiled(broken, backend=backend)
    for _ in range(3):
        entry(X)
    found, explained = gramme.captured(entry), gramme.explain(broken)(X)
    assert texts(found) == texts(explained)
    assert [segment.guards for segment in found.segments] == [segment.guards for segment in explained.segments]
    assert (found.graph_count, found.op_count, found.graph_break_count) == (2, 3, 1)
    assert str(found).partition("\n")[0] == str(explained).partition("\n")[0]
    assert [segment.runs for segment in found.segments if segment.graph is not None] == [3, 3]
    assert capsys.readouterr().out == "between\n" * 4


def test_nothing_is_captured_or_called() -> None:
    calls = []
    gramme_own = gramme.compile(Block(), backend=lambda module, inputs: calls.append(module) or module.forward)
    assert gramme.captured(gramme_own).segments == []
    gramme_own(X)
    before = totals(gramme_own)
    for _ in range(3):
        assert gramme.captured(gramme_own).graph_count == 1
    assert (len(calls), totals(gramme_own)) == (1, before)


def test_a_made_graph_runs_like_the_program() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y.T).softmax(-1) * x.shape[0]

    entry = compiled(program)
    x, y = torch.randn(3, 4), torch.randn(5, 4)
    entry(x, y)
    (graph,) = gramme.captured(entry).graphs
    given = {"l_x_": x, "l_y_": y}
    inputs = [given[node.name] for node in graph.graph.find_nodes(op="placeholder")]
    assert torch.equal(graph(*inputs)[0], program(x, y))


def test_sizes_that_vary_stay_symbols() -> None:
    entry = compiled(lambda x: x.reshape(-1).sin(), dynamic=True)
    entry(torch.ones(3, 4))
    entry(torch.ones(5, 6))
    found = gramme.captured(entry)
    assert found.graph_count == 1
    assert found.segments[0].symbols
    assert found.segments[0].runs == 2


def test_bodies_are_in_the_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    entry = compiled(program)
    entry(X)
    assert texts(gramme.captured(entry)) == texts(gramme.explain(program)(X))


def test_what_was_taken_from_another_entry_is_shown() -> None:
    first, second = Block(), Block()
    entries = [compiled(block) for block in (first, second)]
    for entry in entries:
        entry(X)
    assert [totals(entry) for entry in entries] == [(1, 0), (0, 1)]
    assert texts(gramme.captured(entries[1])) == texts(gramme.captured(entries[0]))


def test_graphs_that_are_not_kept_are_counted() -> None:
    """A graph that reads a number from data is not handed to other backends."""
    entry = compiled(lambda x: x * x.sum().item(), fullgraph=True)
    entry(X)
    found = gramme.captured(entry)
    assert (found.graph_count, found.graphs) == (1, [])


def test_nothing_is_held() -> None:
    model = nn.Linear(4, 4)
    entry = compiled(model)
    entry(torch.ones(2, 4))
    for _ in range(3):
        gramme.captured(entry)
    gc.collect()
    before = sum(isinstance(each, torch.fx.GraphModule) for each in gc.get_objects())
    for _ in range(10):
        gramme.captured(entry)
    gc.collect()
    assert sum(isinstance(each, torch.fx.GraphModule) for each in gc.get_objects()) == before


def test_modules_and_reset() -> None:
    model = gramme.compile(nn.Linear(4, 4), backend="eager")
    model(torch.ones(2, 4))
    assert gramme.captured(model).graph_count == 1
    gramme.reset()
    assert gramme.captured(model).segments == []


@pytest.mark.parametrize("wrong", [lambda x: x, nn.Linear(2, 2), 3, None], ids=["function", "module", "int", "None"])
def test_what_is_not_compiled_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"compiled: expected what gramme\.compile returned, got"):
        gramme.captured(wrong)
