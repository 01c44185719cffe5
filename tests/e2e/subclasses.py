"""Calls of builtins with instances of builtins' subclasses that answer their special methods in surprising ways.

A case is a class with at most one such method and an expression of `v`, an instance of it. `differs(case)` runs the
expression eagerly and captured, twice, and compares results, exceptions, what became of `v`, and the order in which
methods of the class were asked.
"""

import collections
import copy
import functools
import heapq
import itertools
import math
import operator
import random
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from e2e.front import Compiled

LOG: list[str] = []
Pair = collections.namedtuple("Pair", "a b")


def _item(self: Any, key: Any) -> Any:
    if isinstance(key, int) and key > 2:
        raise IndexError("end")
    return ("item", str(key))


def _answer(value: Any) -> Callable[..., Any]:
    return lambda self, *args: value


METHODS: dict[str, Callable[..., Any]] = {
    "__iter__": lambda self: iter(["i1", "i2"]),
    "__len__": _answer(7),
    "__getitem__": _item,
    "__setitem__": _answer(None),
    "__delitem__": _answer(None),
    "__contains__": _answer("yes"),
    "__eq__": _answer("eq"),
    "__ne__": _answer(""),
    "__lt__": _answer(True),
    "__gt__": _answer(True),
    "__le__": _answer(False),
    "__ge__": _answer(False),
    "__hash__": _answer(5),
    "__bool__": _answer(False),
    "__index__": _answer(3),
    "__int__": _answer(33),
    "__float__": _answer(3.5),
    "__complex__": _answer(3j),
    "__round__": _answer("round"),
    "__abs__": _answer("abs"),
    "__neg__": _answer("neg"),
    "__floor__": _answer("floor"),
    "__ceil__": _answer("ceil"),
    "__trunc__": _answer("trunc"),
    "__add__": _answer("add"),
    "__radd__": _answer("radd"),
    "__sub__": _answer("sub"),
    "__rsub__": _answer("rsub"),
    "__mul__": _answer("mul"),
    "__rmul__": _answer("rmul"),
    "__mod__": _answer("mod"),
    "__rmod__": _answer("rmod"),
    "__divmod__": _answer("divmod"),
    "__rdivmod__": _answer("rdivmod"),
    "__pow__": _answer("pow"),
    "__rpow__": _answer("rpow"),
    "__iadd__": _answer("iadd"),
    "__or__": _answer("or"),
    "__ror__": _answer("ror"),
    "__and__": _answer("and"),
    "__rand__": _answer("rand"),
    "__str__": _answer("STR"),
    "__repr__": _answer("REPR"),
    "__format__": lambda self, spec: "FMT" + spec,
    "__reversed__": lambda self: iter(["r"]),
    "__missing__": _answer("missing"),
    "__length_hint__": _answer(4),
    "__copy__": _answer("copied"),
    "keys": lambda self: ["k1"],
    "items": lambda self: [("q", 1)],
    "values": lambda self: ["v"],
    "get": _answer("got"),
    "append": _answer(None),
    "encode": _answer(b"enc"),
}

COMMON = (
    "__eq__ __ne__ __lt__ __gt__ __hash__ __bool__ __str__ __repr__ __format__ __len__ __iter__ __getitem__ "
    "__contains__ __copy__"
)
NUMBERS = (
    COMMON + " __index__ __int__ __float__ __complex__ __round__ __abs__ __neg__ __floor__ __ceil__ __trunc__ __add__ "
    "__radd__ __sub__ __rsub__ __mul__ __rmul__ __mod__ __rmod__ __divmod__ __rdivmod__ __pow__ __rpow__"
)
SEQUENCES = (
    COMMON + " __setitem__ __delitem__ __reversed__ __add__ __radd__ __mul__ __rmul__ __iadd__ append __length_hint__ "
    "__mod__ __rmod__ encode __index__ __float__ __int__"
)
MAPPINGS = COMMON + " __setitem__ __delitem__ __reversed__ __or__ __ror__ __missing__ keys items values get"
SETS = COMMON + " __or__ __ror__ __and__ __rand__ __sub__ __rsub__ __length_hint__"

