"""From "What's New In Python 3.12": buffers, slices, enumerations, groups of exceptions, monitoring, and other objects."""

import array
import enum
import inspect
import sys
import types
import warnings

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Packed:
    def __init__(self, data):
        self.data = bytearray(data)

    def __buffer__(self, flags):
        log.append(("taken", bool(flags & inspect.BufferFlags.WRITABLE)))
        return memoryview(self.data)

    def __release_buffer__(self, view):
        log.append("released")
        view.release()


@documented(
    "PEP 688: bytes(), bytearray() and memoryview() take a buffer made in Python, and give it back",
    lambda: [(x(), b"ab"), (x(), b""), (x(2), b"xyz"), (x(2), bytes(4))],
    **cleared,
)
def buffers_in_python(t, data):
    packed = Packed(data)
    with memoryview(packed) as view:
        n = len(view)
    t = t * n
    return t, bytes(packed), bytearray(packed), b"".join([packed])


@documented(
    "PEP 688: a write by a memoryview reaches the object's bytes between two operations",
    lambda: [(x(), 65), (x(), 90), (x(2), 0), (x(2), 300)],
    **cleared,
)
def written_buffers(t, byte):
    packed = Packed(b"abc")
    t = t + packed.data[0]
    try:
        with memoryview(packed) as view:
            view[0] = byte
    except ValueError as error:
        return t, str(error), packed.data
    return t * packed.data[0], packed.data


@documented(
    "PEP 688: what __buffer__ returns must be a memoryview",
    lambda: [(x(), b"ab"), (x(), 3), (x(2), None), (x(2), memoryview(b"c"))],
)
def refused_buffers(t, value):
    class Odd:
        def __buffer__(self, flags):
            return value

    return t + 1, attempt(lambda: bytes(Odd()), lambda: isinstance(Odd(), __import__("collections").abc.Buffer))


@documented(
    "library/stdtypes: memoryview has half floats: cast('e')",
    lambda: [(x(), [1.0, 2.0]), (x(), [0.5]), (x(2), [65504.0, -1.0]), (x(2), [])],
)
def half_views(t, values):
    raw = torch.tensor(values, dtype=torch.float16).numpy().tobytes()
    view = memoryview(raw).cast("e")
    return t * len(view), view.tolist(), view.format, view.itemsize


@documented(
    "library/functions: slices as keys of a cache of parts of a tensor",
    lambda: [(x(6), [(0, 2), (2, 4), (0, 2)]), (x(6), []), (x(4), [(1, None)]), (x(4), [(0, 2), (0, 2)])],
)
def cached_slices(t, bounds):
    cache: dict = {}
    total = t.sum()
    for a, b in bounds:
        key = slice(a, b)
        if key not in cache:
            cache[key] = t[key].sum()
        total = total + cache[key]
    return total, len(cache), {slice(1, 2)} == {slice(1, 2)}, attempt(lambda: hash(slice([], 1)))


class Kind(enum.Enum):
    LOW = 1
    HIGH = "high"


class Bits(enum.Flag):
    A = 1
    B = 2


@documented(
    "library/enum: `in` says whether something is a member or a member's value",
    lambda: [(x(), 1), (x(), "high"), (x(2), Kind.LOW), (x(2), [])],
)
def members_by_value(t, value):
    seen = value in Kind
    return t * (1 + seen), seen, value in Bits if not isinstance(value, list) else None


@documented(
    "library/stdtypes: a mapping proxy is hashable when its mapping is",
    lambda: [(x(), {"a": 1}), (x(), {}), (x(2), {"b": 2}), (x(2), {"a": 1})],
)
def hashed_proxies(t, mapping):
    proxy = types.MappingProxyType(mapping)
    t = t + len(proxy)
    return t, attempt(lambda: hash(proxy)), dict(proxy | {"z": 0}), list(reversed(proxy))


@documented(
    "library/stdtypes: ~ on a bool is deprecated and says so",
    lambda: [(x(), True), (x(), False), (x(2), 1), (x(2), True)],
)
def inverted_booleans(t, flag):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = ~flag
    return t * value, value, [w.category.__name__ for w in caught]


class Named:
    def __init__(self, fails):
        self.fails = fails

    def __set_name__(self, owner, name):
        log.append((owner.__name__, name))
        if self.fails:
            raise LookupError("no name")


@documented(
    "reference/datamodel: what __set_name__ raises comes out as it is, with a note",
    lambda: [(x(), True), (x(), False), (x(2), True), (x(2), False)],
    **cleared,
)
def names_that_fail(t, fails):
    try:

        class Owner:
            member = Named(fails)

        return t * 2, Owner.member.fails
    except LookupError as error:
        return t, str(error), error.__notes__


