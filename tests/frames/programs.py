"""Functions without arguments that between them use every instruction a plain function can contain.

What they do must show: in the result, the exception, the traceback or what they `log`. `log` records the chain of
frames too, so a frame that looks different while it runs is noticed.
"""

# ruff: noqa: F401, F811, F821, I001
import __future__
import contextlib
import functools
import importlib
import sys
import types

SEEN: list = []
COUNTER = 0


def chain(limit=6):
    """The frames above the caller as a program sees them: names and lines, up to the test harness."""
    frame, found = sys._getframe(1), []
    while frame is not None and len(found) < limit and frame.f_code.co_name != "observe":
        found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def log(value):
    SEEN.append((repr(value), chain()))
    return value


class Boom(Exception):
    pass


class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        return log(f"enter {self.name}")

    def __exit__(self, kind, value, trace):
        log((self.name, kind and kind.__name__, sys.exc_info()[0] and sys.exc_info()[0].__name__))
        return self.swallow


class Dies:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        SEEN.append(f"{self.name} died")


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return log("eq") and (self.x, self.y) == (other.x, other.y)

    def __bool__(self):
        return log("bool") and self.x > 0

    def __add__(self, other):
        return Point(self.x + other, self.y)

    def __iadd__(self, other):
        self.x += other
        return self

    def __getitem__(self, index):
        return log(("item", index))

    def __setitem__(self, index, value):
        log(("set", index, value))

    def __delitem__(self, index):
        log(("del", index))

    def __call__(self, *args, **kwargs):
        return log((args, kwargs))

    def __format__(self, spec):
        return f"<{self.x}|{spec}>"


def raiser(value):
    if value > 1:
        raise Boom(value)
    return value


def arithmetic():
    a, b = 7, 3
    values = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b]
    c = a
    c += 1
    c -= 2
    c *= 3
    c //= 2
    c **= 2
    c %= 97
    c <<= 2
    c >>= 1
    c |= 1
    c &= 255
    c ^= 5
    c /= 2
    values += [
        -a,
        +a,
        ~a,
        not a,
        a < b,
        a <= b,
        a == b,
        a != b,
        a > b,
        a >= b,
        a is b,
        a is not b,
        a in values,
        b not in values,
    ]
    return values, c


def matmul_missing():
    return object() @ 3


def for_loop():
    total = 0
    for i in range(6):
        if i == 2:
            continue
        if i == 5:
            break
        total += log(i)
    else:
        total = -1
    for i in []:
        pass
    else:
        total += 100
    return total, i


def while_loop():
    n, out = 5, []
    while n:
        n -= 1
        if n % 2:
            continue
        out.append(n)
    while True:
        n += 1
        if n > 3:
            break
    link = (1, (2, None))
    while link is not None:
        out.append(link[0])
        link = link[1]
    return out, n


def boolean_logic():
    values = []
    for a in (0, 1, "", "x", None):
        values.append(a and a or not a)
        values.append(a or "else")
        values.append(1 if a is None else 2)
        values.append(3 if a is not None else 4)
        while a is not None and a:
            a = None
        while a is None:
            a = 1
        values.append(1 < 2 < 3 > a if a else 0)
    return values, bool(Point(1, 2) and Point(-1, 0))


def try_except_else_finally():
    out = []
    for i in range(4):
        try:
            if i == 1:
                raise ValueError(i)
            if i == 2:
                raise Boom(i)
            if i == 3:
                continue
            out.append("body")
        except ValueError as error:
            out.append((repr(error), sys.exc_info()[0].__name__))
        except (KeyError, Boom):
            out.append(sys.exc_info()[1].args)
        else:
            out.append("else")
        finally:
            out.append(("finally", log(i), sys.exc_info()[0]))
    return out, sys.exc_info()


def nested_handlers():
    out = []
    try:
        try:
            raiser(2)
        except Boom as first:
            out.append(sys.exc_info()[1] is first)
            try:
                {}["missing"]
            except KeyError as second:
                out.append((sys.exc_info()[1] is second, second.__context__ is first))
            out.append(sys.exc_info()[1] is first)
            raise
    except Boom as again:
        out.append((again.args, [frame for frame in chain()]))
    return out, sys.exc_info()


