"""The user's own equality and hash; objects that refer to each other."""

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


# The user's own equality.


class Key:
    def __init__(self, name, log=None):
        self.name, self.log = name, log

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        if self.log is not None:
            self.log.append((self.name, getattr(other, "name", "?")))
        return isinstance(other, Key) and self.name == other.name

    def __repr__(self):
        return f"Key({self.name})"


@program("fx_equality", lambda t: (t(), Key("a"), Key("b")))
def own_keys_in_a_new_dict(x, a, b):
    table = {a: x, b: 2}
    table[Key("a")] = table[Key("a")] + 1
    table[Key("c")] = 3
    del table[Key("b")]
    return table[a], [k.name for k in table], Key("b") in table, next(iter(table)) is a, len(table)


@program("fx_equality", lambda t: (t(), Key("a")), why="keys with their own equality")
def own_keys_in_a_new_set(x, a):
    group = {a, Key("a"), Key("b")}
    group.add(Key("b"))
    group.discard(Key("a"))
    group |= {Key("z")}
    return x + len(group), sorted(k.name for k in group), a in group, group & {Key("b")} == {Key("b")}


@program("fx_equality", lambda t: (t(), Key("a"), {Key("a"): 1, Key("b"): 2}))
def own_keys_in_an_existing_dict(x, a, table):
    table[a] += 10
    table[Key("new")] = x
    popped = table.pop(Key("b"), None)
    return table[Key("a")], popped, table.get(Key("q"), "none"), x + len(table)


@program("fx_equality", lambda t: (t(), Key("a")))
def own_keys_escape(x, a):
    table = {a: x + 1}
    table[Key("k")] = 2
    table[Key("a")] = 3
    return table, {Key("s"), Key("s")}


@program("fx_equality", lambda t: (t(), Key(7, []), []))
def own_keys_are_asked_as_often_as_needed(x, a, log):
    table = {a: 1}
    other = Key(7, log)
    table[other] = 2
    found = Key(7, log) in table, a in table, Key(11, log) in table, 7 in table
    return x + 1, found, len(table), table


class Colliding(Key):
    def __hash__(self):
        return 5


@program("fx_equality", lambda t: (t(), Colliding("a"), Colliding("b")))
def own_keys_of_one_hash(x, a, b):
    table = {a: 1, b: 2}
    return table[Colliding("b")], x + len(table)


@program("fx_equality", lambda t: (t(), Colliding("a"), Colliding("b"), Colliding("c", []), []))
def own_keys_of_one_hash_are_asked_in_order(x, a, b, c, log):
    table = {a: x, b: 2, "text": 3}
    table[c] = 4
    found = c in table, table.get(Colliding("b", log)), table.pop(Colliding("q"), "none"), 5 in table
    return found, c.log, log, [k if isinstance(k, str) else k.name for k in table], x + len(table)


@program("fx_equality", lambda t: (t(), {Key("a"): 1, "b": t(), Key("c"): []}, []))
def own_keys_of_an_existing_dict_go_and_come_back(x, table, log):
    table[Key("c", log)].append(x)
    del table[Key("a", log)]
    table[Key("a")] = 2
    kept = table.setdefault(Key("c"), "other") is table.pop(Key("c"))
    return table, kept, Key("z", log) in table, log


@program("fx_equality", lambda t: (t(), Key(1), {"b": 1}))
def own_key_in_an_existing_dict_of_texts(x, a, table):
    table[a] = x + 1
    table["c"] = table[3] = 3
    return a in table, Key(3) in table, table[Key(1)]


@program("fx_equality", lambda t: (t(), Key("a", []), Key("b", []), []))
def own_equality_in_lists(x, a, b, log):
    row = [a, b, Key("c", log)]
    where = row.index(Key("b")), row.count(Key("a")), Key("c") in row, Key("d") in row
    row.remove(Key("a"))
    return where, x + len(row), [a] == [Key("a")], (a, b) == (Key("a"), Key("b")), log


class Same:
    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


@program("fx_equality", lambda t: (t(), Same()))
def equal_to_all_but_hashed_by_identity(x, s):
    return x + 1, s == 3, s != 4, s in [1], [1].index(s), s in (None,), s is None


class Unhashable:
    def __eq__(self, other):
        return self is other


@program("fx_equality", lambda t: (t(), Unhashable()))
def unhashable_objects(x, u):
    texts = []
    for act in (lambda: {u: 1}, lambda: {u}, lambda: hash(u), lambda: {}.get(u)):
        try:
            act()
        except TypeError as error:
            texts.append(str(error))
    return x + len(texts), texts


# Cycles made inside.


@program("fx_equality", lambda t: (t(), Bag()))
def graph_of_new_objects_kept(x, root):
    nodes = [Bag(i=i, edges=[]) for i in range(4)]
    for i, node in enumerate(nodes):
        node.edges += [nodes[(i + 1) % 4], nodes[i - 1], node]
    root.start = nodes[2]
    return nodes[0].edges[1] is nodes[3], x * root.start.i


@program("fx_equality")
def cycle_through_every_kind_of_container(x):
    bag, row, table = Bag(), [], {}
    pair = (row, table)
    row.append(pair)
    table["bag"] = bag
    bag.read = lambda: (bag, row)
    bag.method = row.append
    bag.pair = pair
    return pair, bag.read()[0].pair[0] is row, x + 1


@program("fx_equality")
def cycle_that_does_not_escape(x):
    a, b = Bag(v=x), Bag(v=2)
    a.other, b.other = b, a
    b.me = [b, {"a": a}]
    return a.other.other.v + b.me[1]["a"].other.v


@program("fx_equality", lambda t: (t(), []))
def doubly_linked_list_grown(x, out):
    class Link:
        def __init__(self, value, before):
            self.value, self.before, self.after = value, before, None
            if before:
                before.after = self

    at = first = Link(x, None)
    for i in range(3):
        at = Link(at.value + i, at)
    while at:
        out.append(at.value)
        at = at.before
    return first.after.after.value
