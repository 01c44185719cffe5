"""What only CPython 3.15 runs: unpacking in comprehensions, lazy imports, frozendict, sentinels."""
# ruff: noqa: F821 (lazy names are made by exec)

import sys

from lifetimes.objects import Number, Tracked, helper, program

MISSING = sentinel("MISSING")


@helper
def rows(log, n):
    for i in range(n):
        log.append(f"row {i}")
        yield [Tracked(log, f"{i}{j}") for j in range(i)]


@program
def unpacked_lists(log):
    made = [*row for row in rows(log, 3)]
    log.append(len(made))
    del made
    log.append("dropped")


@program
def unpacked_sets_and_conditions(log):
    made = {*row for row in ([Number(log, f"{i}{j}") for j in range(i)] for i in range(4)) if len(row) > 1}
    log.append(sorted(item.name for item in made))
    made.clear()
    return len(made)


@program
def unpacked_dicts(log):
    first, second = {"a": Tracked(log, "old")}, {"a": Tracked(log, "new"), "b": Number(log, "b")}
    made = {**d for d in (first, second)}
    log.append(list(made.values()))
    del first
    log.append("first dropped")
    return list(made)


@program
def unpacked_dicts_that_are_none(log):
    x = Tracked(log, "x")
    try:
        return {**d for d in [{"a": x}, [("b", x)]]}
    except TypeError as error:
        log.append(str(error))
    del x
    log.append("behind")
    return None


@program
def unpacked_generators(log):
    made = (*row for row in rows(log, 4))
    log.append(next(made))
    log.append(next(made))
    made.close()
    log.append("closed")


@program
def unpacked_from_a_generator_that_raises(log):
    x = "kept"

    def inner(x):
        yield Tracked(log, "a")
        if x:
            raise KeyError(x)

    try:
        return [*inner(x) for x in (0, 1, 2)]
    except KeyError as error:
        log.append(str(error))
    return x


@program
def unpacked_in_closures(log):
    made = [*(lambda: i, lambda: i * 10) for i in range(3)]
    x = Tracked(log, "x")
    nested = [*[*[x, j] for j in range(i)] for i in range(3)]
    log.append([f() for f in made])
    del x
    log.append(len(nested))
    nested.pop()
    del nested
    log.append("dropped")


@program
def unpacked_what_cannot_be(log):
    x = Number(log, "x")
    try:
        return [*item for item in ([x], x)]
    except TypeError as error:
        log.append(str(error))
    finally:
        log.append("finally")
    return x + 1


# The first use of a lazy name puts the module in its place: each run begins anew.
LAZY = """
lazy import colorsys
lazy import xml.dom as dom
lazy from bisect import bisect_left as first_place
lazy from bisect import no_such_name
lazy import no_module_of_this_name
"""


def import_lazily():
    exec(LAZY, globals())


def kind_of(name):
    return type(globals()[name]).__name__


@program
def lazy_modules(log):
    import_lazily()
    x = Tracked(log, "x")
    log.append(kind_of("colorsys"))
    value = colorsys.rgb_to_hsv(1, 0, 0)
    log.append([kind_of("colorsys"), kind_of("dom")])
    del x
    return value, colorsys.__name__, dom.__name__


@program
def lazy_names_of_modules(log):
    import_lazily()
    x = Tracked(log, "x")
    place = first_place([1, 2, 4], 3)
    log.append(kind_of("first_place"))
    return [x, place, first_place([], 1)]


@program
def lazy_names_as_arguments(log):
    import_lazily()

    def inner(value, places=first_place):
        return type(value).__name__, places([5], 7)

    log.append(inner(colorsys))
    table = {"module": dom, "x": Tracked(log, "x")}
    log.append(type(table.pop("module")).__name__)
    del table
    return kind_of("dom")


@program
def lazy_names_in_comprehensions(log):
    import_lazily()
    made = [first_place(range(9), i) for i in range(3)]
    x = Tracked(log, "x")
    log.append((lambda: colorsys.hsv_to_rgb(0, 0, i := 1))())
    return made, x.name


@program
def lazy_module_that_is_missing(log):
    import_lazily()
    x = Number(log, "x")
    try:
        return x + no_module_of_this_name.value
    except ModuleNotFoundError as error:
        log.append(error.name)
    del x
    return kind_of("no_module_of_this_name")


@program
def lazy_name_that_is_missing(log):
    import_lazily()
    x = Number(log, "x")
    for _ in range(2):
        try:
            log.append(x + no_such_name)
        except ImportError as error:
            log.append(str(error).partition(" (")[0])
    return x.name


@program
def lazy_name_written_over(log):
    import_lazily()
    global colorsys
    colorsys = Tracked(log, "x")
    log.append(kind_of("colorsys"))
    name = colorsys.name
    del colorsys
    return name


@program
def frozen_dicts(log):
    made = frozendict(a=Tracked(log, "a"), b=1)
    other = made | {"b": Tracked(log, "b")}
    try:
        made["c"] = Tracked(log, "c")
    except TypeError as error:
        log.append(str(error))
    del made
    log.append(list(other))
    del other
    log.append("dropped")


@program
def frozen_dicts_as_keys(log):
    key = frozendict(x=1, y=Number(log, "y"))
    table = {key: Tracked(log, "value")}
    log.append(hash(key) == hash(frozendict(y=key["y"], x=1)))
    match key:
        case {"x": 1, **rest}:
            log.append(sorted(rest))
    del table[key]
    log.append(sys.getrefcount(key))


@program
def sentinels(log):
    def inner(x=MISSING):
        if x is MISSING:
            return Tracked(log, "default")
        return x

    first, second = inner(), inner(Tracked(log, "given"))
    log.append([repr(MISSING), first.name, second.name, repr(MISSING | int)])
    first = MISSING
    log.append("replaced")
    return first is inner(MISSING)


@program
def bytes_taken(log):
    data = bytearray(b"line\nrest")
    x = Tracked(log, "x")
    log.append(data.take_bytes(data.find(b"\n") + 1))
    del x
    return bytes(data), data.take_bytes(), len(data)
