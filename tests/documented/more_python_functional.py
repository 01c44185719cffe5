"""From library/functools, itertools, operator, functions: the small print of what builds functions and iterators."""

import copy
import functools
import itertools
import operator

import torch

from documented import Between, documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@functools.lru_cache(maxsize=8, typed=True)
def typed(n, *, by=1):
    log.append((n, by))
    if n == 0:
        raise ZeroDivisionError("cached?")
    return torch.full((2,), 1.0) / n * by


@documented(
    "library/functools: typed caches tell 3 from 3.0; keywords are told by presence; what raises is not kept; __wrapped__ passes it by",
    lambda: [
        (x(2), 3, {}),
        (x(2), 3.0, {}),
        (x(2), 3, {"by": 1}),
        (x(2), 0, {}),
        (x(2), 0, {}),
        (x(2), True, {}),
        (x(2), 1, {}),
        (x(2), [], {}),
        Between(lambda: typed.cache_clear()),
        (x(2), 3, {}),
    ],
    state=lambda: (list(log), tuple(typed.cache_info())),
    setup=lambda: (log.clear(), typed.cache_clear())[0],
)
def typed_cache(t, n, named):
    try:
        a = typed(n, **named)
        return t * a, typed(n, **named) is a, typed.__wrapped__(n) is a, typed.cache_parameters()
    except (ZeroDivisionError, TypeError) as error:
        return t, str(error), tuple(typed.cache_info())


def three(a, b=2, *rest, c=3):
    return a, b, rest, c


class Owner:
    plain = functools.partial(three, "plain")
    method = functools.partialmethod(three, "method", c=5)

    def show(self):
        return "show"


@documented(
    "library/functools: partials of partials are flattened, their attributes are read-only, as class attributes they do not bind",
    lambda: [(x(), 1, {}), (x(), x(1), {"c": 4}), (x(), "s", {"b": 1}), (x(), 1, {"d": 2}), (x(), (), {"c": 0})],
)
def partial_small_print(t, v, named):
    one = functools.partial(three, v, c=1)
    two = functools.partial(one, **named)
    two.note = "own"
    out = attempt(
        lambda: two.func is three,
        lambda: two.args,
        lambda: two.keywords,
        lambda: two(),
        lambda: two(9, 8),
        lambda: two(c=7),
        lambda: Owner().plain(v),
        lambda: Owner().method(v)[0] == "method",
        lambda: Owner().method(v)[1:],
        lambda: setattr(two, "func", print),
        lambda: functools.partial(5),
        lambda: copy.copy(two).note,
        lambda: vars(two),
        lambda: one.keywords.update(c=100) or one(),
        lambda: two()[3],
    )
    return t * len(two.keywords), out


class Handler:
    @functools.singledispatchmethod
    def handle(self, arg):
        return "default", type(arg).__name__

    @handle.register
    def _(self, arg: int | float):
        return "number", arg * 2

    @handle.register(list)
    @classmethod
    def _(cls, arg):
        return cls.__name__, len(arg)

    @handle.register
    def _(self, arg: torch.Tensor):
        return arg.sum()


class Loud(Handler):
    def handle_more(self, arg):
        return super().handle(arg)


@documented(
    "library/functools: singledispatchmethod goes by the first argument after self, with unions in annotations; registered later, later found",
    lambda: [
        (x(), Handler(), 2),
        (x(), Loud(), [1, 2]),
        (x(), Handler(), True),
        (x(), Handler(), "text"),
        Between(lambda: Handler.handle.register(str, lambda self, arg: ("string", arg.upper()))),
        (x(), Handler(), "text"),
        (x(), Loud(), x(3)),
        Between(lambda: Handler.__dict__["handle"].dispatcher.register(bool, lambda self, arg: ("bool", not arg))),
        (x(), Handler(), True),
    ],
    setup=lambda: (
        Handler.__dict__["handle"].dispatcher.register(str, lambda self, arg: ("default", "str")),
        Handler.__dict__["handle"].dispatcher.register(bool, lambda self, arg: ("number", arg * 2)),
        None,
    )[2],
)
def dispatched_methods(t, h, arg):
    got = h.handle_more(arg) if isinstance(h, Loud) else h.handle(arg)
    return t * (got[1] if isinstance(got, tuple) and isinstance(got[1], int) else 3), got, Handler.handle is h.handle


class Slotted:
    __slots__ = ("n",)

    @functools.cached_property
    def twice(self):
        return self.n * 2


class Cached:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def twice(self):
        log.append(self.n)
        if self.n == 0:
            raise ValueError("zero")
        return self.n * 2

    other = functools.cached_property(lambda self: self.n)


def slotted(n):
    s = Slotted()
    s.n = n
    return s


