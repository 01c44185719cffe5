"""From library/functools, itertools, operator."""

import functools
import itertools
import operator

import torch

from documented import Between, documented, x

made: list = []


@functools.lru_cache(maxsize=2)
def factor(n):
    made.append(n)
    return n * 0.5


@functools.cache
def table(n):
    made.append(("table", n))
    return torch.arange(n)


def forget():
    factor.cache_clear()
    table.cache_clear()
    made.clear()


@documented(
    "library/functools: lru_cache counts hits and misses, drops the least recently used, cache_clear forgets",
    lambda: [(x(), 1), (x(), 1), (x(), 2), (x(), 3), (x(), 1), Between(factor.cache_clear), (x(), 1)],
    state=lambda: (list(made), tuple(factor.cache_info())),
    setup=forget,
)
def least_recently_used(t, n):
    return t * factor(n) + factor(n), factor.cache_info().hits, tuple(factor.cache_info())


@documented(
    "library/functools: cache returns the same object for equal arguments",
    lambda: [(x(), 4), (x(), 4), (x(3), 3), (x(), 4), Between(table.cache_clear), (x(), 4), (x(3), 3.0)],
    state=lambda: (list(made), tuple(table.cache_info())),
    setup=forget,
)
def cached_tensors(t, n):
    a, b = table(n), table(n)
    return t + a, a is b, a


class Stats:
    def __init__(self, data):
        self.data = data
        self.computed = 0

    @functools.cached_property
    def mean(self):
        self.computed += 1
        return self.data.mean()

    @functools.cached_property
    def n(self):
        return len(self.data)


def stats():
    s = Stats(x())

    def drop():
        del s.mean
        s.data = x(3) * 10

    def poke():
        s.n = 100

    return [(x(), s), (x(), s), Between(drop), (x(3), s), Between(poke), (x(3), s), (x(), Stats(x(2)))]


@documented(
    "library/functools: cached_property computes once, is stored in __dict__, can be deleted and assigned", stats
)
def cached_properties(t, s):
    return t - s.mean, s.n, s.computed, "mean" in vars(s)


@functools.singledispatch
def scale(v, t):
    return t, "object"


@scale.register
def _(v: int, t):
    return t * v, "int"


@scale.register(list)
@scale.register(tuple)
def _(v, t):
    return t + len(v), "sequence"


def dispatched():
    class Special:
        pass

    o = Special()
    return [
        (x(), 2),
        (x(), [1, 2]),
        (x(), o),
        (x(), True),
        (x(), "s"),
        (x(), (1,)),
        Between(lambda: scale.register(Special, lambda v, t: (t * 100, "special"))),
        (x(), o),
    ]


@documented(
    "library/functools: singledispatch chooses by the first argument's class and its MRO, as registered so far",
    dispatched,
)
def single_dispatch(t, v):
    return scale(v, t), scale.dispatch(type(v)) is scale.dispatch(object)


class Cell:
    def __init__(self):
        self.alive = False

    def set_state(self, state, by=None):
        self.alive = state
        return by

    set_alive = functools.partialmethod(set_state, True)
    set_dead = functools.partialmethod(set_state, False, by="dead")


def cells():
    c = Cell()
    return [(x(), c, True), (x(), c, False), (x(), c, True), (x(), Cell(), False), (x(), c, False)]


@documented("library/functools: partialmethod and partial: arguments come first, keywords are overridden", cells)
def partials(t, c, alive):
    by = c.set_alive() if alive else c.set_dead(by="call")
    add = functools.partial(torch.add, t, alpha=2)
    base = functools.partial(int, base=2)
    pair = functools.partial(functools.partial(lambda *a, **k: (a, k), 1, k=1), 2, k=c.alive)
    return (
        add(t) if c.alive else add(t, alpha=3),
        by,
        base("101"),
        pair(3),
        add.keywords,
        len(add.args),
        add.func is torch.add,
    )


@documented(
    "library/functools: reduce folds from the left with the initial first; TypeError for empty without",
    lambda: [(x(), [1, 2, 3], None), (x(), [], None), (x(), [], 5), (x(), [4], 2), (x(), [x(), 2.0], 1)],
)
def reducing(t, values, initial):
    def combine(a, b):
        return a * 2 + b

    try:
        r = functools.reduce(combine, values) if initial is None else functools.reduce(combine, values, initial)
    except TypeError as error:
        return t, str(error)
    return t + r, list(itertools.accumulate([1, 2, 3], combine, initial=7))


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts if isinstance(other, Version) else NotImplemented

    def __lt__(self, other):
        return self.parts < other.parts if isinstance(other, Version) else NotImplemented


@documented(
    "library/functools: total_ordering gives the other comparisons from __lt__ and __eq__; NotImplemented goes through",
    lambda: [
        (x(), Version(1, 2), Version(1, 3)),
        (x(), Version(2), Version(1, 9)),
        (x(), Version(1), Version(1)),
        (x(), Version(1), 1),
        (x(), Version(), Version(0)),
    ],
)
def ordering(t, a, b):
    try:
        if a >= b:
            t = t + 10
        return t, a > b, a <= b, a != b, sorted([a, b], reverse=True)[0] is a, max(a, b) is b
    except TypeError as error:
        return t, str(error), a == b


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs) + wrapper.calls

    wrapper.calls = 0
    return wrapper


