"""From "What's New In Python 3.12" on PEP 709: comprehensions inlined into what calls them."""

import sys

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}
factor = 2.0


@documented(
    "PEP 709: tensors of a comprehension that a nested one reads and a third one filters",
    lambda: [(x(), 2), (x(), 3), (x(2), 1), (x(2), 0)],
)
def three_levels(t, n):
    rows = [[[t * (i + j + k) for k in range(j)] for j in range(i)] for i in range(n + 1)]
    flat = [v for row in rows for column in row for v in column if v is not t]
    return sum(flat, t), len(flat), [[len(c) for c in r] for r in rows]


@documented(
    "PEP 709: the same name is a parameter, a variable of a comprehension and a walrus' target beside it",
    lambda: [(x(), 3), (x(), 1), (x(2), 0), (x(2), 2)],
)
def one_name_thrice(t, n):
    i = "outer"
    a = [i for i in range(n)]
    b = [(last := k) for k in a]
    c = [i for _ in b]
    return t * len(a), i, a, b, c, last if b else None


@documented(
    "PEP 709: what a comprehension calls sees one frame fewer than before",
    lambda: [(x(), 2), (x(), 1), (x(2), 3), (x(2), 0)],
)
def frames_of_callees(t, n):
    def caller():
        return sys._getframe(1).f_code.co_name

    names = [caller() for _ in range(n)]
    lazily = list(caller() for _ in range(n))
    return t + n, names, lazily


@documented(
    "PEP 709: a cell that only the comprehension's functions read",
    lambda: [(x(), 3), (x(), 2), (x(2), 1), (x(2), 0)],
)
def cells_of_comprehensions(t, n):
    readers = [(lambda: i, lambda: sum(j for j in range(i + 1))) for i in range(n)]
    seen = [(a(), b()) for a, b in readers]
    if readers:
        t = t * readers[0][1]()
    return t, seen, [r[0].__closure__[0] is readers[0][0].__closure__[0] for r in readers]


@documented(
    "PEP 709: nonlocal writes of an inner function and reads of a comprehension",
    lambda: [(x(), 3), (x(), 1), (x(2), 0), (x(2), 5)],
)
def nonlocal_beside(t, n):
    count = 0

    def step(v):
        nonlocal count
        count += v
        return count

    sums = [step(v) for v in range(n)]
    t = t + count
    doubled = {step(1): count for _ in range(n)}
    return t * count, sums, doubled


@documented(
    "PEP 709: a comprehension in a try block whose handler and finally see its outer variables",
    lambda: [(x(), [1, 2]), (x(), [1, None]), (x(2), []), (x(2), ["a"])],
    **cleared,
)
def in_protected_blocks(t, values):
    v = "kept"
    try:
        made = [t * v for v in values]
        log.append(len(made))
    except TypeError as error:
        made = [v, type(error).__name__]
    finally:
        log.append(v)
    return made, v


class Raising:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            log.append(i)
            yield i
        raise KeyError("end")


@documented(
    "PEP 709: an iterator that raises leaves the variable of the function untouched",
    lambda: [(x(), 0), (x(), 2), (x(2), 1), (x(2), 3)],
    **cleared,
)
def raising_iterators(t, n):
    i = t
    try:
        return [i for i in Raising(n)]
    except KeyError as error:
        return i * 2, i is t, str(error)


@documented(
    "PEP 709: del of a variable that a comprehension uses as its own",
    lambda: [(x(), 2), (x(), 0), (x(2), 1), (x(2), 3)],
)
def deleted_behind(t, n):
    k = 5
    made = [k * t for k in range(n)]
    del k
    again = [k for k in range(n)]
    try:
        return k  # noqa: F821
    except UnboundLocalError as error:
        return sum(made, t), again, str(error)


