"""Constants that a backward reads under names that the program may bind anew: those that are there when it runs."""

import types
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import Function

from e2e.test_read_later import BACKENDS, Reads, gradient

SCALE, SHIFT = 2.0, (1.0, 0.5)
elsewhere = types.ModuleType("elsewhere")


elsewhere.items = [2.0]  # type: ignore[attr-defined]


class Rates:
    k = 2.0


class OpRates:
    """Named as operators of PyTorch are."""

    def __init__(self) -> None:
        self.k = 2.0


OP_RATES = OpRates()


def make_with_cell() -> tuple[type[Function], Callable[[float], None]]:
    k = 2.0

    class ReadsCell(Reads):
        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g * k, None, None

    def rebind(to: float) -> None:
        nonlocal k
        k = to

    return ReadsCell, rebind


class ReadsGlobal(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * SCALE, None, None


class ReadsTuple(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * (SHIFT[0] * 2), None, None


class ReadsModule(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * elsewhere.k, None, None


class ReadsItem(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * elsewhere.items[0], None, None


class ReadsAttribute(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * Rates.k, None, None


class ReadsOfObject(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * OP_RATES.k, None, None


ReadsCell, rebind_cell = make_with_cell()
NAMES: dict[str, tuple[type[Function], Callable[[float], None]]] = {
    "global": (ReadsGlobal, lambda to: globals().update(SCALE=to)),
    "tuple": (ReadsTuple, lambda to: globals().update(SHIFT=(to / 2, 0.5))),
    "module": (ReadsModule, lambda to: setattr(elsewhere, "k", to)),
    "class": (ReadsAttribute, lambda to: setattr(Rates, "k", to)),
    "cell": (ReadsCell, rebind_cell),
}


REFUSED: dict[str, tuple[type[Function], Callable[[float], None]]] = {
    "item": (ReadsItem, lambda to: elsewhere.items.__setitem__(0, to)),
    "object": (ReadsOfObject, lambda to: setattr(OP_RATES, "k", to)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*NAMES, *REFUSED])
def test_constants_under_names_are_those_of_backward(name: str, backend: str) -> None:
    function, rebind = (NAMES | REFUSED)[name]
    compiled = gramme.compile(lambda x: function.apply(x * 1, None, None) * 3, backend=backend)
    for _ in range(2):
        rebind(2.0)
        x = torch.ones(2, requires_grad=True)
        result = compiled(x)
        rebind(5.0)
        assert gradient(result, x) == [15.0, 15.0]


@pytest.mark.parametrize("name", NAMES)
def test_one_graph_raises_where_a_constant_was_rebound(name: str) -> None:
    function, rebind = NAMES[name]
    rebind(2.0)
    compiled = gramme.compile(lambda x: function.apply(x, None, None) * 3, backend="aot_eager", fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    assert gradient(compiled(x), x) == [6.0, 6.0]
    result = compiled(x)
    rebind(5.0)
    with pytest.raises(RuntimeError, match="which the backward of an autograd.Function reads"):
        gradient(result, x)
    gramme.reset()
    assert gradient(compiled(x), x) == [15.0, 15.0]


def test_one_graph_that_writes_its_result_to_an_input() -> None:
    function, rebind = NAMES["global"]
    rebind(2.0)

    def write(x: torch.Tensor, into: torch.Tensor) -> None:
        into.mul_(function.apply(x, None, None))

    compiled = gramme.compile(write, backend="aot_eager", fullgraph=True)
    x, into = torch.ones(2, requires_grad=True), torch.ones(2)
    compiled(x, into)
    rebind(5.0)
    with pytest.raises(RuntimeError, match="SCALE"):
        gradient(into, x)


mean = 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_of_hooks_are_those_of_backward(backend: str) -> None:
    def hooked(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda g: g * mean)
        return y * 3

    global mean
    for compiler in (lambda f: f, gramme.compile(backend=backend)):
        mean = 2.0
        x = torch.ones(2, requires_grad=True)
        result = compiler(hooked)(x)
        mean = 5.0
        assert gradient(result, x) == [30.0, 30.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_of_the_compiled_function(backend: str) -> None:
    def rebound(x: torch.Tensor) -> torch.Tensor:
        k = 2.0
        result = Reads.apply(x, None, lambda _: k)
        k = 5.0
        return result

    def kept(x: torch.Tensor) -> torch.Tensor:
        k = 2.0
        return Reads.apply(x, None, lambda _: k) * 3

    for function, whole, want in ((rebound, False, 5.0), (kept, True, 6.0)):
        x = torch.ones(2, requires_grad=True)
        compiled = gramme.compile(function, backend=backend, fullgraph=whole)
        assert gradient(compiled(x), x) == gradient(function(x), x) == [want, want]