def finally_returns():
    for i in range(3):
        try:
            raise Boom(i)
        finally:
            if i < 2:
                continue
            return "from finally", sys.exc_info()


def finally_raises():
    try:
        raise Boom("first")
    finally:
        log(sys.exc_info()[0].__name__)
        raise KeyError("second")


def raise_from():
    try:
        raiser(5)
    except Boom as error:
        raise TypeError("outer") from error


def raise_from_none():
    try:
        raiser(5)
    except Boom:
        raise TypeError("outer") from None


def raise_class_from_class():
    raise Boom from ValueError


def raise_nothing():
    raise


def raise_non_exception():
    raise 3


def raise_from_non_exception():
    raise Boom from 3


def raise_constructor_fails():
    class Bad(Exception):
        def __new__(cls):
            return 3

    raise Bad


def except_non_exception():
    try:
        raiser(3)
    except (ValueError, 3):
        return "caught"


def reraise_keeps_traceback():
    try:
        try:
            raiser(2)
        finally:
            log("clean up")
    except Boom as error:
        lines, trace = [], error.__traceback__
        while trace:
            lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        return lines


def deep_handlers():
    out = []
    for i in range(3):
        try:
            try:
                try:
                    raiser(i + 1)
                except Boom:
                    out.append("boom")
                    raiser(3) if i == 2 else raiser(0)
                else:
                    out.append("else")
            finally:
                out.append("finally")
        except Boom as error:
            out.append((error.args, repr(error.__context__)))
        del out[:0]
    return out


def with_blocks():
    out = []
    with Manager("a") as a, Manager("b") as b:
        out.append((a, b))
    with Manager("c", swallow=True):
        raise Boom("swallowed")
    for i in range(2):
        with Manager(i):
            if i:
                break
            continue
    with Manager("d"):
        return out
    return "not reached"


def with_raises():
    with Manager("outer"):
        with Manager("inner"):
            raiser(9)


def with_nothing():
    with 3:
        pass


def with_no_exit():
    class Half:
        def __enter__(self):
            return self

    with Half():
        pass


def with_exit_raises():
    class Bad(Manager):
        def __exit__(self, *args):
            raise KeyError("exit")

    with Bad("bad"):
        raise Boom("body")


def closures():
    count = 0
    items = []

    def bump(by=1):
        nonlocal count
        count += by
        items.append(count)
        return lambda: count * 10

    last = [bump(), bump(5), bump(by=2)][-1]
    del items[0]
    return count, items, last(), bump.__closure__[0].cell_contents


def cell_argument(x=3):
    def inner():
        nonlocal x
        x += 1
        return x

    return inner(), x, inner(), x


def unbound_cell():
    def inner():
        return value

    result = inner()
    value = 3
    return result


def unbound_cell_here():
    if log(False):
        value = 3
    (lambda: value)
    return value


def deleted_cell():
    value = 3
    (lambda: value)
    del value
    del value


def unbound_local():
    if not SEEN or True:
        log("no value")
    else:
        value = 3
    return value


def deleted_local():
    value = 3
    del value
    del value


def unbound_after_except():
    try:
        raise Boom
    except Boom as error:
        pass
    return error


def global_names():
    global COUNTER, FRESH
    COUNTER += 1
    FRESH = COUNTER
    found = FRESH, len
    del FRESH
    return found, "FRESH" in globals()


def missing_global():
    return no_such_name


def delete_missing_global():
    global NO_SUCH_GLOBAL
    del NO_SUCH_GLOBAL


def calls():
    def f(a, /, b, *rest, c=1, d, **more):
        return a, b, rest, c, d, sorted(more.items())

    args, kwargs = [3, 4], {"d": 5, "e": 6}
    return (
        f(1, 2, d=3),
        f(*args, **kwargs),
        f(0, *args, d=1, **{"z": 2}),
        f(1, 2, 3, 4, c=5, d=6, e=7),
        Point(1, 2)(1, k=2),
        Point(1, 2).__add__(4).x,
        functools.partial(f, 1, d=2)(3),
        "a,b".split(sep=","),
        max([3, 1, 2], key=lambda v: -v),
        str.upper("x"),
    )


