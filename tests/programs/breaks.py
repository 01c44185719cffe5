"""Programs no front end captures whole: what breaks them is carried out for real, the rest is captured around it."""

import datetime
import itertools
import time
import zlib

import torch
from e2e.front import graph_break

from programs import program


class Counter:
    def __init__(self):
        self.value = 0
        self.seen = []


class Noisy:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *exc):
        self.log.append(exc[0] and exc[0].__name__)
        return exc[0] is KeyError


@program("breaks", lambda t: (t(), t.steps, Counter()), one_graph=False)
def print_in_for(x, steps, counter):
    for i in range(steps):
        x = x.sin() + 1
        counter.value += 1
        print("step", i)
        x = x * 2
    return x + counter.value


@program("breaks", lambda t: ([t() for _ in range(t.steps)], []), one_graph=False)
def print_in_for_over_tensors(xs, out):
    total = torch.zeros_like(xs[0])
    for x in xs:
        total = total + x * x
        print("tensor")
        out.append(total.cos())
    return total


@program("breaks", lambda t: (t(), t.steps, {"n": 0}), one_graph=False)
def print_in_while(x, steps, state):
    while state["n"] < steps:
        x = x + x.abs()
        print(state["n"])
        state["n"] += 1
        x = x - 1
    else:
        x = x * 10
    return x


@program("breaks", lambda t: (t(), t.steps, []), one_graph=False)
def print_in_try_finally(x, steps, log):
    for i in range(steps):
        try:
            x = x * 2
            print("try", i)
            if i == 1:
                continue
            x = x + 1
            log.append("body")
        finally:
            x = x.cos()
            print("finally")
            log.append(i)
    return x


@program("breaks", lambda t: (t(), t.steps, []), one_graph=False)
def print_in_except(x, steps, log):
    for i in range(steps):
        y = x + i
        try:
            print("before")
            if i % 2:
                raise ValueError(i)
            x = y * 2
        except ValueError as error:
            print("caught", error)
            x = y - 1
            log.append(error.args)
        x = x.sin()
    return x


@program("breaks", lambda t: (t(), []), one_graph=False)
def print_in_with(x, log):
    with Noisy(log) as noisy:
        x = x + 1
        print("inside")
        noisy.seen = x * 2
        x = x + noisy.seen
    with Noisy(log):
        print("raising")
        x = x * 3
        raise KeyError("swallowed")
    return x


@program("breaks", lambda t: (t(grad=True),), one_graph=False, backward=True)
def print_in_no_grad(x):
    y = x * 2
    with torch.no_grad():
        z = y.sin()
        print("frozen", torch.is_grad_enabled())
        w = z + y
    return y.cos() + w, z


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def print_in_nested_blocks(x, steps):
    for i in range(steps):
        with torch.no_grad():
            try:
                for j in range(2):
                    x = x + 1
                    print(i, j)
                    x = x * 0.5
            finally:
                x = x.exp()
    return x


@program("breaks", lambda t: (t(), t()), one_graph=False)
def branch_on_data(x, y):
    z = x * y
    if z.sum() > 0:
        z = z + x
    else:
        z = z - y
    return z.cos()


@program("breaks", lambda t: ([t() for _ in range(t.steps)],), one_graph=False)
def branch_on_data_in_a_loop(xs):
    kept, total = [], 0
    for x in xs:
        y = x.tanh() * 2
        if (y > 0).any():
            kept.append(y + 1)
        elif y.sum() < -5:
            break
        total = total + y
    return kept, total


@program("breaks", lambda t: (t().abs() + 1, t.steps), one_graph=False)
def while_on_data(x, steps):
    rounds = 0
    while x.max() < 10.0 * steps:
        x = x * 1.5 + 0.1
        rounds += 1
    return x, rounds


@program("breaks", lambda t: (t(), t()), one_graph=False)
def tensors_in_boolean_expressions(x, y):
    a = x.sum() > 0 and y.sum() > 0
    b = (x if x.max() > y.max() else y) * 2
    assert (b == b).all(), "nan"
    c = not (x > 100).any()
    return a, b + 1, c


@program("breaks", lambda t: (t(), Counter()), one_graph=False)
def item_in_arithmetic(x, counter):
    y = x.abs().sum()
    k = y.item() * 2 + 1
    counter.value = k
    counter.seen.append(round(k, 3))
    return x * k + y, int(y), float(y) > 0


