"""The type Entry: binding of arguments, attributes, methods, lifetime."""

import copy
import functools
import gc
import inspect
import itertools
import pickle
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from frames.support import native, stepping


def positional(a, b):
    return a, b


def defaults(a, b=2, c=3):
    return a, b, c


def positional_only(a, b=2, /, c=3):
    return a, b, c


def keyword_only(a, *, b, c=3):
    return a, b, c


def rest(a, *more):
    return a, more


def extra(a, **more):
    return a, more


def everything(a, b=2, /, c=3, *more, d, e=5, **others):
    return a, b, c, d, e, more, others


def with_cells(a, b=2, *more, c=3, **others):
    return (lambda: (a, b, c, more, others))()


def nothing():
    return ()


# each returns its parameters in the order of co_varnames
SIGNATURES = [positional, defaults, positional_only, keyword_only, rest, extra, everything, with_cells, nothing]
ARGS = [tuple(range(10, 10 + n)) for n in range(6)]
NAMES = ["a", "b", "c", "d", "e", "z", "more"]
KWARGS = [
    {name: 100 + ord(name[0]) for name in names}
    for n in range(4)
    for names in itertools.combinations(NAMES, n)
]  # fmt: skip


def outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", SIGNATURES)
def test_binding_in_a_frame(function: Any) -> None:
    entry = stepping(function)
    for args, kwargs in itertools.product(ARGS, KWARGS):
        assert outcome(entry, args, kwargs) == outcome(function, args, kwargs)


@pytest.mark.parametrize("function", SIGNATURES)
def test_binding_without_a_frame(function: Any) -> None:
    """What a frameless call binds is what a frame would hold, and it refuses what CPython refuses."""
    entry = native.returning_entry(function)
    for args, kwargs in itertools.product(ARGS, KWARGS):
        expected = outcome(function, args, kwargs)
        for _ in range(2):
            assert outcome(entry, args, kwargs) == expected
    assert native.counters(entry)["frameless"] > 0


def test_binding_follows_changed_defaults() -> None:
    def f(a, b=1, *, c=2):
        return a, b, c

    entry = native.returning_entry(f)
    assert entry(0) == entry(0) == (0, 1, 2)
    f.__defaults__ = (5, 6)
    assert entry() == entry() == (5, 6, 2)
    f.__kwdefaults__["c"] = 7
    assert entry(1) == (1, 6, 7)
    del f.__kwdefaults__["c"]
    assert outcome(entry, (1,), {}) == outcome(f, (1,), {})
    f.__defaults__ = None
    f.__kwdefaults__ = None
    assert outcome(entry, (1,), {}) == outcome(f, (1,), {})
    assert entry(1, 2, c=3) == (1, 2, 3)


def test_odd_keywords() -> None:
    class Name(str):
        pass

    entry, plain = native.returning_entry(everything), everything
    assert entry(1, d=2) == entry(1, d=2)
    for keyword in ("".join(["", "d"]), Name("d"), Name("q"), 3):
        assert outcome(entry, (1,), {keyword: 2, "d": 1}) == outcome(plain, (1,), {keyword: 2, "d": 1})


def test_changed_code() -> None:
    def f(a):
        return a

    def g(a, b=2):
        return a, b

    entry = native.returning_entry(f)
    assert entry(1) == entry(1) == (1,)
    f.__code__ = g.__code__
    f.__defaults__ = (3,)
    assert entry(1) == entry(1) == (1, 3)


def test_looks_like_the_function() -> None:
    def f(a: int, b: str = "x") -> None:
        """Docs."""

    f.mark = 1  # type: ignore[attr-defined]
    entry = stepping(f)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "mark"):
        assert getattr(entry, name) == getattr(f, name)
    assert entry.__wrapped__ is f
    assert inspect.signature(entry) == inspect.signature(f)
    entry.other = 2
    assert entry.__dict__["other"] == 2
    assert not hasattr(f, "other")
    assert callable(entry)
    assert f.__qualname__ in repr(entry)
    with pytest.raises(TypeError, match="cannot create"):
        type(entry)()


def test_binds_as_a_method() -> None:
    class C:
        @stepping
        def method(self, x=1):
            return self, x

        static = staticmethod(stepping(lambda x: x))
        cls = classmethod(stepping(lambda cls, x: (cls, x)))

    c = C()
    assert c.method() == (c, 1)
    assert c.method(x=2) == (c, 2)
    assert C.method(c, 3) == (c, 3)
    assert C.method is C.__dict__["method"]
    assert isinstance(c.method, types.MethodType)
    assert c.method.__self__ is c
    assert c.static(4) == 4
    assert c.cls(5) == (C, 5)
    assert functools.partial(c.method, 6)() == (c, 6)
    assert C.method.__get__(None, C) is C.method


module_level = stepping(positional)
positional_entry = module_level


def test_copies_and_pickles_by_name() -> None:
    assert copy.copy(module_level) is module_level
    assert copy.deepcopy({"f": module_level})["f"] is module_level
    saved, globals()["positional"] = positional, module_level
    try:
        assert pickle.loads(pickle.dumps(module_level)) is module_level
    finally:
        globals()["positional"] = saved


def test_is_collected() -> None:
    def make() -> weakref.ref[Any]:
        def f():
            return f, holder

        holder = [1]
        entry = stepping(f, visit=lambda *stack: (entry, ())[1])
        holder.append(entry)
        entry()
        return weakref.ref(entry)

    references = [make() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_freed_without_the_collector() -> None:
    gc.disable()
    try:
        entry = stepping(positional)
        entry(1, 2)
        gone = weakref.ref(entry)
        del entry
        assert gone() is None
    finally:
        gc.enable()


def test_generators_and_coroutines_are_what_the_function_makes() -> None:
    def generator():
        yield 1

    async def coroutine():
        return 2

    async def asynchronous():
        yield 3

    entry = stepping(generator)
    made = entry()
    assert type(made) is types.GeneratorType
    assert list(made) == [1]
    assert native.counters(entry)["plain"] == 0
    running = stepping(coroutine)()
    assert type(running) is types.CoroutineType
    with pytest.raises(StopIteration) as stop:
        running.send(None)
    assert stop.value.value == 2
    entry = stepping(asynchronous)
    assert type(entry()) is types.AsyncGeneratorType
    assert native.counters(entry)["plain"] == 1