def call_duplicate_keyword():
    return dict(a=1, **{"a": 2})


def call_double_star_non_mapping():
    return dict(**3)


def call_star_non_iterable():
    return print(*3)


def call_list_star_non_iterable():
    return print(1, *3)


def call_too_many():
    return raiser(1, 2, key=3)


def call_not_callable():
    three = 3
    return three(4)


def call_raises_inside():
    return [raiser(0), raiser(1), raiser(2), raiser(3)]


def attributes():
    p = Point(1, 2)
    p.x = 5
    p.z = p.x + p.y
    del p.y
    out = [p.x, p.z, hasattr(p, "y"), vars(p)]
    p += 3
    p.x **= 2
    return out, p.x, (p + 1).x, p.y


def items():
    p = Point(1, 2)
    p[3] = 4
    del p[5]
    data = {"a": [1, 2, 3]}
    data["a"][0] += 10
    data["b"] = data["a"][1:3], data["a"][::-1], data["a"][:2]
    del data["a"][1]
    return data, p[1, 2]


def slices():
    data, low = [1, 2, 3, 4], Point(1, 2).x
    copy = data[low:]
    data[low:3] = data[:low], copy
    try:
        data[low:"three"] = []
    except TypeError:
        log(data)
    try:
        return data, data[low : {}]
    except TypeError:
        return data, copy, data[None:low]


class Asked:
    def __init__(self, answer):
        self.answer = answer

    def __bool__(self):
        return log(self.answer)


def truths():
    seen = [not not value for value in (Asked(True), Asked(False), [], 3)]  # noqa: SIM208
    twice = Asked(1)
    try:
        return not not twice  # noqa: SIM208
    except TypeError:
        return seen


def store_attribute_fails():
    (3).x = 4


def building():
    a, b = [1, 2], (3, 4)
    return (
        [*a, *b, 5],
        (*a, *b),
        {*a, *b, 2},
        {"x": 1, **{"y": 2}, "z": 3},
        {"p": a, "q": b, log(7): 8},
        {1, log(2)},
        [x * y for x in a for y in b if x],
        {x: y for x, y in zip(a, b)},
        {x % 2 for x in range(5)},
        tuple(x for x in a),
        slice(1, 2),
    )


def build_unhashable():
    return {[1]: 2}


def build_set_unhashable():
    return {1, []}


def build_extend_fails():
    return [*[1], *3]


def build_dict_update_fails():
    return {"a": 1, **[2]}


def strings():
    p, width = Point(1, 2), 8
    return (
        f"{p} {p:>{width}} {width!r:>4} {'é'!a} {p.x!s} plain {3.14159:.2f}",
        f"{width}",
        f"{''}",
        "%s and %d" % ("a", 3),
    )


def unpacking():
    a, b = 1, 2
    a, b = b, a
    (c, d), [e, *f] = (3, 4), "xyz"
    *g, h = range(4)
    i, *j, k, l = range(6)
    m, n, o = iter("abc")
    (p,) = {"one": 1}
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p


def unpack_too_many():
    a, b = range(5)


def unpack_too_few():
    a, b, c = (1, 2)


def unpack_too_few_star():
    a, *b, c = (1,)


def unpack_too_few_star_before():
    a, b, c, *d = (1,)


def unpack_none():
    a, b = None


def unpack_iterator_raises():
    def broken():
        yield 1
        raise Boom("second")

    a, b = broken()


def matching():
    out = []
    for subject in (
        1,
        "x",
        [1, 2, 3],
        (1, [2, 3]),
        {"k": 1, "l": 2},
        Point(0, 5),
        Point(1, 2),
        None,
        3.5,
        b"b",
        {},
        True,
    ):
        match subject:
            case 1 | 2:
                out.append("int")
            case str(text):
                out.append(text)
            case [a, [b, *c]]:
                out.append((a, b, c))
            case [a, *rest]:
                out.append((a, rest))
            case {"k": value, **others}:
                out.append((value, others))
            case Point(0, y):
                out.append(y)
            case Point(x=x, y=2) if x:
                out.append(x)
            case None:
                out.append("none")
            case float() as number:
                out.append(number)
            case {}:
                out.append("mapping")
            case _:
                out.append("other")
    return out


