"""Descriptors of every kind on every kind of object: read, written, deleted, called by their methods."""

import dataclasses
import enum
import functools
import re
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end refuses much of it")


class Meta(type):
    slow = property(lambda cls: f"of {cls.__name__}")

    def on_meta(cls) -> str:
        return cls.__name__


class Parts:
    """What each class of the table gets: one descriptor of each kind."""

    def method(self, n: int = 1) -> Any:
        return ("method", n)

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @staticmethod
    def static() -> str:
        return "static"

    @property
    def prop(self) -> str:
        return "prop"

    @functools.cached_property
    def cached(self) -> str:
        return "cached"

    @functools.partialmethod
    def odd(self) -> str:
        return "odd"

    part = functools.partialmethod(method, 5)

    @functools.singledispatchmethod
    def single(self, n: Any) -> str:
        return "any"

    c_function = len
    c_method = str.upper
    wrapper = object.__repr__
    class_wrapper: Any = classmethod(len)  # type: ignore[arg-type]
    fixed = 7


NAMES = tuple(n for n in vars(Parts) if not n.startswith("__"))


class Plain(Parts):
    pass


class Slotted(Parts):
    __slots__ = ("empty", "full")


class OnlySlots:
    __slots__ = ("empty", "full", "__weakref__")
    prop = property(lambda self: self.full)
    cached = functools.cached_property(lambda self: 1)


class Below(OnlySlots):
    __slots__ = ("more",)


@dataclasses.dataclass(slots=True)
class Data:
    full: int = 3
    empty: Any = None


class TensorSlots(torch.Tensor):
    __slots__ = ("empty", "full")
    full: Any
    empty: Any
    prop = property(lambda self: self.full)


class TensorBelow(TensorSlots):
    __slots__ = ("more",)


class TensorParts(Parts, torch.Tensor):
    pass


class ParameterSlots(torch.nn.Parameter):
    __slots__ = ("empty", "full")


class Answering(torch.Tensor):
    __slots__ = ("empty", "full")

    def __getattr__(self, name: str) -> str:
        return f"asked {name}"


class Net(Parts, torch.nn.Module):
    __slots__ = ("full", "empty")

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))


class WithMeta(Parts, metaclass=Meta):
    __slots__ = ("full", "empty")


class Failure(Parts, ValueError):
    __slots__ = ("full", "empty")


class Pair(Parts, namedtuple("Pair", "a b")):
    pass


class Whole(Parts, int):
    pass


class Items(Parts, list):  # type: ignore[type-arg]
    __slots__ = ("full", "empty")


class Table(Parts, dict):  # type: ignore[type-arg]
    __slots__ = ("full", "empty")


class Color(enum.Enum):
    RED = 1
    prop = property(lambda self: self.value)

    def method(self) -> str:
        return self.name


def filled(make: Callable[[], Any]) -> Callable[[], Any]:
    def made() -> Any:
        made = make()
        made.full = 3
        return made

    return made


def function() -> int:
    """Doc."""
    return 1


def tensor(cls: type) -> Any:
    return torch.ones(2).as_subclass(cls)


OBJECTS: dict[str, Callable[[], Any]] = {
    "plain": Plain,
    "slots": filled(Slotted),
    "only slots": filled(OnlySlots),
    "below slots": filled(Below),
    "dataclass": Data,
    "tensor": lambda: torch.ones(2),
    "tensor with slots": filled(lambda: tensor(TensorSlots)),
    "below such": filled(lambda: tensor(TensorBelow)),
    "tensor that answers": filled(lambda: tensor(Answering)),
    "tensor with parts": lambda: tensor(TensorParts),
    "parameter": filled(lambda: ParameterSlots(torch.ones(2))),
    "module": filled(Net),
    "metaclass": filled(WithMeta),
    "class": lambda: WithMeta,
    "class of tensors": lambda: TensorSlots,
    "exception": filled(Failure),
    "namedtuple": lambda: Pair(1, 2),
    "int": lambda: Whole(2),
    "list": filled(lambda: Items([1])),
    "dict": filled(lambda: Table(a=1)),
    "enum": lambda: Color.RED,
    "function": lambda: function,
    "method": lambda: Plain().method,
    "partial": lambda: functools.partial(function),
    "device": lambda: torch.device("cpu"),
    "size": lambda: torch.Size((1, 2)),
    "namespace": lambda: types.SimpleNamespace(full=3),
}
C_NAMES = ("__class__", "__doc__", "__dict__", "__weakref__", "__module__", "__name__", "__slots__", "real", "a", "b")
READ = (*NAMES, "full", "empty", "more", "slow", "on_meta", *C_NAMES, "shape", "__hash__", "__repr__", "args", "type")
CALLED = ("method", "of_class", "static", "part", "class_wrapper", "on_meta", "odd")


def _text(value: Any) -> str:
    with torch._C.DisableTorchFunction():
        if isinstance(value, torch.Tensor):
            return f"{type(value).__name__} {value.tolist()}"
        try:
            text = repr(value)
        except AttributeError as error:  # of a dataclass without its fields
            text = str(error)
        return re.sub("0x[0-9a-f]+", "0x", f"{type(value).__name__} {text}")


