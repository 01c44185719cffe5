"""Containers of the language and of collections."""

import collections
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque

import torch

from programs import program


@program("containers", lambda t: (t(), [3, 1, 2]))
def list_methods(x, items):
    items.append("x")
    items.extend([7, 8])
    items.insert(0, "first")
    items += (9,)
    last = items.pop()
    items.remove(7)
    popped = items.pop(1)
    items.reverse()
    n = items.index(8), items.count(8)
    copy = items.copy()
    copy.clear()
    return x + popped, last, n, copy, items * 1 is items, items.append(x)


@program("containers", lambda t: (t(), list(range(8))))
def list_slices_assigned(x, items):
    items[1:3] = ["a", "b", "c"]
    items[::4] = [x, None, x + 1]
    del items[2:4]
    del items[-1]
    items[len(items) :] = [5]
    tail = items[-2:]
    items *= 2
    return tail, len(items)


@program("containers", lambda t: (t(), [(2, "b"), (1, "z"), (2, "a")]))
def sorting(x, rows):
    rows.sort()
    by_name = sorted(rows, key=lambda r: r[1], reverse=True)
    stable = sorted(rows, key=lambda r: r[0])
    words = sorted(["b", "A", "c"], key=str.lower)
    return x * rows[0][0], by_name, stable, words, min(rows, key=lambda r: r[1]), max(3, 1, 2)


@program("containers", lambda t: (t(), {"b": 1, "a": t()}))
def dict_methods(x, table):
    table["c"] = x
    got = table.get("zz", 5), table.setdefault("d", []), table.setdefault("b", 9)
    table["d"].append(x + 1)
    b = table.pop("b")
    table.update({"e": 1}, f=2)
    table |= {"a": 0}
    merged = table | {"g": 3}
    del table["e"]
    order = list(table), list(reversed(table)), [*table.values()][-1]
    last = merged.popitem()
    table["b"] = b
    return x + got[0], order, last, dict.fromkeys("xy", 0), "f" in table, len(merged), got[1] is table["d"]


@program("containers", lambda t: (t(), {"k": 1, 2: t()}))
def dict_views(x, table):
    keys, values, items = table.keys(), table.values(), table.items()
    before = len(keys)
    table["new"] = x
    common = keys & {"k", "zz"}
    return x + before, len(keys), common, ("k", 1) in items, [type(v).__name__ for v in values], "new" in keys


@program("containers")
def changed_while_iterated(x):
    table = {1: x}
    try:
        for k in table:
            table[k + 1] = x
    except RuntimeError as error:
        message = str(error)
    row = [1, 2]
    for r in row:
        if len(row) < 5:
            row.append(r * 10)
    return x * 2, message, row


@program("containers", lambda t: (t(), {1, 2}))
def sets(x, given):
    given.add(3)
    given.discard(1)
    given |= {8}
    other = frozenset([2, 3, 9])
    ops = [sorted(s) for s in (given & other, given | other, given - other, given ^ other)]
    empty = set()
    empty.update([4], (5,))
    empty.remove(4)
    return x + len(ops[1]), ops, {2} <= given, other.isdisjoint({7}), empty, {frozenset([1]): "k"}


@program("containers", lambda t: (t(), OrderedDict(a=1, b=t(), c=3)))
def ordered_dict(x, od):
    od.move_to_end("a")
    od["d"] = x
    first = od.popitem(last=False)
    od.move_to_end("d", last=False)
    made = OrderedDict([("q", 1)])
    made.update(od)
    return first[1] + x, list(od), list(made), made == OrderedDict(made), type(made).__name__


@program("containers", lambda t: (t(), defaultdict(list)))
def default_dict(x, groups):
    for i in range(5):
        groups[i % 2].append(x + i)
    counts = defaultdict(int)
    for c in "hello":
        counts[c] += 1
    nested = defaultdict(lambda: defaultdict(int))
    nested["a"]["b"] += 1
    return sum(groups[0]), dict(counts), nested["a"]["b"], "zz" in groups, groups.default_factory is list


@program("containers", lambda t: (t(), deque([1, 2, 3], maxlen=4)))
def deques(x, queue):
    queue.append(x)
    queue.appendleft(0)
    right = queue.pop()
    left = queue.popleft()
    queue.extend([7, 8])
    queue.rotate(1)
    free = deque("ab")
    free.extendleft("yz")
    return x + right, left, list(queue), queue.maxlen, free, len(free), free[0], deque(maxlen=2)


