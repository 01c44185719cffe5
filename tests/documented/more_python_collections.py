"""From library/collections, array, heapq, bisect: the small print of the containers beside list, dict and set."""

import array
import bisect
import collections
import collections.abc
import heapq

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "library/collections: Counter keeps zero and negative counts, operators drop them; comparisons treat missing as zero; update adds",
    lambda: [
        (x(), collections.Counter("aab"), {"a": 1, "c": -2}),
        (x(), collections.Counter(a=-1, b=0), "bb"),
        (x(), collections.Counter(), collections.Counter(a=1)),
        (x(), collections.Counter({1: 2.5}), [1, 2]),
        (x(), collections.Counter(a=3), None),
        (x(), collections.Counter(a=1), 5),
    ],
)
def counter_small_print(t, c, other):
    out = attempt(
        lambda: c.update(other),
        lambda: c + collections.Counter(other),
        lambda: c.subtract(other),
        lambda: +c,
        lambda: -c,
        lambda: c & collections.Counter("a"),
        lambda: c <= collections.Counter(a=5, b=5),
        lambda: c == {**c, "z": 0},
        lambda: c == collections.Counter({**c, "z": 0}),
        lambda: c.most_common(1),
        lambda: sorted(c.elements(), key=str),
        lambda: c.total(),
        lambda: (c["missing"], "missing" in c),
        lambda: c.__delitem__("missing"),
        lambda: collections.Counter.fromkeys("ab"),
    )
    return t * (c["a"] + c.total()), out, c


Plain = collections.namedtuple("Plain", "first class second first", rename=True, defaults=[5])


class Sample(collections.namedtuple("Sample", ["data", "label"])):
    __slots__ = ()

    @property
    def size(self):
        return self.data.numel()

    def __add__(self, other):
        return Sample(self.data + other, self.label)


@documented(
    "library/collections: namedtuple renames invalid fields, _replace and _make check; a subclass adds methods, attributes cannot be set",
    lambda: [
        (x(), Sample(x(), "a")),
        (x(), Plain(1, 2, 3)),
        (x(), Sample(x(2), 3)),
        (x(), Plain(4, x(), 6, 7)),
        (x(), Sample(data=x(4) * 2, label=None)),
    ],
)
def named_tuples_checked(t, s):
    kind = type(s)
    out = attempt(
        lambda: kind._fields,
        lambda: kind._field_defaults,
        lambda: s._replace(label="new"),
        lambda: s._replace(unknown=1),
        lambda: kind._make([1, 2]),
        lambda: kind._make(range(9)),
        lambda: s._asdict(),
        lambda: setattr(s, "label", 1),
        lambda: s + 1,
        lambda: s[1:],
        lambda: kind(1),
        lambda: s.size,
        lambda: kind.__doc__,
        lambda: collections.namedtuple("Bad", "a a"),
        lambda: collections.namedtuple("Bad", "_a"),
    )
    return t * len(s) + (s.data.sum() if hasattr(s, "data") else 0), out


def failing_factory():
    log.append("factory")
    if len(log) > 1:
        raise KeyError("factory")
    return x()


@documented(
    "library/collections: default factories may raise and be replaced; copies keep them; | of two takes the left one's",
    lambda: [
        (x(), collections.defaultdict(failing_factory), "a"),
        (x(), collections.defaultdict(failing_factory), "a"),
        (x(), collections.defaultdict(None, a=1), "a"),
        (x(), collections.defaultdict(list), "b"),
        (x(), collections.defaultdict(lambda: 7), "c"),
    ],
    **cleared,
)
def default_dicts(t, d, key):
    out = attempt(
        lambda: d[key],
        lambda: d.get("other"),
        lambda: d.__missing__("direct"),
        lambda: d.copy().default_factory is d.default_factory,
        lambda: (d | {"z": 1})["y"],
        lambda: ({"z": 1} | d)["x"],
        lambda: d.pop("w"),
        lambda: d.setdefault("v", 3),
        lambda: collections.defaultdict(5),
    )
    d.default_factory = int
    d["count"] += 2
    return t * d["count"] + d["zero"], out, list(d)


@documented(
    "library/collections: ChainMap's new_child and parents; deletion and popitem see the first mapping only, the message says so",
    lambda: [
        (x(), {"a": 1}, {"a": 2, "b": 3}),
        (x(), {}, {"k": 4}),
        (x(), {"b": x()}, {}),
        (x(), {"a": 5, "c": 6}, {"a": 7}),
    ],
)
def chain_map_small_print(t, one, two):
    chain = collections.ChainMap(one, two)
    child = chain.new_child({"a": 100}, extra=1)
    out = attempt(
        lambda: list(chain),
        lambda: chain["a"],
        lambda: chain.__delitem__("b"),
        lambda: chain.pop("k"),
        lambda: chain.popitem(),
        lambda: chain.parents["a"],
        lambda: child.maps[-1] is two,
        lambda: dict(child | {"a": 0}),
        lambda: ({"q": 1} | chain)["q"],
        lambda: chain == collections.ChainMap({**two, **one}),
        lambda: chain.setdefault("n", 2),
    )
    two["late"] = 3
    return t * child["a"] + chain["late"], out, one


