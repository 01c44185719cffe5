"""Objects of the program die where they die eagerly: finalizers and callbacks of weak references run in their order."""

import textwrap
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end runs finalizers late")

order: list[str] = []


class T:
    def __init__(self, name: str, other: Any = None) -> None:
        self.name, self.other = name, other

    def __del__(self) -> None:
        order.append(self.name)

    def __enter__(self) -> "T":
        return self

    def __exit__(self, *args: Any) -> None:
        order.append("x" + self.name)


class Watched:
    pass


def watched(name: str) -> tuple[Watched, Any]:
    made = Watched()
    return made, weakref.ref(made, lambda reference: order.append(name))


BODIES = {
    "locals": "a = T('a'); b = T('b')\nreturn x + 1",
    "locals in another order": "b = T('b'); a = T('a'); c = T('c')\nb = None\nreturn x + 1",
    "temporaries": "T('a'); T('b')\norder.append('-')\nreturn x + 1",
    "rebound": "a = T('a')\na = T('b')\norder.append('-')\nreturn x + 1",
    "deleted": "a = T('a')\ndel a\norder.append('-')\nreturn x + 1",
    "in a list": "l = [T('a'), T('b'), T('c')]\norder.append('-')\nreturn x + 1",
    "chained": "b = T('b'); a = T('a', b)\ndel b\norder.append('-')\ny = x + 1\ndel a\norder.append('-')\nreturn y",
    "of an inner function": "def g():\n    q = T('q'); r = T('r')\n    return x * 2\ny = g()\norder.append('-')\nreturn y",
    "in a loop": "for i in range(3):\n    t = T(str(i))\n    x = x + 1\norder.append('-')\nreturn x",
    "in a with": "with T('w') as w:\n    x = x + 1\norder.append('-')\nreturn x",
    "in a dict": "d = {'k': T('a')}\nd['k'] = T('b')\norder.append('-')\nd.clear()\norder.append('-')\nreturn x + 1",
    "taken from a list": "l = [T('a'), T('b')]\nl.pop(0)\norder.append('-')\nl[0] = 1\norder.append('-')\nreturn x + 1",
    "returned": "a = T('a'); b = T('b')\nreturn x + 1, a",
    "comprehension": "[T(str(i)) for i in range(2)]\norder.append('-')\ny = x + 1\nreturn y",
    "weakly watched": "a, r = watched('a')\ny = x + 1\ndel a\norder.append('-')\nreturn y",
    "finalize": "a = Watched()\nweakref.finalize(a, order.append, 'f')\ny = x + 1\ndel a\norder.append('-')\nreturn y",
}


def trace(call: Callable[..., Any]) -> tuple[list[str], list[str]]:
    order.clear()
    result = call(torch.ones(1))
    left = list(order)
    del result
    return left, list(order)


@pytest.mark.parametrize("name", BODIES)
def test_order(name: str) -> None:
    names = dict(globals())
    exec("def f(x):\n" + textwrap.indent(BODIES[name], "    "), names)
    eager = trace(names["f"])
    compiled = Compiled(names["f"])
    assert [trace(compiled) for _ in range(3)] == [eager] * 3


def test_finalizer_that_the_class_gets_later() -> None:
    class Plain:
        pass

    def f(x: torch.Tensor) -> torch.Tensor:
        made = Plain()
        y = x + 1
        del made
        order.append("-")
        return y

    compiled = Compiled(f)
    assert trace(compiled) == (["-"], ["-"])
    Plain.__del__ = lambda self: order.append("d")  # type: ignore[attr-defined]
    assert trace(compiled) == trace(f) == (["d", "-"], ["d", "-"])


# ---- held by what dies


class Holder:
    held: Any = None


def pieces(x: torch.Tensor) -> Any:
    try:
        yield x
        yield x + 1
    finally:
        order.append("closed")


def by_an_attribute(x: torch.Tensor) -> Any:
    holder = Holder()
    holder.held = T("held")
    del holder
    return x + len(order)


def by_nothing(x: torch.Tensor) -> Any:
    y = x + len(T("abc").name)
    return y + len(order)


def by_an_argument(x: torch.Tensor) -> Any:
    def used(made: T) -> torch.Tensor:
        return x + len(made.name)

    y = used(T("abc"))
    return y + len(order)


def by_a_traceback(x: torch.Tensor) -> Any:
    def fails() -> None:
        made = T("in a frame")
        raise ValueError(len(made.name))

    try:
        fails()
    except ValueError:
        pass
    return x + len(order)


def by_an_exception(x: torch.Tensor) -> Any:
    try:
        raise ValueError(T("argument"))
    except ValueError:
        order.append("handled")
    return x + len(order)


def by_a_zip(x: torch.Tensor) -> Any:
    for _, _ in zip(pieces(x), [1, 2], strict=False):
        break
    return x + len(order)


def by_an_enumerate(x: torch.Tensor) -> Any:
    numbered = enumerate(pieces(x))
    next(numbered)
    numbered = None
    return x + len(order)


def by_an_attribute_stored_over(x: torch.Tensor) -> Any:
    holder = Holder()
    holder.held = T("first")
    holder.held = T("second")
    order.append("stored")
    del holder.held
    return x + len(order)


def by_a_list_that_is_cleared(x: torch.Tensor) -> Any:
    print(end="")
    held = [pieces(x)]
    next(held[0])
    order.append("started")
    held.clear()
    return x + len(order)


def by_a_starred_name(x: torch.Tensor) -> Any:
    first, *others = [T("a"), T("b"), T("c")]
    others = None
    order.append("dropped")
    return x + len(order) + len(first.name)


HELD = [
    by_an_attribute,
    by_nothing,
    by_an_argument,
    by_a_traceback,
    by_an_exception,
    by_a_zip,
    by_an_enumerate,
    by_an_attribute_stored_over,
    by_a_list_that_is_cleared,
    by_a_starred_name,
]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", HELD, ids=lambda each: each.__name__)
def test_held_by_what_dies(function: Any, backend: str) -> None:
    def outcome(call: Any) -> Any:
        order.clear()
        result = call(torch.zeros(1)).item()
        return result, list(order)

    import gramme

    expected = outcome(function)
    compiled = gramme.compile(function, backend=backend)
    assert [outcome(compiled) for _ in range(3)] == [expected] * 3