@program("containers")
def counters(x):
    words = Counter("mississippi")
    words.update("miss")
    more = Counter(a=2, s=1)
    return x * words["s"], words.most_common(2), words["zz"], sorted((words + more).items()), sum(more.values())


Point = collections.namedtuple("Point", "x y z", defaults=[0])


@program("containers", lambda t: (t(), Point(t(), 2)))
def named_tuples(x, point):
    moved = point._replace(x=x + point.y)
    a, b, c = moved
    made = Point(1, y=x)
    return (
        a * b + c,
        moved,
        made._asdict(),
        made[1] is made.y,
        Point._fields,
        isinstance(made, tuple),
        made._make("abc"),
    )


@program("containers")
def chain_map(x):
    low, high = {"a": 1, "b": x}, {"a": 2}
    chain = ChainMap(high, low)
    chain["c"] = 3
    return chain["b"] * chain["a"], sorted(chain), high, chain.get("zz", 0)


@program("containers", lambda t: (t(), [[1], [2]], {"in": {"deep": [t()]}}))
def nested_structures(x, rows, config):
    rows[0].append(x)
    rows.append(rows[1])
    rows[2].append("seen twice")
    config["in"]["deep"][0] = x + 1
    config["in"]["more"] = {"rows": rows}
    config["out"] = config["in"]["deep"]
    return config["out"][0] * 2, rows[1] is rows[2]


@program("containers", lambda t: (t(), (lambda row: [row, row])([1])))
def aliased_containers(x, rows):
    rows[0].append(x)
    rows[1] += [2]
    return rows[0] is rows[1], len(rows[0]), rows[0][1] + 1


@program("containers", lambda t: (t(), torch.Size([2, 3])))
def torch_sizes(x, size):
    shape = x.shape + (2,)
    return (
        x.expand(2, *x.shape),
        size.numel(),
        size[0],
        size[-1:],
        shape,
        list(size),
        len(size),
        size == (2, 3),
        isinstance(size, tuple),
        torch.Size((4,)),
        type(size[:1]).__name__,
    )


class Registry(dict):
    def __missing__(self, key):
        self.asked = key
        return f"no {key}"

    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)


class Stack(list):
    def push(self, value):
        self.append(value)
        self.high = max(getattr(self, "high", 0), len(self))
        return self


@program("containers", lambda t: (t(), Registry(), Stack([1])))
def subclasses_of_containers(x, registry, stack):
    registry["a"] = x + 1
    missing = registry["zz"]
    stack.push(x).push(3)
    made = Stack()
    made.push("new")
    return registry["A"] * 2, missing, registry.asked, stack.high, made, len(stack), stack[0], list(registry)


@program("containers")
def equality_and_order(x):
    return (
        x + 1,
        [1, 2] < [1, 3],
        (1, 2) == (1, 2.0),
        {"a": [1]} == {"a": [1]},
        {1, 2} == {2, 1},
        [1] != (1,),
        (1, "a") < (1, "b"),
        [1] != [1][:],
        1 in [1.0],
        max([3, 1], [2, 9]),
        range(3) == range(0, 3, 1),
        sorted([(2, 1), (1, 9)]),
        (1,) + (2,) * 2,
        [1, 2] * 2 + [3],
    )


@program("containers", lambda t: (t(), t()))
def tensors_as_keys_and_members(x, y):
    seen = {x: "x", y: "y"}
    group = {x, y, x}
    found = [k is x for k in [x, y]]
    return seen[x], seen[y], len(group), found, x + y, any(v is y for v in group)


@program("containers")
def new_containers_escape(x):
    row = []
    table = {"row": row, "again": row}
    row.append(table)
    both = (row, [row])
    never = {"lost": [x * 3]}
    never["lost"].append(1)
    return both, x + 1


@program("containers", lambda t: (t(), [3, 1]))
def made_by_generic_aliases(x, items):
    table = dict[str, list[int]](a=items)
    row = list[int](items)
    table["b"] = row
    row.append(len(set[int](row) | frozenset[int]((7,))))
    return x * row[-1], table, tuple[int, ...](row), list[int]() == []
