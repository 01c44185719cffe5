"""`Tensor.add(x, 1)` is the method of Tensor, whatever the class or the instance has under its name."""

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import gramme
import pytest
import torch
from torch import Tensor

from e2e.apart import in_a_child

EXECUTORS = ["eager", "native"]
NAMES = ("add", "sin", "norm", "split", "type", "detach", "clone", "to", "abs", "__add__", "__rsub__", "__pow__", "dim")


def hidden(what: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: f"own {what}"


class Over(torch.Tensor):
    """A class with methods of its own."""

    for name in NAMES:
        locals()[name] = hidden(name)

    def above(self) -> Any:
        return super().add(1), super().sin(), super().norm(), super().__add__(2), super().dim()


class OverParameter(torch.nn.Parameter):
    for name in NAMES:
        locals()[name] = hidden(name)

    def above(self) -> Any:
        return super().add(1), super().sin(), super().norm(), super().__add__(2), super().dim()


def plain() -> Any:
    return torch.arange(3.0)


def with_attributes() -> Any:
    x: Any = torch.arange(3.0)
    for name in NAMES:
        setattr(x, name, hidden(name))
    return x


MAKERS = {
    "plain": plain,
    "attributes": with_attributes,
    "a class": lambda: torch.arange(3.0).as_subclass(Over),
    "a class of parameters": lambda: OverParameter(torch.arange(3.0)),
}

CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: Tensor.add(x, 1),
    "by keyword": lambda x: Tensor.add(x, other=1),
    "of TensorBase": lambda x: torch._C.TensorBase.add(x, 1),
    "from the dict": lambda x: torch._C.TensorBase.__dict__["sin"](x),
    "__get__": lambda x: Tensor.add.__get__(x)(1),
    "partial": lambda x: partial(Tensor.add, x)(1),
    "map": lambda x: list(map(Tensor.sin, [x, x])),
    "methodcaller": lambda x: methodcaller("add", 1)(x),
    "bound": lambda x: x.add(1),
    "special": lambda x: Tensor.__add__(x, 1),
    "reflected": lambda x: Tensor.__rsub__(x, 1),
    "in Python": lambda x: Tensor.norm(x),
    "power": lambda x: Tensor.__pow__(x, 2),
    "split": lambda x: Tensor.split(x, 1),
    "type": lambda x: Tensor.type(x, torch.float64),
    "to": lambda x: Tensor.to(x, torch.float64),
    "detach": lambda x: Tensor.detach(x),
    "dim": lambda x: Tensor.dim(x),
    "new_tensor": lambda x: Tensor.new_tensor(x, [1.0]),
    "super": lambda x: x.above() if isinstance(x, (Over, OverParameter)) else None,
}

# That an attribute which another instance has hides a method that was looked up on one without it is not guarded.
UNGUARDED = ("bound", "__get__", "methodcaller", "super")


def spelt(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return type(value).__name__, Tensor.tolist(value), value.dtype, value.requires_grad
    return [spelt(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("name", CALLS)
def test_unbound_methods(name: str, backend: str) -> None:
    call = CALLS[name]
    for first, make in MAKERS.items():
        compiled = gramme.compile(call, backend=backend)
        for then in (make, make, *([] if name in UNGUARDED else [MAKERS["attributes"], plain])):
            assert spelt(compiled(then())) == spelt(call(then())), first


@pytest.mark.parametrize("backend", EXECUTORS)
def test_new_of_a_conjugate_view(backend: str) -> None:
    compiled = gramme.compile(lambda x: x.new(2, 3), backend=backend)
    with pytest.raises(RuntimeError, match="Conjugate"):
        compiled(torch.ones(2, dtype=torch.complex64).conj())


@in_a_child  # CPython leaves a slot in torch.Tensor, by which tensors are sequences from then on
def test_a_replaced_method_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    base: Any = torch._C.TensorBase
    x = torch.arange(3.0)
    for name, args in (("__getitem__", (1,)), ("abs", ()), ("sin", ())):
        with monkeypatch.context() as patch:
            patch.setattr(Tensor, name, hidden(name))
            for backend in EXECUTORS:
                function = lambda x: getattr(base, name)(x, *args) + 1  # noqa: B023, E731
                assert torch.equal(gramme.compile(function, backend=backend)(x), function(x))


REFLECTED = ("__rdiv__", "__rpow__", "__rmod__", "__rmatmul__", "__radd__", "__rsub__", "norm", "split", "__pow__")


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("name", REFLECTED)
def test_self_by_its_name(name: str, backend: str) -> None:
    method = getattr(Tensor, name)

    def program(arguments: dict[str, Any]) -> Any:
        try:
            return method(**arguments)
        except TypeError as error:
            return str(error)

    for arguments in ({}, {"self": torch.eye(2)}, {"self": torch.ones(2, 2), "other": torch.eye(2) + 1}):
        expected = program(arguments)
        got = gramme.compile(program, backend=backend)(arguments)
        assert torch.equal(got, expected) if isinstance(expected, Tensor) else got == expected
