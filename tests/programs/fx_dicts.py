"""Side effects on dicts, their views and the mappings of collections."""

import collections
import copy
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict

from programs import program


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_key_deleted_and_set_again_moves_last(x, table):
    del table["a"]
    table["a"] = x
    table["b"] = table.pop("b")
    table.setdefault("c", "kept")
    return list(table), x + len(table)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}))
def dict_value_replaced_stays_in_place(x, table):
    table["a"] = x
    table |= {"b": 0, "z": 1}
    table.update(b=9, y=x + 1)
    table.update([("a", "pair"), ("w", 0)])
    return list(table), x * 2


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_popitem_until_empty(x, table):
    taken = []
    while table:
        taken.append(table.popitem())
    try:
        table.popitem()
    except KeyError as error:
        taken.append(str(error))
    table["new"] = x
    return taken, x + 1


@program("fx_dicts", lambda t: (t(), {1: "int", "s": [0]}))
def dict_equal_keys_of_other_types(x, table):
    table[1.0] = "float"
    table[True] = "bool"
    table[(1, 2)] = x
    table[(1.0, 2)] = x + 1
    table[None] = "none"
    return [type(k).__name__ for k in table], len(table), table[1], x


@program("fx_dicts", lambda t: (t(), {"a": {"b": {}}}))
def dict_nested_setdefault(x, table):
    table["a"]["b"].setdefault("rows", []).append(x)
    table["a"]["b"].setdefault("rows", None).append(1)
    table.setdefault("a", {})["again"] = table["a"]["b"]["rows"]
    return table["a"]["again"] is table["a"]["b"]["rows"], x + 1


@program("fx_dicts", lambda t: (t(), {"a": 1}))
def dict_failing_calls_leave_it(x, table):
    log = []
    for call in (
        lambda: table["no"],
        lambda: table.pop("no"),
        lambda: table.__delitem__("no"),
        lambda: table.update(5),
        lambda: table.update([(1, 2, 3)]),
        lambda: {}[[]],
        lambda: table.setdefault([], 1),
    ):
        try:
            call()
        except (KeyError, TypeError, ValueError) as error:
            log.append(f"{type(error).__name__}: {error}")
            table[len(log)] = x
    return log, x + len(table)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}))
def dict_update_fails_halfway(x, table):
    def pairs():
        yield "a", x
        yield "c", 3
        raise LookupError("cut")

    try:
        table.update(pairs())
    except LookupError as error:
        table["error"] = str(error)
    try:
        table |= [("d", 4), ("e",)]
    except ValueError as error:
        table["second"] = str(error)
    return x + len(table)


@program("fx_dicts", lambda t: (t(), {"a": 1}))
def dict_grown_while_iterated_raises(x, table):
    try:
        for key in table:
            table[key + "!"] = x
    except RuntimeError as error:
        table["error"] = str(error)
    it = iter(table.items())
    next(it)
    del table["a"]
    try:
        next(it)
    except RuntimeError as error:
        table["second"] = str(error)
    return x + len(table)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_values_replaced_while_iterated(x, table):
    for key, value in table.items():
        table[key] = x * value
    for key in list(table):
        if key != "b":
            del table[key]
    return table["b"], list(table)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}), why="what comes next depends on where the new keys were put")
def dict_deleted_and_added_while_iterated(x, table):
    """The size stays: CPython raises only if the keys' array ends or moves."""
    seen = []
    try:
        for key in table:
            seen.append(key)
            if len(seen) < 4:
                del table[key]
                table[key + key] = x
    except RuntimeError as error:
        seen.append(str(error))
    return seen, x + len(table)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}))
