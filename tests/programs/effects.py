"""Order, identity and escape of what a function does besides returning."""

import torch

from programs import program


class Box:
    def __init__(self, value=None, **more):
        self.value = value
        self.__dict__.update(more)


class Journal:
    """Logs each write to itself in a list all share."""

    def __init__(self, name, log):
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "log", log)

    def __setattr__(self, key, value):
        self.log.append((self.name, key))
        object.__setattr__(self, key, value)


def _journals(t):
    log = []
    return t(), Journal("a", log), Journal("b", log)


@program("effects", _journals)
def order_across_objects(x, a, b):
    a.first = x
    b.first = a
    a.first = x + 1
    for k in range(3):
        (a if k % 2 else b).k = k
    return b.first.first


@program("effects", lambda t: (Box(t()), Box(t())))
def swap_between_objects(p, q):
    p.value, q.value = q.value, p.value
    p.other, q.other = q, p
    return p.value - q.value


@program("effects", lambda t: (Box(t()), [t(), t()], {"k": t()}))
def three_way_rotation(box, row, table):
    box.value, row[0], table["k"], row[1] = row[0], table["k"], row[1], box.value
    return box.value + row[1]


def _shared(t):
    inner = [1]
    return {"a": inner, "b": {"c": inner}}, Box(inner), t()


@program("effects", _shared)
def write_through_one_alias(table, box, x):
    box.value.append(x)
    table["a"].insert(0, "front")
    table["b"]["c"] = [x]
    return len(table["a"]), table["a"] is box.value, table["b"]["c"][0] * 2


@program("effects", lambda t: (t(), Box()))
def cycles_between_new_objects(x, root):
    a, b = Box(x), Box([])
    a.next, b.next = b, a
    b.value.append(b.value)
    root.value = a
    ring = {"self": None}
    ring["self"] = ring
    return ring, x + 1


class Counted:
    live: list = []

    def __init__(self, name):
        Counted.live.append(name)
        self.name = name


@program("effects", setup=Counted.live.clear, state=lambda: Counted.live)
def objects_made_and_dropped(x):
    for name in "abc":
        Counted(name)
    kept = Counted("kept")
    return kept, x + len(Counted.live)


@program("effects")
def generator_escapes(x):
    log = []

    def produce():
        for i in range(3):
            log.append(i)
            yield x + i

    return produce(), log


@program("effects", one_graph=False)
def started_generator_escapes(x):
    log = []

    def produce():
        y = x
        while len(log) < 4:
            log.append(len(log))
            y = y * 2
            yield y

    g = produce()
    first = next(g)
    return g, log, first


@program("effects")
def iterators_escape(x):
    row = [x, x + 1, 3]
    it = iter(row)
    first = next(it)
    row.append(4)
    return it, first, enumerate(row), zip(row, "ab"), map(type, row), reversed(row)


@program("effects", lambda t: (t(), Box()))
def bound_method_escapes(x, box):
    made = Box(x)

    class Runner:
        def __init__(self, k):
            self.k = k

        def run(self, y):
            return y * self.k

    box.callback = Runner(2).run
    made.callback = box.callback
    return made, box.callback(x)


@program("effects", lambda t: (t(), Box(1), Box(2)))
def deletes_and_restores(x, a, b):
    del a.value
    a.value = x
    del b.value
    b.tmp = 1
    del b.tmp
    a.late = 5
    return hasattr(b, "value"), list(vars(a)), a.value + 1


@program("effects", lambda t: (t(), {"x": 1, "y": 2}))
def order_of_dict_keys(x, table):
    table["x"] = table.pop("x")
    table["z"] = x
    del table["y"]
    table["y"] = 3
    return list(table)


@program("effects", lambda t: (t(), []))
def list_that_contains_itself(x, row):
    row.append(row)
    row.append((row, x))
    return row[0][1][1] + 1


@program("effects", lambda t: (t(), Box([])))
def effect_and_tensor_write_interleaved(x, box):
    box.value.append(x.sum())
    x.add_(1)
    box.value.append(x.sum())
    box.after = x
    x.mul_(2)
    return box.value[0] - box.value[1]


@program("effects", lambda t: (t(), Box(0)))
def effects_in_callees(x, box):
    def bump(target, by):
        target.value += by
        return target

    def twice(f, *args):
        return f(f(*args), 10)

    return x + twice(bump, box, 1).value


class Node:
    def __init__(self, value, after=None):
        self.value, self.after = value, after


@program("effects", lambda t: (t(), Node(1, Node(2, Node(3)))))
def linked_list_reversed(x, head):
    before = None
    while head is not None:
        head.after, before, head = before, head, head.after
    total = 0
    node = before
    while node:
        total = total * 10 + node.value
        node = node.after
    return x + total, before


@program("effects", lambda t: (t(), Box()))
def tensors_kept_on_objects(x, cache):
    cache.keys = getattr(cache, "keys", ()) + (x,)
    cache.keys += (x * 2,)
    cache.whole = torch.cat(cache.keys)
    return cache.whole.sum(), cache.keys[0] is x


@program("effects", lambda t: (t(), [Box(1), Box(2)]))
def same_object_by_two_ways(x, boxes):
    first = boxes[0]
    boxes[0].value = x
    boxes.append(first)
    boxes[2].value = first.value + 1
    return boxes[0].value, boxes[2] is boxes[0]


TOTALS = {"calls": 0}
HISTORY: list = []


def _forget():
    TOTALS.clear()
    TOTALS["calls"] = 0
    HISTORY.clear()


@program("effects", setup=_forget, state=lambda: (TOTALS, HISTORY))
def module_state(x):
    TOTALS["calls"] += 1
    HISTORY.append(("before", TOTALS["calls"]))
    TOTALS["last"] = x * 2
    HISTORY.append(TOTALS["last"])
    return HISTORY[-1] is TOTALS["last"], x + TOTALS["calls"]


@program("effects", lambda t: (t(), {"a": [1, 2], "b": (3,)}))
def arguments_returned_in_new_shapes(x, table):
    out = {k: v for k, v in table.items()}
    out["a"] = list(out["a"])
    out["a"].append(x + 1)
    return out, table, out["b"] is table["b"]


@program("effects", lambda t: (t(), Box()))
def closures_kept_on_objects(x, box):
    hits = 0

    def touch():
        nonlocal hits
        hits += 1
        return x + hits

    box.touch = touch
    first = box.touch()
    return first, box.touch() - first, hits