@documented(
    "reference/compound_stmts: except* wraps a naked exception in a group of its own",
    lambda: [(x(), ValueError), (x(), TypeError), (x(2), KeyError), (x(2), None)],
)
def wrapped_in_groups(t, kind):
    seen = []
    try:
        t = t.cos()
        if kind:
            raise kind("naked")
    except* ValueError as group:
        seen.append((type(group).__name__, str(group), [str(e) for e in group.exceptions]))
    except* (TypeError, KeyError) as group:
        seen.append(len(group.exceptions))
        t = t + 1
    else:
        seen.append("else")
    finally:
        t = t * 2
    return t, seen


@documented(
    "reference/compound_stmts: nested groups keep their shape when except* splits them",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 3)],
)
def shapes_of_groups(t, n):
    inner = ExceptionGroup("inner", [ValueError(1), *[KeyError(i) for i in range(n)]])
    try:
        try:
            t = t * 2
            raise ExceptionGroup("outer", [inner, OSError("os")])
        except* ValueError as matched:
            first = repr(matched)
            t = t + 1
    except ExceptionGroup as rest:
        return t, first, repr(rest), rest.subgroup(KeyError) is not None
    return t


class Coded(ExceptionGroup):
    def __new__(cls, errors, code=0):
        made = super().__new__(cls, "coded", errors)
        made.code = code
        return made

    def derive(self, errors):
        return Coded(errors, self.code + 1)


@documented(
    "library/exceptions: derive() makes the parts of a subclass of groups",
    lambda: [(x(), ValueError), (x(), TypeError), (x(2), Exception), (x(2), OSError)],
)
def derived_groups(t, kind):
    group = Coded([ValueError("v"), TypeError("t")], 5)
    group.add_note("kept")
    match, rest = group.split(kind)
    t = t * group.code
    return t, [(type(g).__name__, g.code, g.__notes__, len(g.exceptions)) for g in (match, rest) if g]


@documented(
    "reference/compound_stmts: raise, continue in loops and returns around except*",
    lambda: [(x(), [0, 1, 2]), (x(), [2]), (x(2), []), (x(2), [1, 1])],
)
def groups_in_loops(t, codes):
    seen = []
    for code in codes:
        try:
            t = t + code
            if code == 1:
                raise ExceptionGroup("g", [ValueError(code)])
            if code == 2:
                raise KeyError(code)
        except* ValueError:
            t = t * 2
        except* KeyError as group:
            seen.append(str(group.exceptions[0]))
    return t, seen


@documented(
    "library/sys: last_exc is the exception that sys.exception() is, in a handler",
    lambda: [(x(), 1), (x(), 0), (x(2), 2), (x(2), 0)],
)
def current_exceptions(t, n):
    before = sys.exception()
    try:
        t = t / 2
        n // (1 if n else 0)
    except ZeroDivisionError as error:
        return t, sys.exception() is error, before
    return t * n, sys.exception()


@documented(
    "library/sys: monitoring's tools are free, taken and freed while a program runs",
    lambda: [(x(), 4), (x(), 4), (x(2), 5), (x(2), 9)],
)
def tools_of_monitoring(t, number):
    mon = sys.monitoring
    t = t + 1
    try:
        mon.use_tool_id(number, "program")
    except ValueError as error:
        return t, str(error)
    name = mon.get_tool(number)
    mon.free_tool_id(number)
    return t * 2, name, mon.get_tool(number)


@documented(
    "library/array: arrays are made from a buffer; array.array[int] is an alias",
    lambda: [(x(), [1, 2]), (x(), []), (x(2), [3]), (x(2), [5, 6, 7])],
)
def arrays(t, values):
    made = array.array("d", values)
    shared = torch.frombuffer(made, dtype=torch.float64) if values else torch.zeros(0)
    made.extend([1.0]) if not values else made.reverse()
    return t.sum() + shared.sum(), made.tolist()


@documented(
    "library/inspect: markcoroutinefunction makes a callable pass as a coroutine function",
    lambda: [(x(), True), (x(), False), (x(2), True), (x(2), False)],
)
def marked_coroutines(t, mark):
    def work(v):
        return v * 3

    if mark:
        inspect.markcoroutinefunction(work)
    return work(t), inspect.iscoroutinefunction(work)


@documented(
    "library/functions: a property without setter or deleter names itself and the whole name of its class",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def refusing_properties(t, n):
    class Model:
        @property
        def width(self):
            return n

    model = Model()
    return t * model.width, attempt(lambda: setattr(model, "width", 1), lambda: delattr(model, "width"))