@program("breaks", lambda t: ([t() for _ in range(t.steps)],), one_graph=False)
def item_in_a_loop(xs):
    best, where = -1e9, None
    for i, x in enumerate(xs):
        score = (x * x).sum().item()
        if score > best:
            best, where = score, i
        x.add_(1)
    return best, where, xs[0] * 2


@program("breaks", lambda t: (t(t.n, 2), torch.tensor(1)), one_graph=False)
def tensor_data_as_python_values(x, i):
    row = ["zero", "one", "two"]
    values = (x > 0).tolist()
    return row[i], len(values), f"{i + 1}", x[int(i)] * 2, range(3)[i], x.sum().item() == x.sum().item()


@program("breaks", lambda t: (t(t.n, 2),), one_graph=False)
def sizes_that_depend_on_data(x):
    positive = x[x > 0]
    where = torch.nonzero(x)
    unique = torch.unique((x * 2).int())
    return positive * 2, where.shape[0], unique.sum(), positive.numel() + where.numel()


@program("breaks", lambda t: (t(), Counter()), one_graph=False)
def explicit_break(x, counter):
    y = x + 1
    counter.value = y
    graph_break()
    z = y * 2
    counter.seen.append(z)
    graph_break()
    return z - counter.value


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def explicit_break_in_a_loop(x, steps):
    parts = []
    for i in range(steps):
        x = x + 0.5
        graph_break()
        x = x.sin()
        parts.append(x)
    return torch.stack(parts)


@program("breaks", lambda t: (t(), b"payload"), one_graph=False)
def unknown_c_function(x, data):
    y = x + 1
    code = zlib.crc32(data)
    y = y * (code % 7)
    z = y.sin() + zlib.adler32(data) % 5
    clock = isinstance(time.perf_counter(), float)
    return z, code, clock


@program("breaks", lambda t: (t(), datetime.date(2024, 5, 17)), one_graph=False)
def unknown_objects(x, day):
    y = x * day.year
    later = day + datetime.timedelta(days=30)
    return y + later.month, later.isoformat(), day < later


def _noisy_callee(x, name):
    y = x + 1
    print("callee", name)
    return y * 2


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def break_in_a_callee(x, steps):
    x = x.cos()
    for _ in range(steps):
        x = _noisy_callee(x, "a") + 1
    y = _noisy_callee(_noisy_callee(x, "b"), name="c")
    return y.sin()


def _outer_callee(x, depth):
    x = x + depth
    if depth:
        return _outer_callee(x, depth - 1) * 2
    return _noisy_callee(x, "deep")


@program("breaks", lambda t: (t(),), one_graph=False)
def break_deep_in_callees(x):
    y = x - 1
    z = _outer_callee(y, 3)
    return z + y


@program("breaks", lambda t: (t(),), one_graph=False)
def break_with_values_on_the_stack(x):
    def pick(a, nothing, b, *, c):
        return [a, b, c, nothing]

    parts = pick(x + 1, print("first"), x * 2, c=(x - 1, print("second")))
    table = {"a": x.sin(), "b": print("third"), "c": x.cos()}
    return parts, table, x + (len(table) + (print("fourth") is None)) * x.exp()


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def break_inside_comprehensions(x, steps):
    shown = [print(i) or x + i for i in range(steps)]
    return sum(shown), {i: x * i for i in range(2) if print("k", i) is None}


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def break_inside_a_generator(x, steps):
    def produce():
        y = x
        for i in range(steps):
            y = y * 2
            print("yielding", i)
            yield y

    total = x * 0
    for y in produce():
        total = total + y
    return total, list(itertools.islice(produce(), 2))


@program("breaks", lambda t: (t(), [3, 1, 2]), one_graph=False)
def break_inside_c_calling_python(x, row):
    def key(v):
        print("key", v)
        return -v

    ordered = sorted(row, key=key)
    mapped = list(map(lambda v: print("map") or x * v, ordered))
    return mapped, max(row, key=key)


