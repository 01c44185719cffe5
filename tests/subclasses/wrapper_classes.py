"""Kinds of wrapper classes: handlers off, slots, properties, contexts, state of their own, several constructors."""

import collections
import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

from subclasses import program
from subclasses.classes import Scaled, Two, numbers, two

SEEN: list[str] = []


def wrapper(cls: Any, like: torch.Tensor, **more: Any) -> Any:
    return torch.Tensor._make_wrapper_subclass(cls, like.size(), strides=like.stride(), dtype=like.dtype, **more)


class Quiet(torch.Tensor):
    """No handler. Values on a grid, by a step that is a number; what comes out is plain, but for views."""

    grid: torch.Tensor
    step: float
    __torch_function__ = torch._C._disabled_torch_function_impl
    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls: Any, grid: torch.Tensor, step: float) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, grid.size(), strides=grid.stride(), dtype=torch.float32)

    def __init__(self, grid: torch.Tensor, step: float) -> None:
        self.grid, self.step = grid, step

    @classmethod
    def of(cls, data: torch.Tensor, step: float = 0.25) -> Any:
        return cls((data / step).round().to(torch.int32), step)

    def plain(self) -> torch.Tensor:
        return self.grid.to(torch.float32) * self.step

    def __tensor_flatten__(self) -> Any:
        return ["grid"], {"step": self.step}

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["grid"], context["step"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten, kwargs = torch.ops.aten, kwargs or {}
        if func in (aten.detach.default, aten.clone.default, aten.t.default, aten.view.default, aten.alias.default):
            made = cls(func(args[0].grid, *args[1:], **kwargs), args[0].step)
            return return_and_correct_aliasing(func, args, kwargs, made)
        if func is aten.mul.Tensor and not isinstance(args[1], torch.Tensor):
            return cls(args[0].grid, args[0].step * args[1])
        return func(*pytree.tree_map_only(Quiet, Quiet.plain, args), **pytree.tree_map_only(Quiet, Quiet.plain, kwargs))


class Slotted(torch.Tensor):
    """Its tensor is in a slot, and what tells it apart is a property."""

    __slots__ = ("_held", "_unit")
    __torch_function__ = torch._C._disabled_torch_function_impl
    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls: Any, held: torch.Tensor, unit: str) -> Any:
        self = wrapper(cls, held, requires_grad=held.requires_grad)
        self._held, self._unit = held, unit
        return self

    def __init__(self, held: torch.Tensor, unit: str) -> None: ...

    @property
    def unit(self) -> str:
        return self._unit

    @property
    def held(self) -> torch.Tensor:
        return self._held

    def __tensor_flatten__(self) -> Any:
        return ["_held"], (self.unit,)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Slotted(inner["_held"], context[0])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        units = "".join(a.unit for a in args if isinstance(a, Slotted))
        out = func(*pytree.tree_map_only(Slotted, lambda s: s.held, args), **(kwargs or {}))
        made = pytree.tree_map_only(torch.Tensor, lambda t: Slotted(t, units), out)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


@dataclasses.dataclass(frozen=True)
class Layout:
    name: str
    factor: float = 1.0


class Laid(torch.Tensor):
    """Several tensors, one of which may be missing; a context of objects that compare by value."""

    main: torch.Tensor
    extra: torch.Tensor | None
    __torch_function__ = torch._C._disabled_torch_function_impl
    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls: Any, main: torch.Tensor, extra: torch.Tensor | None, layout: Layout) -> Any:
        return wrapper(cls, main)

    def __init__(self, main: torch.Tensor, extra: torch.Tensor | None, layout: Layout) -> None:
        self.main, self.extra, self.layout_ = main, extra, layout

    def value(self) -> torch.Tensor:
        out = self.main * self.layout_.factor
        return out if self.extra is None else out + self.extra

    def __tensor_flatten__(self) -> Any:
        names = ["main"]
        if self.extra is not None:
            names.append("extra")
        return names, (self.layout_, self.dtype)

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["main"], inner.get("extra"), context[0])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = pytree.tree_map_only(Laid, Laid.value, (args, kwargs or {}))
        out = func(*plain[0], **plain[1])
        layout = next(a.layout_ for a in pytree.tree_leaves(args) if isinstance(a, Laid))
        made = pytree.tree_map_only(torch.Tensor, lambda t: cls(t, None, layout), out)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


