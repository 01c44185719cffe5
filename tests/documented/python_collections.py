"""From library/collections, heapq, bisect, array, queue of the tutorial's data structures."""

import array
import bisect
import heapq
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Mapping, MutableMapping, Sequence, Set

from documented import Between, documented, x


def deques():
    d = deque([1, 2, 3], maxlen=3)
    return [(x(), d, 4), (x(), d, 5), (x(), deque(), 6), (x(), deque([1], maxlen=0), 7), (x(), d, 8), (x(), d, 9)]


@documented("library/collections: a bounded deque drops from the other end; rotate, extendleft reverses", deques)
def bounded_deque(t, d, v):
    d.append(v)
    d.rotate(1)
    d.extendleft([v + 1, v + 2])
    try:
        left = d.popleft()
    except IndexError as error:
        left = str(error)
    return t * len(d), left, list(d), d.maxlen, d.count(v), list(reversed(d))


def ordered():
    d = OrderedDict(a=1, b=2, c=3)
    return [
        (x(), d, "a", True),
        (x(), d, "c", False),
        (x(), d, "z", True),
        (x(), d, "b", True),
        (x(), OrderedDict(b=1, a=2), "a", False),
    ]


@documented("library/collections: OrderedDict.move_to_end, popitem(last), order-sensitive equality", ordered)
def ordered_dict(t, d, key, last):
    try:
        d.move_to_end(key, last=last)
    except KeyError as error:
        return t, repr(error)
    same = d == OrderedDict(sorted(d.items()))
    as_dict = d == dict(sorted(d.items()))
    d[key] += len(d)
    return t + d[key], list(d), same, as_dict, list(reversed(d.items()))


def counters():
    c = Counter("abca")
    return [(x(), c, "aab"), (x(), c, ""), (x(), c, "zz"), (x(), Counter(), "hello"), (x(), c, ["q", "q", "q", "q"])]


@documented(
    "library/collections: Counter's missing keys count 0 without insertion; most_common, +, -, &, |, elements, total",
    counters,
)
def counting(t, c, more):
    before = c["missing"], "missing" in c
    c.update(more)
    d = Counter(a=1, z=3)
    c.subtract({"a": 1})
    return t * c["a"] + c.total(), before, c.most_common(2), +(c - d), c & d, c | d, sorted(c.elements())


def defaults():
    d = defaultdict(list, a=[1])
    return [
        (x(), d, "a"),
        (x(), d, "b"),
        (x(), d, "b"),
        (x(), defaultdict(int), "k"),
        (x(), defaultdict(None), "k"),
        (x(), d, "c"),
    ]


@documented(
    "library/collections: defaultdict calls the factory in d[key] only, and inserts; without one KeyError", defaults
)
def default_factories(t, d, key):
    got = d.get(key)
    try:
        value = d[key]
    except KeyError as error:
        return t, repr(error)
    if isinstance(value, list):
        value.append(t.sum())
        value = len(value)
    else:
        d[key] += 2
    return t * value, got, list(d), d.default_factory


def chains():
    base = {"lr": 0.1, "wd": 0.0}
    over = {}
    chain = ChainMap(over, base)
    return [
        (x(), chain, "lr"),
        Between(lambda: over.update(lr=0.5)),
        (x(), chain, "lr"),
        Between(lambda: base.update(wd=2.0)),
        (x(), chain, "wd"),
        (x(), chain.new_child({"wd": 9.0}), "wd"),
        (x(), chain, "none"),
    ]


@documented("library/collections: ChainMap looks through the mappings as they are now, and writes to the first", chains)
def chain_map(t, chain, key):
    try:
        v = chain[key]
    except KeyError as error:
        return t, str(error), sorted(chain)
    chain["seen"] = chain.get("seen", 0) + 1
    return t * v, sorted(chain), len(chain), dict(chain.maps[0]), list(chain.parents.items())