@program("breaks", lambda t: (t(), []), one_graph=False)
def cells_across_breaks(x, log):
    count = 0

    def bump(by):
        nonlocal count
        count += by
        return x * count

    a = bump(1)
    print("between", count)
    b = bump(2)
    log.append(bump)
    print("after", count)
    return a + b, count


@program("breaks", lambda t: (t(), Counter()), one_graph=False)
def effects_around_breaks(x, counter):
    counter.first = x
    x.add_(1)
    counter.seen.append(x.sum())
    print(len(counter.seen), hasattr(counter, "second"))
    counter.second = counter.first
    x.mul_(2)
    del counter.first
    print(sorted(vars(counter)))
    counter.seen.append(x.sum())
    return counter.second is x


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def iterators_across_breaks(x, steps):
    it = iter(range(2 * steps))
    pairs = enumerate("ab" * steps)
    for i in it:
        x = x + i
        print(i, next(it), next(pairs))
        x = x * 2
    return x, list(it), len(list(pairs))


@program("breaks", lambda t: (t(),), one_graph=False)
def exception_after_a_break(x):
    try:
        y = x + 1
        print("about to fail")
        [][1]
    except IndexError as error:
        y = y * 2
        print("failed", error)
        raise RuntimeError("wrapped") from error
    finally:
        x.add_(1)


@program("breaks", lambda t: (t(), t.steps), one_graph=False)
def early_return_from_a_loop(x, steps):
    for i in range(steps * 2):
        x = x * 2
        print("round", i)
        if i == steps:
            return x + 1, "early"
    return x, "late"


@program("breaks", lambda t: (t(), [2, "mul"], []), one_graph=False)
def match_around_breaks(x, command, log):
    match command:
        case [k, "mul"]:
            y = x * k
            print("mul")
            log.append(y)
        case _:
            y = x
    match int(y.abs().sum().item()) > 0:
        case True:
            return y + 1
    return y


GLOBAL = {"calls": 0}


@program(
    "breaks",
    lambda t: (t(), t.steps),
    one_graph=False,
    setup=lambda: GLOBAL.update(calls=0),
    state=lambda: GLOBAL,
)
def module_state_and_breaks(x, steps):
    for _ in range(steps):
        GLOBAL["calls"] += 1
        x = x + GLOBAL["calls"]
        print("calls", GLOBAL["calls"])
    return x


# Loops whose iterations differ only in tensor data: one segment serves every iteration.


def _rows(t):
    return [t() for _ in range(t.steps)]


@program("breaks", lambda t: (_rows(t), t()), one_graph=False)
def data_in_for(rows, x):
    for row in rows:
        x = x.sin() + row
        print("row")
        x = x * 2
    return x


@program("breaks", lambda t: (_rows(t), t(), Counter()), one_graph=False)
def data_in_while(rows, x, counter):
    it = iter(rows)
    while (row := next(it, None)) is not None:
        counter.last = x
        x = x + row
        print("row")
        x = x.cos() - counter.last
    return x


@program("breaks", lambda t: (_rows(t), t()), one_graph=False)
def data_in_try_finally(rows, x):
    for row in rows:
        try:
            x = x + row
            print("try")
            x = x * row
        finally:
            x = x.tanh()
    return x


class Quiet:
    def __enter__(self):
        return 2

    def __exit__(self, *exc):
        return False


@program("breaks", lambda t: (_rows(t), t(), Quiet()), one_graph=False)
def data_in_with(rows, x, quiet):
    for row in rows:
        with torch.no_grad(), quiet as k:
            x = x + row
            print("with")
            x = x * k
    return x


@program("breaks", lambda t: (_rows(t), t()), one_graph=False)
def data_decides_in_a_loop(rows, x):
    for row in rows:
        y = row * x
        if y.sum() > 0:
            x = x + y
        else:
            x = x - y
        x = x / 2
    return x


@program("breaks", lambda t: (_rows(t), t()), one_graph=False)
def data_as_numbers_in_a_loop(rows, x):
    for row in rows:
        scale = row.abs().sum()
        x = x * (scale.item() > 1) + row
        x = x.sin()
    return x


@program("breaks", lambda t: (_rows(t), t()), one_graph=False)
def data_through_a_breaking_callee(rows, x):
    def step(x, row):
        y = x + row
        print("callee")
        return y * 2

    for row in rows:
        x = step(x, row).cos()
    return x