def match_non_class():
    kind = 3
    match 3:
        case kind():
            return 1


def match_too_many():
    match Point(1, 2):
        case Point(a, b, c):
            return 1


def match_twice():
    match Point(1, 2):
        case Point(a, x=b):
            return 1


def match_args_not_tuple():
    class Odd:
        __match_args__ = ["x"]

    match Odd():
        case Odd(a):
            return 1


def match_duplicate_key():
    class Keys:
        one = 1

    match {1: 2}:
        case {Keys.one: a, 1: b}:
            return a, b


def class_body():
    base = 3

    class Inner(Point, metaclass=type):
        """Docs."""

        value: int = base
        other = [value, base]

        def method(self):
            return __class__, super().__init__(1, 2), self.x

    return Inner.__annotations__, Inner.other, Inner.__doc__, Inner(0, 0).method()[1:], Inner.__mro__[1:]


def comprehension_scopes():
    n = 3
    fs = [lambda i=i: i + n for i in range(3)]
    n = 10
    return [f() for f in fs], [(x, y) for x in range(3) for y in range(x)], [a for a in [1, 2, 3] if a != 2 if a]


def generator_expression():
    total = 0
    for value in (x * x for x in range(4) if x):
        total += value
    return total, list(iter([1, 2])), sum(i for i in range(3))


def imports():
    import collections.abc as abc
    from collections import OrderedDict, deque as queue
    from os import path

    import os.path

    return abc.Mapping, OrderedDict, queue, path is os.path


def import_missing():
    from collections import no_such_thing


def import_missing_module():
    import no_such_module_at_all


def import_relative():
    from . import no_such_sibling


def assertion():
    assert 1
    assert log(0), f"message {1}"


def recursion():
    def down(n):
        return [] if n == 0 else [n, *down(n - 1)]

    return down(6)


def frame_locals():
    a, b = 1, [2]
    before = dict(locals())
    c = sys._getframe().f_locals["a"] + 5
    return before, c, sorted(locals()), chain()


def lifetimes():
    first = Dies("first")
    second = Dies("second")
    del first
    log("between")
    second = Dies("third")
    (Dies("a"), Dies("b"))[0]
    [Dies("c")] + [Dies("d")]
    Dies("e") == Dies("f")
    for item in [Dies("g"), Dies("h")]:
        pass
    return None


def delete_items():
    data, attr = {1: 2, 3: 4}, types.SimpleNamespace(a=1)
    del data[1], attr.a
    del data[9]


def exception_group():
    out = []
    try:
        raise ExceptionGroup("group", [ValueError(1), KeyError(2), ExceptionGroup("in", [TypeError(3)])])
    except* ValueError as group:
        out.append(group.exceptions)
    except* (KeyError, TypeError) as group:
        out.append(repr(group))
    return [repr(item) for item in out]


def many_constants():
    a0 = a1 = a2 = a3 = 0
    total = 0
    for i in range(2):
        total += sum([{names}])
    return total


def long_jump():
    total = 0
    for i in range(3):
        if i == 1:
            {jumps}
            total += 1000
    return total


def walrus_and_ternary():
    if (n := len("four")) > 3 and not (m := n - 4):
        return n, m, "yes" if m == 0 else "no"


def starred_return():
    rest = [2, 3]
    return 1, *rest, *rest


def super_and_descriptors():
    class A:
        @property
        def p(self):
            return log("p")

        @classmethod
        def c(cls):
            return cls.__name__

        @staticmethod
        def s(x):
            return x * 2

    class B(A):
        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return log(name + "!")

        def go(self):
            return super().p, super().c(), self.s(3), self.missing

    return B().go(), B.c(), B().other


