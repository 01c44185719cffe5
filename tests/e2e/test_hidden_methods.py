"""An attribute of an instance under the name of a method hides it, also between calls: on tensors, modules, objects."""

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn


class Plain(torch.Tensor):
    pass


class Slotted(torch.Tensor):
    __slots__ = ("kept",)
    scale = 5

    @property
    def seven(self) -> int:
        return 7

    def more(self) -> torch.Tensor:
        return self + 1


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x) * (1 if self.training else 2)
        return x + self.mean.sin() + self.weight.cos()

    def other(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Thing:
    def three(self) -> int:
        return 3


class Mapping(dict[str, int]):
    pass


class Items(list[int]):
    pass


class Whole(int):
    pass


def tensor() -> torch.Tensor:
    return torch.full((3,), 0.5)


def model() -> Model:
    torch.manual_seed(0)
    return Model()


def with_grad() -> torch.Tensor:
    x = tensor().requires_grad_()
    (x * 2).sum().backward()
    return x


def with_dict() -> torch.Tensor:
    x = tensor()
    vars(x)["label"] = 1
    return x


def other(*_: Any) -> torch.Tensor:
    return torch.tensor(3.0)


def nine(*_: Any) -> int:
    return 9


class Case:
    def __init__(
        self,
        program: Callable[[Any], Any],
        make: Callable[[], Any],
        name: str,
        value: Any,
        owner: Callable[[Any], Any] = lambda made: made,
    ) -> None:
        self.program, self.make, self.name, self.value, self.owner = program, make, name, value, owner

    def hide(self, made: Any, through_dict: bool) -> None:
        if through_dict:
            vars(self.owner(made))[self.name] = self.value
        else:
            setattr(self.owner(made), self.name, self.value)

    def show(self, made: Any) -> None:
        vars(self.owner(made)).pop(self.name)


# Methods, and what reads them.
CASES = {
    "call": Case(lambda x: x.sin() * 2, tensor, "sin", other),
    "getattr": Case(lambda x: getattr(x, "sin")() * 2, tensor, "sin", other),  # noqa: B009
    "kept": Case(lambda x: [m() for m in [x.sin]][0] * 2, tensor, "sin", other),
    "callable": Case(lambda x: x * 2 if callable(x.sin) else x * 3, tensor, "sin", 1),
    "beside another": Case(lambda x: x.sin() * 2, with_dict, "sin", other),
    "in Python": Case(lambda x: x.norm() * 2, tensor, "norm", other),
    "slot wrapper": Case(lambda x: x * x.__len__(), tensor, "__len__", nine),
    "operator": Case(lambda x: x + 1, tensor, "__add__", other),
    "number": Case(lambda x: x * x.size(0), tensor, "size", nine),
    "from the class": Case(lambda x: torch.Tensor.sin(x), tensor, "sin", other),
    "function": Case(lambda x: torch.sin(x), tensor, "sin", other),
    "parameter": Case(lambda x: x.sin() * 2, lambda: nn.Parameter(tensor()), "sin", other),
    "class": Case(lambda x: x.sin() * 2, lambda: tensor().as_subclass(Plain), "sin", other),
    "slots": Case(lambda x: x.more() * 2, lambda: tensor().as_subclass(Slotted), "more", other),
    "constant": Case(lambda x: x * x.scale, lambda: tensor().as_subclass(Slotted), "scale", 6),
    "another's": Case(lambda x: x.sin() * x.cos(), tensor, "tan", other),
    "item": Case(lambda xs: xs[0].sin(), lambda: [tensor()], "sin", other, lambda xs: xs[0]),
    "attribute": Case(lambda o: o.x.sin(), lambda: types.SimpleNamespace(x=tensor()), "sin", other, lambda o: o.x),
    "grad": Case(lambda x: x.grad.sin(), with_grad, "sin", other, lambda x: x.grad),
    "buffer": Case(lambda m: m(tensor()), model, "sin", other, lambda m: m.mean),
    "parameter of a module": Case(lambda m: m(tensor()), model, "cos", other, lambda m: m.weight),
    "forward": Case(lambda m: m(tensor()), model, "forward", torch.neg),
    "forward inside": Case(lambda m: m(tensor()), model, "forward", torch.neg, lambda m: m.linear),
    "__call__": Case(lambda m: m(tensor()), model, "__call__", torch.neg),
    "_call_impl": Case(lambda m: m(tensor()), model, "_call_impl", torch.neg),
    "other": Case(lambda m: m.other(tensor()), model, "other", torch.neg),
    "parameters": Case(lambda m: sum(p.sum() for p in m.parameters()), model, "parameters", lambda: [tensor()]),
    "object": Case(lambda o: tensor() * o.three(), Thing, "three", nine),
    "dict": Case(lambda d: tensor() * d.get("a"), lambda: Mapping(a=2), "get", nine),
    "ordered": Case(lambda d: tensor() * d.get("a"), lambda: collections.OrderedDict(a=2), "get", nine),
    "list": Case(lambda s: tensor() * s.index(1), lambda: Items([0, 1]), "index", nine),
    "int": Case(lambda n: tensor() * n.bit_length(), lambda: Whole(7), "bit_length", nine),
    "partial": Case(lambda p: tensor() * p.__call__(), lambda: functools.partial(int, 4), "__call__", nine),
}
# Data descriptors stand before what an instance has: only its dict can hold something under their names.
DESCRIPTORS = {
    "shape": Case(lambda x: x * x.shape[0], tensor, "shape", (9,)),
    "requires_grad": Case(lambda x: x * 2 if x.requires_grad else x * 3, tensor, "requires_grad", True),
    "__class__": Case(lambda x: x * 2 if x.__class__ is torch.Tensor else x, tensor, "__class__", int),
    "property": Case(lambda x: x * x.seven, lambda: tensor().as_subclass(Slotted), "seven", 1),
}


def compare(case: Case, function: Callable[[Any], Any], made: Any) -> None:
    torch.testing.assert_close(function(made), case.program(made), rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("through_dict", [True, False], ids=["dict", "setattr"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hidden_between_calls(case: Case, through_dict: bool, backend: str) -> None:
    function = gramme.compile(case.program, backend=backend)
    made = case.make()
    for _ in range(3):
        compare(case, function, made)
    case.hide(made, through_dict)
    for _ in range(2):
        compare(case, function, made)
    compare(case, function, case.make())
    compare(case, function, made)
    case.show(made)
    compare(case, function, made)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("case", DESCRIPTORS.values(), ids=DESCRIPTORS)
def test_descriptors_hide(case: Case, backend: str) -> None:
    function = gramme.compile(case.program, backend=backend)
    made = case.make()
    compare(case, function, made)
    case.hide(made, through_dict=True)
    for _ in range(3):
        compare(case, function, made)


def test_names_that_hide_nothing() -> None:
    """Attributes that come and go are no reason for another graph, nor are methods that a call did not ask for."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + x.cos() * x.size(0)

    function = gramme.compile(program, backend="eager")
    x = tensor()
    function(x)
    for i in range(3):
        setattr(x, f"label{i}", i)
        function(x)
        vars(x)["shape"] = i
        function(with_dict())
    assert gramme.statistics(function).captures == 1

    hides = gramme.compile(program, backend="eager")
    x = tensor()
    x.tan = other  # type: ignore[method-assign, assignment]
    for _ in range(3):
        torch.testing.assert_close(hides(x), program(x))
        torch.testing.assert_close(hides(tensor()), program(tensor()))
        assert gramme.statistics(hides).captures == 1
    x.cos = other  # type: ignore[method-assign, assignment]
    torch.testing.assert_close(hides(x), program(x))


def test_one_fact_a_tensor() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + x.cos() * x.size(0)

    text = str(gramme.explain(program)(tensor()).segments[0].guards)
    assert text.count("hides no attribute of its class") == 1


@pytest.mark.parametrize("base", [object, torch.Tensor, nn.Module, dict, int])
def test_class_gets_a_descriptor_under_the_name_of_an_attribute(base: type) -> None:
    """What is found on the class is no descriptor: that is guarded, too, where the instance has its own."""

    def program(owner: Any) -> torch.Tensor:
        return tensor() * owner.label

    later = type("Later", (base,), {})
    owner = tensor().as_subclass(later) if base is torch.Tensor else later()
    owner.label = 2
    function = gramme.compile(program, backend="eager")
    for found in (3, 4, property(lambda self: 5), property(lambda self: 6), lambda self: 7, property(lambda self: 8)):
        compare(Case(program, later, "label", found), function, owner)
        later.label = found  # type: ignore[attr-defined]
        compare(Case(program, later, "label", found), function, owner)
    del later.label  # type: ignore[attr-defined]
    compare(Case(program, later, "label", None), function, owner)
