"""Identity: one object on several ways, comparisons by it, weak references."""

import weakref

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


SHARED: list = []
CURRENT = None


def _reset():
    global CURRENT
    SHARED.clear()
    CURRENT = None


def shared(args=lambda t: (t(),), **options):
    return program("fx_identity", args, setup=_reset, state=lambda: (SHARED, CURRENT), **options)


# One object through arguments, attributes, cells and globals.


def _four_ways(t):
    global CURRENT
    row = [t()]
    SHARED.append(row)
    CURRENT = Bag(row=row)
    return row, Bag(row=row), lambda: row


@shared(_four_ways)
def one_list_by_four_ways(row, bag, read):
    read().append(1)
    SHARED[0].append(2)
    CURRENT.row.append(3)
    bag.row.append(row[0] + 1)
    return len(row), read() is row, SHARED[0] is bag.row is CURRENT.row


@shared(_four_ways)
def one_list_replaced_on_one_way(row, bag, read):
    bag.row = list(row)
    bag.row.append("copy")
    row.append("original")
    return bag.row == row, bag.row is row, len(read()), row[0] * 2


def _same_twice(t):
    bag = Bag(v=t())
    return bag, bag, t()


@program("fx_identity", _same_twice)
def one_object_as_two_arguments(a, b, x):
    a.v = x
    b.w = a.v + 1
    a.v, b.v = b.w, a.v
    return a is b, a.v


@program("fx_identity", lambda t: (Bag(v=1), Bag(v=1), t()))
def two_equal_objects_as_arguments(a, b, x):
    a.v = x
    b.w = a.v + 1
    a.v, b.v = b.w, a.v
    return a is b, a.v


def _tensor_everywhere(t):
    v = t()
    return v, {"v": v}, Bag(v=v), lambda: v


@program("fx_identity", _tensor_everywhere)
def one_tensor_by_four_ways(x, table, bag, read):
    x.add_(1)
    table["v"].mul_(2)
    bag.v.note = "noted"
    return read() * 1, x is bag.v, read().note, table["v"] is x


def _ring(t):
    a, b = Bag(v=t()), Bag(v=1)
    a.next, b.next = b, a
    return t(), a


@program("fx_identity", _ring)
def ring_of_existing_objects(x, a):
    a.next.next.v = x
    a.next.v = a.next.next.v + 1
    a.next.next, a.next = a.next, a
    return a.next is a, a.v


# Identity-based control flow.


@program("fx_identity", lambda t: (t(), t(), None), known="identity-based control flow")
def branch_on_which_argument(x, y, bias):
    def pick(v):
        return "x" if v is x else "y" if v is y else "none" if v is None else "?"

    chosen = x if bias is None else y
    return pick(chosen), pick(bias), pick(x + 0), chosen * 2 if chosen is x else chosen * 3


MISSING = object()


class Defaulted:
    def __init__(self):
        self.known = {"a": 1}

    def get(self, key, default=MISSING):
        value = self.known.get(key, MISSING)
        if value is MISSING:
            if default is MISSING:
                raise KeyError(key)
            return default
        return value


@program("fx_identity", lambda t: (t(), Defaulted()), known="identity-based control flow")
def sentinels(x, d):
    try:
        d.get("b")
    except KeyError as error:
        key = error.args[0]
    return x * d.get("a"), d.get("b", None), key


@program("fx_identity", lambda t: (t(), Bag(cache=None, key=None)), known="identity-based control flow")
def cache_by_identity(x, bag):
    def compute(v):
        if bag.key is v:
            return bag.cache
        bag.key, bag.cache = v, v * 2
        return bag.cache

    first, second = compute(x), compute(x)
    third = compute(x + 1)
    return first is second, third is first, compute(x) + third


@program("fx_identity", lambda t: (t(), [Bag(v=1), Bag(v=1)]), known="identity-based control flow")
def first_visit_by_identity(x, bags):
    a, b = bags
    a.next, b.next = b, a
    seen, at = [], a
    while not any(at is s for s in seen):
        seen.append(at)
        at.order = len(seen)
        at = at.next
    return x + len(seen), at is a


@program("fx_identity", lambda t: (t(), Bag(run=None)), known="identity-based control flow")
def methods_are_equal_but_not_identical(x, bag):
    class Runner:
        def go(self):
            return x

    r = Runner()
    a, b = r.go, r.go
    return a is b, a == b, a == Runner().go, a.__func__ is b.__func__, a.__self__ is r, a() + 1


