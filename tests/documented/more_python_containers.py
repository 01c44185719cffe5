"""From library/stdtypes and collections: the small print of list, dict, set, range and deque."""

import collections
import collections.abc

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "library/stdtypes: during sort the list appears empty, its mutation is a ValueError; a key that fails may leave it partly sorted",
    lambda: [
        (x(), [3, 1, 2], "len"),
        (x(), [3, 1, 2], "append"),
        (x(), [3, 1, 0], "fail"),
        (x(), [1, 1.0, True, 0], "same"),
        (x(), [5, "a"], "same"),
        (x(), [], "fail"),
    ],
    **cleared,
)
def sorted_in_place(t, values, how):
    def key(v):
        if how == "len":
            log.append(len(values))
        elif how == "append":
            values.append(v)
        elif how == "fail":
            return 1 // v
        return v

    try:
        got = values.sort(key=key, reverse=len(values) > 3)
        t = t * values[0]
    except (ValueError, ZeroDivisionError, TypeError, IndexError) as error:
        return t, str(error), sorted(map(str, values))
    return t, got, values


@documented(
    "library/stdtypes: repetition does not copy items; += takes any iterable, + only lists; slices may be assigned from the list itself",
    lambda: [
        (x(), [1, 2, 3, 4], 2),
        (x(), [], 3),
        (x(), [[1], [2]], -1),
        (x(), [1, 2, 3], 0),
        (x(), [5], "ab"),
        (x(), [1, 2, 3], [4, 5]),
    ],
)
def shared_items(t, items, n):
    rows = [[]] * 2 + [items] * (n if isinstance(n, int) else 1)
    rows[0].append(t)
    out = attempt(
        lambda: items.__iadd__(n),
        lambda: items + n,
        lambda: items.__setitem__(slice(None, None, 2), [0]),
        lambda: items.__setitem__(slice(1, 1), items),
        lambda: items.__setitem__(slice(0, 1), n),
        lambda: items.index(2, -2),
        lambda: items.insert(-100, "first"),
        lambda: items.pop(50),
        lambda: items.extend(items),
    )
    items *= 2
    return rows[1][0] * len(items), out, rows


@documented(
    "library/stdtypes: a dict that changes its size while iterated raises, replaced values do not; del and insert shows as changed keys",
    lambda: [
        (x(), {1: 2, 3: 4}, "add"),
        (x(), {1: 2, 3: 4}, "replace"),
        (x(), {1: 2, 3: 4}, "swap"),
        (x(), {1: 2, 3: 4}, "delete"),
        (x(), {1: 2}, "delete"),
        (x(), {}, "add"),
        (x(), {1: 2, 3: 4, 5: 6}, "clear"),
    ],
)
def dicts_that_change(t, d, how):
    seen = []
    try:
        for k, v in d.items():
            t = t * v
            seen.append(k)
            if how == "add":
                d[k + 10] = t
            elif how == "replace":
                d[k] = t
            elif how == "swap":
                del d[k]
                d[k + 10] = 1
                if len(seen) > 4:
                    break
            elif how == "delete":
                d.popitem()
            else:
                d.clear()
    except RuntimeError as error:
        return t, str(error), seen, d
    return t, seen, d, [*reversed(d)]


@documented(
    "library/stdtypes: update and | take mappings, |= also pairs; errors tell which element; views compare and combine as sets",
    lambda: [
        (x(), {"a": 1, "b": 2}, {"b": 3}),
        (x(), {"a": 1}, [("a", 5), ["c", 6]]),
        (x(), {"a": 1}, [("a", 5, 6)]),
        (x(), {}, [3]),
        (x(), {"a": 1, "c": 1}, ["xy", "zw"]),
        (x(), {"a": x()}, None),
        (x(), collections.OrderedDict(a=1, b=2), {"b": 2, "a": 1}),
    ],
)
def dict_merges(t, d, other):
    before = dict(d)
    out = attempt(
        lambda: d | other,
        lambda: d.__ior__(other) is d,
        lambda: d.update(other, z=t),
        lambda: dict(other, q=1),
        lambda: d.keys() & before,
        lambda: sorted(d.keys() ^ {"a", "new"}),
        lambda: d.keys() >= before.keys(),
        lambda: list(d.items() - before.items()) == [],
        lambda: d.keys().mapping["a"],
        lambda: {}.popitem(),
        lambda: d.pop("nowhere"),
        lambda: d.setdefault([], 1),
        lambda: d == other,
    )
    return t * len(d), out, list(d)


