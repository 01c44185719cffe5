"""Versions of results that were written in place, under a recorded backward: as eager's."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.utils._pytree as pytree

pytestmark = pytest.mark.usefixtures("one_thread", "fresh")

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def one_write(x: torch.Tensor, w: torch.Tensor) -> Any:
    t = x + 2.0
    t.add_(1)
    return torch.relu(w), t


def several_writes(x: torch.Tensor, w: torch.Tensor) -> Any:
    t, u = x + 2.0, x * 3.0
    t.mul_(2).add_(1).sqrt_()
    u.neg_()
    return torch.relu(w), t, u, x * 2


def of_what_needs_a_gradient(x: torch.Tensor, w: torch.Tensor) -> Any:
    return (w * 2).add_(1), (w * x).mul_(2).sub_(1)


def of_what_a_formula_saved(x: torch.Tensor, w: torch.Tensor) -> Any:
    t = x + 2.0
    t.add_(1)
    return w * t, t


def of_what_a_formula_saves_of_itself(x: torch.Tensor, w: torch.Tensor) -> Any:
    return (w * 2).exp_(), (w + 1).relu_(), (w * x).sigmoid_()


def result_is_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    return (w * 2).add_(1)[1:], (w * x).mul_(2).view(-1, 1)


def by_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    t, y = x * 1.0, w * 2
    t[0:2].add_(5)
    y[1:].mul_(3)
    return y, t


def before_and_behind_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (w * 2).add_(1)
    head = y[:2]
    y.add_(1)
    return head * 2, y


def detached(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (w * 2).add_(1)
    return (w * 3).sum(), y.detach()


def by_data(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = w * 2
    y.data.add_(1)
    t = x * 2
    t.data.add_(1)
    return y, t


def of_several_at_once(x: torch.Tensor, w: torch.Tensor) -> Any:
    t, u = x + 1.0, x * 2.0
    torch._foreach_add_([t, u], 1.0)
    torch._foreach_mul_([u], 2.0)
    return w * t, t, u


def filled(x: torch.Tensor, w: torch.Tensor) -> Any:
    t = torch.empty(4)
    t.fill_(3.0).copy_(x).zero_()
    return w + t, t, torch.zeros(2).add_(1)


def not_contiguous(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (w.view(2, 2).t() * 2).add_(1)
    return y, (x.view(2, 2).t() + 1).exp_()


def without_gradients(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.no_grad():
        t = w * 2
        t.add_(1).mul_(2)
    return w * t, t


def one_of_two_names(x: torch.Tensor, w: torch.Tensor) -> Any:
    t = x + 1
    u = t.add_(1)
    return w * 2, t, u


PROGRAMS: list[Program] = [
    one_write,
    several_writes,
    of_what_needs_a_gradient,
    of_what_a_formula_saved,
    of_what_a_formula_saves_of_itself,
    result_is_a_view,
    by_a_view,
    before_and_behind_a_view,
    detached,
    by_data,
    of_several_at_once,
    filled,
    not_contiguous,
    without_gradients,
    one_of_two_names,
]


def arguments(call: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(1.0, 5.0) + call, (torch.arange(4.0) / 3 + 0.25 * call).requires_grad_()


def loss(results: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([result.sum() for result in results if result.requires_grad]).sum()


def run(program: Program, call: int, write: int | None, create_graph: bool = False) -> Any:
    """Results with their versions, gradient, versions after it; `write`: to that result, between."""
    x, w = arguments(call)
    results = pytree.tree_leaves(program(x, w))
    seen: list[Any] = [(result.tolist(), result._version, result.requires_grad) for result in results]
    try:
        if write is not None and write < len(results):
            with torch.no_grad():
                results[write].add_(1)
        loss(results).backward(create_graph=create_graph)
        seen.append(w.grad.tolist() if w.grad is not None else None)
    except RuntimeError as error:
        seen.append(str(error).split(":")[0])
    return seen, [result._version for result in results], x._version, w._version


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_versions(program: Program) -> None:
    compiled = gramme.compile(program, backend="native", options={"recorded_backward": True})
    for call in range(8):
        assert run(compiled, call, None) == run(program, call, None), call
    for write in range(3):
        for call in range(3):
            assert run(compiled, call, write) == run(program, call, write), (write, call)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("write", [None, 0, 1, 2])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_versions_after_a_graph_of_gradients(program: Program, write: int | None) -> None:
    for warm in range(4):
        gramme.reset()
        compiled = gramme.compile(program, backend="native", options={"recorded_backward": True})
        for call in range(warm):
            run(compiled, call, None)
        assert run(compiled, warm, write, create_graph=True) == run(program, warm, write, create_graph=True), warm


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_versions_without_a_backward(program: Program) -> None:
    compiled = gramme.compile(program, backend="native", options={"recorded_backward": True})
    for call in range(6):
        x, w = arguments(call)
        w = w.detach().requires_grad_(call % 2 == 0)
        versions = [[leaf._version for leaf in pytree.tree_leaves(f(x, w))] for f in (compiled, program)]
        assert versions[0] == versions[1], call