def dict_view_kept_while_dict_changes(x, table):
    keys, values, items = table.keys(), table.values(), table.items()
    table["c"] = x
    del table["a"]
    seen = list(keys), len(values), [k for k, _ in items]
    table.clear()
    return seen, list(keys), len(items), x + 1


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}))
def dict_view_escapes_and_follows(x, table):
    views = [table.keys(), table.values(), table.items()]
    table["c"] = x
    return views, x * len(views[0])


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2}, {"b": 3, "c": 4}))
def dict_view_algebra(x, p, q):
    both = p.keys() & q.keys()
    either = p.keys() | q
    only = p.keys() - {"b"}
    odd = p.keys() ^ q.keys()
    pairs = p.items() & {("a", 1), ("b", 9)}
    p.update(dict.fromkeys(sorted(odd), x))
    facts = p.keys() >= {"a"}, p.keys() == {"a", "b", "c"}, p.keys().isdisjoint(["z"]), ("a", x) in p.items()
    return both, sorted(either), only, pairs, facts, x + 1


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_reversed_views(x, table):
    back = list(reversed(table)), list(reversed(table.values())), list(reversed(table.items()))
    it = reversed(table)
    first = next(it)
    table["a"] = x
    return back, first, list(it), x + 1


@program("fx_dicts", lambda t: (t(), {}))
def dict_holds_itself(x, table):
    table["self"] = table
    table["views"] = [table.keys(), table.values()]
    table["self"]["self"]["x"] = x
    return table["self"] is table, len(table["views"][0]), x + 1


@program("fx_dicts", lambda t: (t(), {"a": [1]}))
def dict_copies_shallow_and_deep(x, table):
    shallow, deep, merged = dict(table), copy.deepcopy(table), table | {"z": 0}
    via = table.copy(), {**table}, copy.copy(table)
    table["a"].append(x)
    table["b"] = 1
    return shallow, deep, merged, via, shallow["a"] is table["a"], x + 1


@program("fx_dicts", lambda t: (t(), {"n": 0}))
def dict_comprehension_with_walrus(x, table):
    out = {(last := k): (total := table["n"] + i) for i, k in enumerate("abc") if table.__setitem__("n", i) is None}
    table["last"] = last
    return out, total, {i: y for i in range(2) if (y := x * i) is not None}


@program("fx_dicts", lambda t: (t(),))
def dict_display_order_of_evaluation(x):
    log = []

    def say(value):
        log.append(value)
        return value

    made = {say("k1"): say(1), **{say("k2"): say(2)}, say("k1"): say(x)}
    return made, log[:-1], x + len(log)


@program("fx_dicts", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_fromkeys_shares_the_value(x, table):
    made = dict.fromkeys(table, [])
    made["a"].append(x)
    table.clear()
    table.update(made)
    return made["b"] is made["c"], x * len(made["b"])


class Point:
    def __init__(self, *at):
        self.at = at


@program("fx_dicts", lambda t: (t(), Point(1), Point(2), {}))
def dict_with_objects_as_keys(x, p, q, table):
    table[p] = x
    table[q] = "q"
    table[p] = table[p] + 1
    table[(p, q)] = "pair"
    del table[q]
    return p in table, q in table, table[(p, q)], table[p]


# ---- OrderedDict


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1, b=2, c=3)), known="OrderedDict order changes lost")
def ordered_dict_moved_to_either_end(x, od):
    od.move_to_end("a")
    od.move_to_end("c", last=False)
    od["b"] = x
    return list(od), next(iter(od)), x + 1


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1, b=2, c=3)), known="OrderedDict order changes lost")
def ordered_dict_only_its_order_changes(x, od):
    od.move_to_end("b")
    return x + 1


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1, b=2, c=3)), known="OrderedDict order changes lost")
def ordered_dict_popped_from_both_ends_and_refilled(x, od):
    last, first = od.popitem(), od.popitem(last=False)
    od[first[0]] = x
    od[last[0]] = last[1]
    od.setdefault("z", x * 2)
    return list(od.items())[0], list(reversed(od)), x


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1, b=2)), known="OrderedDict order changes lost")
def ordered_dict_equality_depends_on_order(x, od):
    twin = OrderedDict(b=2, a=1)
    before = od == twin, od == dict(twin)
    od.move_to_end("a")
    return before, od == twin, od is not twin, x + 1


def shadowed(**entries):
    """An OrderedDict whose instance attribute stands before the method."""
    od = OrderedDict(entries)
    od.items = lambda: [("own", 7)]
    od.note = "set"
    return od


@program("fx_dicts", lambda t: (t(), shadowed(a=1)))
def ordered_dict_with_an_attribute_before_its_method(x, od):
    return [(k, x * v) for k, v in od.items()], list(od.keys()), od.note, list(OrderedDict.items(od)), len(od)


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1)))
def ordered_dict_given_an_attribute_before_its_method(x, od):
    made = OrderedDict(b=2)
    made.items = od.items = lambda: [("own", 7)]
    return od.items(), made.items(), [*od, *made], x + 1