def iterator_raises():
    class Broken:
        def __iter__(self):
            return self

        def __next__(self):
            raise Boom("next")

    for value in Broken():
        pass


def iterate_nothing():
    for value in 3:
        pass


def contains_raises():
    return 3 in 4


def truth_raises():
    class Bad:
        def __bool__(self):
            return 3

    if Bad():
        return 1


# Bodies with more than 256 constants and jumps longer than 256 code units: EXTENDED_ARG.
def _with_long_bodies():
    import inspect
    import linecache
    import textwrap

    names = ", ".join(str(i + 1000) for i in range(300))
    jumps = "\n            ".join(f"total += i * {i + 500}" for i in range(200))
    for function in (many_constants, long_jump):
        source = textwrap.dedent(inspect.getsource(function)).replace("{names}", names).replace("{jumps}", jumps)
        filename = f"{__file__}:{function.__name__}"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), globals())


_with_long_bodies()


# ---- generators and coroutines: their frames are resumed by what the program does


def counting(n):
    total = 0
    try:
        for i in range(n):
            got = yield log(i)
            total += got or 1
            log((got, sys.exc_info()[0]))
    except Boom as error:
        log(("caught", str(error)))
        try:
            yield "handled"
        finally:
            log(str(sys.exc_info()[1]))
    finally:
        log("left")
    return total


def generator_in_a_loop():
    return [item for item in counting(3)] + list(counting(2)) + [sum(i for i in counting(3))]


def generator_by_hand():
    made = counting(3)
    log((made.gi_running, made.gi_frame.f_lineno, made.gi_yieldfrom))
    first = next(made)
    log((made.gi_running, made.gi_frame.f_lineno))
    sent = made.send(5)
    thrown = made.throw(Boom("thrown"))
    rest = next(made, "over")
    return first, sent, thrown, rest, made.gi_frame


def generator_closed():
    made = counting(3)
    next(made)
    made.close()
    return list(made)


def generator_asks_about_itself():
    def asks():
        log((made.gi_running, made.gi_frame is sys._getframe()))
        try:
            next(made)
        except ValueError as error:
            log(str(error))
        yield 1

    made = asks()
    return list(made)


def generator_raises():
    def broken():
        yield 1
        raise Boom("inside")

    try:
        return list(broken())
    except Boom as error:
        log(str(error))
    return sum(broken())


def generator_stops_by_hand():
    def stops():
        yield 1
        next(iter(()))

    return list(stops())


def delegation():
    def inner(n):
        got = yield n
        log(got)
        yield got
        return n * 10

    def outer():
        first = yield from inner(1)
        second = yield from [first, 3]
        third = yield from inner(second or 4)
        return first, second, third

    made = outer()
    found = [next(made), made.send("sent")]
    log(made.gi_yieldfrom.gi_code.co_name)
    found += [item for item in made]
    return found


def delegation_of_exceptions():
    def inner():
        try:
            yield 1
        except Boom:
            yield 2
        raise Boom("again")

    def outer():
        try:
            yield from inner()
        except Boom as error:
            log(str(error))
            yield str(error)

    made = outer()
    return next(made), made.throw(Boom("in")), next(made)


def generator_with_cells():
    made = []

    def make(n):
        def add():
            nonlocal n
            n += 1
            return n

        while n < 5:
            yield add()
            made.append(n)

    return list(make(1)), made


def generator_resumed_in_a_handler():
    def seen():
        yield sys.exc_info()[1]
        try:
            raise Boom("own")
        except Boom:
            yield str(sys.exc_info()[1])
            yield str(sys.exc_info()[1])
        yield sys.exc_info()[1]

    made = seen()
    found = [next(made), next(made)]
    try:
        raise ValueError("outside")
    except ValueError:
        found.append(next(made))
        found.append(str(next(made)))
    return found


class Awaited:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield log(self.value)
        return got


async def awaiting(value):
    first = await Awaited(value)
    return first, await Awaited(value + 1)


async def awaiting_twice():
    return await awaiting(1), await awaiting(3)


def drive(coroutine):
    sent, found = None, []
    try:
        while True:
            found.append(coroutine.send(sent))
            sent = f"for {found[-1]}"
    except StopIteration as stop:
        return found, stop.value


