"""Side effects on cells: who shares them, when they are empty, which of several a name means."""

from programs import program


class Bag:
    def __init__(self, **names):
        self.__dict__.update(names)


# nonlocal and cells that are shared.


@program("fx_cells")
def nonlocal_from_four_levels(x):
    a = b = 0

    def one():
        nonlocal a

        def two():
            nonlocal b

            def three():
                nonlocal a, b

                def four():
                    nonlocal b
                    b += 1
                    return a * b

                a += 10
                return four()

            b += 2
            return three() + b

        a += 1
        return two() + a

    return x * one(), a, b


@program("fx_cells")
def cell_of_an_argument_rebound(x):
    def double():
        nonlocal x
        x = x * 2

    double()
    y = x + 1
    double()
    return x, y


@program("fx_cells", lambda t: (t(), Bag()))
def sharers_escape_to_different_places(x, bag):
    count = 0

    def up():
        nonlocal count
        count += 1
        return count

    def read():
        return count, x

    bag.up = up
    up()
    return read, [up], bag.up()


@program("fx_cells")
def three_generations_share(x):
    state = [x]

    def make():
        local = len(state)

        def add(v):
            nonlocal local
            local += 1
            state.append(v * local)
            return make if local < 3 else None

        def look():
            return local, state

        return add, look

    add, look = make()
    again = add(x)
    other_add, other_look = again()
    other_add(x + 1)
    return look, other_look, len(state)


@program("fx_cells")
def loop_variable_is_one_cell(x):
    functions = []
    for i in range(3):

        def bump(by=i):
            nonlocal i
            i += by
            return i

        functions.append(bump)
    return x * i, [f() for f in functions], i, functions


@program("fx_cells")
def default_arguments_are_not_cells(x):
    k = 1
    early = lambda y, k=k: y * k  # noqa: E731
    late = lambda y: y * k  # noqa: E731
    k = 5
    return early(x), late(x), early, late


@program("fx_cells")
def closure_in_its_own_closure(x):
    def f(n):
        return x if n == 0 else g(n - 1) + 1

    def g(n):
        return f(n) * 2

    f.partner = g
    return f(2), f


@program("fx_cells")
def cell_holds_a_list_of_its_functions(x):
    family = []

    def add(k):
        def member():
            return k, len(family)

        family.append(member)
        return member

    add(1), add(x)
    return family, family[1]()[0] + 1


# Unbound at first, deleted, bound again.


@program("fx_cells")
def bound_by_a_callee(x):
    def bind():
        nonlocal late
        late = x * 2

    if False:
        late = None
    bind()
    return late + 1


@program("fx_cells")
def unbound_read_raises_each_time(x):
    def read():
        return slot

    texts = []
    for i in range(3):
        try:
            texts.append(read())
        except NameError as error:
            texts.append(str(error))
        if i == 0:
            slot = 5
        elif i == 1:
            del slot
    return x + len(texts), texts


@program("fx_cells")
def deleted_cell_escapes_empty(x):
    value, other = x, 1

    def read():
        return value, other

    def drop():
        nonlocal value
        del value

    drop()
    other = 2
    return read, drop, other


@program("fx_cells")
def deleting_an_empty_cell(x):
    def drop():
        nonlocal slot
        del slot

    slot = 1
    drop()
    try:
        drop()
    except NameError as error:
        slot = str(error)
    return slot, x + 1


@program("fx_cells")
def except_clause_empties_its_cell(x):
    seen = []

    def read():
        try:
            return str(error)
        except NameError:
            return "unbound"

    try:
        raise KeyError("k")
    except KeyError as error:
        seen.append(read())
    seen.append(read())
    return x + 1, seen


@program("fx_cells")
def with_target_and_for_target_in_cells(x):
    def read():
        return a, b

    class Gives:
        def __enter__(self):
            return x + 1

        def __exit__(self, *exc):
            return False

    with Gives() as a:
        for b in range(2):  # noqa: B007
            pass
    return read()


# Writes to cells under name shadowing.


@program("fx_cells", known="writes to cells under name shadowing")
def one_name_three_scopes(x):
    v = x

    def outer():
        v = 1

        def inner():
            nonlocal v
            v += 1

            def deepest(v):
                v = v * 2
                return v

            return deepest(v)

        return inner() + v

    return outer(), v * 2


@program("fx_cells", known="writes to cells under name shadowing")
def parameter_shadows_a_cell(x):
    total = x

    def add(total):
        def bump():
            nonlocal total
            total = total + 1

        bump()
        return total

    y = add(total * 2)
    return y, total


@program("fx_cells", known="writes to cells under name shadowing")
def comprehension_shadows_a_cell(x):
    k = 10

    def read():
        return k

    rows = [(k, read()) for k in range(2)]
    pick = [lambda: k for k in range(2)]
    k += 1
    return x * read(), rows, [p() for p in pick]


@program("fx_cells", known="writes to cells under name shadowing")
def same_name_in_caller_and_callee(x):
    count = 1

    def caller(f):
        count = 100

        def bump():
            nonlocal count
            count += 1
            return count

        return f() + bump() + count

    def own():
        nonlocal count
        count *= 2
        return count

    return x * caller(own), count


def _makes_a_namesake(v, f):
    total = v

    def read():
        return total

    f()
    total = total + 1
    return read


@program("fx_cells", known="writes to cells under name shadowing")
def shadowed_by_an_existing_function(x):
    total = x * 2

    def write():
        nonlocal total
        total = total * 3

    read = _makes_a_namesake(x, write)
    write()
    return read(), total, read


@program("fx_cells", known="writes to cells under name shadowing")
def class_body_names_are_no_cells(x):
    v = 1

    class Local:
        v = 2
        seen = v

        def read(self):
            return v

        w = [v for _ in range(1)]

    return x + Local().read(), Local.seen, Local.v, Local.w
