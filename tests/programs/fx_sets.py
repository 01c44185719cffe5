"""Side effects on sets: in place operations, and the order in which CPython goes through them."""

from programs import program


@program("fx_sets", lambda t: (t(), {1, 2, 3, 4}, {3, 4, 5}))
def set_operations_in_place(x, p, q):
    alias = p
    p |= {9}
    p &= {1, 2, 3, 9}
    p -= {1}
    p ^= q
    return alias is p, len(p), x + max(p)


@program("fx_sets", lambda t: (t(), {1, 2}, frozenset({2, 3})))
def set_operation_makes_another(x, p, fixed):
    kept = p
    p = p | fixed
    fixed |= {7}
    p.add(x.dim())
    return kept is p, p, fixed, type(p - fixed).__name__, type(fixed & p).__name__, x + 1


@program("fx_sets", lambda t: (t(), {1, 2}))
def set_failing_calls_leave_it(x, p):
    log = []
    for call in (
        lambda: p.remove(9),
        lambda: p.add([]),
        lambda: p.update(5),
        lambda: set().pop(),
        lambda: p.__ior__([1]),
        lambda: p.union(3),
    ):
        try:
            log.append(call())
        except (KeyError, TypeError) as error:
            log.append(f"{type(error).__name__}: {error}")
            p.add(10 + len(log))
    return log, x + len(p)


@program("fx_sets", lambda t: (t(),))
def set_order_of_small_ints(x):
    made = {5, 3, 8, 1}
    made.add(16)
    made.discard(8)
    made.update([24, 0])
    return list(made), [i for i in made | {9, 33}], tuple(made - {5}), x + 1


@program("fx_sets", lambda t: (t(),))
def set_order_with_collisions(x):
    """Equal sets with another history are gone through in another order."""
    one, two = set(), set()
    for i in (8, 0, 16):
        one.add(i)
    for i in (0, 16, 8):
        two.add(i)
    one.discard(0)
    one.add(0)
    return list(one), list(two), one == two, list(one & two), list(two | one), x + 1


@program("fx_sets", lambda t: (t(), {8, 0}, {0, 8, 16}))
def set_order_of_given_sets_with_collisions(x, p, q):
    p.add(16)
    q.discard(0)
    q.add(24)
    first = [*p]
    p -= {8}
    p |= {8}
    return first, list(p), list(q), x + 1


@program("fx_sets", lambda t: (t(), {"b", "a"}))
def set_order_of_words(x, words):
    words.update("some more words and others".split())
    words.discard("and")
    made = {w + "!" for w in words}
    return list(words), list(made), list(frozenset(made)), sorted(words), x + 1


@program("fx_sets", lambda t: (t(),))
def set_order_after_growing_and_shrinking(x):
    made = set(range(100, 0, -7))
    for i in range(0, 100, 2):
        made.discard(i)
    copied = made.copy()
    copied |= {200, 300}
    made.clear()
    made |= {64, 32, 0}
    return list(copied), list(made), x + 1


@program("fx_sets", lambda t: (t(),))
def set_pop_takes_what_cpython_takes(x):
    made = {40, 10, 30}
    taken = [made.pop(), made.pop()]
    made.add(8)
    taken.append(made.pop())
    return taken, made, x + taken[0]


@program("fx_sets", lambda t: (t(), {3, 11, 19}))
def set_given_popped(x, p):
    first = p.pop()
    p.add("new")
    return first, len(p), x * first


@program("fx_sets", lambda t: (t(), {1, 2, 3}))
def set_changed_while_iterated(x, p):
    try:
        for i in p:
            p.add(i + 10)
    except RuntimeError as error:
        p.add(str(error))
    for i in list(p):
        if isinstance(i, int) and i > 2:
            p.remove(i)
    return len(p), x + 1


@program("fx_sets", lambda t: (t(), {1, 2, 3}))
def set_iterator_kept(x, p):
    it = iter(p)
    first = next(it)
    p.discard(first)
    p.add(99)
    rest = [*p]
    try:
        message = next(it) and "went on"
    except RuntimeError as error:
        message = str(error)
    return first, rest, message, x + 1