@documented(
    "library/array: typecodes limit items; extend wants the same type; a buffer that is exported cannot be resized",
    lambda: [
        (x(), "i", [1, 2, 3]),
        (x(), "b", [1, 200]),
        (x(), "f", [0.1, 2]),
        (x(), "d", []),
        (x(), "q", [1, 2.5]),
        (x(), "B", [7]),
    ],
)
def typed_arrays(t, code, values):
    try:
        a = array.array(code, values)
    except (OverflowError, TypeError) as error:
        return t, str(error)
    view = memoryview(a)
    out = attempt(
        lambda: a.append(1),
        lambda: view.tolist(),
        lambda: (view.format, view.itemsize, view.nbytes, view.readonly),
        lambda: view.cast("B").tolist()[:2],
        lambda: view.release(),
        lambda: a.extend(array.array("u", "x")),
        lambda: a.extend([4]),
        lambda: view[0],
        lambda: a.tobytes() == bytes(a),
        lambda: a.index(4),
        lambda: a[0:1].typecode,
        lambda: a == list(a),
        lambda: a.pop(9),
    )
    return t * torch.tensor(list(a)).sum(), out, a


@documented(
    "library/heapq: ties compare the next item of the tuple, so that a counter keeps tensors from being compared; nlargest, pushpop, merge",
    lambda: [
        (x(), [(2, 0, x()), (1, 1, x())]),
        (x(), [(1, x(1)), (1, x(1) + 1)]),
        (x(), [(1, x()), (1, x())]),
        (x(), []),
        (x(), [(3, 1), (3, 0), (1, 2)]),
    ],
)
def heaps_with_ties(t, entries):
    heap: list = []
    out = attempt(
        lambda: [heapq.heappush(heap, e) for e in entries] and None,
        lambda: heapq.heappushpop(heap, (0,)),
        lambda: heapq.nlargest(1, entries),
        lambda: heapq.nsmallest(5, [e[0] for e in entries]),
        lambda: list(heapq.merge([3, 1], [2], key=lambda v: -v)),
        lambda: list(heapq.merge([1, 4], [2], reverse=True)),
        lambda: heapq.heapreplace(heap, (9,)),
        lambda: bisect.bisect([1, 2, 2, 5], len(entries)),
        lambda: bisect.insort(entries, (2, 5), key=lambda e: e[0]),
        lambda: bisect.bisect_left([5, 3], 4, lo=-1),
        lambda: heapq.heappop([]),
    )
    return t + len(heap), [str(o).split("\n")[0] if isinstance(o, str) else o for o in out], len(entries)


class Listed(collections.abc.MutableSequence):
    def __init__(self, items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        log.append(("get", i))
        return self.items[i]

    def __setitem__(self, i, v):
        log.append(("set", i))
        self.items[i] = v

    def __delitem__(self, i):
        log.append(("del", i))
        del self.items[i]

    def insert(self, i, v):
        log.append(("insert", i))
        self.items.insert(i, v)


@documented(
    "library/collections.abc: MutableSequence makes append, reverse, extend, pop, remove and += from five methods, in known steps",
    lambda: [
        (x(), Listed([1, 2, 3])),
        (x(), Listed([])),
        (x(), Listed([x(1), 5])),
        (x(), Listed("ab")),
        (x(), Listed([2])),
    ],
    **cleared,
)
def sequence_from_five(t, s):
    out = attempt(
        lambda: s.append(2),
        lambda: s.reverse(),
        lambda: s.extend(s),
        lambda: s.__iadd__([7]) is s,
        lambda: s.pop(),
        lambda: s.remove(2),
        lambda: s.remove("absent"),
        lambda: s.index(2, 1),
        lambda: s.count(2),
        lambda: list(reversed(s))[0],
        lambda: isinstance(s, collections.abc.Sequence) and isinstance(s, collections.abc.Reversible),
        lambda: s + [1],
        lambda: s == s.items,
        lambda: s.clear(),
    )
    return t + len(log), out


class Folded(collections.UserDict):
    def __setitem__(self, key, value):
        log.append(key)
        super().__setitem__(key.lower(), value)

    def __contains__(self, key):
        return super().__contains__(key.lower())

    def __missing__(self, key):
        return f"no {key}"


@documented(
    "library/collections: a UserDict's own __setitem__ and __contains__ serve update, |, setdefault, get and pop; __missing__ only []",
    lambda: [
        (x(), {"A": 1}, "a"),
        (x(), {}, "B"),
        (x(), {"B": x(), "b": 2}, "B"),
        (x(), [("C", 3)], "c"),
        (x(), 5, "c"),
    ],
    **cleared,
)
def user_dicts(t, source, key):
    try:
        d = Folded(source, Extra=t)
    except TypeError as error:
        return t, str(error)
    out = attempt(
        lambda: d[key],
        lambda: d.get(key),
        lambda: key in d,
        lambda: (d | {"Q": 1}).data,
        lambda: ({"Q": 1} | d).data,
        lambda: d.setdefault(key, 4),
        lambda: d.pop(key),
        lambda: d.copy() == d,
        lambda: isinstance(d, dict),
        lambda: d.__ior__({"R": 5}) is d,
    )
    return d["extra"] * len(d), out
