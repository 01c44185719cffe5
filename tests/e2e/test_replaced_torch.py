"""What the program puts in the place of PyTorch's functions and of methods of torch.Tensor is called."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

from e2e.against_eager import BACKENDS, outcome
from e2e.apart import in_a_child

CALLS: list[str] = []


def replacement(name: str, result: Any) -> Callable[..., Any]:
    def replaced(*args: Any, **kwargs: Any) -> Any:
        CALLS.append(name)
        return result

    return replaced


@contextlib.contextmanager
def replaced(owner: Any, name: str, by: Any) -> Iterator[None]:
    own = name in owner.__dict__
    before = getattr(owner, name)
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


OPERATORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "__mul__": lambda x: x * 2,
    "__rmul__": lambda x: 2 * x,
    "__add__": lambda x: x + x,
    "__iadd__": lambda x: _added(x),
    "__sub__": lambda x: x - 1,
    "__rsub__": lambda x: 1 - x,
    "__matmul__": lambda x: x @ x,
    "__pow__": lambda x: x**2,
    "__truediv__": lambda x: x / 2,
    "__neg__": lambda x: -x,
    "__abs__": lambda x: abs(x),
    "__invert__": lambda x: ~x.bool(),
    "__lt__": lambda x: x < 1,
    "__gt__": lambda x: 1 < x,
    "__eq__": lambda x: x == 1,
    "__getitem__": lambda x: x[0],
    "__len__": lambda x: x + len(x),
    "__iter__": lambda x: x + sum(1 for _ in x),
    "unbind": lambda x: list(x),
    "sin": lambda x: x.sin(),
    "add": lambda x: x.add(1),
    "size": lambda x: x + x.size(0),
    "dim": lambda x: x + x.dim(),
    "shape": lambda x: x + x.shape[0],
    "ndim": lambda x: x + x.ndim,
    "is_floating_point": lambda x: x if x.is_floating_point() else -x,
}


def _added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y += 1
    return y


def _fake(name: str) -> Any:
    if name in ("shape", "ndim"):
        return property(lambda self: (5,) if name == "shape" else 5)
    if name == "unbind":
        return replacement(name, (1.0,))
    result = 2 if name in ("__len__", "dim", "size") else iter([]) if name == "__iter__" else torch.full((2,), 7.0)
    return replacement(name, result)


@pytest.fixture(scope="module")
def imported() -> None:
    """What aot_eager imports, once for all children."""
    gramme.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("first", ["plain", "replaced"])
@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@in_a_child  # CPython leaves a slot in torch.Tensor and its subclasses, by which tensors are sequences from then on
def test_methods(name: str, first: str, backend: str) -> None:
    if backend == "aot_eager" and name in ("size", "dim", "shape", "ndim"):
        pytest.skip("AOTAutograd itself asks for these")
    function = OPERATORS[name]
    compiled = gramme.compile(function, backend=backend)
    for is_replaced in (False, True, False, True) if first == "plain" else (True, False, True):
        found = []
        for call in (function, compiled):
            CALLS.clear()
            with replaced(torch.Tensor, name, _fake(name)) if is_replaced else contextlib.nullcontext():
                text = outcome(lambda: call(torch.ones(2)))  # noqa: B023
            found.append((text, list(CALLS)))
        assert found[0] == found[1], is_replaced


def activations(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(torch.sin(x)) + F.relu(torch.add(x, 1)) + F.softmax(x, 0) + F.silu(x)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        *((torch, "sin"), (torch, "add"), (F, "gelu"), (F, "relu")),
        *((torch, "relu"), (torch.Tensor, "softmax"), (torch._C._nn, "silu")),  # bodies of F's functions look them up
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions(owner: Any, name: str, backend: str) -> None:
    compiled = gramme.compile(activations, backend=backend)
    for is_replaced in (False, True, False, True):
        fake = replacement(name, torch.full((2,), 7.0))
        with replaced(owner, name, fake) if is_replaced else contextlib.nullcontext():
            assert torch.equal(compiled(torch.ones(2)), activations(torch.ones(2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_by_another_method_of_tensors(backend: str) -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    compiled = gramme.compile(product, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), product(torch.ones(2)))
        with replaced(torch.Tensor, "__mul__", torch.Tensor.add):
            assert torch.equal(compiled(torch.ones(2)), product(torch.ones(2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_method_added_to_a_subclass(backend: str) -> None:
    class Sub(torch.Tensor):
        pass

    def product(x: Any) -> Any:
        return (x * 3).as_subclass(torch.Tensor)

    compiled = gramme.compile(product, backend=backend)
    x = torch.ones(2).as_subclass(Sub)
    assert torch.equal(compiled(x), product(x))
    Sub.__mul__ = lambda self, other: torch.Tensor.add(self, other)  # type: ignore[method-assign, assignment]
    assert torch.equal(compiled(x), product(x))
    assert torch.equal(compiled(torch.ones(2)), product(torch.ones(2)))
