"""What Python lets a program change between two calls: names, registrations, classes, functions. Each state is called
twice, eagerly and captured, and every result compared."""

import abc
import collections.abc
import enum
import functools
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from e2e.describe import describe
from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end does not guard all of it")

Change = Callable[[], object]
Setting = tuple[Callable[..., Any], tuple[Any, ...], list[Change]]
"""A function, its arguments, what changes between calls."""

SETTINGS: list[Callable[[], Setting]] = []


def setting(make: Callable[[], Setting]) -> Callable[[], Setting]:
    SETTINGS.append(make)
    return make


def outcomes(make: Callable[[], Setting], wrap: Callable[[Any], Any]) -> list[str]:
    function, args, changes = make()
    call = wrap(function)
    found = []
    for change in [lambda: None, *changes]:
        change()
        for _ in range(2):
            try:
                found.append(describe(result=call(*args)))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("make", SETTINGS, ids=lambda make: make.__name__)
def test_changed_between_calls(make: Callable[[], Setting]) -> None:
    assert outcomes(make, Compiled) == outcomes(make, lambda function: function)


def x() -> torch.Tensor:
    return torch.ones(2)


class Base:
    pass


# Registered classes.


def ask(v: Any, x: torch.Tensor, cls: Any) -> Any:
    return x + 1 if isinstance(v, cls) else x


def registered(register: Callable[[type, type], object], ask_about: Callable[[Any, Any], Any]) -> Setting:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Plain:
        pass

    v = Plain()
    return (lambda v, x: x + 1 if ask_about(v, Abstract) else x), (v, x()), [lambda: register(Abstract, Plain)]


@setting
def an_instance() -> Setting:
    return registered(lambda a, p: a.register(p), isinstance)  # type: ignore[attr-defined]


@setting
def a_subclass() -> Setting:
    return registered(lambda a, p: a.register(p), lambda v, a: issubclass(type(v), a))  # type: ignore[attr-defined]


@setting
def one_of_a_union() -> Setting:
    return registered(lambda a, p: a.register(p), lambda v, a: isinstance(v, int | a))  # type: ignore[attr-defined]


@setting
def with_a_class_below() -> Setting:
    def register(abstract: Any, plain: Any) -> None:
        abstract.below = type("Below", (abstract,), {})
        abstract.below.register(plain)

    return registered(register, isinstance)


@setting
def another_class() -> Setting:
    return registered(lambda a, p: a.register(type("Other", (), {})), isinstance)  # type: ignore[attr-defined]


@setting
def two_abstract_classes() -> Setting:
    class One(abc.ABC):  # noqa: B024
        pass

    class Two(abc.ABC):  # noqa: B024
        pass

    class Plain:
        pass

    def f(v: Any, x: torch.Tensor) -> Any:
        return x, isinstance(v, One), isinstance(v, Two), issubclass(Base, One), issubclass(Base, Two)

    return f, (Plain(), x()), [lambda: Two.register(Base), lambda: One.register(Plain), lambda: One.register(Base)]


@setting
def a_virtual_sequence() -> Setting:
    class Plain:
        pass

    changes: list[Change] = [lambda: collections.abc.Sequence.register(Plain)]
    return (lambda v, x: x + isinstance(v, collections.abc.Sequence)), (Plain(), x()), changes


@setting
def a_class_made_in_the_call() -> Setting:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    def f(x: torch.Tensor) -> Any:
        class Made(Base):
            pass

        return x + isinstance(Made(), Abstract)

    return f, (x(),), [lambda: Abstract.register(Base)]


@setting
def a_protocol() -> Setting:
    @typing.runtime_checkable
    class Runs(typing.Protocol):
        def run(self) -> None: ...

    class Plain:
        pass

    def add() -> None:
        Plain.run = lambda self: None  # type: ignore[attr-defined]

    return (lambda v, x: ask(v, x, Runs)), (Plain(), x()), [add]