@program("fx_dicts", lambda t: (t(), shadowed(a=1)))
def ordered_dict_whose_attribute_before_its_method_goes(x, od):
    before = od.items()
    del od.items
    return before, list(od.items()), x + 1


@program("fx_dicts", lambda t: (t(), shadowed(a=1), shadowed(b=2)))
def ordered_dict_attributes_deleted_and_set_again(x, od, other):
    del od.items, od.note
    od.items = lambda: "again"
    od.first = x * 2
    other.keys = lambda: ["b"]
    return od.items(), dict(other), [hasattr(o, "note") for o in (od, other)], od.first + 1


class LRU(OrderedDict):
    """Keeps its last `limit` entries, the last used last."""

    limit = 2

    def __getitem__(self, key):
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.limit:
            del self[next(iter(self))]


def _lru():
    cache = LRU()
    cache["a"], cache["b"] = 1, 2
    return cache


@program("fx_dicts", lambda t: (t(), _lru()), known="OrderedDict order changes lost")
def ordered_dict_subclass_as_a_cache(x, cache):
    used = cache["a"]
    cache["c"] = x
    return used, list(cache), "b" in cache, x + len(cache)


@program("fx_dicts", lambda t: (t(), OrderedDict(a=1, b=2, c=3)))
def ordered_dict_changed_while_iterated(x, od):
    seen = []
    try:
        for key in od:
            seen.append(key)
            od.move_to_end(key)
            if len(seen) > 5:
                break
    except RuntimeError as error:
        seen.append(str(error))
    try:
        for key in od:
            od.pop(key)
    except RuntimeError as error:
        seen.append(str(error))
    return seen, x + len(od)


@program("fx_dicts", lambda t: (t(), OrderedDict(a=[1], b=2)))
def ordered_dict_copied_and_merged(x, od):
    one, two = od.copy(), OrderedDict(od)
    od |= {"c": x}
    od["a"].append(x)
    one.move_to_end("a")
    return one, two, od | {"a": 0}, type(one).__name__, x


# ---- defaultdict


@program("fx_dicts", lambda t: (t(), defaultdict(list), []))
def default_dict_read_makes_the_entry(x, groups, log):
    groups["a"]
    groups["b"].append(x)
    log.append("c" in groups)
    log.append(groups.get("c"))
    log.append(groups["c"] is groups["c"])
    return len(groups), x + 1


@program("fx_dicts", lambda t: (t(),))
def default_dict_factory_with_effects(x):
    log = []

    def make():
        log.append(len(log))
        return [x * len(log)]

    groups = defaultdict(make)
    groups["a"] += [1]
    groups["b"].append(groups["a"])
    del groups["a"]
    groups["a"]
    return groups["b"], log, groups.default_factory is make, x


@program("fx_dicts", lambda t: (t(), defaultdict(int, a=1)), why="a real dict's factory is replaced for real")
def default_dict_factory_replaced(x, counts):
    counts["b"] += 2
    counts.default_factory = None
    try:
        counts["c"]
    except KeyError as error:
        counts["error"] = repr(error)
    counts.default_factory = list
    counts["d"].append(x)
    return x + len(counts)


@program("fx_dicts", lambda t: (t(), defaultdict(int)))
def default_dict_factory_fails(x, counts):
    def refuse():
        raise ValueError("no default")

    strict = defaultdict(refuse)
    try:
        strict["a"]
    except ValueError as error:
        counts[str(error)] += 1
    return len(strict), counts | {"z": 1}, x + 1


class Tree(defaultdict):
    def __init__(self):
        super().__init__(Tree)


@program("fx_dicts", lambda t: (t(), Tree()), why="instances of a subclass of defaultdict are made for real")
def default_dict_subclass_as_a_tree(x, tree):
    tree["a"]["b"]["c"] = x
    tree["a"]["d"]
    return list(tree["a"]), len(tree), x + 1


# ---- Counter, ChainMap, UserDict, UserList