@documented(
    "library/functools: cached_property needs a __dict__, keeps nothing when it raises, is overridden by assignment, on the class it is itself",
    lambda: [(x(), Cached(2)), (x(), slotted(2)), (x(), Cached(0)), (x(), Cached(x())), (x(), Cached(5))],
    **cleared,
)
def cached_small_print(t, o):
    out = attempt(
        lambda: o.twice,
        lambda: o.twice is o.twice,
        lambda: vars(o).pop("twice"),
        lambda: o.twice,
        lambda: setattr(o, "twice", 50),
        lambda: o.twice + 1,
        lambda: delattr(o, "twice"),
        lambda: delattr(o, "twice"),
        lambda: o.other,
        lambda: type(o).twice.attrname,
        lambda: type(o).twice is type(o).__dict__["twice"],
    )
    return t * 2, out


@documented(
    "library/operator: indexOf, countOf, concat, getitem with slices, attrgetter with dots, the in-place functions return what to bind",
    lambda: [
        (x(), [1, 2, 1], 1),
        (x(), (1, 2), 3),
        (x(), x(3), 2),
        (x(), "abc", "c"),
        (x(), {1: 2}, 1),
        (x(), 5, 2),
    ],
)
def operator_small_print(t, v, w):
    out = attempt(
        lambda: operator.indexOf(v, w),
        lambda: operator.countOf(v, w),
        lambda: operator.concat(v, v),
        lambda: operator.getitem(v, slice(None, 1)),
        lambda: operator.iadd(v, v) is v,
        lambda: operator.imul(v, 2),
        lambda: operator.index(w),
        lambda: operator.contains(v, w),
        lambda: operator.itemgetter(0, slice(1))(v),
        lambda: operator.attrgetter("__class__.__name__", "shape")(v),
        lambda: operator.methodcaller("index", w)(v),
        lambda: operator.call(lambda *a, **k: (len(a), k), v, k=w),
        lambda: operator.not_(v),
        lambda: operator.is_not(v, v),
        lambda: operator.matmul(v, v),
        lambda: operator.setitem(v, 0, w),
        lambda: operator.itemgetter(),
        lambda: repr(operator.itemgetter(1, 2)),
    )
    return t * 2, [str(o).split("\n")[0] if isinstance(o, str) else o for o in out], v


@documented(
    "library/itertools: accumulate with initial, islice consumes what it skips and refuses negatives, count with float steps, repeat",
    lambda: [(x(), [1, 2, 3], 1), (x(), [], 2), (x(), [x(), x()], 5), (x(), [4], -1), (x(), "ab", 0)],
)
def iterator_small_print(t, values, n):
    it = iter(values)
    shared = itertools.tee(values)
    out = attempt(
        lambda: list(itertools.accumulate(values, initial=t)),
        lambda: list(itertools.accumulate(values, max)),
        lambda: list(itertools.islice(it, n, None)),
        lambda: next(it, "consumed"),
        lambda: list(itertools.islice(itertools.count(2.5, -0.5), 3)),
        lambda: list(itertools.repeat(t, n)),
        lambda: operator.length_hint(itertools.repeat(1, n)),
        lambda: list(zip(shared[0], shared[1], strict=True)),
        lambda: next(shared[0]),
        lambda: list(itertools.permutations(values, len(values) + 1)),
        lambda: list(itertools.combinations_with_replacement(values, 2)),
        lambda: list(itertools.product(values, repeat=n))[:3],
        lambda: list(itertools.zip_longest(values, [0], fillvalue="f")),
        lambda: list(itertools.starmap(max, [(1, 2), (3, n)])),
        lambda: list(itertools.islice(itertools.cycle(values), 4)),
        lambda: list(itertools.compress(values, [0, 1])),
        lambda: repr(itertools.count(n)),
        lambda: list(itertools.chain.from_iterable([values, n])),
    )
    return t + len(values), out


@documented(
    "library/itertools: groups of groupby are emptied when it goes on; copies of iterators go their own way; tee after use",
    lambda: [(x(), "aabcc"), (x(), []), (x(), [1, 1.0, True, 2]), (x(), range(3)), (x(), [[], [], 1])],
    **cleared,
)
def shared_iterators(t, values):
    groups = [(k, g) for k, g in itertools.groupby(values)]
    first = [list(g) for _, g in groups]
    keyed = [(k, len(list(g))) for k, g in itertools.groupby(values, key=lambda v: log.append(v) or str(v))]
    a = iter(values)
    next(a, None)
    b, c = itertools.tee(a)
    next(b, None)
    d = copy.copy(c)
    left = list(d), list(c), list(b), list(a)
    counter = itertools.count(5)
    next(counter)
    twin = copy.copy(counter)
    return t * (len(keyed) + 1), first, keyed, left, next(counter), next(twin), next(counter)
