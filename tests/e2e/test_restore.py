"""Operations that may raise on data, after inputs were written: one graph, and what eager leaves when they raise."""

import contextlib
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn import functional as F

Program = Callable[..., Any]


def counter_then_embedding(table: torch.Tensor, count: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    rows = F.embedding(at, table)
    count.add_(10)
    return rows * count.sum()


def write_over(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    buffer.fill_(2.0)
    return F.embedding(at, table) + buffer.sum()


def write_over_and_add(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    buffer.fill_(2.0)
    buffer.add_(1)
    return F.embedding(at, table) + buffer.sum()


def read_and_write_over(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    before = buffer * 2
    buffer.copy_(before)
    return F.embedding(at, table) + buffer.sum()


def index_copy(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    buffer.index_copy_(0, at, torch.full_like(buffer[: at.shape[0]], 7.0))
    return buffer + table[0, 0]


def index_add(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    buffer.index_add_(0, at, table[: at.shape[0], 0])
    return buffer * 2


def through_a_view(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    buffer[1:].mul_(3)
    return F.embedding(at, table) + buffer.sum()


def and_a_list(table: torch.Tensor, buffer: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    LOG.append(1)
    buffer.add_(1)
    rows = F.embedding(at, table)
    LOG.append(2)
    return rows


LOG: list[int] = []
PROGRAMS: list[Program] = [
    counter_then_embedding,
    write_over,
    write_over_and_add,
    read_and_write_over,
    index_copy,
    index_add,
    through_a_view,
    and_a_list,
]


def run(call: Program, at: list[int]) -> tuple[str, list[float], list[int]]:
    table, buffer = torch.arange(12.0).view(4, 3), torch.ones(4)
    LOG.clear()
    try:
        result = str(call(table, buffer, torch.tensor(at)).tolist())
    except IndexError as error:
        result = f"IndexError {error}"
    return result, buffer.tolist(), list(LOG)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_raising_graph_leaves_what_eager_leaves(program: Program) -> None:
    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for at in ([0, 1], [1, 2], [1, 9], [0, 3], [9, 0], [2, 2]):
        assert run(compiled, at) == run(program, at)
    assert gramme.statistics(compiled).captures == 1


def test_what_is_put_back_was_not_written() -> None:
    def program(table: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x.add_(1.0)
        return F.embedding(at, table)

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for at in ([0, 1], [0, 9]):
        seen = []
        for call in (program, compiled):
            x = torch.ones(2)
            with contextlib.suppress(IndexError):
                call(torch.ones(4, 3), x, torch.tensor(at))
            seen.append((x.tolist(), x._version))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("way", ["handled", "with effects", "through a view", "written twice", "with gradients"])
def test_parameters_written_without_gradients_are_put_back(way: str, backend: str) -> None:
    def program(table: torch.Tensor, p: nn.Parameter, at: torch.Tensor, log: list[int]) -> Any:
        if way == "with gradients":
            p = p * 1  # type: ignore[assignment]
            p.mul_(2.0)
        with torch.no_grad():
            if way == "with effects":
                log.append(1)
            (p[1:] if way == "through a view" else p).add_(1.0)
            if way == "written twice":
                p.mul_(3.0)
            rows = F.embedding(at, table)
            log.append(2)
        return rows + p

    compiled = gramme.compile(program, backend=backend)
    for at in ([0, 1], [1, 9], [0, 3], [9, 0]):
        seen = []
        for call in (program, compiled):
            p, log = nn.Parameter(torch.ones(3)), list[int]()
            try:
                result = call(torch.arange(12.0).view(4, 3), p, torch.tensor(at), log)
                result.sum().backward()
                found = str(result.tolist()) + str(p.grad)
            except IndexError as error:
                found = f"IndexError {error}"
            seen.append((found, p.tolist(), p._version, p.requires_grad, log))
        assert seen[0] == seen[1]
    if way != "with gradients":
        assert gramme.statistics(compiled).captures == 1


def test_a_shared_buffer_is_restored_whole() -> None:
    def program(table: torch.Tensor, a: torch.Tensor, b: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        total = b.sum()
        a.fill_(2.0)
        return F.embedding(at, table) + total

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for at in ([0, 1], [0, 9], [1, 1]):
        seen = []
        for call in (program, compiled):
            base = torch.arange(6.0)
            try:
                seen.append(str(call(torch.ones(4, 3), base[:4], base[2:], torch.tensor(at)).tolist()))
            except IndexError:
                seen.append("IndexError")
            seen[-1] += str(base.tolist())
        assert seen[0] == seen[1]


def test_a_loss_after_running_statistics() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def step(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), target)

    compiled = gramme.compile(step, backend="eager", fullgraph=True)
    x = torch.arange(6.0).view(2, 3)
    for target in ([0, 1], [3, 9], [2, 2]):
        seen = []
        for call in (step, compiled):
            model.load_state_dict(start)
            try:
                call(x, torch.tensor(target)).backward()
            except IndexError as error:
                seen.append(str(error))
            seen.append(str([value.tolist() for value in model.state_dict().values()]))
            model.zero_grad()
        assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_an_input_that_needs_a_gradient_is_not_put_back() -> None:
    """Its history in autograd could not be: the exception leaves the frame, and the write is not made again."""

    def program(table: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        y = x * 2
        x.mul_(3)
        return F.embedding(at, table) + y.sum() + x.sum()

    compiled = gramme.compile(program, backend="eager")
    for at in ([0, 1], [0, 9]):
        seen = []
        for call in (program, compiled):
            leaf = torch.ones(2, requires_grad=True)
            x = leaf * 2
            try:
                call(torch.ones(4, 3), x, torch.tensor(at)).sum().backward()
                seen.append(str(leaf.grad))
            except IndexError:
                seen.append(f"IndexError {x.tolist()} {x._version}")
        assert seen[0] == seen[1]
    assert gramme.statistics(compiled).segments == 1


def test_a_handler_ends_the_segment_before_what_may_raise() -> None:
    def program(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        try:
            return F.embedding(at, torch.ones(4, 3))
        except IndexError:
            return x

    with pytest.raises(gramme.CaptureError, match="may raise"):
        gramme.compile(program, backend="eager", fullgraph=True)(
            torch.ones(2, requires_grad=True) * 2, torch.tensor([0])
        )
