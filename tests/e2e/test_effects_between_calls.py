"""What changes between two calls is seen by the next: attributes and methods of classes, functions, modules, cells."""

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e.describe import describe
from e2e.front import Compiled

Step = Callable[[], object]
World = tuple[Callable[..., Any], Any, list[Step]]
MAKERS: list[Callable[[], World]] = []


def world(make: Callable[[], World]) -> Callable[[], World]:
    """A function, what to compare beside its results, and what is done between its calls."""
    MAKERS.append(make)
    return make


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_seen_by_the_next_call(make: Callable[[], World]) -> None:
    (eager, left, eager_steps), (function, right, steps) = make(), make()
    compiled, v = Compiled(function), torch.ones(3)
    for i in range(len(steps) + 1):
        for repeat in range(2):
            expected, result = eager(v), compiled(v)
            assert describe(result=result, state=right) == describe(result=expected, state=left), f"{i}, {repeat}"
        if i < len(steps):
            eager_steps[i]()
            steps[i]()


def test_nothing_changed_is_a_hit() -> None:
    for make in MAKERS[:3]:
        function, _, _ = make()
        compiled, v = Compiled(function), torch.ones(3)
        compiled(v)
        captures = compiled.captures
        compiled(v)
        assert compiled.captures == captures


# A class attribute or method replaced between calls.


@world
def class_attribute() -> World:
    class Config:
        scale: Any = 2

    class Child(Config):
        pass

    def f(v: torch.Tensor) -> Any:
        return v * Child.scale, Child().scale

    steps: list[Step] = [
        lambda: setattr(Config, "scale", 3),
        lambda: setattr(Child, "scale", torch.ones(3) * 5),
        lambda: setattr(Config, "scale", 7),
        lambda: delattr(Child, "scale"),
        lambda: setattr(Child, "scale", 2.5),
    ]
    return f, None, steps


@world
def method_of_a_class() -> World:
    class Base:
        def run(self, v: torch.Tensor) -> Any:
            return v + 1

    class Child(Base):
        pass

    child = Child()

    def f(v: torch.Tensor) -> Any:
        return child.run(v)

    return (
        f,
        None,
        [
            lambda: setattr(Base, "run", lambda self, v: v * 2),
            lambda: setattr(Child, "run", lambda self, v: v - 3),
            lambda: setattr(Base, "run", lambda self, v: v * 0),
            lambda: delattr(Child, "run"),
            lambda: setattr(Child, "run", staticmethod(lambda v: v + 40)),
            lambda: setattr(Child, "run", classmethod(lambda cls, v: (cls.__name__, v))),
            lambda: setattr(child, "run", lambda v: v * 9),
        ],
    )


@world
def special_methods() -> World:
    class Number:
        def __add__(self, other: Any) -> Any:
            return other + 1

        def __len__(self) -> int:
            return 2

    number = Number()

    def f(v: torch.Tensor) -> Any:
        return number + v, len(number), bool(number)

    return (
        f,
        None,
        [
            lambda: setattr(Number, "__add__", lambda self, other: other * 2),
            lambda: setattr(Number, "__len__", lambda self: 0),
            lambda: setattr(Number, "__bool__", lambda self: True),
        ],
    )


@world
def hooks_of_attributes() -> World:
    class Thing:
        x = 1

    thing = Thing()

    def f(v: torch.Tensor) -> Any:
        thing.last = v  # type: ignore[attr-defined]
        return v * thing.x, getattr(thing, "none", None)

    def logged(self: Any, name: str, value: Any) -> None:
        self.__dict__[name] = "logged", value

    return (
        f,
        thing,
        [
            lambda: setattr(Thing, "__getattr__", lambda self, name: name),
            lambda: setattr(Thing, "__setattr__", logged),
            lambda: setattr(Thing, "x", property(lambda self: 6)),
            lambda: delattr(Thing, "__setattr__"),
        ],
    )


@world
def class_level_list() -> World:
    class Log:
        items: list[Any] = []  # noqa: RUF012

    def f(v: torch.Tensor) -> Any:
        Log.items.append(len(Log.items))
        return v + len(Log.items)

    return f, Log, [lambda: setattr(Log, "items", [9]), lambda: Log.items.clear(), lambda: Log.items.extend("ab")]


@world
def class_of_an_object() -> World:
    class A:
        def run(self, v: torch.Tensor) -> Any:
            return v + 1

    class B(A):
        def run(self, v: torch.Tensor) -> Any:
            return super().run(v) * 10

    thing = A()

    def f(v: torch.Tensor) -> Any:
        return thing.run(v), type(thing).__name__

    return f, None, [lambda: setattr(thing, "__class__", B), lambda: setattr(thing, "__class__", A)]


@world
def bases_of_a_class() -> World:
    class A:
        level = 1

    class B:
        level = 2

    class C(A):
        pass

    def f(v: torch.Tensor) -> Any:
        return v * C().level

    return f, None, [lambda: setattr(C, "__bases__", (B,)), lambda: setattr(C, "__bases__", (B, A))]


# Functions, modules, cells.


@world
def attributes_and_defaults_of_a_function() -> World:
    def g(v: torch.Tensor, k: int = 2, *, m: int = 1) -> Any:
        return v * k + m

    def f(v: torch.Tensor) -> Any:
        return g(v), getattr(g, "note", None)

    return (
        f,
        g,
        [
            lambda: setattr(g, "note", "a"),
            lambda: setattr(g, "__defaults__", (5,)),
            lambda: setattr(g, "__kwdefaults__", {"m": 9}),
            lambda: delattr(g, "note"),
            lambda: setattr(g, "__code__", (lambda v, k=0, *, m=0: v - k).__code__),
        ],
    )


@world
def names_of_a_module() -> World:
    module: Any = types.ModuleType("settings")
    module.level = 1

    def f(v: torch.Tensor) -> Any:
        return v * getattr(module, "level", 0), hasattr(module, "late")

    return (
        f,
        vars(module).get("level"),
        [
            lambda: setattr(module, "level", 2),
            lambda: setattr(module, "late", 1),
            lambda: delattr(module, "level"),
            lambda: setattr(module, "__getattr__", lambda name: 8),
        ],
    )


@world
def closures_that_share_a_cell() -> World:
    content: Any = 1

    def set_content(v: Any) -> None:
        nonlocal content
        content = v

    def f(v: torch.Tensor) -> Any:
        nonlocal content
        old = content
        content = v * 2 if isinstance(content, int) else 3
        return v, old

    return f, lambda: content, [lambda: set_content("text"), lambda: set_content(5), lambda: set_content(None)]
