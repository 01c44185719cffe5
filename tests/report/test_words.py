"""What segments say of a break: the module by its path in the program, and the reason for programs that read it."""

import time
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme._report.page import render

from .dom import unpacked

X = torch.ones(2, 4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        time.monotonic()
        return y.relu()


class Listed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Named(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleDict({"first": Block(), "second": Block()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts.values():
            x = part(x)
        return x


class Around(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


MODULES = {
    Listed: ["blocks.0", "blocks.1"],  # one segment serves later turns
    Named: ["parts.first", "parts.second"],
    Around: ["inner.0", "inner.1"],
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules_out_of_iterators_have_their_paths(kind: Callable[[], torch.nn.Module]) -> None:
    told = gramme.explain(kind())(X)
    paths = [each.module.partition(".")[2] for each in told.break_reasons]
    assert paths == MODULES[kind]  # type: ignore[index]
    assert "___stack" not in str(told)


def test_a_module_that_no_variable_leads_to_has_no_path() -> None:
    hidden = [Block(), Block()]

    def run(x: torch.Tensor) -> torch.Tensor:
        for block in iter(hidden):
            x = block(x)
        return x

    told = gramme.explain(run)(X)
    assert told.graph_break_count == 2
    assert all("list(" not in each.module for each in told.break_reasons)
    assert told.break_reasons[1].module == ""


def item(x: torch.Tensor) -> Any:
    return x.sum().item()


def branch(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.sum() > 0 else x.cos()


def printed(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x


@pytest.mark.parametrize(
    ("function", "kind", "subject"),
    [
        (item, "DataDependentValue", "Tensor.item"),
        (branch, "DataDependentBranch", "an `if`, `while` or bool() on a tensor's value"),
        (printed, "CallSkipped", "print"),
    ],
)
def test_reasons_for_programs(function: Callable[..., Any], kind: str, subject: str) -> None:
    segment = gramme.explain(function)(X).segments[0]
    assert (segment.kind, segment.subject) == (kind, subject)
    assert segment.reason.endswith(subject)


def test_a_return_has_no_reason() -> None:
    (segment,) = gramme.explain(lambda x: x.sin())(X).segments
    assert (segment.kind, segment.subject, segment.reason) == ("", "", "")


def test_graphs_of_explain_have_shapes() -> None:
    (graph,) = gramme.explain(lambda x: x.sin() @ x.T)(X).graphs
    text = graph.print_readable(print_output=False)
    assert 'L_x_: "f32[2, 4]"' in text
    assert 'matmul: "f32[2, 2]"' in text


def test_graphs_of_explain_have_sizes_that_vary() -> None:
    (graph,) = gramme.explain(lambda x: x.sin() * x.shape[0], dynamic=True)(X).graphs
    assert '"f32[s' in graph.print_readable(print_output=False)


def test_guards_are_timed_in_recordings() -> None:
    f = gramme.compile(lambda x: x.sin(), backend="native")
    with gramme.record() as recording:
        f(X)
    (capture,) = recording.recorded.captures
    assert capture.segment is not None
    assert 0 < capture.segment.check_seconds < 0.1


def test_each_part_of_the_guards_is_timed() -> None:
    layer = torch.nn.Linear(4, 4)

    def run(x: torch.Tensor, state: dict[str, float]) -> torch.Tensor:
        return layer(x) * state["scale"]

    f = gramme.compile(run, backend="native")
    with gramme.record() as recording:
        f(X, {"scale": 2.0})
    (capture,) = recording.recorded.captures
    assert capture.segment is not None
    costs = dict(capture.segment.check_costs)
    assert {"L['state']", "modes"} <= costs.keys()
    assert all(0 < seconds < 0.1 for seconds in costs.values())
    assert "<h4>state <span" in unpacked(render(recording.recorded))


def test_runs_without_a_graph_are_in_the_timeline() -> None:
    f = gramme.compile(lambda x, n: n + 1, backend="native", dynamic=False)
    with gramme.record() as recording:
        for _ in range(5):
            f(X, 3)
    (capture,) = recording.recorded.captures
    assert capture.runs.count == 5
    assert sum(count for _, count, _ in capture.bins) == 5