def attempt(found: list[Any], action: Callable[[], Any]) -> None:
    try:
        found.append(action())
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")


def compared(function: Callable[..., Any], make: Callable[[], Any], names: tuple[str, ...]) -> None:
    """One name after the other, each in a compiled function of its own, twice."""
    for name in names:
        compiled = gramme.compile(function, backend="eager")
        for repeat in range(2):
            eager_object, captured_object = make(), make()
            expected = function(torch.ones(2), eager_object, name)
            found = compiled(torch.ones(2), captured_object, name)
            assert [_text(v) for v in found] == [_text(v) for v in expected], f"{name}, call {repeat}"
            assert _text(captured_object) == _text(eager_object), name


def read(x: torch.Tensor, item: Any, name: str) -> Any:
    y = x + 1
    found: list[Any] = [y]
    attempt(found, lambda: getattr(item, name))
    attempt(found, lambda: hasattr(item, name))
    attempt(found, lambda: getattr(item, name, "default"))
    attempt(found, lambda: getattr(type(item), name))
    return [*found, y * 2]


def called(x: torch.Tensor, item: Any, name: str) -> Any:
    y = x + 1
    found: list[Any] = [y]
    attempt(found, lambda: getattr(item, name)())
    attempt(found, lambda: getattr(type(item), name)(item))
    return [*found, y * 2]


def through(x: torch.Tensor, item: Any, name: str) -> Any:
    """By the descriptor's own methods."""
    y = x + 1
    found: list[Any] = [y]
    raw = type.__getattribute__(type(item), "__dict__").get(name)
    if raw is not None:
        attempt(found, lambda: raw.__get__(item, type(item)))
        attempt(found, lambda: raw.__get__(None, type(item)))
        attempt(found, lambda: raw.__get__(item))
        attempt(found, lambda: raw.__set__(item, 8))
        attempt(found, lambda: raw.__get__(item))
        attempt(found, lambda: raw.__delete__(item))
    return [*found, y * 2]


def written(x: torch.Tensor, item: Any, name: str) -> Any:
    y = x + 1
    found: list[Any] = [y]
    attempt(found, lambda: setattr(item, name, 8))
    attempt(found, lambda: getattr(item, name))
    attempt(found, lambda: delattr(item, name))
    attempt(found, lambda: getattr(item, name))
    attempt(found, lambda: delattr(item, name))
    attempt(found, lambda: setattr(item, name, [9]))
    return [*found, y * 2]


KEPT = ("class", "class of tensors", "enum", "function")  # what is written to them is there for all


@pytest.mark.parametrize("kind", OBJECTS)
def test_read(kind: str) -> None:
    compared(read, OBJECTS[kind], READ)


@pytest.mark.parametrize("kind", OBJECTS)
def test_called(kind: str) -> None:
    compared(called, OBJECTS[kind], CALLED)


@pytest.mark.parametrize("kind", OBJECTS)
def test_through_the_descriptor(kind: str) -> None:
    names = ("full", "empty", "more", "prop", "cached", "method", "part", "of_class", "static")
    compared(through, OBJECTS[kind], names)


@pytest.mark.parametrize("kind", [k for k in OBJECTS if k not in KEPT])
def test_written(kind: str) -> None:
    compared(written, OBJECTS[kind], ("full", "empty", "more", "prop", "cached", "method", "fixed", "new"))


# ---- slots of tensors in a graph


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def captured(function: Callable[..., Any]) -> Callable[..., Any]:
    return gramme.compile(function, backend="eager")  # type: ignore[no-any-return]


def test_a_slot_of_a_tensor_is_an_input() -> None:
    """What a slot holds is read at each call; a tensor in it stands in the graph."""

    def program(t: TensorSlots) -> Any:
        return torch.ones(2) * t.full + t.empty

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    t = tensor(TensorSlots)
    for full, empty in ((3, torch.ones(2)), (4, torch.zeros(2)), (4, torch.full((2,), 5.0))):
        t.full, t.empty = full, empty
        assert torch.equal(compiled(t), program(t))


def test_a_slot_of_a_tensor_is_written() -> None:
    def program(t: TensorSlots, x: torch.Tensor) -> Any:
        t.full = x + 1
        before = t.full * 2
        t.empty = [before]
        del t.full
        return before, hasattr(t, "full")

    for front in (plainly, captured):
        function = front(program)
        for _ in range(2):
            t = tensor(TensorSlots)
            before, has = function(t, torch.ones(2))
            assert not has
            assert t.empty[0] is before
            assert before.tolist() == [4, 4]
            with pytest.raises(AttributeError):
                t.full  # noqa: B018


def test_a_slot_of_a_tensor_made_in_the_capture() -> None:
    def program(x: torch.Tensor) -> Any:
        t = x.as_subclass(TensorSlots)
        t.full = 3
        return t, t.full + 1, t.prop

    for front in (plainly, captured):
        t, more, prop = front(program)(torch.ones(2))
        assert (type(t), t.full, more, prop) == (TensorSlots, 3, 4, 3)
