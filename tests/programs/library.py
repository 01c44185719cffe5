"""The standard library on captured values."""

import bisect
import collections.abc
import contextvars
import copy
import functools
import heapq
import inspect
import itertools
import logging
import math
import operator
import re
import string
import types
import typing
import warnings

import torch

from programs import program


@program("library")
def itertools_that_join(x):
    return (
        sum(itertools.chain([x], (x + 1,))),
        list(itertools.chain.from_iterable([[1], (2, 3)])),
        list(itertools.product("ab", [1, 2])),
        list(itertools.combinations(range(3), 2)),
        list(itertools.permutations([1, 2])),
        list(itertools.zip_longest("ab", [x], fillvalue=0)),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.repeat(x, 2)),
    )


@program("library")
def itertools_that_cut(x):
    cycle = itertools.cycle([1, 2])
    count = itertools.count(10, 5)
    left, right = itertools.tee([x, x * 2])
    groups = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1])]
    return (
        [x * next(cycle) for _ in range(3)],
        next(count) + next(count),
        list(left),
        next(right),
        groups,
        list(itertools.islice(range(10), 2, 8, 3)),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 3, 1])),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.filterfalse(bool, [0, 1])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.accumulate([x, x, x])),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=5)),
    )


@program("library")
def functools_reduce_and_partial(x):
    total = functools.reduce(lambda a, b: a * b + 1, [x, x + 1, 3])
    start = functools.reduce(operator.add, [], x)
    by_length = sorted(["ccc", "a", "bb"], key=functools.cmp_to_key(lambda a, b: len(a) - len(b)))
    add = functools.partial(operator.add, 3)
    return total, start is x, by_length, add(x), add.args


class Lazy:
    def __init__(self, k):
        self.k = k
        self.runs = 0

    @functools.cached_property
    def value(self):
        self.runs += 1
        return self.k * 2

    def scale(self, x, by):
        return x * by + self.k

    double = functools.partialmethod(scale, by=2)


@program("library", lambda t: (t(), Lazy(t())))
def cached_property(x, lazy):
    return x + lazy.value + lazy.value, lazy.runs, "value" in vars(lazy), lazy.double(x)


@functools.singledispatch
def describe(value):
    return "object"


@describe.register
def _(value: int):
    return f"int {value}"


@describe.register(list)
def _(value):
    return [describe(v) for v in value]


@program("library")
def single_dispatch(x):
    return x + 1, describe(3), describe([1, "a"]), describe(None)


@program("library", lambda t: (t(), {"a": t(), "n": 3}))
def operator_module(x, table):
    get = operator.itemgetter("a", "n")
    a, n = get(table)
    operator.setitem(table, "b", x)
    row = [1, 2]
    row = operator.iadd(row, [3])
    return (
        operator.mul(a, n) + operator.neg(x),
        operator.attrgetter("shape")(x),
        operator.methodcaller("sum", dim=0)(x),
        operator.truth([]),
        operator.is_(a, table["a"]),
        operator.contains(row, 3),
        operator.index(5),
        operator.lt(1, 2),
        operator.floordiv(7, 2),
        operator.length_hint([1]),
    )


@program("library", lambda t: (t(), 2.0, 9))
def math_module(x, r, n):
    values = [
        math.sqrt(n),
        math.log(r),
        math.exp(1),
        math.floor(-2.5),
        math.ceil(2.1),
        math.gcd(12, n),
        math.prod([1, 2, 3]),
        math.isclose(0.1 + 0.2, 0.3),
        math.pow(r, 3),
        math.hypot(3, 4),
        math.comb(5, 2),
        math.factorial(5),
        math.atan2(1, 1),
        math.inf,
        math.isnan(math.nan),
        math.fabs(-1),
        math.log2(8),
        math.trunc(2.7),
        math.copysign(1, -0.0),
        math.radians(180),
    ]
    return x * values[0] + values[1], values


class Config:
    def __init__(self, rows, shared):
        self.rows, self.shared = rows, shared

    def __deepcopy__(self, memo):
        made = Config(copy.deepcopy(self.rows, memo), self.shared)
        made.copied = True
        return made


@program("library", lambda t: (t(), [[1], {"k": (2,)}], Config([3], "s")))
def copies(x, data, config):
    shallow, deep = copy.copy(data), copy.deepcopy(data)
    deep[0].append(x)
    shallow.append(4)
    other, same = copy.deepcopy(config), copy.copy(config)
    same.rows.append(5)
    return x + 1, shallow[0] is data[0], deep[0] is data[0], deep, other, same.rows is config.rows