@setting
def a_metaclass_that_decides() -> Setting:
    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return getattr(instance, "ok", False)

    class Asked(metaclass=Meta):
        pass

    v = Base()

    def turn() -> None:
        Meta.__instancecheck__ = lambda cls, instance: False  # type: ignore[method-assign, assignment]

    return (lambda v, x: ask(v, x, Asked)), (v, x()), [lambda: setattr(v, "ok", True), turn]


@setting
def an_object_that_tells_its_class() -> Setting:
    class Posing:
        __class__ = property(lambda self: int)  # type: ignore[assignment]

    return (lambda v, x: (ask(v, x, int), v.__class__ is int, type(v) is Posing)), (Posing(), x()), []


@setting
def an_object_that_finds_its_attributes() -> Setting:
    class Finding:
        def __getattribute__(self, name: str) -> Any:
            return str if name == "__class__" else object.__getattribute__(self, name)

    return (lambda v, x: (isinstance(v, str), isinstance(v, int), isinstance(v, Finding), x)), (Finding(), x()), []


@setting
def an_abstract_class_completed() -> Setting:
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def run(self) -> None: ...

    def f(x: torch.Tensor) -> Any:
        try:
            Abstract()  # type: ignore[abstract]
        except TypeError as error:
            return x, str(error)
        return x

    def rename() -> None:
        Abstract.__name__ = "Renamed"

    def complete() -> None:
        Abstract.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]

    return f, (x(),), [rename, complete]


# Names.


def renamed(read: Callable[[Any], Any]) -> Setting:
    class Named:
        """Text."""

        def method(self) -> None:
            """Text."""

    def function(a: Any) -> None:
        """Text."""

    def changes(of: Any) -> list[Change]:
        return [
            functools.partial(setattr, of, name, f"other {name}")
            for name in ("__name__", "__qualname__", "__module__", "__doc__")
        ]

    things = types.SimpleNamespace(cls=Named, function=function, v=Named())
    made = [*changes(Named), *changes(function), *changes(Named.method)]
    return (lambda things, x: (x, read(things))), (things, x()), made


@setting
def names_of_a_class() -> Setting:
    return renamed(lambda t: (type(t.v).__name__, t.cls.__qualname__, t.cls.__module__, t.cls.__doc__))


@setting
def names_of_a_function() -> Setting:
    return renamed(lambda t: (t.function.__name__, t.function.__qualname__, t.function.__module__, t.function.__doc__))


@setting
def names_of_a_method() -> Setting:
    return renamed(lambda t: (t.v.method.__name__, t.v.method.__doc__, t.cls.method.__qualname__))


@setting
def text_of_a_class() -> Setting:
    return renamed(lambda t: (repr(t.cls), str(t.cls), f"{t.cls}"))


