"""What the program's own functions in graphs return is asked anew at each capture: they may look at what it rebinds."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.decorators import leaf_function

SIZE = 3
LIBRARY = torch.library.Library("gramme_program_metadata", "DEF")


@torch._dynamo.allow_in_graph
def allowed(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


@torch._dynamo.nonstrict_trace
def not_traced(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


@torch._dynamo.allow_in_graph
@torch.no_grad()
def wrapped_by_torch(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


@leaf_function
def leaf(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x.new_ones(SIZE),)


@leaf.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x.new_ones(SIZE),)


@torch.library.custom_op("gramme_program_metadata::custom", mutates_args=())
def custom(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


@custom.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


def of_size(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_ones(SIZE)


LIBRARY.define("defined(Tensor x) -> Tensor")
LIBRARY.impl("defined", of_size, "CPU")
torch.library.register_fake("gramme_program_metadata::defined", of_size, lib=LIBRARY)
LIBRARY.define("composite(Tensor x) -> Tensor")
LIBRARY.impl("composite", of_size, "CompositeImplicitAutograd")


class Sized:
    def __init__(self) -> None:
        self.__name__ = "sized"  # torch.fx asks for it

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_ones(SIZE)


instance = torch._dynamo.allow_in_graph(Sized())
partial = torch._dynamo.allow_in_graph(functools.partial(of_size))


def defined(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.gramme_program_metadata.defined(x)


def composite(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.gramme_program_metadata.composite(x)


def in_gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad_and_value(lambda a: (a.sum(), allowed(a)), has_aux=True)(x)[1][1]


FUNCTIONS = [
    allowed,
    not_traced,
    wrapped_by_torch,
    custom,
    defined,
    composite,
    instance,
    partial,
    in_gradient,
]


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_are_those_of_now(
    function: Callable[[torch.Tensor], torch.Tensor], backend: str, dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (3, 5, 3):
        monkeypatch.setitem(globals(), "SIZE", size)
        compiled = gramme.compile(lambda x: (function(x).shape[0], function(x) * 2), backend=backend, dynamic=dynamic)
        shape, result = compiled(torch.ones(2))
        assert shape == size
        assert result.tolist() == [2.0] * size


def test_leaf_functions_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (3, 5, 3):
        monkeypatch.setitem(globals(), "SIZE", size)
        assert gramme.compile(lambda x: leaf(x)[0].shape[0], backend="eager", fullgraph=True)(torch.ones(2)) == size


def test_gradients_follow_what_a_function_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda a: (torch.func.grad(lambda b: (b**3).sum() * allowed(b).sum())(a)).sum())(x)

    for size in (3, 5, 3):
        monkeypatch.setitem(globals(), "SIZE", size)
        assert gramme.compile(second)(torch.ones(2)).tolist() == second(torch.ones(2)).tolist() == [6.0 * size] * 2


def test_what_has_no_name_is_called_for_real() -> None:
    class Unnamed:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_ones(SIZE)

    unnamed = torch._dynamo.allow_in_graph(Unnamed())

    def program(x: torch.Tensor) -> torch.Tensor:
        return unnamed(x + 1) * 2

    compiled = gramme.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [2.0] * SIZE
    assert gramme.statistics(compiled).plain_runs == 0
    with pytest.raises(gramme.CaptureError, match="Unnamed"):
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