def _signed(a, b=2, *rest, c, d=4, **more):
    return a


@program("library")
def signatures(x):
    signature = inspect.signature(_signed)
    bound = signature.bind(1, c=3)
    bound.apply_defaults()
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}
    return x * len(signature.parameters), list(signature.parameters), defaults, dict(bound.arguments)


@program("library")
def inspect_checks(x):
    return (
        x + 1,
        inspect.isfunction(_signed),
        inspect.isclass(Lazy),
        inspect.ismethod(Lazy(1).scale),
        inspect.isbuiltin(len),
        inspect.getattr_static(Lazy(1), "runs"),
    )


T = typing.TypeVar("T")


class Holder(typing.Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item

    @typing.final
    def get(self) -> T:
        return typing.cast(T, self.item)


@program("library")
def typing_module(x):
    y: typing.Optional[int] = 2
    alias = list[int]
    return Holder(x + y).get(), Holder[int](3).get(), alias.__origin__ is list, typing.get_args(dict[str, int])


@program("library")
def abstract_base_checks(x):
    names = "Sequence Mapping MutableMapping Iterable Callable Hashable Sized Set Iterator".split()
    values = [[], {}, (), "s", {1}, iter([]), len, range(2)]
    return x + 1, [[isinstance(v, getattr(collections.abc, n)) for n in names] for v in values]


@program("library")
def simple_namespace(x):
    ns = types.SimpleNamespace(a=x, b=[1])
    ns.c = ns.a + 1
    ns.b.append(2)
    return ns, ns.c * 2


@program("library")
def heap_and_bisect(x):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    low = heapq.heappop(heap)
    row = [1, 3, 5]
    bisect.insort(row, 4)
    return x + low, heap, row, bisect.bisect_left(row, 3), heapq.nlargest(2, [3, 9, 4])


@program("library")
def regular_expressions(x):
    match = re.match(r"(\w+)-(\d+)", "layer-12")
    return x * int(match.group(2)), match.groups(), re.sub(r"\d", "#", "a1b2"), re.split(r"[,;]", "a,b;c")


@program("library")
def warnings_and_logging(x):
    logger = logging.getLogger("programs.library")
    logger.debug("shape %s", x.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x + 1
    return y, string.ascii_lowercase[:3]


ROUNDS = contextvars.ContextVar("ROUNDS", default=1)


@program("library", one_graph=False)
def context_variables(x):
    token = ROUNDS.set(3)
    y = x * ROUNDS.get()
    ROUNDS.reset(token)
    return y, ROUNDS.get()


@functools.lru_cache(maxsize=None)
def _table(n):
    return tuple(i * i for i in range(n))


@program("library", setup=lambda: _table(4))  # what a cache holds is a fact of the capture
def lru_cache(x):
    return x * sum(_table(4)) + _table(4)[1]


@program("library", lambda t: (t(), t(2, 2), ["a"]))
def pytree_by_hand(x, y, names):
    def flatten(tree):
        if isinstance(tree, dict):
            return [leaf for key in sorted(tree) for leaf in flatten(tree[key])]
        if isinstance(tree, (list, tuple)):
            return [leaf for item in tree for leaf in flatten(item)]
        return [tree]

    leaves = flatten({"b": [x, (y, names)], "a": {"z": x}})
    return [leaf * 2 if torch.is_tensor(leaf) else leaf for leaf in leaves]


@program("library")
def builtins_at_large(x):
    return (
        x + 1,
        all([]),
        any([0, 1]),
        callable(len),
        isinstance(x, torch.Tensor),
        issubclass(bool, int),
        id(x) == id(x),
        sorted({"b": 1, "a": 2}),
        dict(zip("ab", range(2))),
        list("abc"),
        tuple([1]),
        set("aa"),
        str(3.0),
        repr([1]),
        bool([]),
        float(3),
        type("s"),
        getattr([1], "append") is None,
        slice(3),
        bytes([65]),
        enumerate([1]).__class__.__name__,
        ascii("é"),
        format(2.5, ".2f"),
        object() is object(),
        len({1: 2}),
        iter([1]).__length_hint__(),
        complex("1+2j").imag,
    )


@program("library", one_graph=False)
def views_of_bytes(x):
    row = bytearray(b"ab")
    row.append(7)
    return x + row[0], memoryview(b"ab")[1], bytes(row)