BASES: dict[type, tuple[Any, str]] = {
    int: (2, NUMBERS),
    float: (2.5, NUMBERS),
    complex: (2j, NUMBERS),
    str: ("ab", SEQUENCES),
    bytes: (b"ab", SEQUENCES),
    list: ([1, 2], SEQUENCES),
    tuple: ((1, 2), SEQUENCES),
    deque: ([1, 2], SEQUENCES),
    dict: ({"a": 1, "b": 2}, MAPPINGS),
    OrderedDict: ({"a": 1, "b": 2}, MAPPINGS),
    defaultdict: ({"a": 1, "b": 2}, MAPPINGS),
    Counter: ("aab", MAPPINGS),
    set: ({1, 2}, SETS),
    frozenset: (frozenset((1, 2)), SETS),
}

EXPRESSIONS = """
len(v) | bool(v) | not v | int(v) | float(v) | complex(v) | str(v) | repr(v) | ascii(v) | format(v) | format(v, '>6')
f'{v}' | f'{v!r}' | f'{v:>5}' | '%s' % v | '%s' % (v,) | '%d' % v | '%r %s' % (v, 1) | '{} {!r}'.format(v, v)
hash(v) | abs(v) | -v | round(v) | round(v, 1) | round(2.345, v) | divmod(v, 2) | divmod(7, v) | pow(v, 2) | pow(2, v)
pow(v, 2, 5) | pow(2, v, 5) | v ** 2 | 2 ** v | sum(v) | sum(v, 10) | sum([1, 2], v) | sum([v, v]) | sum([1, v])
sum([1.5, v]) | min(v) | max(v) | min(v, v) | max(v, 1) | max(1, v) | min([3, v, 1]) | max(v, default=0)
min(v, key=lambda q: 1) | sorted(v) | sorted([v, v]) | sorted([3, v, 1]) | sorted([1, 2], key=lambda q: v)
sorted([2, 1], reverse=v) | any(v) | all(v) | any([v]) | all([v]) | list(zip(v, v)) | list(map(str, v))
list(zip([1, 2], v, strict=True)) | list(filter(None, v)) | list(filter(None, [v, 1])) | list(enumerate(v))
list(enumerate([1], v)) | list(reversed(v)) | list(v) | tuple(v) | set(v) | frozenset(v) | dict(v) | dict([v])
dict(a=v) | dict(v, z=1) | bytes(v) | next(iter(v)) | [*v] | (*v,) | {*v} | {**v} | (lambda *a: a)(*v)
(lambda **k: k)(**v) | (lambda a, b: (a, b))(*v) | [a for a in v] | list(range(v)) | list(range(0, 5, v))
slice(v).indices(5) | slice(0, 9, v) | chr(v) | ord(v) | bin(v) | hex(v) | oct(v) | type(v) | isinstance(v, str)
isinstance(v, (int, list, dict)) | isinstance(v, collections.abc.Hashable) | callable(v) | getattr(7, v, 3)
v == v | v == 2 | 2 == v | v != v | v < v | v < 3 | 3 < v | 1.5 < v | v in [1, 2] | v in [v] | 1 in v | 'a' in v
v in {v: 1} | v in {1, 2} | {v: 1} | {v} | {2: 'x', 'ab': 'y', 2.5: 'z'}.get(v) | {2: 'x', 'ab': 'y'}.pop(v, 0)
{2: 'x', 'ab': 'y'}.setdefault(v, 0) | dict.fromkeys(v) | dict.fromkeys([v], 1) | [1, 2, 3][v] | 'abcdef'[v]
[1, 2, 3, 4][v:] | [1, 2, 3, 4, 5][0:v] | [1, 2, 3] * v | v * [1, 2] | 'ab' * v | v * 2 | 2 * v | v + v | [1] + v
v + [1] | (1,) + v | 'x' + v | v + 'x' | 1 + v | 1.5 + v | 1j + v | v + 1 | v - 1 | 1 - v | 7 % v | v[0] | v[0:1]
v['a'] | v['none'] | v.get('a') | v.get('none', 5) | list(v.keys()) | list(v.values()) | list(v.items()) | v.copy()
v.count(1) | v.count('a') | v.index(1) | v.index('b') | [].extend(v) | [0].__iadd__(v) | [1, 2].index(v) | [v].index(2)
[v].count(2) | [1, 2, 3].insert(v, 9) | [1, 2, 3, 4].pop(v) | [1, 2].remove(v) | [2, v, 1].sort() | (1, 2) == v
[2, 1].sort(reverse=v) | [1, 2] == v | v == [1, 2] | v == (1, 2) | v == {'a': 1, 'b': 2} | {'a': 1, 'b': 2} == v
{1, 2} == v | v == {1, 2} | {'z': 1}.update(v) | {'z': 1} | v | {1} & v | {1} - v | {1} ^ v | {1}.union(v, v)
{1, 5}.intersection(v) | {1, 5}.difference(v) | {1}.update(v) | {1, 5}.issubset(v) | {1}.issuperset(v) | {1} <= v
{1}.isdisjoint(v) | {1, 2}.add(v) | {1, 2}.discard(v) | v.union([1]) | v.issubset([1, 2, 3]) | v.add(9) | v.pop()
v.pop('a') | v.pop('none', 0) | v.popitem() | v.setdefault('a', 9) | v.update(c=3) | v.update({'c': 3}) | v.clear()
v.append(3) | v.extend(v) | v.insert(0, 1) | v.remove(1) | v.reverse() | v.sort() | ','.join(v) | ','.join([v, 'q'])
v.join(['a', 'b']) | v.upper() | v.split('a') | 'cabd'.split(v) | 'cabd'.replace('a', v) | 'cabd'.startswith((v,))
'cabd'.find(v) | 'cabd'.ljust(v) | 'cabd'.center(9, v) | 'cabd'.split('b', v) | v in 'cabd' | 'ab' == v | 'ab' < v
v.format(1) | v % 1 | v.startswith('a') | v.lower() | str.join(v, ['1', '2']) | int('11', v) | int(v, 16) | v.real
int.from_bytes(v, 'big') | (5).__add__(v) | (5).__eq__(v) | (2.5).__add__(v) | (5).to_bytes(v, 'big') | v.conjugate()
math.floor(v) | math.ceil(v) | math.sqrt(v) | math.pow(v, 2) | math.hypot(v, 1) | math.gcd(v, 4) | math.comb(5, v)
math.fsum(v) | math.prod(v) | math.prod([1, 2], start=v) | math.isclose(v, 2) | math.ldexp(1.0, v) | math.log(8, v)
operator.add(1, v) | operator.index(v) | operator.length_hint(v) | operator.contains(v, 1) | operator.countOf(v, 1)
operator.itemgetter(0)(v) | operator.itemgetter(v)([1, 2, 3, 4]) | operator.attrgetter(v)(7) | operator.concat(v, v)
operator.methodcaller('copy')(v) | operator.iadd([1], v) | operator.ior({'z': 1}, v) | operator.truth(v)
operator.setitem([1, 2, 3, 4], v, 0) | operator.delitem([1, 2, 3, 4], v) | list(itertools.chain(v, [1]))
list(itertools.islice(range(9), v)) | list(itertools.repeat(1, v)) | list(itertools.islice(itertools.count(v), 2))
list(itertools.accumulate(v)) | list(itertools.product(v, repeat=2)) | list(itertools.product([1], repeat=v))
list(itertools.permutations(v)) | list(itertools.combinations([1, 2, 3, 4], v)) | list(itertools.pairwise(v))
list(itertools.starmap(lambda *a: a, [v])) | list(itertools.dropwhile(bool, [v, 1])) | list(itertools.compress(v, [1]))
list(itertools.zip_longest(v, [1, 2, 3])) | [k for k, g in itertools.groupby(v)] | functools.reduce(operator.add, [v, v])
functools.reduce(lambda a, b: (a, b), v) | functools.partial(lambda *a: a, *v)() | functools.partial(max, v)(1)
deque(v) | deque([1, 2, 3], v) | deque([1, 2]).extend(v) | deque([1, 2, 3]).rotate(v) | Counter(v) | Counter([v, v, 2])
Counter('aab').most_common(v) | OrderedDict(v) | OrderedDict(a=1, b=2) == v | OrderedDict(z=1).update(v)
defaultdict(list, v) | defaultdict(int)[v] | collections.ChainMap(v)['a'] | Pair(*v) | Pair._make(v) | Pair(v, 1)
Pair(1, 2) == v | copy.copy(v) | copy.deepcopy(v) | heapq.heappush([1, 3], v) | heapq.nsmallest(1, v)
'yes' if v else 'no' | types.MappingProxyType(v)['a'] | matched(v) | unpacked(v) | starred(v) | delegated(v)
added(v) | type(v)(v) | super(type(v), v).__len__() | super(type(v), v).__iter__() | super(type(v), v).__eq__(v)
base(v).__len__(v) | list(base(v).__iter__(v)) | base(v).__eq__(v, v) | base(v).__contains__(v, 1) | base(v)(v)
base(v).__getitem__(v, 0) | base(v).__add__(v, v) | base(v).__lt__(v, v) | dict.get(v, 'a') | dict.__getitem__(v, 'zz')
list.__getitem__(v, 0) | list.__len__(v) | list.copy(v) | tuple.__len__(v) | tuple.__getitem__(v, 0) | str.__len__(v)
int.__index__(v) | int.__bool__(v) | float.__float__(v) | set.__contains__(v, 1) | set.copy(v) | object.__eq__(v, v)
iter(v).__length_hint__() | str(ValueError(v)) | repr(ValueError(v)) | str(KeyError(v)) | torch.Size(v)
"""
OPERATORS = ["{'z': 1} | v", "v | {'z': 1}", "{1} | v", "v | {1}", "v & {1}", "v - {1}"]  # "|" separates above


