"""Slices, comparisons with a number on the left and functions with gradients of their own, which graphs have in other
words than the program: over kinds of operands, at other values and other sizes, as eager has them."""

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sampling import some

from e2e.test_op_db_kinds import BACKENDS, OF_NUMBERS, OF_TENSORS, Variant, differences_of

X = torch.arange(12.0).reshape(4, 3) - 4


class Index:
    def __init__(self, at: int) -> None:
        self.at = at

    def __index__(self) -> int:
        return self.at


BOUNDS: dict[str, Any] = {
    **{
        str(n): n
        for n in (None, 0, 1, 3, 4, 5, -1, -4, -5, True, 2**31, sys.maxsize, -sys.maxsize - 1, 2**70, -(2**70))
    },
    **{f"an array's {n!r}": n for n in (np.int64(1), np.int32(-1), np.uint8(2), np.bool_(True), np.array(1))},
    "a tensor": torch.tensor(1),
    "a negative tensor": torch.tensor(-1),
    "a tensor of bytes": torch.tensor(2, dtype=torch.uint8),
    "a bool tensor": torch.tensor(True),
    "a float tensor": torch.tensor(1.0),
    "a tensor that needs a gradient": torch.tensor(1.0, requires_grad=True),
    "a tensor of one element": torch.tensor([1]),
    "a tensor of two": torch.tensor([1, 2]),
    "an object": Index(1),
    "a float": 1.0,
    "text": "1",
}
SLICES: dict[str, Callable[..., Any]] = {
    "start": lambda x, a: x[a:],
    "stop": lambda x, a: x[:a],
    "step": lambda x, a: x[::a],
    "both": lambda x, a: x[a:a],
    "second": lambda x, a: x[:, a:],
    "last": lambda x, a: x[..., :a],
    "with None": lambda x, a: x[a:, None],
    "with an int": lambda x, a: x[a:, 1],
    "with a tensor": lambda x, a: x[a:, torch.tensor([0, 2])],
    "a slice": lambda x, a: x[slice(a, None)],
    "index": lambda x, a: x[a],
    "of its size": lambda x, a: x[a : x.size(0) - 1],
    "written": lambda x, a: operator.setitem(y := x.clone(), slice(a, None), 7) or y,
    "written in place": lambda x, a: (y := x * 1)[:a].zero_() + y.sum(),
}
SHAPES: dict[str, torch.Tensor] = {
    "matrix": X,
    "vector": X[0],
    "no dimensions": X[0, 0].clone(),
    "empty": X[:0],
    "transposed": X.t(),
    "needs a gradient": X.clone().requires_grad_(),
    "a class": X.as_subclass(OF_TENSORS["a class"](X).__class__),
    "a class that is asked": OF_TENSORS["a class that is asked"](X),
    "int": X.to(torch.int64),
}
COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
MORE = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_")
}
NUMBERS: dict[str, Any] = {
    **{str(n): n for n in (0, 1, -3, True, 2.5, -0.0, float("inf"), float("nan"), 2**40, 2**70, 1j, None, "1", ())},
    **{kind: change(2) for kind, change in OF_NUMBERS.items()},
}


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x if isinstance(x, torch.Tensor) else None)
        return x * 2 + y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * 3, None


class Same(torch.autograd.Function):
    """What it gets it gives back."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x, y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.set_materialize_grads(False)
        return x.add_(y)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], gradients[0]


class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y, x + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Double": lambda x, y: Double.apply(x, y),
    "of what it computed": lambda x, y: Double.apply(x * 1, y) * 2,
    "Same": lambda x, y: Same.apply(x, y),
    "Dirty": lambda x, y: Dirty.apply(x * 1, y),
    "Dirty of an input": lambda x, y: Dirty.apply(x, y),
    "Apart": lambda x, y: Apart.apply(x, y),
    "one argument": lambda x, y: Double.apply(x),  # noqa: ARG005
    "by name": lambda x, y: Double.apply(x, y=y),
}


def slices() -> Iterator[Variant]:
    for of, x in SHAPES.items():
        for how, program in SLICES.items():
            for bound, value in BOUNDS.items():
                yield Variant(f"{of}: {how} {bound}", program, (x, value), {})


def comparisons() -> Iterator[Variant]:
    for of, x in SHAPES.items():
        for how, compare in {**COMPARISONS, **MORE}.items():
            for kind, number in NUMBERS.items():
                yield Variant(f"{of}: {kind} {how} it", eval(f"lambda x, n: n {SIGNS[how]} x"), (x, number), {})  # noqa: S307
                if how in COMPARISONS:
                    yield Variant(f"{of}: it {how} {kind}", eval(f"lambda x, n: x {SIGNS[how]} n"), (x, number), {})  # noqa: S307
        for other, y in SHAPES.items():
            for how, compare in COMPARISONS.items():
                yield Variant(f"{of} {how} {other}", compare, (x, y), {})


SIGNS = dict(
    zip(
        [*COMPARISONS, *MORE],
        ["<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "//", "%", "**", "&", "|"],
        strict=True,
    )
)


def functions() -> Iterator[Variant]:
    for how, program in FUNCTIONS.items():
        for kind, change in OF_TENSORS.items():
            for other, number in {**SHAPES, **NUMBERS}.items():
                yield Variant(f"{how}: {kind} and {other}", program, (change(X), number), {})


FAMILIES: dict[str, Callable[[], Iterator[Variant]]] = {
    "slices": slices,
    "comparisons": comparisons,
    "functions": functions,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_as_eager(family: str) -> None:
    differences: list[str] = []
    for variant in some(list(FAMILIES[family]()), 60, family):
        for backend in BACKENDS:
            differences += differences_of(variant, backend)
    assert not differences, "\n".join(differences[:40])
