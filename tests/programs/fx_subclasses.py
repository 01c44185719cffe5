"""Side effects through the program's own containers: subclasses of builtins and of collections.abc."""

import collections.abc
from collections import OrderedDict

from programs import program

LOG: list = []


def logged(category_args=lambda t: (t(),), **more):
    return program("fx_subclasses", category_args, setup=LOG.clear, state=lambda: LOG, **more)


class LoggedList(list):
    """Tells each change."""

    def append(self, item):
        LOG.append(("append", len(self)))
        super().append(item)

    def __setitem__(self, at, item):
        LOG.append(("set", at))
        super().__setitem__(at, item)

    def __delitem__(self, at):
        LOG.append(("del", at))
        super().__delitem__(at)

    def __getitem__(self, at):
        LOG.append(("get", at))
        return super().__getitem__(at)

    def __iadd__(self, other):
        LOG.append(("iadd", len(other)))
        return super().__iadd__(other)


@logged(lambda t: (t(), LoggedList([1, 2, 3])))
def logged_list_order_of_calls(x, row):
    row.append(x)
    row[0] = row[1]
    row += [5]
    del row[-1]
    row[1] += 4
    row.extend([6])
    return row[0], x + len(row)


@logged(lambda t: (t(), LoggedList([1, 2, 3])))
def logged_list_unpacked_and_sliced(x, row):
    a, *b = row
    row[:2] = "xy"
    copied = row[:], row.copy(), list(row)
    del row[::2]
    return a, b, copied, x + 1


@logged(lambda t: (t(), LoggedList([3, 1, 2])))
def logged_list_through_builtins(x, row):
    row.sort()
    out = sum(row), max(row), sorted(row, reverse=True), 2 in row, list(reversed(row)), row == [1, 2, 3]
    row.reverse()
    return out, x + len(row)


@logged(lambda t: (t(),))
def logged_list_made_escapes(x):
    row = LoggedList("ab")
    row.append(x)
    row[0] = row
    row.note = "an attribute"
    return row, x + 1


class Iterating(list):
    def __iter__(self):
        LOG.append("iter")
        return (item * 10 for item in super().__iter__())

    def __contains__(self, item):
        LOG.append(("contains", item))
        return super().__contains__(item)

    def __len__(self):
        LOG.append("len")
        return super().__len__() + 100

    def __bool__(self):
        LOG.append("bool")
        return False


@logged(lambda t: (t(), Iterating([1, 2])))
def list_with_its_own_iteration(x, row):
    through = [*row], list(row), tuple(row), sum(row), 10 in row, 2 in row, len(row)
    a, b = row
    other = [0]
    other.extend(row)
    other[:0] = row
    return through, a, b, other, "yes" if row else "no", x + row[0]


class LoggedDict(dict):
    def __setitem__(self, key, value):
        LOG.append(("set", key))
        super().__setitem__(key, value)

    def __getitem__(self, key):
        LOG.append(("get", key))
        return super().__getitem__(key)

    def __delitem__(self, key):
        LOG.append(("del", key))
        super().__delitem__(key)

    def __contains__(self, key):
        LOG.append(("in", key))
        return super().__contains__(key)

    def __missing__(self, key):
        LOG.append(("missing", key))
        self[key] = f"made {key}"
        return self[key]


@logged(lambda t: (t(), LoggedDict(a=1)))
def logged_dict_order_of_calls(x, table):
    table["b"] = x
    table["a"] += 1
    got = table["new"], table.get("nope"), "c" in table
    del table["a"]
    table.setdefault("d", 4)
    table.update(e=5)
    return got, x + len(table)


@logged(lambda t: (t(), LoggedDict(a=1, b=2)))
def logged_dict_through_builtins(x, table):
    plain, spread = dict(table), {**table}
    out = list(table), sorted(table.values()), table == {"a": 1, "b": 2}, table.pop("a"), table.popitem()
    table |= {"z": x}
    return plain, spread, out, x + len(table)


@logged(lambda t: (t(),))
def logged_dict_made_escapes(x):
    table = LoggedDict(a=1)
    table["b"] = x
    table["a"]
    copied = table.copy()
    copied["c"] = 3
    return table, copied, type(copied).__name__, x + 1


class Wordy(dict):
    def keys(self):
        LOG.append("keys")
        return super().keys()

    def __iter__(self):
        LOG.append("iter")
        return iter(sorted(super().keys()))

    def get(self, key, default="absent"):
        LOG.append("get")
        return super().get(key, default)


@logged(lambda t: (t(), Wordy(b=1, a=2)))
def dict_with_its_own_iteration(x, table):
    out = [*table], list(table.keys()), [k for k in table], table.get("zz")
    merged = {}
    merged.update(table)
    return out, merged, {**table}, dict(table), x + len(table)


class Versioned(OrderedDict):
    version = 0

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.version += 1

    def move_to_end(self, key, last=True):
        LOG.append(key)
        super().move_to_end(key, last)
        self.version += 10


@logged(lambda t: (t(), Versioned(a=1, b=2)), known="OrderedDict order changes lost")
def ordered_dict_subclass_counts_its_changes(x, table):
    table["c"] = x
    table.move_to_end("a")
    table.move_to_end("c", last=False)
    table.update(b=5, d=6)
    return list(table), table.version, x + len(table)


class Pair(tuple):
    def __new__(cls, a, b):
        LOG.append("new")
        return super().__new__(cls, (a, b))

    def __init__(self, a, b):
        LOG.append("init")
        self.made_of = [a, b]

    def __getitem__(self, at):
        LOG.append(at)
        return super().__getitem__(at)

    @property
    def left(self):
        return self[0]