def expressions() -> list[str]:
    lines = EXPRESSIONS.replace("{'z': 1} | v | ", "").strip().splitlines()
    return [e.strip() for line in lines for e in line.split(" | ")] + OPERATORS


def base(v: Any) -> Any:
    return type(v).__bases__[0]


def matched(v: Any) -> Any:
    match v:
        case [a, b]:
            return "sequence", a, b
        case {"a": one, **rest}:
            return "mapping", one, rest
        case 2:
            return "two"
        case str():
            return "text"
    return "none"


def unpacked(v: Any) -> Any:
    a, b = v
    return a, b


def starred(v: Any) -> Any:
    a, *b = v
    return a, b


def delegated(v: Any) -> Any:
    def inner() -> Iterator[Any]:
        yield from v

    return list(inner())


def added(v: Any) -> Any:
    total: Any = [1]
    total += v
    return total


def show(value: Any) -> str:
    """The type and the content, read past the methods of its class."""
    kind = type(value)
    name = kind.__name__

    def all_of(items: Any) -> str:
        return ", ".join(show(item) for item in items)

    if issubclass(kind, torch.Tensor):
        return f"{name} {value.tolist()}"
    for plain in (bool, int, float, complex, str, bytes):
        if issubclass(kind, plain):
            return f"{name} {plain.__repr__(value)}"
    for sequence in (list, tuple, deque):
        if issubclass(kind, sequence):
            return f"{name} [{all_of(sequence.__iter__(value))}]"
    for members in (set, frozenset):
        if issubclass(kind, members):
            return f"{name} {{{', '.join(sorted(show(m) for m in members.__iter__(value)))}}}"
    if issubclass(kind, dict):
        return f"{name} {{{all_of(dict.items(value))}}}"
    return f"{name} {all_of(value.args)}" if issubclass(kind, BaseException) else name