@documented(
    "library/stdtypes: operators on sets give the first operand's type; remove of a set looks for an equal frozenset; sets change in iteration",
    lambda: [
        (x(), {1, 2}, frozenset({2, 3})),
        (x(), frozenset({1}), {1}),
        (x(), {frozenset({1}), 2}, {1}),
        (x(), set(), [1, 1]),
        (x(), {3, 4}, {}),
        (x(), {0, False, 0.0}, (0,)),
    ],
)
def set_small_print(t, s, other):
    out = attempt(
        lambda: s | other,
        lambda: s.union(other, [9]),
        lambda: s <= other,
        lambda: s.issubset(other),
        lambda: s.isdisjoint(other),
        lambda: other in s,
        lambda: s.remove(other),
        lambda: s.symmetric_difference(other),
        lambda: [s.add(v + 1) for v in s if not isinstance(v, frozenset)],
        lambda: s.__iand__(other) is s,
        lambda: hash(s) == hash(frozenset(s)),
        lambda: s.discard([]),
        lambda: s - s == set(),
    )
    return t + len(s), out


@documented(
    "library/stdtypes: ranges compare and hash as the sequences they stand for, keep no items, and take slices and big numbers",
    lambda: [
        (x(), range(0, 10, 3), range(0, 12, 3)),
        (x(), range(0), range(5, 2)),
        (x(), range(2**70), range(2**70 + 1)),
        (x(), range(10, 0, -2), range(10, 1, -2)),
        (x(), range(3, 4, 7), range(3, 4)),
    ],
)
def ranges(t, a, b):
    out = attempt(
        lambda: a == b,
        lambda: hash(a) == hash(b),
        lambda: len(a),
        lambda: a[-1],
        lambda: a[1:-1],
        lambda: a[::-1],
        lambda: a.index(6) if len(b) < 9 else 0,
        lambda: (a.count(4), True in a, 2**69 in a),
        lambda: (a.start, a.stop, a.step),
        lambda: range(1, 2, 0),
        lambda: range(1.5),
        lambda: a[5:2:-1],
        lambda: max(a[:2]) if len(b) < 9 else 0,
        lambda: setattr(a, "start", 1),
    )
    return t * len(a[:3]), out


@documented(
    "library/collections: a deque that changes while iterated raises; insert into a full one raises; index with bounds, rotate, +, *",
    lambda: [
        (x(), collections.deque([1, 2, 3], 3), 1),
        (x(), collections.deque([1, 2, 3]), -1),
        (x(), collections.deque(), 2),
        (x(), collections.deque([x(), 5], 4), 1),
        (x(), collections.deque([4, 4], maxlen=0), 1),
    ],
)
def deque_small_print(t, d, n):
    def while_iterated():
        for v in d:
            d.append(v)

    out = attempt(
        lambda: d.rotate(n),
        lambda: d.insert(1, 9),
        while_iterated,
        lambda: d.index(3, 1, 3),
        lambda: d[5],
        lambda: d + collections.deque([7]),
        lambda: d + [7],
        lambda: d * 2,
        lambda: d.extend(d),
        lambda: d.popleft(),
        lambda: d.__imul__(2),
        lambda: d.maxlen,
        lambda: d < collections.deque([9]),
        lambda: collections.deque([1], maxlen=-1),
        lambda: d.remove("absent"),
        lambda: d.copy() is d,
    )
    return t * len(d), out, d
