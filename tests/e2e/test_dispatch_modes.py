"""Under the program's own torch dispatch modes: they see each operator once, and change its result once."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from e2e.against_eager import BACKENDS


class Logging(TorchDispatchMode):
    def __init__(self, log: list[str], name: str = "") -> None:
        super().__init__()
        self.log, self.name = log, name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(self.name + str(func))
        return func(*args, **(kwargs or {}))


class Adding(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if isinstance(result, torch.Tensor) and result.is_floating_point() else result


class Doubling(TorchDispatchMode):
    """Gives other dtypes than the operators have."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.double() if isinstance(result, torch.Tensor) else result


def layers(x: torch.Tensor) -> Any:
    y = torch.sin(x @ x) * 2
    return y.relu().sum(), str(y.dtype), y.shape


def counted(call: Callable[..., Any]) -> Any:
    with FlopCounterMode(display=False) as mode:
        call(torch.ones(8, 8))
    return mode.get_total_flops()


def logged(call: Callable[..., Any]) -> Any:
    log: list[str] = []
    with Logging(log):
        result = call(torch.ones(2, 2))
    return log, result


def nested(call: Callable[..., Any]) -> Any:
    log: list[str] = []
    with Logging(log, "outer "), Adding(), Logging(log, "inner "):
        result = call(torch.ones(2, 2))
    return log, result


def changed(call: Callable[..., Any]) -> Any:
    with Adding():
        return call(torch.ones(2, 2))


def of_other_dtype(call: Callable[..., Any]) -> Any:
    with Doubling():
        return call(torch.ones(2, 2))


def plain(call: Callable[..., Any]) -> Any:
    return call(torch.ones(2, 2))


@pytest.mark.parametrize("under", [counted, logged, nested, changed, of_other_dtype])
@pytest.mark.parametrize("order", ["mode first", "plain first"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_as_eager(under: Callable[..., Any], order: str, backend: str) -> None:
    compiled = gramme.compile(layers, backend=backend)
    for around in (under, under, plain, plain, under) if order == "mode first" else (plain, under, plain, under):
        assert str(around(compiled)) == str(around(layers))


@pytest.mark.parametrize("backend", BACKENDS)
def test_entered_and_left_by_the_program(backend: str) -> None:
    log: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        with Logging(log), Adding():
            x = x.cos()
        return x.exp() + 1

    compiled = gramme.compile(function, backend=backend)
    for _ in range(3):
        expected = function(torch.ones(2))
        seen = list(log)
        log.clear()
        assert torch.equal(compiled(torch.ones(2)), expected)
        assert log == seen
        log.clear()


def test_calls_under_a_mode_leave_the_function_as_it_was() -> None:
    compiled = gramme.compile(layers, backend="eager")
    for _ in range(3):
        changed(compiled)
    assert gramme.statistics(compiled).plain_runs == 3
    plain(compiled)
    plain(compiled)
    counts = gramme.statistics(compiled)
    assert (counts.captures, counts.hits, counts.plain_runs) == (1, 1, 3)