class Counting(Two):
    """A Two that tells what it is asked for."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Counting(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sin.default:
            return func(args[0].a)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Partial(torch.Tensor):
    """Cannot be traced: it does not say what it is made of."""

    held: torch.Tensor

    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls: Any, held: torch.Tensor) -> Any:
        return wrapper(cls, held)

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*pytree.tree_map_only(Partial, lambda s: s.held, args), **(kwargs or {}))


class Unread(Two):
    """Reads data to decide what it does, which no graph can know."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Unread(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = next(a for a in args if isinstance(a, Unread))
        if float(first.a.flatten()[0]) > 0.7:
            return func(*pytree.tree_map_only(Unread, lambda t: t.b, args), **(kwargs or {}))
        return func(*pytree.tree_map_only(Unread, lambda t: t.a, args), **(kwargs or {}))


@program(lambda: [(Quiet.of(numbers(2, 3)), numbers(3, 2))] * 2)
def plain_results(w, x):
    return x @ w, w + 1, (w @ x).relu()


@program(lambda: [(Quiet.of(numbers(4)), numbers(4)), (Quiet.of(numbers(4), 0.5), numbers(4))])
def steps_in_the_context(w, x):
    return x + w, w.step


@program(lambda: [(Quiet.of(numbers(2, 3)),)] * 2)
def views_keep_the_class(w):
    return w.t(), w.view(-1), w.t() + 1, w.detach().step


@program(lambda: [(Quiet.of(numbers(2, 3)), numbers(2, 3))] * 2)
def a_number_in_the_result(w, x):
    v = w * 2
    return v, v + x


@program(lambda: [(Slotted(numbers(3), "m"),), (Slotted(numbers(3), "m"),), (Slotted(numbers(3), "s"),)])
def in_slots(x):
    return x + 1, x.unit


@program(lambda: [(Slotted(numbers(3), "m"), Slotted(numbers(3), "s"))] * 2)
def units_multiply(x, y):
    z = x * y
    return z, z * x


@program(lambda: [(Slotted(numbers(2, 2), "m"),)] * 2)
def several_results(x):
    first, second = x.unbind(0)
    return first + second, x.split(1)


@program(
    lambda: [
        (Laid(numbers(3), None, Layout("row")),),
        (Laid(numbers(3), numbers(3), Layout("row")),),
        (Laid(numbers(3), None, Layout("row")),),
    ]
)
def a_tensor_may_be_missing(x):
    return x + 1


@program(lambda: [(Laid(numbers(3), None, Layout(n, f)),) for n, f in (("a", 1.0), ("a", 1.0), ("b", 2.0))])
def objects_in_the_context(x):
    return x * 2, x.layout_.name


@program(lambda: [(Counting(numbers(3), numbers(3) * 2),)] * 2)
def a_subclass_of_a_wrapper(x):
    return x.sin(), x + 1


@program(lambda: [(Counting(numbers(3), numbers(3) * 2), two(3))] * 2)
def two_classes(x, y):
    return x + 1, y * 2


@program(lambda: [(Partial(numbers(3)),)] * 2)
def not_traceable(x):
    return x + 1


@program(lambda: [(Unread(numbers(3), numbers(3) * 2),), (Unread(numbers(3) + 1, numbers(3)),)])
def data_decides(x):
    return x + 1, numbers(3).sin()


@program(lambda: [(Laid(two(3), two(3), Layout("n")),)] * 2)
def wrappers_in_a_wrapper(x):
    return x + 1


@program(lambda: [(Quiet.of(numbers(2, 2)), numbers(2, 2), n) for n in (1, 1, 2)])
def beside_numbers(w, x, n):
    return x @ w * n, n


@program(lambda: [({"w": Quiet.of(numbers(2, 2))}, [two(2)])] * 2)
def in_containers(d, xs):
    return {"out": d["w"] + 1}, [x * 2 for x in xs]


@program(lambda: [(Quiet.of(numbers(2, 2)),), (Scaled.of(numbers(2, 2)),), (numbers(2, 2),)])
def classes_by_turns(w):
    return type(w).__name__, isinstance(w, Quiet), torch.ops.aten.add.Tensor(w, 1)


@program(lambda: [(Quiet.of(numbers(n, 2)), numbers(2, n)) for n in (2, 3, 4)])
def sizes_by_turns(w, x):
    return x @ w, w.shape


@program(lambda: [(two(3), numbers(3))] * 2, state=lambda: list(SEEN), setup=SEEN.clear)
def beside_effects(x, y):
    SEEN.append(str(tuple(x.shape)))
    z = x * 2
    SEEN.append(type(z).__name__)
    return z, y + 1


@program(lambda: [(collections.OrderedDict(a=two(3), b=two(3)),)] * 2)
def summed(d):
    total = 0
    for value in d.values():
        total = total + value
    return total


@program(lambda: [(two(2, 3), Slotted(numbers(2), "m"))] * 2)
def rows_and_lengths(x, y):
    first, second = x
    return len(x), len(y), first + second, [e * 2 for e in y]
