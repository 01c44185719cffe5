"""Operators whose kernels are Python see what the program has written before them."""

import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import BACKENDS

VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("VARIABLE", default=0.0)
TABLE = {"k": 0.0}
NUMBER = 0.0


class Box:
    n = 0.0


BOX = Box()


def reset() -> None:
    global NUMBER
    VARIABLE.set(0.0)
    TABLE["k"] = BOX.n = NUMBER = 0.0


def state() -> float:
    return VARIABLE.get() + TABLE["k"] + BOX.n + NUMBER


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    @torch.library.custom_op("gramme_tests::offset", mutates_args=())
    def offset(x: torch.Tensor) -> torch.Tensor:
        return x + state()

    @offset.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    with torch.library._scoped_library("gramme_tests", "FRAGMENT") as library:
        library.define("offset_of_library(Tensor x) -> Tensor")
        library.impl("offset_of_library", lambda x: x + state(), "CPU")
        library.impl("offset_of_library", lambda x: torch.empty_like(x), "Meta")
        yield


@torch.compiler.allow_in_graph
def allowed(x: torch.Tensor) -> torch.Tensor:
    return x + state()


class Offset(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x + state()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * state()


CALLED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "custom_op": lambda x: torch.ops.gramme_tests.offset(x),
    "overload": lambda x: torch.ops.gramme_tests.offset.default(x),
    "library": lambda x: torch.ops.gramme_tests.offset_of_library(x),
    "allow_in_graph": allowed,
    "autograd.Function": lambda x: Offset.apply(x),
}


def writes_variable(x: torch.Tensor, call: Any) -> Any:
    y = x * 2
    token = VARIABLE.set(10.0)
    y = call(y)
    VARIABLE.reset(token)
    return y, call(x)


def writes_attribute(x: torch.Tensor, call: Any) -> Any:
    BOX.n = BOX.n + 3.0
    return call(x) + 1


def writes_item(x: torch.Tensor, call: Any) -> Any:
    y = call(x)
    TABLE["k"] += 1.0
    return y, call(y), x * 2


def writes_global(x: torch.Tensor, call: Any) -> Any:
    global NUMBER
    NUMBER = 5.0
    return call(x.sin())


def writes_nothing(x: torch.Tensor, call: Any) -> Any:
    return call(call(x) + 1)


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize(
    "program", [writes_variable, writes_attribute, writes_item, writes_global, writes_nothing], ids=lambda p: p.__name__
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_as_eager(program: Callable[..., Any], called: str, backend: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return program(x, CALLED[called])

    compiled = gramme.compile(function, backend=backend)
    # AOTAutograd traces what the program allows in graphs: it must give the same whenever it is called.
    for start in (0.0, 0.0) if called == "allow_in_graph" else (0.0, 0.0, 1.0):
        found = []
        for call in (function, compiled):
            reset()
            TABLE["k"] = start
            found.append((str(call(torch.ones(2))), state()))
        assert found[0] == found[1]
    reset()


def test_without_effects_they_stay_in_one_graph() -> None:
    compiled = gramme.compile(lambda x: CALLED["custom_op"](x * 2) + 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))


ENTERED: list[str] = []


@torch.library.custom_op("gramme_tests::entered", mutates_args=())
def entered(x: torch.Tensor) -> torch.Tensor:
    ENTERED.append("in")
    if x.sum() > 5:
        raise ValueError("too much")
    return x * 2


@entered.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("gramme_tests::entered_and_written", mutates_args=("total",))
def entered_and_written(total: torch.Tensor, x: torch.Tensor) -> None:
    ENTERED.append("in")
    total.add_(1)
    if x.sum() > 5:
        raise ValueError("too much")


def enters(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return entered(x) + 1


def enters_after_a_write(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total.add_(1)
    return entered(x) + total.mul_(2)


def enters_and_writes(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    entered_and_written(total, x)
    return y * total


def enters_below_a_handler(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad():
            return entered(x) + 1
    except ValueError:
        return total.add_(5)


def enters_before_another_raises(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = entered(x / 10)
    return y[x.long().clamp(max=9)]


@pytest.mark.parametrize(
    "program",
    [enters, enters_after_a_write, enters_and_writes, enters_below_a_handler, enters_before_another_raises],
    ids=lambda p: p.__name__,
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_entered_once(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for value in (1.0, 9.0, 9.0, 0.0):
        found = []
        for call in (program, compiled):
            ENTERED.clear()
            total, x = torch.zeros(()), torch.full((2,), value)
            try:
                result = str(call(total, x))
            except (ValueError, IndexError) as error:
                result = repr(error)
            found.append((result, total.item(), list(ENTERED)))
        assert found[0] == found[1]