@program("fx_dicts", lambda t: (t(), Counter("aab")))
def counter_in_place_algebra(x, counts):
    counts += Counter(b=3, z=0)
    counts -= Counter(a=1)
    counts |= Counter(q=1)
    counts["new"] -= 1
    counts &= Counter(a=5, b=2, new=7)
    return x * counts["a"], counts["missing"], "missing" in counts


@program("fx_dicts", lambda t: (t(), Counter("aab")))
def counter_updates_and_reads(x, counts):
    counts.update("bcc")
    counts.subtract({"a": 5})
    del counts["never there"]
    common = counts.most_common(1)
    return common, +counts, -counts, list(counts.elements()), counts.total(), x + counts["b"]


@program("fx_dicts", lambda t: (t(), Counter(a=1), {"a": 2}))
def counter_made_from_a_mapping(x, counts, table):
    made = Counter(table)
    made.update(counts)
    counts.update(a=1, b=2)
    table["total"] = sum(made.values())
    return made, made == Counter(a=3), x + counts["a"]


@program("fx_dicts", lambda t: (t(), {"a": 1}, {"a": 2, "b": 3}))
def chain_map_writes_the_first(x, high, low):
    chain = ChainMap(high, low)
    chain["b"] = x
    del chain["a"]
    child = chain.new_child({"c": 0})
    child["d"] = chain["a"]
    popped = child.pop("c")
    try:
        del chain["zz"]
    except KeyError as error:
        low["error"] = str(error)
    return popped, child.maps[1] is high, sorted(child), chain.parents["b"], x + 1


@program("fx_dicts", lambda t: (t(), ChainMap({"a": 1}, {"b": 2})))
def chain_map_given(x, chain):
    chain["b"] = x
    chain.maps.append({"z": 0})
    chain.maps[1]["b"] = "hidden"
    return chain["b"], len(chain), "z" in chain, x


@program("fx_dicts", lambda t: (t(), UserDict(a=1)))
def user_dict_given(x, table):
    table["b"] = x
    table.update(c=3)
    del table["a"]
    got = table.setdefault("d", []), table.get("zz"), table.pop("c")
    table["d"].append(1)
    return got, list(table), "b" in table, x + len(table)


class Upper(UserDict):
    def __setitem__(self, key, value):
        self.data[key.upper()] = value

    def __missing__(self, key):
        return f"<{key}>"


@program("fx_dicts", lambda t: (t(), Upper(a=1)))
def user_dict_subclass(x, table):
    table["b"] = x
    table |= {"c": 3}
    made = Upper({"q": x + 1}, r=2)
    return table["A"], table["nope"], list(table), made.data, x


@program("fx_dicts", lambda t: (t(), UserList([3, 1, 2])))
def user_list_given(x, row):
    row.append(x)
    row += [5]
    row.insert(0, "first")
    last = row.pop()
    row[1:2] = ["a", "b"]
    part = row[:2]
    row.reverse()
    del row[0]
    return last, type(part).__name__, part.data, len(row), 2 in row, x + 1


class Bounded(UserList):
    def append(self, item):
        if len(self.data) >= 3:
            self.data.pop(0)
        super().append(item)


@program("fx_dicts", lambda t: (t(), Bounded([1, 2])))
def user_list_subclass(x, row):
    for i in range(3):
        row.append(x * i)
    made = row + [9]
    made.append("x")
    return len(row), type(made).__name__, made.data[-1], row.copy() is row, x


# ---- mappingproxy


@program("fx_dicts", lambda t: (t(), {"a": 1}))
def mapping_proxy_follows_its_dict(x, table):
    proxy = types.MappingProxyType(table)
    table["b"] = x
    try:
        proxy["c"] = 1
    except TypeError as error:
        table["error"] = str(error)
    return list(proxy), proxy["b"] is x, "error" in proxy, len(proxy.keys()), x + 1


@program("fx_dicts", lambda t: (t(), {"a": 1}))
def mapping_proxy_escapes(x, table):
    proxy = types.MappingProxyType(table)
    table["b"] = x
    return proxy, x + 1


@program("fx_dicts", lambda t: (t(), collections.OrderedDict(a=1), {"b": [2]}))
def dicts_merged_share_their_values(x, od, table):
    merged = {**od, **table}
    merged["b"].append(x)
    od.update(table)
    od["b"].append("through od")
    return merged, x * len(table["b"])
