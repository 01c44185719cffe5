"""install() and what others put around torch.compile, before it and after it."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

X = torch.ones(3)
own_compile = torch.compile
calls: list[Any] = []


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def by_closure(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(model: Any = None, **given: Any) -> Any:
        calls.append(given)
        return original(model, **given)

    return compile


def by_global(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile(model: Any = None, **given: Any) -> Any:
        calls.append(given)
        return own_compile(model, **given)

    return compile


def twice(original: Callable[..., Any]) -> Callable[..., Any]:
    return by_closure(by_closure(original))


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = torch.compile
    calls.clear()
    yield
    gramme.uninstall()
    torch.compile = before


def is_grammes(compiled: Any) -> bool:
    try:
        return gramme.statistics(compiled).captures >= 0
    except TypeError:
        return False


@pytest.mark.parametrize(("wrap", "count"), [(by_closure, 1), (by_global, 1), (twice, 2)])
def test_wrappers_stay_and_call_gramme(wrap: Callable[..., Any], count: int) -> None:
    wrapper = torch.compile = wrap(torch.compile)
    with gramme.install():
        compiled = torch.compile(double, backend="eager")
        assert torch.compile is wrapper
        assert is_grammes(compiled)
        assert torch.equal(compiled(X), X * 2)
        assert calls == [{"backend": "eager"}] * count
    assert torch.compile is wrapper
    assert not is_grammes(torch.compile(double, backend="eager"))
    assert len(calls) == 2 * count


def test_wrappers_put_on_later_stay_and_call_pytorchs() -> None:
    installation = gramme.install()
    wrapper = torch.compile = by_closure(torch.compile)
    assert is_grammes(torch.compile(double, backend="eager"))
    installation.undo()
    assert torch.compile is wrapper
    assert not is_grammes(torch.compile(double, backend="eager"))


def test_a_wrapper_that_cannot_be_looked_into_is_replaced() -> None:
    wrapper = torch.compile = functools.partial(torch.compile, backend="eager")
    with gramme.install():
        assert is_grammes(torch.compile(double, backend="eager"))
    assert torch.compile is wrapper


def test_modules_and_decorators_go_through_wrappers() -> None:
    torch.compile = by_closure(torch.compile)
    with gramme.install():
        decorated = torch.compile(backend="eager")(double)
        module = torch.nn.Linear(3, 3)
        module.compile(backend="eager")
        assert is_grammes(decorated)
        assert torch.equal(module(X), module.forward(X))
        assert len(calls) == 2