@program("fx_identity", lambda t: (t(), [1, 2], (1, 2), "text"), known="identity-based control flow")
def identity_of_copies_and_constants(x, row, pair, text):
    return (
        row[:] is row,
        list(row) is row,
        tuple(pair) is pair,
        pair[:] is pair,
        str(text) is text,
        (x,)[0] is x,
        None is None,
        x.view(-1) is x,
        x + 1,
    )


# id(), `in`, index and remove by identity.


@program("fx_identity", lambda t: (t(), [Bag(), Bag()]), hits=False)  # ids differ between calls
def visited_by_id(x, bags):
    extra = Bag()
    seen = {}
    for bag in (*bags, extra, bags[0]):
        seen[id(bag)] = seen.get(id(bag), 0) + 1
    return x + len(seen), list(seen.values()), id(extra) in seen, id(bags[0]) == id(bags[1])


@program("fx_identity", lambda t: (t(), [Bag(v=1), Bag(v=2)]))
def membership_by_identity(x, bags):
    a, b = bags
    other = Bag(v=1)
    bags.append(other)
    where = bags.index(other), bags.count(a), other in bags, Bag() in bags
    bags.remove(a)
    return x + where[0], where, bags[0] is b


@program("fx_identity", lambda t: (t(), Bag(), Bag()))
def sets_and_dicts_by_identity(x, a, b):
    group = {a, b, a}
    group.discard(b)
    table = {a: x, b: 2}
    table[a] = table[a] + 1
    made = Bag()
    group.add(made)
    return len(group), made in group, b in group, table[a], table.get(made)


@program("fx_identity", lambda t: (t(), Bag()))
def object_keys_escape(x, a):
    made = Bag(v=x)
    a.table = {made: 1, a: x + 1}
    a.group = frozenset([made])
    return made, a.table[a]


@program("fx_identity", lambda t: (t(), t()))
def tensors_as_keys(x, y):
    table = {x: "x", y: "y"}
    z = x + y
    table[z] = "z"
    return table[x], z in table, table.pop(y), len(table), z * 2


# Weak references.


class Target:
    def __init__(self, v):
        self.v = v


def _weak(t):
    target = Target(t())
    return t(), target, weakref.ref(target)


@program("fx_identity", _weak)
def weak_reference_read(x, target, ref):
    ref().v = x
    target.w = ref().v + 1
    return ref() is target, target.w


def _dead(t):
    return t(), weakref.ref(Target(1))


@program("fx_identity", _dead)
def dead_weak_reference(x, ref):
    return x + 1 if ref() is None else x * 2


@program("fx_identity", _weak)
def weak_reference_made_inside(x, target, ref):
    mine = weakref.ref(target)
    mine().v = x * 2
    return mine() is target, mine() is ref(), mine().v + 1


def _weak_bag(t):
    target = Target(t())
    return t(), target, Bag(ref=weakref.ref(target), strong=[target])


@program("fx_identity", _weak_bag)
def weak_reference_on_an_object(x, target, bag):
    got = bag.ref()
    got.v = got.v + x
    if bag.ref() is bag.strong[0]:
        bag.checked = True
    return got.v


def _weak_dict(t):
    target = Target(t())
    return t(), target, weakref.WeakKeyDictionary({target: [1]})


@program("fx_identity", _weak_dict, why="each look-up in a WeakKeyDictionary makes a weak reference with a callback")
def weak_key_dictionary(x, target, table):
    table[target].append(2)
    table[target] = table[target] + [x.dim()]
    return x + len(table[target]), target in table


# Objects that die in the middle of the call: what held them is given up in the same segment as the reference is asked.


def _held_twice(t):
    return t(), Bag(inner=Target(t()), ref=None)


def _global_target(t):
    global CURRENT
    CURRENT = Target(1)
    return t(), weakref.ref(CURRENT)


@shared(_global_target, why="whether the object is gone is known only when the segment runs")
def held_by_a_global_that_goes(x, ref):
    global CURRENT
    before = ref() is CURRENT
    CURRENT = None
    return before, ref() is None, x + 1


def _cell_target(t):
    target = Target(1)

    def drop():
        nonlocal target
        target = None

    return t(), weakref.ref(target), drop


@program("fx_identity", _cell_target, why="whether the object is gone is known only when the segment runs")
def held_by_a_cell_that_goes(x, ref, drop):
    before = ref() is None
    drop()
    return before, ref() is None, x + 1


@program("fx_identity", _held_twice)
def still_held_by_an_argument(x, bag):
    ref = weakref.ref(bag.inner)
    bag.other = ref() is bag.inner

    def ask():
        return ref().v + x

    return ask(), bag.other
