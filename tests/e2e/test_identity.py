"""`is`, `id()` and what is found by them are what they are in eager: containers among the constants, results that
CPython gives back themselves, singletons, arguments."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e import front

X = torch.arange(2.0)
TEXT = "hello world, not interned"
BIG = 10**6
PAIR = (1, "a")
NAN = float("nan")


def two_uses_of_a_constant(x):
    t = (1, 2.5)
    u = (1, 2.5)
    return t is u, len({id(t), id(u)})


def a_constant_in_a_loop(x):
    found = []
    for _ in range(2):
        found.append((3, "q"))
    return found[0] is found[1]


def a_constant_of_a_function_inside(x):
    def inner():
        return (7, 8)

    t = (7, 8)
    return inner() is inner(), inner() is t


def a_constant_in_a_constant(x):
    t = ((1, 2), 3)
    u = (1, 2)
    return t[0] is u


def a_constant_default(x):
    def inner(a=(1, 2)):
        return a

    t = (1, 2)
    return inner() is inner(), inner() is t, inner.__defaults__[0] is t


def a_constant_of_a_class(x):
    class Local:
        names = ("a", "b")

        def of_it(self):
            return ("a", "b")

    return Local.names is Local().names, Local.names is Local().of_it()


def a_frozenset_constant(x):
    found = []
    for y in (1, 5):
        found.append(y in {1, 2, 3})
    return found


def empty_tuples(x):
    t = ()
    u = ()
    return t is u, tuple([]) is t, (1,)[1:] is t, tuple() is tuple(()), list() is list()  # noqa: C408


def results_that_are_the_tuple(x):
    t = (1, 2)
    return t[:] is t, tuple(t) is t, t * 1 is t, t + () is t, () + t is t, t[0:2] is t, t[::1] is t, 1 * t is t


def results_that_are_the_argument(x, t):
    return t[:] is t, tuple(t) is t, t * 1 is t, t + () is t, () + t is t, t * 2 is t, t + (1,) is t, t[:1] is t


def results_that_are_the_size(x):
    s = x.shape
    return s[:] is s, s * 1 is s, s + () is s, () + s is s, type(s + ()), type(() + s), type(s * 1)


def added_in_place(x, t):
    u = t
    u += ()
    v = ()
    v += t
    w = t
    w *= 1
    return u is t, v is t, w is t


def an_argument_and_a_constant(x, t):
    u = (1, "a")
    return t is u, t == u, id(t) == id(u)


def a_frozenset(x):
    f = frozenset([1, 2])
    return frozenset(f) is f, f.copy() is f


def texts(x, s):
    return s[:] is s, str(s) is s, s + "" is s, s.strip() is s, s.replace("~", "-") is s, "".join([s]) is s, s * 1 is s


def a_text_and_a_constant(x, s):
    t = "hello world, not interned"
    return s is t


def two_arguments(x, a, b):
    return a is b, id(a) == id(b), len({id(each) for each in (a, b, a)})


def numbers(x, n):
    return int(n) is n, +n is n, n + 0 is n, abs(n) is n, n * 1 is n


def floats(x, n):
    return float(n) is n, +n is n, max(n, 1.0) is n, min(n, n) is n


def found_by_identity(x, v):
    return v in [v], [v] == [v], (v,) == (v,), [v].count(v), [v].index(v), {v: 1} == {v: 1}, v in {v}, v == v  # noqa: PLR0124


def a_nan_inside(x):
    v = float("nan")
    return v in [v], [v] == [v], v in (v,), {v: 1}.get(v), [v].count(v)


def items_of_a_tuple(x, t):
    return t[0] is t[0], list(t)[1] is t[1], (*t,)[1] is t[1], (*t,) is t, tuple(list(t)) is t


def values_of_a_dict(x, d):
    return d["k"] is d["k"], dict(d)["k"] is d["k"], list(d.values())[0] is d["k"], {**d}["k"] is d["k"]  # noqa: RUF015


def made_tuples(x, n):
    a = (n, 1)
    b = (n, 1)
    return a is b, a == b, len({id(a), id(b)})


def copies(x, t):
    u = (3, 4)
    return copy.copy(t) is t, copy.deepcopy(t) is t, copy.copy(u) is u


def devices(x):
    d = x.device
    return d is d, x.device is x.device, torch.device("cpu") is torch.device("cpu"), x.dtype is x.dtype  # noqa: PLR0124


def sizes_of_a_tensor(x):
    return x.shape is x.shape, x.size() is x.size(), x.stride() is x.stride()


def small_numbers(x, n):
    m = 5
    return n is m, (n + 0) is m, int("5") is m, len("abcde") is m


def large_numbers(x):
    a = 1000000
    b = 1000000
    return a is b, a * 1 is a, int(a) is a, BIG is BIG  # noqa: PLR0124


def a_default_that_marks_absence(x, s=()):
    t = ()
    return s is t, s == t


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (two_uses_of_a_constant, ()),
    (a_constant_in_a_loop, ()),
    (a_constant_of_a_function_inside, ()),
    (a_constant_in_a_constant, ()),
    (a_constant_default, ()),
    (a_constant_of_a_class, ()),
    (a_frozenset_constant, ()),
    (empty_tuples, ()),
    (results_that_are_the_tuple, ()),
    (results_that_are_the_argument, (PAIR,)),
    (results_that_are_the_argument, ((),)),
    (results_that_are_the_size, ()),
    (added_in_place, (PAIR,)),
    (added_in_place, ([1, 2],)),
    (an_argument_and_a_constant, (PAIR,)),
    (a_frozenset, ()),
    (texts, (TEXT,)),
    (a_text_and_a_constant, (TEXT,)),
    (two_arguments, (PAIR, PAIR)),
    (two_arguments, (PAIR, tuple(list(PAIR)))),
    (two_arguments, (X, X)),
    (numbers, (123456,)),
    (floats, (2.5,)),
    (found_by_identity, (123456,)),
    (found_by_identity, (NAN,)),
    (a_nan_inside, ()),
    (items_of_a_tuple, (PAIR,)),
    (items_of_a_tuple, ((123456, TEXT),)),
    (values_of_a_dict, ({"k": TEXT},)),
    (values_of_a_dict, ({"k": PAIR},)),
    (made_tuples, (123456,)),
    (copies, (PAIR,)),
    (devices, ()),
    (sizes_of_a_tensor, ()),
    (small_numbers, (5,)),
    (large_numbers, ()),
    (a_default_that_marks_absence, ()),
    (a_default_that_marks_absence, ((),)),
]


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    try:
        return repr(function(X, *arguments))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("program", "arguments"), PROGRAMS)
def test_as_in_eager(program: Callable[..., Any], arguments: tuple[Any, ...], backend: str) -> None:
    compiled = front.compile(program, backend=backend)
    for _ in range(2):
        assert outcome(compiled, arguments) == outcome(program, arguments)


def returned(x):
    return (5, "five"), x + 1


def both(x, t=None):
    u = (6, "six")
    return u if t is None else t is u


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_constant_that_is_returned_is_the_constant(backend: str) -> None:
    compiled = front.compile(returned, backend=backend)
    assert compiled(X)[0] is compiled(X)[0] is returned(X)[0]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_returned_constant_that_comes_back(backend: str) -> None:
    """Each order of the object itself and an equal one."""
    equal = tuple([6, "six"])
    for order in ([both(X), equal], [equal, both(X)]):
        compiled = front.compile(both, backend=backend)
        for t in order * 2:
            assert compiled(X, t) is (t is not equal)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("first", ["itself", "another"])
def test_equal_texts_of_one_function(backend: str, first: str) -> None:
    other = "".join([TEXT[:5], TEXT[5:]])
    itself = next(c for c in a_text_and_a_constant.__code__.co_consts if c == TEXT)
    compiled = front.compile(a_text_and_a_constant, backend=backend)
    for s in [itself, other, itself] if first == "itself" else [other, itself, other]:
        assert compiled(X, s) is (s is itself)


def test_static_attributes_of_a_class_made_inside() -> None:
    def made(x):
        class Local:
            names = ("a", "b")

        return Local, x + 1

    compiled = front.compile(made, backend="eager")
    kept = {
        id(constant) for each in made.__code__.co_consts if hasattr(each, "co_consts") for constant in each.co_consts
    }
    for _ in range(2):
        assert id(compiled(X)[0].names) in kept
