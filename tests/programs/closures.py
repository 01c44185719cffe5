"""Cells, closures and globals."""

from programs import program


@program("closures")
def nonlocal_counter(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y + count

    y = step(step(x))
    count *= 10
    return step(y), count


@program("closures")
def two_closures_share_a_cell(x):
    total = x

    def add(k):
        nonlocal total
        total = total + k

    def read():
        return total

    add(1)
    first = read()
    add(x)
    return first, read(), total is read()


@program("closures")
def nonlocal_through_depths(x):
    a = 1

    def one():
        b = 2

        def two():
            nonlocal a
            c = a + b

            def three():
                nonlocal a, b, c
                a, b, c = b + 1, c + 1, a + 1
                return x * a

            return three() + c

        return two() + b

    return one(), a


@program("closures")
def escaping_closures(x):
    state = [0]
    base = x * 2

    def bump(k=1):
        state[0] += k
        return base + state[0]

    def peek():
        return state, base

    bump()
    return bump, peek, x


@program("closures")
def late_binding(x):
    late = [lambda: x + i for i in range(3)]
    early = [lambda i=i: x + i for i in range(3)]
    return [f() for f in late], [f() for f in early]


def make_counter(start):
    count = start

    def advance(x):
        nonlocal count
        count += 1
        return x + count

    def reset():
        nonlocal count
        count = start

    return advance, reset, lambda: count


advance, reset_counter, count_now = make_counter(5)


@program("closures", setup=reset_counter, state=count_now)
def cell_of_an_existing_closure(x):
    y = advance(x)
    y = advance(y)
    return y * count_now()


@program("closures")
def recursion_through_a_cell(x):
    def down(n):
        return x if n == 0 else down(n - 1) + n

    alias = down
    result = down(4)

    def down(n):  # noqa: F811
        return x * 0

    return result, alias(2)


@program("closures")
def unbound_cell(x):
    def read():
        return late

    try:
        read()
    except NameError as error:
        message = str(error)
    late = x + 1
    return read(), message


@program("closures")
def deleted_cell(x):
    value = x

    def drop():
        nonlocal value
        del value

    def has():
        try:
            return value is not None
        except NameError:
            return False

    seen = [has()]
    drop()
    seen.append(has())
    value = x + 1
    seen.append(has())
    return value, seen


@program("closures")
def unbound_local(x):
    messages = []
    for define in (True, False):
        try:
            if define:
                y = x + 1
            else:
                del y
            x = x + y
        except UnboundLocalError as error:
            messages.append(str(error))
    return x, messages


COUNT = 0
TABLE: dict = {}
SCALE = 3.0


def _reset_globals():
    global COUNT
    COUNT = 0
    TABLE.clear()
    globals().pop("APPEARED", None)


@program("closures", setup=_reset_globals, state=lambda: (COUNT, TABLE))
def global_stores(x):
    global COUNT
    for name in ("a", "b"):
        COUNT += 1
        TABLE[name] = x + COUNT
    return TABLE["a"] * COUNT * SCALE


@program("closures", setup=_reset_globals, state=lambda: "APPEARED" in globals())
def global_made_and_deleted(x):
    global APPEARED
    APPEARED = x + 1
    y = APPEARED * 2
    del APPEARED
    try:
        APPEARED  # noqa: B018
    except NameError as error:
        return y, str(error)
    return None


@program("closures", setup=_reset_globals, state=lambda: globals().get("APPEARED"))
def global_that_stays(x):
    global APPEARED
    APPEARED = [x]
    APPEARED.append(x.cos())
    return APPEARED[1] + 1


@program("closures", lambda t: (t(), [1, 2, 3]))
def names_shadowed_between_frames(x, data):
    len = 2  # noqa: A001

    def inner(data):
        x = data * 2

        def innermost():
            return x, data

        return innermost

    a, b = inner(x * len)()
    return a, b, x, sum([len for len in data]), len


@program("closures", lambda t: (t(), (lambda k: lambda y: y * k)(4)))
def closure_as_argument(x, scale):
    def compose(*functions):
        def run(y):
            for f in functions:
                y = f(y)
            return y

        return run

    return compose(scale, lambda y: y + 1, scale)(x)


@program("closures")
def comprehensions_see_cells(x):
    k = 2
    rows = [[x * i + j + k for j in range(2)] for i in range(2)]
    table = {i: {j: x + k for j in range(i)} for i in range(3)}
    return rows, table, {i + k for i in range(3)}


@program("closures")
def closure_keeps_what_it_needs(x):
    def make(k):
        y = x + k
        unused = x * 100
        return lambda: y, unused.sum()

    f, total = make(1)
    return f, total