def coroutines():
    return drive(awaiting_twice())


def awaiting_what_cannot_be():
    async def wrong():
        return await 3

    return drive(wrong())


def awaited_already():
    async def again(made):
        return await made

    made = awaiting(1)
    made.send(None)
    try:
        return drive(again(made))
    finally:
        made.close()


def coroutine_of_a_generator():
    @types.coroutine
    def old():
        return (yield 1)

    async def new():
        return await old()

    return drive(new())


class Numbers:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return log(self)

    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return await Awaited(self.n)

    def __repr__(self):
        return f"Numbers({self.n})"


class Scope:
    async def __aenter__(self):
        return await Awaited("enter")

    async def __aexit__(self, kind, value, trace):
        return await Awaited(kind and kind.__name__) and kind is Boom


async def asynchronous_numbers():
    for n in range(2):
        yield await Awaited(n)


def asynchronous_loops():
    async def loops():
        found = [n async for n in Numbers(2)]
        async for n in asynchronous_numbers():
            found.append(n)
        else:
            found.append("over")
        return found

    return drive(loops())


def asynchronous_loop_that_raises():
    async def loops():
        async for n in Numbers(2):
            raise Boom(str(n))

    return drive(loops())


def asynchronous_loop_over_anything():
    class Wrong:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 3

    class Worse:
        def __aiter__(self):
            return 3

    async def loops(over):
        async for _ in over:
            log("never")

    for over in (Wrong(), Worse()):
        try:
            drive(loops(over))
        except TypeError as error:
            log((str(error), str(error.__cause__)))


def asynchronous_blocks():
    async def blocks():
        async with Scope() as scope:
            log(scope)
        async with Scope():
            raise Boom("swallowed")
        async with Scope():
            raise ValueError("passes")

    return drive(blocks())


def asynchronous_block_without_exit():
    class Half:
        async def __aenter__(self):
            return 1

    async def blocks(manager):
        async with manager:
            return 2

    for manager in (Half(), 3):
        try:
            drive(blocks(manager))
        except TypeError as error:
            log(str(error))


def context_manager_of_a_generator():
    @contextlib.contextmanager
    def scope(name):
        log(f"enter {name}")
        try:
            yield name
        except Boom as error:
            log(str(error))
        finally:
            log(f"exit {name}")

    with scope("one") as name:
        log(name)
    with scope("two"):
        raise Boom("in the body")
    with scope("three"):
        raise ValueError("passes")


def module_body():
    raise NotImplementedError


# Runs with a namespace of its own: names instead of locals.
module_body = types.FunctionType(
    compile(
        """
value: int = 3
other = value + len("abc")
class Made:
    field = other
    for i in range(2):
        pass
    del i
log((other, Made.field, [x for x in range(value)]))
del other
from os.path import join
import os.path as path
try:
    other
except NameError as error:
    log((str(error), error.name))
del value, Made, join, path
del missing
""",
        __file__ + ":module_body",
        "exec",
    ),
    {"__builtins__": __builtins__, "log": log, "__name__": "body"},
    "module_body",
)

body_annotated = types.FunctionType(
    compile(
        "value: int = 3\nlog(__annotations__)\ndel value, __annotations__",
        __file__ + ":body_annotated",
        "exec",
        __future__.annotations.compiler_flag,
    ),
    {"__builtins__": __builtins__, "log": log, "__name__": "body"},
    "body_annotated",
)

NOT_RUN = ("chain", "log", "raiser", "counting", "awaiting", "awaiting_twice", "asynchronous_numbers", "drive")
# In the syntax of later versions.
LATER = [importlib.import_module(f"frames.since_3_{minor}") for minor in (12, 13, 14) if sys.version_info >= (3, minor)]
FILES = (__file__, *(module.__file__ for module in LATER))
PROGRAMS = {
    name: value
    for module in (globals(), *map(vars, LATER))
    for name, value in list(module.items())
    if isinstance(value, types.FunctionType) and name not in NOT_RUN and not name.startswith("_")
}
