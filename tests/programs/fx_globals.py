"""Side effects on globals, of this module and of others, and on what they refer to."""

import builtins
import itertools
import types

import torch

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


# Globals.

COUNT = 0
ROWS: list = []
other = types.ModuleType("other")
exec(
    """
level = 1
rows = []
def raise_level(by=1):
    global level
    level += by
    return level
def add(v):
    rows.append(v)
    return make_reader()
def make_reader():
    return lambda: (level, len(rows))
def drop():
    global gone
    gone = 1
    del gone
    return 'gone' in globals()
""",
    other.__dict__,
)


def _reset():
    global COUNT
    COUNT = 0
    ROWS.clear()
    other.level = 1
    other.rows.clear()
    for name in ("NEW", "sum", "len", "sorted"):
        globals().pop(name, None)
    other.__dict__.pop("len", None)


def _state():
    return COUNT, ROWS, other.level, other.rows, globals().get("NEW")


def over_globals(args=lambda t: (t(),), **options):
    return program("fx_globals", args, setup=_reset, state=_state, **options)


def _bump(by):
    global COUNT
    COUNT += by
    return COUNT


@over_globals()
def global_written_by_callees(x):
    global COUNT
    first = _bump(2)
    COUNT *= 10
    return x * _bump(1), first, COUNT


@over_globals()
def globals_of_another_module_by_its_functions(x):
    a = other.raise_level()
    other.level = a * 10
    b = other.raise_level(5)
    read = other.add(x)
    other.rows.append(2)
    return x + b, read(), other.level


@over_globals()
def global_function_escapes_from_another_module(x):
    other.raise_level()
    return other.make_reader(), x + other.level


def _define():
    global NEW
    NEW = [1]


@over_globals()
def global_defined_by_a_callee(x):
    try:
        NEW  # noqa: B018
    except NameError as error:
        text = str(error)
    _define()
    NEW.append(x)
    return text, x + len(NEW)


@over_globals()
def globals_as_a_dict(x):
    globals()["NEW"] = x
    names = globals()
    first = NEW + 1
    names["COUNT"] = 5
    return first, COUNT, "NEW" in names


@over_globals()
def builtin_shadowed_and_unshadowed(x):
    global len
    seen = [len("ab")]
    len = lambda _: 99  # noqa: E731, A001
    seen.append(len("ab"))
    seen.append(builtins.len("ab"))
    del len
    seen.append(len("ab"))  # noqa: F821
    return x + seen[1], seen


def _sums(items):
    return sum(items)


@over_globals()
def builtin_shadowed_for_a_callee(x):
    global sum
    before = _sums([1, 2])
    sum = max  # noqa: A001
    after = _sums([1, 2])
    del sum
    return x * after, before, _sums([1, 2])


@over_globals()
def builtin_shadowed_in_another_module(x):
    other.len = lambda v: -1
    hidden = other.make_reader()()
    del other.len
    return x + other.make_reader()()[1], hidden


@over_globals()
def shadowing_stays_behind(x):
    global sorted
    sorted = lambda items: list(items)[::-1]  # noqa: E731, A001
    return x + 1, sorted([1, 3, 2])


# An argument that aliases an element of a global list.


def _alias(t):
    v = t()
    ROWS.append(v)
    return (v,)


@program("fx_globals", _alias, setup=_reset, state=_state, known="an argument that aliases an element of a global list")
def argument_is_in_a_global_list(x):
    ROWS.append(x + 1)
    return x is ROWS[0], ROWS[0] * 2


@program("fx_globals", _alias, setup=_reset, state=_state, known="an argument that aliases an element of a global list")
def argument_in_a_global_list_written_in_place(x):
    ROWS[0].add_(1)
    y = x * 2
    x.mul_(3)
    return y, ROWS[0] + 1


def _alias_row(t):
    row = [t(), 1]
    ROWS.append(row)
    return t(), row


@program(
    "fx_globals", _alias_row, setup=_reset, state=_state, known="an argument that aliases an element of a global list"
)
def list_argument_is_in_a_global_list(x, row):
    ROWS[0].append(x)
    row[0] = len(row)
    ROWS[0], kept = [row], ROWS[0]
    return kept is row, row[2] + 1


def _alias_bag(t):
    bag = Bag(v=t())
    ROWS.append({"bag": bag})
    return (bag, t())


@program(
    "fx_globals", _alias_bag, setup=_reset, state=_state, known="an argument that aliases an element of a global list"
)
def object_argument_is_in_a_global_structure(bag, x):
    ROWS[0]["bag"].v = x
    bag.w = ROWS[0]["bag"].v * 2
    ROWS.append(bag)
    return bag.v is x, ROWS[1] is ROWS[0]["bag"]


def _reading(k):
    """Reads a global after it was rebound by the caller's callee."""
    ROWS.append(k)
    return itertools.count(COUNT)


@over_globals(known="an argument that aliases an element of a global list")
def global_read_by_an_iterator(x):
    _bump(3)
    numbers = _reading(x)
    return next(numbers), next(numbers), torch.stack([r for r in ROWS if isinstance(r, torch.Tensor)])
