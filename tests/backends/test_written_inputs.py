"""Gradients of programs that compute of an input and write to it, where a backend chooses what to save for backward."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters


class State(nn.Module):
    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.register_buffer("k", torch.full((4,), 0.5))
        self.w = nn.Parameter(torch.ones(4))
        self.compute = compute

    def forward(self, x: torch.Tensor) -> Any:
        return self.compute(self, x)


def used_after(s: Any, x: torch.Tensor) -> Any:
    s.k += 1
    return x * s.k


def used_before(s: Any, x: torch.Tensor) -> Any:
    z = (s.k * 2).sin() * x
    s.k.mul_(2)
    return z * (s.k + 1)


def copied_before(s: Any, x: torch.Tensor) -> Any:
    y = x * s.k.clone()
    s.k += 1
    return y * s.k


def written_twice(s: Any, x: torch.Tensor) -> Any:
    s.k += 1
    y = x * s.k.clone()
    s.k.mul_(3)
    return y * s.k


def written_by_view(s: Any, x: torch.Tensor) -> Any:
    s.k[:2] += 2
    return (x * s.k).sum(), x.sin() * s.k[1:3].sum()


def parameter(s: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        s.w.mul_(2)
    return x * s.w


def moving_average(s: Any, x: torch.Tensor) -> Any:
    s.k.mul_(0.9).add_(x.detach(), alpha=0.1)
    return (x - s.k) ** 2 * s.k


def by_data(s: Any, x: torch.Tensor) -> Any:
    s.k.data.add_(1)
    return x * s.k


PROGRAMS = [
    used_after,
    used_before,
    copied_before,
    written_twice,
    written_by_view,
    parameter,
    moving_average,
    by_data,
]


def steps(module: State, run: Callable[..., Any]) -> list[Any]:
    outcomes: list[Any] = []
    for i in range(3):
        x = torch.linspace(0.1, 0.4, 4).mul(i + 1).requires_grad_()
        result = run(x)
        sum(each.sum() for each in (result if isinstance(result, tuple) else (result,))).backward()
        outcomes += [x.grad, module.k.clone(), module.w.detach().clone()]
    return outcomes


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_eagers(program: Callable[..., Any], backend: str) -> None:
    plain, module = State(program), State(program)
    expected = steps(plain, plain)
    actual = steps(module, gramme.compile(module, backend=backend))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_statistics_are_compiled() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    before = counters["aot_autograd"]["ok"]
    gramme.compile(module, backend="aot_eager", fullgraph=True)(torch.ones(2, 4)).sum().backward()
    assert counters["aot_autograd"]["ok"] == before + 1


# ---- steps of optimizers: what is written is used, and nothing is differentiated


@torch.no_grad()
def step(s: Any, x: torch.Tensor) -> Any:
    s.k.mul_(0.9).add_(x, alpha=0.1)
    s.w.sub_(x / (s.k.sqrt() + 1e-3), alpha=0.1)
    return s.w.norm()


@torch.no_grad()
def step_after_a_closure(s: Any, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        loss = (x.detach() * 2).sum()  # of no parameter
    s.k.lerp_(x, 0.1)
    s.w.addcdiv_(x, s.k + 1, value=-0.1)
    return loss + s.k.sum()


def step_of_rows(s: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        for row in s.w.view(2, 2).unbind():
            row.mul_(row.norm() * 0.5)
    return x.detach().sum()


STEPS = [step, step_after_a_closure, step_of_rows]


@pytest.mark.parametrize("program", STEPS)
def test_steps_are_compiled(program: Callable[..., Any]) -> None:
    plain, module = State(program), State(program)
    compiled = gramme.compile(module, backend="aot_eager", fullgraph=True)
    before = counters["aot_autograd"]["ok"]
    for i in range(3):
        x = torch.linspace(0.1, 0.4, 4) * (i + 1)
        torch.testing.assert_close(compiled(x), plain(x), rtol=0, atol=0)
        torch.testing.assert_close([module.k, module.w.data], [plain.k, plain.w.data], rtol=0, atol=0)
    assert counters["aot_autograd"]["ok"] == before + 1


@torch.no_grad()
def differentiated_inside(s: Any, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        z = s.w * s.k.clone()
    s.k.mul_(2)
    return z, s.k.sum()


@torch.no_grad()
def differentiated_in_a_body(s: Any, x: torch.Tensor) -> Any:
    def body(w: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return w * s.k * s.k

    s.k.mul_(2)
    return torch.utils.checkpoint.checkpoint(body, s.w, use_reentrant=False), s.k.sum()


@pytest.mark.parametrize("program", [differentiated_inside, differentiated_in_a_body])
def test_what_is_differentiated_is_not(program: Callable[..., Any]) -> None:
    plain, module = State(program), State(program)
    compiled = gramme.compile(module, backend="aot_eager")
    for i in range(3):
        x = torch.linspace(0.1, 0.4, 4) * (i + 1)
        for run in (plain, compiled):
            run(x)[0].sum().backward()
        torch.testing.assert_close([module.k, module.w.grad], [plain.k, plain.w.grad], rtol=0, atol=0)
