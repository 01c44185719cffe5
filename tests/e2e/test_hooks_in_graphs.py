"""Hooks on tensors that the graph makes: registered at their place, without a break."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.nested_text import Shown, assert_alike

AS_IT_IS = ["eager", "native"]
heard: list[torch.Tensor] = []
factor = 2.0


def triple(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 3


def hear(gradient: torch.Tensor) -> None:
    heard.append(gradient.clone())


def doubled(x: torch.Tensor) -> Any:
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    return y.sum()


def used_before_and_after(x: torch.Tensor) -> Any:
    y = x.sin()
    z = y * 2
    y.register_hook(triple)
    return (y * z).sum()


def two_hooks(x: torch.Tensor) -> Any:
    y = x.exp()
    y.register_hook(triple)
    y.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return y * 2


def hook_of_torch(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(torch.tanh)
    return y.cos()


def hook_that_returns_nothing(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(lambda gradient: None)
    return y.cos()


SEEN_BY_ALL = [doubled, used_before_and_after, two_hooks, hook_that_returns_nothing]


def hook_with_effect(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(hear)
    return y.cos()


def hook_by_global(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(lambda gradient: gradient * factor)
    return y.cos()


def written_afterwards(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(triple)
    y.mul_(3)
    return y.cos()


def view_of_hooked(x: torch.Tensor) -> Any:
    y = x * 2
    z = y[1:]
    y.register_hook(triple)
    return z.cos().sum() + y.sum()


def kept_gradient(x: torch.Tensor) -> Any:
    y = x.sin()
    z = y * 2
    y.retain_grad()
    return z.exp() + y, y


PROGRAMS = [*SEEN_BY_ALL, hook_of_torch, hook_with_effect, hook_by_global, written_afterwards, view_of_hooked]


def gradients(program: Callable[..., Any]) -> Any:
    seen = []
    for _ in range(2):
        heard.clear()
        x = torch.linspace(-1, 2, 4).requires_grad_()
        result = program(x)
        first = result[0] if isinstance(result, tuple) else result
        first.sum().backward()
        seen.append((first.detach(), x.grad, list(heard), result[1].grad if isinstance(result, tuple) else None))
    return seen


@pytest.mark.parametrize("backend", AS_IT_IS)
@pytest.mark.parametrize("program", [*PROGRAMS, kept_gradient])
def test_captured_whole(program: Callable[..., Any], backend: str) -> None:
    got = gradients(gramme.compile(program, backend=backend, fullgraph=True))
    assert_alike(got, gradients(program), rtol=0, atol=0)


@pytest.mark.parametrize("program", SEEN_BY_ALL)
def test_graph_that_is_differentiated_has_the_hook(program: Callable[..., Any]) -> None:
    got = gradients(gramme.compile(program, backend="aot_eager", fullgraph=True))
    assert_alike(got, gradients(program))


@pytest.mark.parametrize("program", [*PROGRAMS, kept_gradient])
def test_every_backend_gives_eagers_gradients(program: Callable[..., Any]) -> None:
    assert_alike(gradients(gramme.compile(program, backend="aot_eager")), gradients(program))


def test_graph_is_pytorchs() -> None:
    shown = Shown()
    for front in (gramme.compile, torch.compile):
        front(doubled, backend=shown, fullgraph=True)(torch.ones(3, requires_grad=True))
    assert shown.graphs[0] == shown.graphs[1]


@pytest.mark.parametrize("backend", [*AS_IT_IS, "aot_eager"])
def test_handles_that_are_used(backend: str) -> None:
    def removed(x: torch.Tensor) -> Any:
        y = x.sin()
        handle = y.register_hook(triple)
        handle.remove()
        return y * 2

    def given_out(x: torch.Tensor) -> Any:
        y = x.sin()
        return y * 2, y.register_hook(triple)

    def within(x: torch.Tensor) -> Any:
        y = x.sin()
        with y.register_hook(triple):
            z = y * 2
        return z

    def gradient(called: Callable[..., Any], remove: bool) -> Any:
        x = torch.linspace(0, 1, 3).requires_grad_()
        result = called(x)
        if isinstance(result, tuple):
            if remove:
                result[1].remove()
            result = result[0]
        result.sum().backward()
        return x.grad

    for program in (removed, given_out, within):
        for remove in (False, True):
            got = gradient(gramme.compile(program, backend=backend), remove)
            torch.testing.assert_close(got, gradient(program, remove))


@pytest.mark.parametrize("backend", AS_IT_IS)
def test_a_hook_reads_what_is_there_in_backward(backend: str) -> None:
    global factor

    x = torch.ones(3, requires_grad=True)
    result = gramme.compile(hook_by_global, backend=backend, fullgraph=True)(x)
    factor = 7.0
    try:
        result.sum().backward()
    finally:
        factor = 2.0
    assert x.grad is not None
    torch.testing.assert_close(x.grad, -torch.sin(torch.full((3,), 2.0)) * 7 * 2)


@pytest.mark.parametrize("backend", [*AS_IT_IS, "aot_eager"])
def test_hooks_of_a_tensor_that_leaves_are_seen_outside(backend: str) -> None:
    def returned(x: torch.Tensor) -> Any:
        y = x.sin()
        y.register_hook(triple)
        return y

    def kept(x: torch.Tensor) -> Any:
        y = x.sin()
        y.register_hook(triple)
        heard.append(y)
        return y * 2

    for program in (returned, kept):
        outcomes = []
        for function in (program, gramme.compile(program, backend=backend)):
            heard.clear()
            x = torch.linspace(0, 1, 3).requires_grad_()
            result = function(x)
            tensor = heard[0] if heard else result
            count = len(tensor._backward_hooks or ())
            tensor.register_hook(lambda gradient: gradient + 1)  # behind the program's own
            result.sum().backward()
            outcomes.append((count, x.grad))
        assert_alike(outcomes[1], outcomes[0])