def run(call: Callable[..., Any], v: Any) -> tuple[str, str, list[str], str]:
    LOG.clear()
    result, raised = None, ""
    try:
        result = call(torch.ones(1), v)
    except Exception as error:
        raised = show(error)
    log = list(LOG)
    return show(result), raised, log, show(v)


@dataclass(frozen=True)
class Case:
    base: type
    method: str  # "" for none
    expression: str

    def make(self) -> Any:
        names: dict[str, Any] = {}
        if answer := METHODS.get(self.method):

            def method(self: Any, *args: Any, _name: str = self.method) -> Any:
                LOG.append(_name)
                return answer(self, *args)

            names[self.method] = method
        cls = type("Sub_" + self.base.__name__, (self.base,), names)
        value = BASES[self.base][0]
        return cls(list, value) if self.base is defaultdict else cls(value)


def cases(base: type) -> list[Case]:
    return [Case(base, method, e) for method in ["", *BASES[base][1].split()] for e in expressions()]


def some_cases(base: type, count: int, seed: int) -> list[Case]:
    return random.Random(f"{seed} {base.__name__}").sample(cases(base), count)


def differs(case: Case) -> str:
    try:
        case.make()
    except Exception:
        return ""  # such a class cannot be made or filled
    source = f"def f(x, v):\n    y = x + 1\n    r = {case.expression}\n    return y + 1, r\n"
    names: dict[str, Any] = dict(globals())
    exec(source, names)
    function = names["f"]
    eager = run(function, case.make())
    compiled = Compiled(function)
    for time in ("captured", "again"):
        now = run(compiled, case.make())
        if now != eager:
            return f"{case.base.__name__}.{case.method or '-'}: {case.expression}, {time}\n  {eager}\n  {now}"
    return ""


USED = (copy, functools, heapq, itertools, math, operator, types)  # by the expressions