@documented(
    "PEP 709: comprehensions at a class body's level read the module, not the class",
    lambda: [(x(), 2), (x(), 3), (x(2), 0), (x(2), 1)],
)
def class_bodies(t, n):
    class Table:
        factor = 10
        first = [i * n for i in range(3)]
        second = [factor for _ in range(n)]  # the module's
        pairs = {k: v for k, v in zip(first, second, strict=False)}

    return t * sum(Table.first) * factor, Table.second, Table.pairs, hasattr(Table, "i")


@documented(
    "PEP 709: a lambda's and a default's comprehension, called later",
    lambda: [(x(), [1, 2]), (x(), []), (x(2), [3]), (x(2), [1.5, 2.5])],
)
def lambdas(t, values):
    scale = lambda v, by=[k + 1 for k in values]: [v * b for b in by]  # noqa: E731
    made = scale(t)
    return made, scale.__defaults__, scale(t, [7])


@documented(
    "PEP 709: set and dict comprehensions with tensors as keys keep identities",
    lambda: [(x(), 2), (x(), 1), (x(2), 0), (x(2), 3)],
)
def tensors_as_keys(t, n):
    parts = [t + i for i in range(n)]
    names = {part: i for i, part in enumerate(parts + parts)}
    unique = {part for part in parts + parts}
    return [part * i for part, i in names.items()], len(unique), list(names.values())


async def awaited(v):
    return v + 1


async def rows(t, n):
    for i in range(n):
        yield t * i


@documented(
    "PEP 709: asynchronous comprehensions are inlined, too; a coroutine driven by hand",
    lambda: [(x(), 2), (x(), 3), (x(2), 0), (x(2), 1)],
)
def asynchronous(t, n):
    async def work():
        made = [await awaited(v) async for v in rows(t, n)]
        keyed = {i: await awaited(i) for i in range(n)}
        return made, keyed

    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return t + n, stop.value


@documented(
    "PEP 709: a comprehension in a generator that is suspended around it",
    lambda: [(x(), 2), (x(), 3), (x(2), 0), (x(2), 1)],
)
def in_generators(t, n):
    def windows():
        i = -1
        for width in range(1, n + 1):
            yield [t * i for i in range(width)], i
            i = width

    seen = [(sum(made, t), i) for made, i in windows()]
    return [s for s, _ in seen], [i for _, i in seen]


@documented(
    "PEP 709: a module list whose layers a comprehension calls while another counts",
    lambda: [(x(4), 2), (x(2, 4), 3), (x(4), 0), (x(1, 4), 1)],
)
def layers(t, n):
    torch.manual_seed(3)
    made = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(n)])
    with torch.no_grad():
        outputs = [layer(t) for layer in made]
        shapes = {tuple(p.shape) for layer in made for p in layer.parameters()}
    return sum(outputs, t), sorted(shapes)


@documented(
    "PEP 709: conditions that compare tensors end a graph in a comprehension",
    lambda: [(x(), 2.0), (x(), 0.0), (x(2), 1.0), (x(2), 9.0)],
)
def conditions_on_tensors(t, limit):
    kept = [v * 2 for v in t.unbind() if v > limit]
    rest = [v for v in t.unbind() if not (v > limit)]
    return sum(kept, torch.zeros(())), len(kept), torch.stack(rest) if rest else None


@documented(
    "PEP 709: a comprehension's print and append happen between its tensors' operations",
    lambda: [(x(), 2), (x(), 1), (x(2), 0), (x(2), 3)],
    **cleared,
)
def effects_inside(t, n):
    made = [(print("item", i), log.append(i), t := t + i)[2] for i in range(n)]
    return t, made


@documented(
    "PEP 709: star-unpacking and slices as a comprehension's targets",
    lambda: [(x(), [(1, 2, 3)]), (x(), [(1,), (2, 3)]), (x(2), []), (x(2), [()])],
)
def odd_targets(t, rows):
    box = [None, None, None]
    try:
        made = [(a, rest) for a, *rest in rows]
        [None for box[0:2] in rows]
        [None for box[-1] in rows]
    except ValueError as error:
        return t, str(error), box
    return t * len(made), made, box