@program("fx_sets", lambda t: (t(), {8, 1, 16}))
def set_changed_between_its_items(x, p):
    """The size stays: what comes next depends on where the new member was put."""
    seen = []
    for member in p:
        seen.append(member)
        if len(seen) < 4:
            p.remove(member)
            p.add(member + 7)
    return seen, x + len(p)


class Node:
    def __init__(self, name):
        self.name = name


@program("fx_sets", lambda t: (t(), Node("a"), Node("b")))
def set_of_new_members_that_are_objects(x, a, b):
    seen = set()
    for node in (a, b, a):
        if node in seen:
            node.name += " again"
        seen.add(node)
    seen.discard(b)
    return seen, len(seen), a in seen, x + 1


def _nodes(t):
    a, b = Node("a"), Node("b")
    return t(), a, b, {a}


@program("fx_sets", _nodes)
def set_given_with_objects(x, a, b, seen):
    was = a in seen, b in seen
    seen.add(b)
    seen.discard(a)
    return was, len(seen), x + 1


@program("fx_sets", _nodes)
def set_given_with_objects_gone_through(x, a, b, seen):
    for node in seen:
        node.name += "!"
        node.x = x
    return [n is a for n in seen], a.x + 1


def _tensor_set(t):
    a, b = t(), t()
    return a, b, {a}


@program("fx_sets", _tensor_set)
def set_given_with_tensors(a, b, seen):
    was = a in seen, b in seen
    seen.add(b)
    return was, a + b, len(seen)


@program("fx_sets", lambda t: (t(), Node("a"), {Node("k"): 1}))
def set_of_tuples_with_objects(x, a, table):
    edges = {(a, 1), (a, 2), (a, 1)}
    edges.add((a, 3))
    return len(edges), (a, 2) in edges, (a, 9) in edges, x + len(table)


@program("fx_sets", lambda t: (t(), frozenset({1, 2}), {frozenset({1}): "k"}))
def set_of_frozen_sets(x, fixed, table):
    family = {fixed, frozenset([2, 1]), frozenset()}
    table[frozenset([3])] = x
    return len(family), table[frozenset({1})], frozenset(fixed) is fixed, frozenset(range(3)) > fixed, x + 1


@program("fx_sets", lambda t: (t(), {1, 2}, [3, 3, 4]))
def set_updated_by_many_things(x, p, row):
    p.update(row, "ab", {7: x}, (i * i for i in range(3)))
    p.difference_update([4], "a")
    p.intersection_update({0, 1, 2, 3, "b", 7}, range(8))
    p.symmetric_difference_update([0, 100])
    return len(p), 100 in p, p.isdisjoint("xyz"), p >= {3}, x + 1


@program("fx_sets", lambda t: (t(), {1, 2}))
def set_comprehension_with_effects(x, p):
    log = []
    made = {log.append(i) or i % 3 for i in (5, 2, 7, 1)}
    p |= made
    return log, made, {y.dim() for y in (x, x * 2)}, x + len(p)


@program("fx_sets", lambda t: (t(), {1, 2, 3}))
def set_copied_and_aliased(x, p):
    alias, copied, made = p, p.copy(), set(p)
    alias.add("shared")
    copied.add("copied")
    made.clear()
    return alias is p, copied, made, p == copied, x + len(p)


class Tagged(set):
    def add(self, item):
        self.last = item
        super().add(item)


@program("fx_sets", lambda t: (t(), Tagged([1])))
def set_subclass_given(x, tags):
    tags.add(2)
    tags |= {3}
    tags.discard(1)
    return tags.last, len(tags), 2 in tags, sorted(tags), x + 1


@program("fx_sets", lambda t: (t(),))
def set_subclass_made(x):
    tags = Tagged("ab")
    tags.add("c")
    return tags, tags.last, type(tags | {1}).__name__, x + 1
