"""Breaks in functions that are called with *args or **kwargs, as modules are: what lies before and behind them stays
in graphs."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="the meter is gramme's")
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Layer(nn.Module):
    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.linear, self.log = nn.Linear(4, 4), log

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        hidden = self.linear(x).relu()
        front.graph_break()
        self.log.append(len(self.log))
        return hidden * scale + x.sin()


class Stack(nn.Module):
    def __init__(self, log: list[Any], count: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(log) for _ in range(count))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, scale=1.5).tanh()
        return self.head(x).softmax(-1)


def nested(depth: int, log: list[Any]) -> nn.Module:
    module: nn.Module = Layer(log)
    for _ in range(depth):
        module = nn.Sequential(module, nn.Tanh())
    return module


def hooked(log: list[Any]) -> nn.Module:
    module = Stack(log, 2)
    module.layers[0].register_forward_hook(lambda module, args, result: log.append("hook") or result + 1)
    return module


def decorated(log: list[Any]) -> Callable[..., Any]:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            log.append("enter")
            return function(*args, **kwargs) + 1

        return wrapper

    @wrap
    @wrap
    def inner(x: torch.Tensor, k: int) -> torch.Tensor:
        y = x * k
        front.graph_break()
        return y.cos()

    return lambda x: inner(x.exp(), k=3).sum(0)


def spread(log: list[Any]) -> Callable[..., Any]:
    def inner(*args: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        total = args[0] + args[1]
        front.graph_break()
        log.append(sorted(kwargs))
        return total * kwargs["b"]

    return lambda x: inner(*[x, x * 2], **{"a": 1, "b": 2}) - 1


def raising(log: list[Any]) -> Callable[..., Any]:
    def inner(*args: torch.Tensor) -> torch.Tensor:
        y = args[0] * 2
        front.graph_break()
        log.append("before")
        raise ValueError(f"of {y.shape[0]} rows")

    def outer(x: torch.Tensor) -> Any:
        try:
            return inner(*[x.neg()])
        except ValueError as error:
            return x.abs() + len(str(error))

    return outer


@pytest.mark.parametrize(
    "make",
    [Stack, functools.partial(nested, 1), functools.partial(nested, 5), hooked, decorated, spread, raising],
    ids=["stack", "sequential", "sequential of five levels", "hooked", "decorated", "spread", "raising"],
)
def test_all_operations_are_in_graphs(make: Callable[[list[Any]], Any]) -> None:
    log: list[Any] = []
    torch.manual_seed(0)
    function = make(log)
    expected = function(X)
    eager_log, compiled = list(log), front.compile(function, backend="eager")
    for _ in range(3):
        log.clear()
        assert torch.equal(compiled(X), expected)
        assert log == eager_log
    with gramme.meter() as meter:
        log.clear()
        compiled(X)
    assert (meter.outside, meter.captures, meter.plain) == (0, 0, 0)
    assert meter.inside > 0
