"""Side effects through closures that exist or escape, and generators over their cells."""

import types

from programs import program


class Bag:
    def __init__(self, **names):
        self.__dict__.update(names)


# An existing function that makes a nested function capturing a caller's cell.


def _wrap(f):
    calls = 0

    def wrapped(*args):
        nonlocal calls
        calls += 1
        return f(*args), calls

    return wrapped


def _compose(*functions):
    def run(y):
        for f in functions:
            y = f(y)
        return y

    return run


def _accumulator(target):
    def add(v):
        target().append(v)
        return len(target())

    return add


@program("fx_closures", known="an existing function that makes a nested function capturing a caller's cell")
def existing_wrapper_around_a_closure(x):
    total = 0

    def add(k):
        nonlocal total
        total += k
        return x * total

    wrapped = _wrap(add)
    wrapped(1)
    return wrapped(2), total, wrapped


@program("fx_closures", known="an existing function that makes a nested function capturing a caller's cell")
def existing_composition_of_closures(x):
    steps = []

    def double(y):
        steps.append("double")
        return y * 2

    def shift(y):
        nonlocal steps
        steps = [*steps, "shift"]
        return y + 1

    run = _compose(double, shift, double)
    return run(x), steps


@program("fx_closures", known="an existing function that makes a nested function capturing a caller's cell")
def existing_function_reads_the_cell_late(x):
    rows = [1]
    add = _accumulator(lambda: rows)
    add(x)
    rows = []
    add(x + 1)
    return rows, add


def _counter_pair(shared):
    def up():
        shared.n += 1
        return here

    def down():
        nonlocal here
        here -= 1
        return shared.n

    here = 0
    return up, down


@program(
    "fx_closures",
    lambda t: (t(), Bag(n=0)),
    known="an existing function that makes a nested function capturing a caller's cell",
)
def existing_function_with_a_pair_over_one_cell(x, bag):
    up, down = _counter_pair(bag)
    seen = [up(), down(), down(), up()]
    return x + sum(seen), seen, (up, down)


def _keeps(v):
    kept = v

    def get():
        return kept

    def put(v):
        nonlocal kept
        kept = v

    return get, put


GET, PUT = _keeps(0)


@program(
    "fx_closures",
    setup=lambda: PUT(0),
    state=lambda: GET(),
    known="an existing function that makes a nested function capturing a caller's cell",
)
def closure_stored_into_an_existing_cell(x):
    k = 1

    def f():
        nonlocal k
        k += 1
        return x * k

    PUT(f)
    y = GET()()
    k = 10
    return y, GET()(), k


# Existing closures.


@program("fx_closures", setup=lambda: PUT([1]), state=lambda: GET())
def existing_cell_written_and_its_content_changed(x):
    GET().append(x)
    old = GET()
    PUT(old + [2])
    GET().append(3)
    return old, GET() is old


def _world(t):
    slot = t()

    def swap(v):
        nonlocal slot
        slot, v = v, slot
        return v

    def clear():
        nonlocal slot
        del slot

    return t(), swap, clear, lambda: slot


@program("fx_closures", _world)
def arguments_that_share_a_cell(x, swap, clear, read):
    old = swap(x)
    again = read() + old
    clear()
    try:
        read()
    except NameError:
        swap_failed = True
    return again, swap_failed


@program("fx_closures", _world)
def cells_by_attribute(x, swap, clear, read):
    cell = read.__closure__[0]
    same = cell is swap.__closure__[0], cell.cell_contents is read()
    cell.cell_contents = x
    return read() + 1, same


@program("fx_closures")
def cells_made_by_hand(x):
    cell = types.CellType(x)
    empty = types.CellType()
    try:
        empty.cell_contents  # noqa: B018
    except ValueError as error:
        text = str(error)
    empty.cell_contents = cell.cell_contents + 1
    return cell, empty.cell_contents, text


# Generators over cells.


@program("fx_closures")
def generator_writes_a_cell(x):
    position = 0

    def produce():
        nonlocal position
        for k in range(3):
            position = k
            yield x * position
            position += 10

    g = produce()
    seen = []
    for y in g:
        seen.append(position)
        position += 100
    return y, seen, position


@program("fx_closures")
def two_generators_over_one_cell(x):
    turn = []
    n = 0

    def walker(name):
        nonlocal n
        while n < 4:
            n += 1
            turn.append((name, n))
            yield x + n

    total = x * 0
    for a, b in zip(walker("a"), walker("b")):
        total = total + a * b
    return total, turn, n


@program("fx_closures")
def generator_expression_reads_late(x):
    k = 1
    lazy = (x * k + i for i in range(3))
    k = 4
    first = next(lazy)
    k = 7
    return first, list(lazy)


@program("fx_closures")
def unstarted_generator_escapes_with_its_cell(x):
    k = 1

    def produce():
        nonlocal k
        while k < 4:
            yield x * k
            k += 1

    g = produce()
    k = 2
    return g, produce
