"""Subclasses of tensors with a __torch_function__ hear of everything that eager asks them."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import BACKENDS, outcome

LOG: list[str] = []


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append(getattr(func, "__qualname__", "") or func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Lying(torch.Tensor):
    """Answers for itself."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.dim or func is torch.Tensor.ndim.__get__:  # type: ignore[attr-defined]
            return 77
        if func is torch.Tensor.__len__:
            return 78
        return super().__torch_function__(func, types, args, kwargs or {})


class Silent(torch.Tensor):
    """Inherits PyTorch's: tensors that come out get the class."""


class Off(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Shaped(torch.Tensor):
    """Puts a property in the place of an attribute."""

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return (9, 9)


ASKED: dict[str, Callable[[Any], Any]] = {
    "ndim": lambda x: x.ndim,
    "shape": lambda x: tuple(x.shape),
    "dim": lambda x: x.dim(),
    "size": lambda x: x.size(0),
    "unbound": lambda x: (torch.Tensor.dim(x), torch.numel(x)),
    "numel": lambda x: x.numel(),
    "stride": lambda x: x.stride(),
    "len": lambda x: len(x),
    "dtype": lambda x: x.dtype,
    "device": lambda x: x.device,
    "requires_grad": lambda x: x.requires_grad,
    "is_leaf": lambda x: x.is_leaf,
    "grad": lambda x: x.grad,
    "grad_fn": lambda x: x.grad_fn,
    "is_cuda": lambda x: (x.is_cuda, x.is_cpu, x.is_sparse, x.is_meta),
    "is_floating_point": lambda x: (x.is_floating_point(), torch.is_complex(x)),
    "nbytes": lambda x: (x.nbytes, x.itemsize, x.element_size()),
    "is_contiguous": lambda x: x.is_contiguous(),
    "type": lambda x: (x.type(), torch.typename(x)),
    "iteration": lambda x: [type(row).__name__ for row in x],
    "hash": lambda x: len({x: 1}),
    "requires_grad_": lambda x: x.requires_grad_().requires_grad,
    "set grad": lambda x: setattr(x, "grad", torch.ones(2)) or x.grad,
    "data": lambda x: type(x.data).__name__,
    "own attribute": lambda x: (setattr(x, "note", 5), x.note),
    "getattr": lambda x: getattr(x, "ndim", None),
    "isinstance": lambda x: (isinstance(x, torch.Tensor), isinstance(x, torch.FloatTensor), type(x).__name__),
    "operators": lambda x: (x + 1, 2 * x, x @ x, x[0], -x, x < 1),
    "functions": lambda x: (torch.sin(x), x.cos().sum(), torch.nn.functional.relu(x)),
}


@pytest.mark.parametrize("cls", [Logged, Lying, Silent, Off, Shaped])
@pytest.mark.parametrize("asked", ASKED)
def test_as_eager(cls: type, asked: str) -> None:
    def function(x: Any, v: torch.Tensor) -> Any:
        return v * 2, ASKED[asked](x)

    for backend in BACKENDS if asked in ("ndim", "operators") else ("eager",):
        compiled = gramme.compile(function, backend=backend)
        for _ in range(2):
            found = []
            for call in (function, compiled):
                x = torch.ones(2).as_subclass(cls)
                LOG.clear()
                found.append((outcome(lambda: call(x, torch.ones(2))), list(LOG)))  # noqa: B023
            assert found[0] == found[1], backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_that_gets_one_later(backend: str) -> None:
    class Late(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    def function(x: Any, v: torch.Tensor) -> Any:
        return v * x.ndim

    compiled = gramme.compile(function, backend=backend)
    x = torch.ones(2).as_subclass(Late)
    assert torch.equal(compiled(x, torch.ones(2)), function(x, torch.ones(2)))
    Late.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: 5)  # type: ignore[assignment]
    assert torch.equal(compiled(x, torch.ones(2)), function(x, torch.ones(2)))
