"""An exception is concluded only from what a model knows wholly: what the model does not know ends the segment."""

import collections
import functools
import textwrap
import types
import typing
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import assert_same
from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end has models of its own")

T = typing.TypeVar("T")


class Holder(typing.Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


class Called(typing.NamedTuple):
    a: int

    def __call__(self, b: int) -> int:
        return self.a + b


class Tree(defaultdict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        super().__init__(Tree)


class Counts(defaultdict):  # type: ignore[type-arg]
    pass


class Missed(defaultdict):  # type: ignore[type-arg]
    def __missing__(self, key: Any) -> Any:
        return ("missed", key)


class Closed:
    """An iterator that hears when the generator around it dies."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __iter__(self) -> "Closed":
        return self

    def __next__(self) -> int:
        return 1

    def close(self) -> None:
        self.log.append("closed")


# What `@delegation` stands for below.
DELEGATION = """
def inner():
    try:
        while True:
            try:
                yield len(log)
            except ValueError as e:
                log.append(str(e))
            except KeyError:
                return "returned"
    finally:
        log.append("inner")
def outer():
    try:
        log.append((yield from inner()))
        yield "after"
    except TypeError as e:
        log.append(repr(e))
        yield "caught"
    finally:
        log.append("outer")
g = outer()
next(g)
"""

# Bodies of functions of x, by name.
TEXT = """
## generic alias called
h = Holder[int](3)
return h.item, h.__orig_class__, x
## alias of a builtin called
return list[int]((1, 2)), dict[str, int](a=1), x
## typing alias called
try:
    return typing.List[int]((1, 2))
except TypeError as e:
    return str(e), x
## parts of an alias
a = typing.Optional[int]
return a.__args__, typing.List[int]._name, typing.List[int].__origin__, x
## no part of an alias
return hasattr(typing.Optional[int], 'nope'), getattr(list[int], 'append', 7) is list.append, x
## called tuple
return Called(1)(2), x
## annotations
def f(a: int, b: 'str' = 1) -> None: pass
return f.__annotations__, x
## no annotations
def f(a): pass
f.__annotations__['a'] = 1
return f.__annotations__, x
## annotations of a returned function
def f(a: int): pass
f.__annotations__['b'] = x
return f.__annotations__, x
## annotations taken away
def f(a: int): pass
f.__annotations__ = None
return f.__annotations__, x
## wrong annotations
def f(a): pass
try:
    f.__annotations__ = 5
except TypeError as e:
    return str(e), x
## wrong defaults
def f(a=1): return a
try:
    f.__defaults__ = 5
except TypeError as e:
    return str(e), f(), x
## builtins of a function
def f(): pass
return hasattr(f, '__builtins__'), x
## super of itself
s = super(Counts, Counts())
return s.__thisclass__ is Counts, s.__self_class__ is Counts, x
## module of a bound method
return getattr([].append, '__module__', 'missing'), x
## type of a slot wrapper
return type([].__len__).__name__, type([].append).__name__, x
## slots
class L:
    __slots__ = ('a',)
m = L()
m.a = x
try:
    m.b = 1
except AttributeError as e:
    return m.a, str(e)
## slots below slots
class L:
    __slots__ = ['a']
class M(L):
    __slots__ = 'c'
m = M()
m.c = x
return m.c, hasattr(m, 'a')
## slots that conflict
try:
    class L:
        __slots__ = ('a',)
        a = 1
except ValueError as e:
    return str(e), x
## wrong qualified name
try:
    class L:
        __qualname__ = [1]
except TypeError as e:
    return str(e), x
## default factory
d = defaultdict(int)
d['a']
d.default_factory = list
d['b'].append(x)
return d
## default factory deleted
d = defaultdict(int)
del d.default_factory
return d, d.default_factory, x
## default factory of a dict from before
COUNTS.default_factory = list
COUNTS['b'].append(1)
return COUNTS, x
## defaultdict initialised again
COUNTS.__init__(list)
return COUNTS['b'], COUNTS, x
## defaultdict subclass
t = Tree()
t['a']['b'] = x
return list(t['a']), list(t), type(t['c']).__name__
## defaultdict subclass from before
SUB['a'] += 1
return SUB, SUB.__missing__('b'), x
## own __missing__
m = Missed(int)
return m['a'], len(m), m.get('b'), x
## read-only fields
try:
    deque([], 2).maxlen = 4
except AttributeError as e:
    return str(e), x
## read-only member
try:
    slice(1).stop = 2
except AttributeError as e:
    return str(e), x
## name of a generator
g = (i for i in (1, 2))
g.__name__ = 'z'
return g.__name__, next(g), x
## throw through yield from
@delegation
a = g.throw(ValueError('v'))
g.close()
return a, log, x + len(log)
## throw ends yield from
@delegation
a = g.throw(KeyError('k'))
return a, log, list(g), log, x
## throw fails inside yield from
@delegation
a = g.throw(TypeError('t'))
return a, log, list(g), log, x
## throw leaves yield from
@delegation
try:
    g.throw(OSError('o'))
except OSError as e:
    return repr(e), log, x
## throw into yield from a list
def f():
    try:
        yield from [1, 2]
    except KeyError:
        yield 'k'
g = f()
next(g)
return g.throw(KeyError()), list(g), x
## yield from dropped
def f():
    yield from Closed(log)
for i in f():
    break
log.append('-')
return log, x + len(log)
## transform's name
def f(y): return y.sum()
g = torch.func.grad(f)
return g.__name__, g.__wrapped__ is f, g(x)
## transforms' names
def f(y): return y.sum()
g = torch.func.grad_and_value(f)
return g.__name__, torch.func.vmap(g)(x[None])
"""
BODIES = {
    name: body.replace("@delegation", DELEGATION)
    for name, _, body in (part.partition("\n") for part in TEXT.split("## ")[1:])
}
NAMES = {
    "collections": collections,
    "functools": functools,
    "types": types,
    "typing": typing,
    "deque": deque,
    "defaultdict": defaultdict,
    "torch": torch,
    **{cls.__name__: cls for cls in (Holder, Called, Tree, Counts, Missed, Closed)},
}


def result(call: Callable[..., Any], names: dict[str, Any]) -> str:
    names |= {"COUNTS": defaultdict(int, a=1), "SUB": Counts(int, a=1), "log": []}
    return repr(call(torch.ones(2)))


@pytest.mark.parametrize("name", BODIES)
def test_as_eager(name: str) -> None:
    names = dict(NAMES)
    exec("def f(x):\n" + textwrap.indent(BODIES[name], "    "), names)
    eager = result(names["f"], names)
    compiled = Compiled(names["f"])
    assert [result(compiled, names) for _ in range(3)] == [eager] * 3
    statistics = gramme.statistics(compiled.call)
    assert statistics.handovers == 0
    assert statistics.plain_runs == 0


def no_text_for_a_name(x: torch.Tensor, thing: Any) -> Any:
    said = []
    for ask in (
        getattr,
        hasattr,
        delattr,
        lambda it, name: setattr(it, name, 1),
        lambda it, name: getattr(it, name, 1),
    ):
        try:
            said.append(ask(thing, 5))  # type: ignore[operator]
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


def sets_taken_out_of_sets(x: torch.Tensor, members: list[Any]) -> Any:
    said, holder = [], set(members)
    for take in (holder.discard, holder.remove, holder.remove):
        try:
            said.append(take({1, 2}))  # type: ignore[func-returns-value]
        except KeyError as error:
            said.append(str(error))
    return x + 1, said, len(holder)


def test_texts_and_twins() -> None:
    x = torch.ones(2)
    assert_same(no_text_for_a_name, lambda: (x, Called(1)), lambda: (x, x), lambda: (x, Holder), backends=("eager",))
    assert_same(
        sets_taken_out_of_sets,
        lambda: (x, [1, frozenset((1, 2))]),
        lambda: (x, [frozenset((1,)), 2]),
        backends=("eager",),
    )