@logged(lambda t: (t(), Pair(1, [2])))
def tuple_subclass_with_effects(x, pair):
    made = Pair(x, pair)
    made.note = pair.left
    made[1][1].append("through")
    a, b = made
    return made, b is pair, a + pair[0]


class Stack(collections.abc.MutableSequence):
    """All its methods but five are those of the abstract class."""

    def __init__(self, *items):
        self.items = list(items)

    def __getitem__(self, at):
        LOG.append(("get", at))
        return self.items[at]

    def __setitem__(self, at, item):
        LOG.append(("set", at))
        self.items[at] = item

    def __delitem__(self, at):
        LOG.append(("del", at))
        del self.items[at]

    def __len__(self):
        return len(self.items)

    def insert(self, at, item):
        LOG.append(("insert", at))
        self.items.insert(at, item)


@logged(lambda t: (t(), Stack(3, 1, 2)))
def abstract_sequence_methods(x, stack):
    stack.insert(0, x)
    first = stack.pop(0)
    stack += [7]
    last = stack.pop()
    stack.reverse()
    stack.remove(1)
    return first, last, stack.index(2), stack.count(3), 3 in stack, list(reversed(stack))[0], x + len(stack)


@logged(lambda t: (t(), Stack()))
def abstract_sequence_extended_by_itself(x, stack):
    stack.extend([1, x])
    stack.extend(stack)
    try:
        stack.remove("no")
    except ValueError:
        stack.clear()
    stack.append("end")
    return stack[0], x + len(stack)


class Folded(collections.abc.MutableMapping):
    def __init__(self, **items):
        self.items_ = dict(items)

    def __getitem__(self, key):
        LOG.append(("get", key))
        return self.items_[key.lower()]

    def __setitem__(self, key, value):
        LOG.append(("set", key))
        self.items_[key.lower()] = value

    def __delitem__(self, key):
        LOG.append(("del", key))
        del self.items_[key.lower()]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


@logged(lambda t: (t(), Folded(a=1)))
def abstract_mapping_methods(x, table):
    table["B"] = x
    table.update({"C": 3}, d=4)
    got = table.get("A"), table.get("zz", 0), "C" in table, table.setdefault("E", []), table.pop("d")
    table.setdefault("e").append(1)
    return got, list(table.keys()), [v for v in table.values()][0], x + len(table)


@logged(lambda t: (t(), Folded(a=1, b=2)))
def abstract_mapping_views_and_equality(x, table):
    items = table.items()
    common = table.keys() & {"a", "z"}
    equal = table == {"a": 1, "b": 2}
    first = table.popitem()
    table.clear()
    return ("a", 1) in items, common, equal, first, len(items), x + 1


class Flags(collections.abc.MutableSet):
    def __init__(self, items=()):
        self.held = list(items)

    def __contains__(self, item):
        LOG.append(("in", item))
        return item in self.held

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)

    def add(self, item):
        if item not in self.held:
            self.held.append(item)

    def discard(self, item):
        LOG.append(("discard", item))
        if item in self.held:
            self.held.remove(item)


@logged(lambda t: (t(), Flags([1, 2, 3])))
def abstract_set_methods(x, flags):
    flags |= [4]
    flags -= {1}
    flags &= Flags([2, 3, 4])
    flags.remove(2)
    both = flags & {3, 9}
    return list(both), type(both).__name__, flags == {3, 4}, flags <= {3, 4, 5}, flags.pop(), x + len(flags)


class Lazily:
    """Items are made when asked for, and kept."""

    def __init__(self, make):
        self.make = make
        self.made = {}

    def __getitem__(self, at):
        if at >= 3:
            raise IndexError(at)
        if at not in self.made:
            self.made[at] = self.make(at)
        return self.made[at]


@logged(lambda t: (t(),))
def sequence_protocol_with_memory(x):
    def make(at):
        LOG.append(at)
        return x * at

    lazily = Lazily(make)
    again = lazily[1]
    total = sum(lazily)
    return total, again is lazily[1], [*lazily][2], lazily.made, again in [again], 2 in Lazily(lambda i: i)


class Sized(list):
    limit = 3

    def append(self, item):
        if len(self) >= self.limit:
            raise OverflowError(f"more than {self.limit}")
        super().append(item)

    def extend(self, items):
        for item in items:
            self.append(item)


@logged(lambda t: (t(), Sized([1])))
def list_subclass_that_refuses(x, row):
    try:
        row.extend([x, 2, "too many"])
    except OverflowError as error:
        LOG.append(str(error))
    row.limit = 4
    row.append("fits")
    return x + len(row)


class Child(dict):
    def __init__(self, parent=None, **own):
        super().__init__(**own)
        self.parent = parent

    def __missing__(self, key):
        if self.parent is None:
            raise KeyError(key)
        return self.parent[key]


@logged(lambda t: (t(), Child(Child(Child(a=1), b=2), c=3)))
def dict_subclasses_in_a_chain(x, scope):
    scope["d"] = x
    scope.parent["b"] = scope["a"] + scope["b"]
    scope.parent.parent = None
    try:
        scope["a"]
    except KeyError as error:
        LOG.append(error.args)
    return scope["b"], x + len(scope)


class Matrix:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, key):
        LOG.append(key)
        i, j = key
        return self.rows[i][j]

    def __setitem__(self, key, value):
        LOG.append(("set", key))
        i, j = key
        self.rows[i][j] = value

    def __delitem__(self, key):
        LOG.append(("del", key))
        del self.rows[key]


@logged(lambda t: (t(), Matrix([[1, 2], [3, 4]])))
def subscripts_with_tuples_and_slices(x, matrix):
    matrix[0, 1] = x
    matrix[1, 0] += matrix[0, 0]
    matrix[0, slice(0, 1)] = ["a", "b"]
    del matrix[1]
    return matrix[0, -1], x + len(matrix.rows)
