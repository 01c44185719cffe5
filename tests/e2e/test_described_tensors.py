"""Tensors that metadata does not describe wholly are made for real: what is computed from them equals eager."""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import BACKENDS, assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def quantized(t: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(t, 0.5, 1, torch.qint8)


def by_channel(t: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_channel(t, torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8)


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "back": lambda t: quantized(t).dequantize(),
    "back_and_used": lambda t: quantized(t * 2).dequantize() + 1,
    "by_function": lambda t: torch.dequantize(quantized(t)),
    "by_channel": lambda t: by_channel(t).dequantize() * 2,
    "dtypes": lambda t: (quantized(t).dtype, quantized(t).dequantize().dtype, quantized(t).is_quantized),
    "relu": lambda t: torch.relu(quantized(t)).dequantize(),
    "view_of_clone": lambda t: quantized(t).clone().view(-1).dequantize(),
    "integers": lambda t: quantized(t).int_repr() + 1,
    "empty_like": lambda t: torch.empty_like(quantized(t)).copy_(t).dequantize(),
    "nested": lambda t: torch.nested.nested_tensor([t[0], t[1, :1]]).to_padded_tensor(0.0) + 1,
    "sparse": lambda t: t.to_sparse().to_dense() + 1,
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_as_eager(program: str, backend: str) -> None:
    assert_same(PROGRAMS[program], lambda: (torch.arange(1.0, 5.0).view(2, 2),), backends=(backend,))


def test_a_quantized_argument() -> None:
    assert_same(lambda q: q.dequantize() + 1, lambda: (quantized(torch.arange(4.0)),))


# Leaves that the program makes: their gradients are of no input.


def result(t: torch.Tensor) -> Any:
    y = torch.ones(2, requires_grad=True)
    return t * y


def parameter(t: torch.Tensor) -> Any:
    w = torch.nn.Parameter(torch.ones(2))
    return (w * t).sum(), w


def gradient(t: torch.Tensor) -> Any:
    w = torch.full((2,), 3.0, requires_grad=True)
    (w * w * t).sum().backward()
    return w.grad


def of_a_copy(t: torch.Tensor) -> Any:
    y = torch.zeros_like(t, requires_grad=True)
    z = (y * 2).sum()
    return z.requires_grad, z


@pytest.mark.parametrize("program", [result, parameter, gradient, of_a_copy], ids=lambda p: p.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_leaves_of_the_program(program: Callable[..., Any], backend: str) -> None:
    assert_same(program, lambda: (torch.ones(2),), backends=(backend,))


# Operators in Python that inference must not run.

CALLS: list[str] = []


def noted(name: str, value: torch.Tensor) -> torch.Tensor:
    CALLS.append(name)
    return value * 2 + len(CALLS)


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    @torch.library.custom_op("gramme_described::bare", mutates_args=())
    def bare(x: torch.Tensor) -> torch.Tensor:
        return noted("bare", x)

    @torch.library.custom_op("gramme_described::count", mutates_args=())
    def count(x: torch.Tensor) -> int:
        CALLS.append("count")
        return len(CALLS)

    @torch.library.custom_op("gramme_described::halve", mutates_args=("x",))
    def halve(x: torch.Tensor, times: int = 1) -> int:
        CALLS.append("halve")
        x.div_(2**times)
        return times

    @torch.library.custom_op("gramme_described::mapped", mutates_args=())
    def mapped(x: torch.Tensor) -> torch.Tensor:
        return noted("mapped", x)

    mapped.register_fake(lambda x: torch.empty_like(x))

    @mapped.register_vmap
    def _(info: Any, dims: Any, x: torch.Tensor) -> Any:
        CALLS.append("rule")
        return mapped(x), dims[0]

    with torch.library._scoped_library("gramme_described", "FRAGMENT") as library:
        for name, key in (("implicit", "CompositeImplicitAutograd"), ("explicit", "CompositeExplicitAutograd")):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x, name=name: noted(name, x), key)
        yield


OPERATORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "bare": lambda x: torch.ops.gramme_described.bare(x) * 1,
    "count": lambda x: (torch.ops.gramme_described.count(x), x + 1),
    "halve": lambda x: (torch.ops.gramme_described.halve(x), x + 1),
    "implicit": lambda x: torch.ops.gramme_described.implicit(x) * 1,
    "implicit_overload": lambda x: torch.ops.gramme_described.implicit.default(x) * 1,
    "explicit": lambda x: torch.ops.gramme_described.explicit(x) * 1,
    "vmap": lambda x: torch.func.vmap(torch.ops.gramme_described.mapped)(x) * 1,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_in_python_run_once(name: str, backend: str) -> None:
    def run(function: Callable[..., Any]) -> Any:
        CALLS.clear()
        x = torch.ones(2)
        return [str(function(x)) for _ in range(3)], x.tolist(), list(CALLS)

    assert run(gramme.compile(OPERATORS[name], backend=backend)) == run(OPERATORS[name])