class Lower(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __missing__(self, key):
        return -1


def user_dicts():
    d = Lower(A=1)
    return [(x(), d, "A", 1), (x(), d, "B", 2), (x(), d, "b", 3), (x(), Lower(), "Q", 4), (x(), d, "q", 5)]


@documented(
    "library/collections: UserDict's constructor, update and setdefault go through the subclass' __setitem__",
    user_dicts,
)
def user_dict(t, d, key, v):
    d.update({key: v})
    d.setdefault("D", v * 10)
    popped = d.pop("nope", "default")
    got = d.get(key, "none"), d[key], key in d
    return t * d["d"], popped, got, dict(d), len(d), type(d.data).__name__


class Doubling(UserList):
    def __getitem__(self, i):
        r = super().__getitem__(i)
        return r if isinstance(i, slice) else r * 2


@documented(
    "library/collections: UserList: slices are of the subclass, iteration goes by __getitem__, data is the list",
    lambda: [
        (x(), Doubling([1, 2, 3]), 1),
        (x(), Doubling([4]), 0),
        (x(), Doubling([4, 5, 6, 7]), 2),
        (x(), Doubling([]), 0),
        (x(), Doubling([1, 2, 3]), 2),
    ],
)
def user_list(t, items, n):
    part = items[n:]
    items.append(len(items))
    return t * items[n], type(part).__name__, list(items), part + [1], 4 in items, items.data


class LowerSet(Set):
    def __init__(self, items):
        self.items = sorted({i.lower() for i in items})

    def __contains__(self, item):
        return item.lower() in self.items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


@documented(
    "library/collections.abc: Set mixins give &, |, -, ^, <=, isdisjoint from three methods",
    lambda: [
        (x(), LowerSet("AbC"), LowerSet("bd")),
        (x(), LowerSet("a"), LowerSet("A")),
        (x(), LowerSet(""), LowerSet("x")),
        (x(), LowerSet("xyz"), {"x"}),
        (x(), LowerSet("ab"), LowerSet("cd")),
    ],
)
def set_mixins(t, a, b):
    return t * len(a | b), list(a & b), list(a - b), list(a ^ b), a <= b, a == b, a.isdisjoint(b)


class Window(Sequence):
    def __init__(self, data):
        self.data = data

    def __getitem__(self, i):
        return self.data[i]

    def __len__(self):
        return len(self.data)


def windows():
    w = Window([3, 1, 2])
    return [
        (x(), w, 1),
        Between(lambda: w.data.append(7)),
        (x(), w, 7),
        (x(), w, 8),
        (x(), Window((1, 1, 1)), 1),
        (x(), Window("text"), "t"),
    ]


@documented("library/collections.abc: Sequence mixins: __contains__, __iter__, __reversed__, index, count", windows)
def sequence_mixins(t, w, v):
    try:
        where = w.index(v)
    except ValueError as error:
        where = repr(error)
    return t + len(w), where, w.count(v), v in w, list(reversed(w)), isinstance(w, Sequence)


class Tracked(MutableMapping):
    def __init__(self):
        self.store, self.log = {}, []

    def __getitem__(self, k):
        return self.store[k]

    def __setitem__(self, k, v):
        self.log.append(k)
        self.store[k] = v

    def __delitem__(self, k):
        self.log.append(f"-{k}")
        del self.store[k]

    def __iter__(self):
        return iter(self.store)

    def __len__(self):
        return len(self.store)


def tracked():
    m = Tracked()
    return [(x(), m, "a"), (x(), m, "b"), (x(), m, "a"), Between(m.clear), (x(), m, "a"), (x(), Tracked(), "c")]


@documented("library/collections.abc: MutableMapping mixins: pop, setdefault, update, popitem, ==", tracked)
def mapping_mixins(t, m, key):
    m.setdefault(key, t * 2)
    m.update(n=len(m), k=1)
    k = m.pop("k"), m.pop("absent", "d")
    return m[key] + m["n"], k, list(m.items())[1:], m.log, m == dict(m.store), m.get("zz")


@documented(
    "library/heapq: heappush, heappop, heapreplace, nsmallest with key; merge of sorted inputs",
    lambda: [
        (x(), [5, 1, 4], 2),
        (x(), [9], 3),
        (x(), [3, 3, 3, 1], 0),
        (x(), [2.5, -1, 7, 8, 9, 10], 5),
        (x(), [(1, "b"), (1, "a")], (0, "z")),
    ],
)
def heaps(t, items, v):
    heapq.heapify(items)
    heapq.heappush(items, v)
    least = heapq.heappop(items)
    old = heapq.heapreplace(items, v)
    n = heapq.nlargest(2, items)
    merged = list(heapq.merge([1, 4], [2, 3], key=lambda q: q))
    return t + len(items), least, old, n, merged, heapq.nsmallest(1, items, key=lambda q: q)


@documented(
    "library/bisect: bisect_left and right differ at equals; insort keeps order; key is not applied to x",
    lambda: [(x(), [1, 2, 2, 3], 2), (x(), [], 5), (x(), [1.5, 9], 2), (x(), [1, 2, 3], 99), (x(), [1, 2, 2, 3], 2.0)],
)
def bisection(t, a, v):
    lo, hi = bisect.bisect_left(a, v), bisect.bisect(a, v)
    bisect.insort(a, v)
    grade = "FDCBA"[bisect.bisect([60, 70, 80, 90], v * 30)]
    return t[lo:hi], lo, hi, grade, bisect.bisect_left(a, 4, key=lambda q: q * 2)


@documented(
    "library/array: typed items, OverflowError outside, item assignment, slices are arrays",
    lambda: [(x(), "b", 100), (x(), "b", 200), (x(), "d", 1.5), (x(), "i", 7), (x(), "B", -1)],
)
def arrays(t, code, v):
    a = array.array(code, [1, 2, 3])
    try:
        a[1] = v
    except (OverflowError, TypeError) as error:
        return t, str(error)
    return t * a[1], a.tolist(), a[1:].tolist(), a.itemsize, repr(a)


@documented(
    "library/stdtypes: dict views are live and set-like; order is insertion order, updates keep the place",
    lambda: [
        (x(), {"a": 1, "b": 2}, "a"),
        (x(), {"b": 2, "a": 1}, "a"),
        (x(), {}, "n"),
        (x(), {"a": 1}, "z"),
        (x(), {"k": 0, "a": 1, "b": 2}, "b"),
    ],
)
def dict_views(t, d, key):
    keys, items = d.keys(), d.items()
    d[key] = 9
    removed = d.pop("b", None)
    d |= {"new": 1}
    return (
        t * len(keys),
        list(keys),
        keys & {"a", "new"},
        ("new", 1) in items,
        removed,
        list(reversed(d)),
        keys >= {"a"},
    )


@documented(
    "library/stdtypes: popitem is last in first out, setdefault returns, fromkeys shares the value, KeyError holds the key",
    lambda: [(x(), {1: "a", 2: "b"}), (x(), {}), (x(), {"q": 1}), (x(), {2: "b", 1: "a"}), (x(), {True: 1, 0: 2})],
)
def dict_methods(t, d):
    try:
        last = d.popitem()
    except KeyError as error:
        last = str(error)
    shared = dict.fromkeys("ab", [])
    shared["a"].append(len(d))
    try:
        d[(1, 2)]
    except KeyError as error:
        key = error.args
    return t + len(d), last, shared, d.setdefault(5, "five"), key, d


@documented(
    "library/stdtypes: changing a dict's size while iterating raises RuntimeError",
    lambda: [
        (x(), {"a": 1, "b": 2}, "c"),
        (x(), {"a": 1, "b": 2}, "a"),
        (x(), {"c": 1}, "c"),
        (x(), {}, "c"),
        (x(), {"c": 1, "d": 2}, "e"),
    ],
)
def changed_while_iterating(t, d, key):
    try:
        for k in d:
            t = t + d[k]
            d[key] = 0
    except RuntimeError as error:
        return t, str(error), d
    return t, d


@documented(
    "library/stdtypes: list methods: slice assignment and deletion with steps, insert past the end, remove, index bounds",
    lambda: [
        (x(), [1, 2, 3, 4, 5], 1),
        (x(), [1, 2, 3, 4, 5], 2),
        (x(), [5, 4, 3], 3),
        (x(), [1], 1),
        (x(), [1, 2, 3, 4, 5, 6, 7], -1),
    ],
)
def list_methods(t, a, n):
    a.insert(100, n)
    a[n:n] = [10, 20]
    del a[::3]
    try:
        a.remove(10)
        a[::2] = [0]
    except ValueError as error:
        return t + len(a), str(error), a
    return t * len(a), a, a * 2, a[::-1], a.index(0)


@documented(
    "library/stdtypes: set operations, discard and remove, operators need sets but methods take any iterable",
    lambda: [
        (x(), {1, 2, 3}, [2, 5]),
        (x(), {1}, []),
        (x(), set(), (1, 1)),
        (x(), frozenset({4, 2}), {2: 0}),
        (x(), {1, 2, 3}, [1, 2, 3]),
    ],
)
def sets(t, s, other):
    u, i, d, sd = s.union(other), s.intersection(other), s.difference(other), s.symmetric_difference(other)
    try:
        s |= other
    except TypeError as error:
        why = str(error)
    try:
        s.remove(99)
    except (KeyError, AttributeError) as error:
        gone = repr(error)
    return t * len(u), sorted(u), sorted(i), sorted(d), sorted(sd), why, gone, s.issuperset(other), type(u).__name__


def proxies():
    d = {"a": 1}
    p = types.MappingProxyType(d)
    return [
        (x(), p, "a"),
        Between(lambda: d.update(b=5)),
        (x(), p, "b"),
        (x(), p, "c"),
        Between(lambda: d.update(a=4)),
        (x(), p, "a"),
    ]


@documented("library/types: MappingProxyType is a read-only live view", proxies)
def mapping_proxy(t, p, key):
    try:
        p["x"] = 1
    except TypeError as error:
        why = str(error)
    return t * p.get(key, 0), len(p), why, p | {"z": 1}, isinstance(p, Mapping)


def namespaces():
    n = types.SimpleNamespace(lr=0.1, steps=[])
    return [
        (x(), n),
        (x(), n),
        Between(lambda: setattr(n, "lr", 2)),
        (x(), n),
        (x(), types.SimpleNamespace(lr=1, steps=[0])),
    ]


@documented("library/types: SimpleNamespace: attributes set and deleted, == compares them, repr shows them", namespaces)
def simple_namespace(t, n):
    n.steps.append(n.lr)
    n.extra = len(n.steps)
    same = n == types.SimpleNamespace(**vars(n))
    text = repr(n)
    del n.extra
    return t * n.lr, same, text, hasattr(n, "extra")