@traced
def doubled(t, /, by=2):
    """Doubles."""
    return t * by


@documented(
    "library/functools: wraps copies name and docstring, updates __dict__, sets __wrapped__; the counter is per wrapper",
    lambda: [(x(), {}), (x(), {"by": 3}), (x(), {}), (x(), {"by": 2.5}), (x(), {"other": 1})],
    state=lambda: doubled.calls,
    setup=lambda: setattr(doubled, "calls", 0),
)
def wrapped(t, kwargs):
    return doubled(t, **kwargs), doubled.__name__, doubled.__doc__, doubled.__wrapped__(t), doubled.calls


@documented(
    "library/itertools: chain, islice, takewhile, dropwhile, starmap, compress, filterfalse as their recipes",
    lambda: [(x(), [1, 4, 6, 4, 1], 5), (x(), [], 5), (x(), [9, 1], 2), (x(), [1, 4, 6, 4, 1], 4), (x(), [0, 0, 3], 1)],
)
def iterator_algebra(t, values, n):
    chained = list(itertools.chain(values, [n], *[[1], [2]]))
    cut = list(itertools.islice(chained, 1, None, 2)), list(itertools.islice(itertools.count(n, 2), 3))
    takes = list(itertools.takewhile(lambda v: v < n, values)), list(itertools.dropwhile(lambda v: v < n, values))
    picks = list(itertools.compress("ABCDEF", values)), list(itertools.filterfalse(lambda v: v % 2, chained))
    star = list(itertools.starmap(pow, [(2, n), (n, 2)]))
    return t * len(chained) + star[0], chained, cut, takes, picks, star


@documented(
    "library/itertools: product, permutations, combinations in lexicographic order of the input, with their counts",
    lambda: [(x(), "abc", 2), (x(), "ab", 3), (x(), "", 0), (x(), [1, 2, 3, 4], 1), (x(), "ba", 2)],
)
def combinatorics(t, pool, r):
    p = list(itertools.product(pool, repeat=r))
    c = list(itertools.combinations(pool, r))
    return (
        t * len(p) + len(c),
        p[:5],
        list(itertools.permutations(pool, r)),
        c,
        len(list(itertools.combinations_with_replacement(pool, r))),
    )


@documented(
    "library/itertools: groupby makes a group at each change of key; the groups share the underlying iterator",
    lambda: [(x(), "AAABBA"), (x(), "A"), (x(), ""), (x(), "ABAB"), (x(), [1, 1.0, True, 2])],
)
def grouped(t, values):
    groups = [(k, len(list(g))) for k, g in itertools.groupby(values)]
    late = [(k, list(g)) for k, g in list(itertools.groupby(values))]
    for _, n in groups:
        t = t + n
    return t, groups, late


@documented(
    "library/itertools: zip_longest fills, pairwise overlaps, tee gives independent iterators, cycle repeats",
    lambda: [(x(), [1, 2, 3], "ab"), (x(), [], "q"), (x(), [5], "xyz"), (x(), (1, 2), ""), (x(), [1, 2, 3, 4], "ab")],
)
def iterator_pairs(t, a, b):
    longest = list(itertools.zip_longest(a, b, fillvalue="-"))
    one, two = itertools.tee(a)
    first = next(one, None)
    cycle = list(itertools.islice(itertools.cycle(b), 5))
    return (
        t + len(longest),
        longest,
        list(itertools.pairwise(a)),
        first,
        list(one),
        list(two),
        cycle,
        list(itertools.repeat(t.shape[0], len(a))),
    )


class Source:
    def __init__(self):
        self.it = itertools.count(1)
        self.rows = iter([x(), x() * 2, x() * 3])


def sources():
    s = Source()
    return [(x(), s), (x(), s), (x(), s), (x(), s), (x(), Source())]


@documented("library/itertools: count and iter keep their place between calls", sources)
def iterators_that_go_on(t, s):
    n = next(s.it)
    row = next(s.rows, None)
    return t * n if row is None else t * n + row, n


@documented(
    "library/operator: itemgetter, attrgetter, methodcaller, length_hint, and the in-place functions",
    lambda: [(x(), [3, 1, 2], 0), (x(), [3, 1, 2], 2), (x(), (7, 8), 1), (x(), [9], 3), (x(), "abc", 1)],
)
def operator_functions(t, s, i):
    try:
        one = operator.itemgetter(i)(s)
    except IndexError as error:
        return t, str(error)
    both = operator.itemgetter(0, i)(s)
    up = operator.methodcaller("__getitem__", slice(0, i))(s)
    y = operator.add(t, i)
    y = operator.imul(y, 2)
    return (
        y,
        one,
        both,
        up,
        operator.attrgetter("shape")(t),
        operator.contains(s, one),
        operator.concat(s, s),
        operator.index(i),
        operator.countOf(s, one),
    )


@documented(
    "library/functools: cmp_to_key sorts by a comparison function",
    lambda: [(x(), [3, 1, 2], 1), (x(), [3, 1, 2], -1), (x(), [], 1), (x(), ["b", "a"], -1), (x(), [1, 1.0, True], 1)],
)
def comparison_keys(t, values, sign):
    def compare(a, b):
        return sign * ((a > b) - (a < b))

    s = sorted(values, key=functools.cmp_to_key(compare))
    return t * len(s), s