def message(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@setting
def messages() -> Setting:
    def f(t: Any) -> Any:
        calls: list[Callable[[], Any]] = [
            lambda: t.v + 1,
            lambda: t.v.missing,
            lambda: t.cls.missing,
            lambda: t.v[0],
            lambda: len(t.v),
            lambda: iter(t.v),
            lambda: t.v < 1,
            lambda: t.v(),
            lambda: t.function(),
            lambda: t.function(1, 2),
            lambda: t.v.method(1),
            lambda: t.cls(1),
            lambda: [1][t.v],
            lambda: int(t.v),
        ]
        return [message(call) for call in calls]

    return renamed(f)


@setting
def text_of_an_exception() -> Setting:
    class Failed(Exception):
        pass

    def rename() -> None:
        Failed.__name__ = "Renamed"

    return (lambda x: (x, repr(Failed(1)), repr(Failed()))), (x(),), [rename]


# Classes and functions.


def above(change: Callable[[Any, Any], object], read: Callable[[Any], Any]) -> Setting:
    class Top:
        k: Any = "top"

        def method(self) -> Any:
            return 1

    class Middle(Top):
        pass

    class Bottom(Middle):
        def of_instance(self) -> Any:
            return super().k

        @classmethod
        def of_class(cls) -> Any:
            return super().k

        def method(self) -> Any:
            return super().method()

    return (lambda v, x: (x, read(v))), (Bottom(), x()), [lambda: change(Top, Middle)]


@setting
def constant_above() -> Setting:
    return above(lambda top, middle: setattr(top, "k", "other"), lambda v: v.of_instance())


@setting
def constant_above_a_class_method() -> Setting:
    return above(lambda top, middle: setattr(top, "k", (1, 2)), lambda v: v.of_class())


@setting
def constant_put_in_between() -> Setting:
    return above(lambda top, middle: setattr(middle, "k", "middle"), lambda v: v.of_instance())


@setting
def method_put_in_between() -> Setting:
    return above(lambda top, middle: setattr(middle, "method", lambda self: 2), lambda v: v.method())


@setting
def constant_above_removed() -> Setting:
    return above(lambda top, middle: delattr(top, "k"), lambda v: message(v.of_instance))


@setting
def bases() -> Setting:
    class One:
        k = 1

    class Two:
        k = 2

    class Below(One):
        pass

    def change() -> None:
        Below.__bases__ = (Two,)

    def f(v: Any, x: torch.Tensor) -> Any:
        return x + v.k, isinstance(v, One), issubclass(Below, Two), [c.__name__ for c in Below.__mro__]

    return f, (Below(), x()), [change]


@setting
def class_of_an_object() -> Setting:
    class One:
        k = 1

    class Two:
        k = 2

    v = One()
    return (lambda v, x: x + v.k), (v, x()), [lambda: setattr(v, "__class__", Two)]


@setting
def dict_of_an_object() -> Setting:
    v = types.SimpleNamespace()
    plain = Base()
    plain.k = 1  # type: ignore[attr-defined]
    return (lambda v, p, x: x + p.k), (v, plain, x()), [lambda: setattr(plain, "__dict__", {"k": 2})]


@setting
def parts_of_a_function() -> Setting:
    def h(x: Any, n: int = 1, *, m: int = 2) -> Any:
        return x * n + m

    def code() -> None:
        h.__code__ = (lambda x, n=1, *, m=2: x - n).__code__

    changes: list[Change] = [
        lambda: setattr(h, "__defaults__", (5,)),
        lambda: setattr(h, "__kwdefaults__", {"m": 7}),
        lambda: h.__kwdefaults__.update(m=9),
        code,
    ]
    return (lambda x: h(x)), (x(),), changes


@setting
def annotations() -> Setting:
    def h(a: int) -> None: ...

    class Annotated:
        z: int = 1

    def f(x: torch.Tensor) -> Any:
        return x, h.__annotations__["a"] is int, list(Annotated.__annotations__)

    def swap() -> None:
        Annotated.__annotations__ = {"q": float}

    return f, (x(),), [lambda: h.__annotations__.update(a=str), swap]


@setting
def a_module() -> Setting:
    m = types.ModuleType("m")
    m.k = 1  # type: ignore[attr-defined]
    changes: list[Change] = [
        lambda: setattr(m, "k", 2),
        lambda: setattr(m, "__getattr__", lambda name: 5),
        lambda: delattr(m, "k"),
        lambda: setattr(m, "__name__", "n"),
    ]
    return (lambda x: (x + getattr(m, "k", 0), m.__name__)), (x(),), changes


@setting
def an_enum() -> Setting:
    class Choice(enum.Enum):
        A = 1
        B = 2

    def f(x: torch.Tensor) -> Any:
        return x + Choice.A.value, Choice.A.name, getattr(Choice, "tag", 0), Choice["A"] is Choice.A, len(Choice)

    return f, (x(),), [lambda: setattr(Choice.A, "_value_", 5), lambda: setattr(Choice, "tag", "z")]


@setting
def a_slot() -> Setting:
    class Slotted:
        __slots__ = ("k",)

        def __init__(self) -> None:
            self.k: Any = 1

    return (lambda v, x: x + v.k), (Slotted(), x()), [lambda: setattr(Slotted, "k", property(lambda self: 9))]


@setting
def a_cached_property() -> Setting:
    class Cached:
        n = 0

        @functools.cached_property
        def p(self) -> int:
            self.n += 1
            return self.n

    v = Cached()
    return (lambda v, x: x + v.p), (v, x()), [lambda: delattr(v, "p"), lambda: v.__dict__.update(p=50)]


@setting
def hooks_of_attributes() -> Setting:
    class Plain:
        pass

    changes: list[Change] = [
        lambda: setattr(Plain, "__getattr__", lambda self, name: 4),
        lambda: setattr(Plain, "__getattribute__", lambda self, name: 8),
    ]
    return (lambda v, x: x + getattr(v, "q", 1)), (Plain(), x()), changes


@setting
def hooks_of_classes() -> Setting:
    class Parent:
        z = 0

        def __init_subclass__(cls) -> None:
            cls.z = 3

    class Field:
        name = ""

        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = name

    def f(x: torch.Tensor) -> Any:
        class Made(Parent):
            q = Field()

        return x + Made.z, Made.q.name

    changes: list[Change] = [
        lambda: setattr(Parent, "__init_subclass__", classmethod(lambda cls: setattr(cls, "z", 40))),
        lambda: setattr(Field, "__set_name__", lambda self, owner, name: setattr(self, "name", "other")),
    ]
    return f, (x(),), changes


# Special methods that are None.


@dataclass
class Forbidding:
    pass


for _name in "bool len iter contains eq add getitem call reversed index lt neg".split():
    setattr(Forbidding, f"__{_name}__", None)

FORBIDDEN: list[Callable[[Any], Any]] = [
    bool,
    len,
    iter,
    lambda v: 1 in v,
    lambda v: v == 1,
    lambda v: v != 1,
    lambda v: v + 1,
    lambda v: 1 + v,
    lambda v: v[0],
    lambda v: v(),
    reversed,
    lambda v: [1][v],
    lambda v: v < 1,
    lambda v: -v,
    lambda v: not v,
    lambda v: v and 3,
    lambda v: any([v]),
    lambda v: 1 if v else 2,
    list,
]


@pytest.mark.parametrize("index", range(len(FORBIDDEN)))
def test_special_method_that_is_none(index: int) -> None:
    call, v = FORBIDDEN[index], Forbidding()
    make: Callable[[], Setting] = lambda: ((lambda x: (x + 1, message(lambda: call(v)))), (x(),), [])
    assert outcomes(make, Compiled) == outcomes(make, lambda function: function)


# Methods of dicts that take a default.

DEFAULTS: list[Callable[[Any], Any]] = [
    lambda d: d.pop("a", 3),
    lambda d: d.pop("z", 3),
    lambda d: d.pop("z"),
    lambda d: d.pop("z", default=3),
    lambda d: d.pop("a", default=3),
    lambda d: d.setdefault("z", default=3),
    lambda d: d.setdefault("z", []),
    lambda d: d.pop([], 1),
    lambda d: d.get("z", 4),
    lambda d: d.popitem(),
]


class Missing(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 5


class User(collections.UserDict[str, int]):
    def __getitem__(self, key: str) -> int:
        return 9


@pytest.mark.parametrize("index", range(len(DEFAULTS)))
@pytest.mark.parametrize("cls", [dict, collections.OrderedDict, Missing, collections.UserDict, User])
def test_default_of_a_dict(cls: Any, index: int) -> None:
    call = DEFAULTS[index]

    def f(x: torch.Tensor, d: Any) -> Any:
        return x + 1, message(lambda: call(d)), list(d)

    eager, compiled = f, Compiled(f)
    for _ in range(2):
        assert describe(result=compiled(x(), cls(a=1))) == describe(result=eager(x(), cls(a=1)))
