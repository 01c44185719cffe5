"""Wrappers given to `autograd.Function`, conversions that their class overrides, contexts made of data classes."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing

from subclasses import program
from subclasses.classes import Two, numbers, two

OVERRIDDEN: dict[Any, Callable[..., Any]] = {}


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a table's metadata says, made anew for each request."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    needs_grad: bool


@dataclasses.dataclass
class Named:
    """Compares by its label, not by its note."""

    label: str
    facts: Facts | None = None
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(slots=True)
class Slots:
    block: int
    scales: tuple[float, ...] = (1.0, 2.0)


class Table(torch.Tensor):
    """Indices into a table of numbers, as four-bit weights are kept. Everything but conversions is refused."""

    indices: torch.Tensor
    table: torch.Tensor
    kind: Any
    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls: Any, indices: torch.Tensor, table: torch.Tensor, kind: Any = None) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, indices.size(), strides=indices.stride(), dtype=table.dtype, device=table.device
        )

    def __init__(self, indices: torch.Tensor, table: torch.Tensor, kind: Any = None) -> None:
        self.indices, self.table, self.kind = indices, table, kind

    @classmethod
    def of(cls, *shape: int, kind: Any = None) -> Any:
        return cls(torch.arange(numbers(*shape).numel()).reshape(shape) % 5, torch.linspace(-1, 1, 5), kind)

    def plain(self) -> torch.Tensor:
        return self.table[self.indices]

    def __tensor_flatten__(self) -> Any:
        facts = Facts(self.shape, self.stride(), self.dtype, self.device, self.requires_grad)
        return ["indices", "table"], {"facts": facts, "kind": self.kind, "twice": (facts, [facts])}

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["indices"], inner["table"], context["kind"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OVERRIDDEN:
            return OVERRIDDEN[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default, torch.ops.aten.alias.default):
            made = cls(func(args[0].indices), func(args[0].table), args[0].kind)
            return return_and_correct_aliasing(func, args, kwargs or {}, made)
        raise NotImplementedError(f"Table: {func}")


def overrides(name: str) -> Callable[..., Any]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(function, getattr(torch.Tensor, name))
        OVERRIDDEN[getattr(torch.Tensor, name)] = function
        return function

    return register


@overrides("to")
def converted(*args: Any, **kwargs: Any) -> Any:
    table = args[0]
    device, dtype, _, memory_format = torch._C._nn._parse_to(*args[1:], **kwargs)
    assert device is None or device == table.device
    plain = table.plain() if dtype is None else table.plain().to(dtype)
    return plain if memory_format is None else plain.contiguous(memory_format=memory_format)


class Linear(torch.autograd.Function):
    """A linear layer whose weight is a table without gradient, saved as it is."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: Any) -> torch.Tensor:
        ctx.save_for_backward(weight)
        return nn.functional.linear(x, weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        return gradient @ weight.to(gradient.dtype), None


class ByContext(torch.autograd.Function):
    """The weight is an attribute of the context, set apart from forward."""

    @staticmethod
    def forward(x: torch.Tensor, weight: Any) -> torch.Tensor:
        return x @ weight.to(x.dtype).t()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.plain = inputs[1].to(torch.float32)
        ctx.mark_non_differentiable()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient @ ctx.plain, None


class Product(torch.autograd.Function):
    """Both arguments get gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x


class Adapted(nn.Module):
    """A frozen table beside a product of two small matrices that train."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(Table.of(n, n), requires_grad=False)
        self.low = nn.Parameter(numbers(2, n) / 8)
        self.high = nn.Parameter(numbers(n, 2) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Linear.apply(x, self.weight) + nn.functional.linear(nn.functional.linear(x, self.low), self.high)


MODEL = nn.Sequential(Adapted(4), nn.ReLU(), Adapted(4))
FROZEN, OTHER = Table.of(3, 3), Table.of(2, 3)


def gradients() -> Any:
    return [parameter.grad for parameter in MODEL.parameters()]


def forget() -> None:
    MODEL.zero_grad()
    OVERRIDDEN.pop(torch.Tensor.sin, None)


def trained(*shape: int) -> Any:
    return numbers(*shape).requires_grad_()


@program(lambda: [(trained(2, 3),), (trained(2, 3),), (trained(4, 3),)], backward=True)
def a_frozen_weight(x):
    return Linear.apply(x, FROZEN)


@program(lambda: [(numbers(2, 4),), (numbers(2, 4) + 1,)], backward=True, state=gradients, setup=forget)
def adapters(x):
    return MODEL(x)


@program(
    lambda: [(trained(2, 3), Table.of(3, 3)), (trained(2, 3), Table.of(2, 3)), (trained(2, 3), FROZEN)], backward=True
)
def another_weight_each_call(x, weight):
    return Linear.apply(x.sin(), weight) * 2


@program(lambda: [(trained(2, 3),)] * 2, backward=True)
def two_weights(x):
    return Linear.apply(Linear.apply(x, FROZEN), OTHER)


@program(lambda: [(trained(2, 3),)] * 2, backward=True)
def set_apart(x):
    return ByContext.apply(x, FROZEN) + 1


@program(lambda: [(trained(2, 3),)] * 2)
def without_gradients(x):
    with torch.no_grad():
        return Linear.apply(x, FROZEN)


@program(lambda: [(two(3, grad=True), trained(3))] * 2, backward=True)
def both_with_gradients(x, y):
    return Product.apply(x, y)


@program(lambda: [(two(3, grad=True), two(3, grad=True))] * 2, backward=True)
def two_wrappers(x, y):
    return Product.apply(x, y).sin()


@program(lambda: [(trained(3),)] * 2, backward=True)
def one_made_inside(x):
    return Product.apply(x, Two(x.detach() * 2, x.detach())) * 3


@program(lambda: [(Table.of(2, 3),)] * 2)
def converted_in_all_forms(weight):
    return (
        weight.to(torch.float64),
        weight.to(dtype=torch.float16),
        weight.to("cpu"),
        weight.to(torch.device("cpu"), torch.float32),
        weight.to("cpu", torch.float64, True),
        weight.to(torch.float32, copy=False),
        weight.to(torch.float32, non_blocking=False, memory_format=torch.contiguous_format),
    )


@program(lambda: [(Table.of(2, 3), numbers(1).double()), (Table.of(2, 3), numbers(1))])
def converted_like_another(weight, other):
    return weight.to(other) + 1


@program(lambda: [(Table.of(2, 3),)] * 2)
def a_wrong_conversion(weight):
    try:
        return weight.to(torch.float32, torch.float64)
    except TypeError as error:
        return str(error)[:20]


@program(lambda: [(trained(2, 3), Table.of(3, 3, kind=kind)) for kind in ("a", "a", "b", 1, 1.0, True)], backward=True)
def metadata_decides(x, weight):
    return Linear.apply(x, weight) * (2 if weight.kind == "a" else 3)


@program(
    lambda: [(trained(2, 3), Table.of(3, 3, kind=Named(label, note=note))) for label, note in ("ab", "ac", "cb")],
    backward=True,
)
def fields_that_do_not_compare(x, weight):
    return Linear.apply(x, weight) * len(weight.kind.note + weight.kind.label)


@program(lambda: [(trained(2, 3), Table.of(3, 3, kind=Slots(size))) for size in (1, 1, 2)], backward=True)
def slots_in_metadata(x, weight):
    return Linear.apply(x, weight) * weight.kind.block


@program(lambda: [(trained(2, 3),)] * 2, backward=True)
def metadata_made_inside(x):
    weight = Table(FROZEN.indices, FROZEN.table, Slots(3))
    return Linear.apply(x, weight) * weight.kind.block


@program(lambda: [(trained(2, 3), Table.of(3, 3))] * 3, backward=True)
def its_inner_tensors_written_before(x, weight):
    weight.table.mul_(2)
    return Linear.apply(x, weight)


@program(lambda: [(trained(2, 3), Table.of(3, 3))] * 2, backward=True)
def an_attribute_set_before(x, weight):
    weight.kind = "set"
    return Linear.apply(x, weight) * len(weight.kind)


@program(lambda: [(trained(2, 3), Table.of(3, 3))] * 2, backward=True)
def a_break_between(x, weight):
    y = Linear.apply(x, weight)
    print("between")
    return Linear.apply(y, weight)


@program(lambda: [(trained(2, 3),)] * 2, setup=forget, backward=True)
def another_override(x):
    OVERRIDDEN[torch.Tensor.sin] = lambda self: self.plain().cos()
    return Linear.apply(x, FROZEN) + FROZEN.sin().sum()
