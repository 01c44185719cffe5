"""From library/stdtypes and reference/datamodel: iterators of one's own, coroutines, generator expressions."""

import inspect

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Countdown:
    def __init__(self, n, kind=None):
        self.n, self.kind = n, kind

    def __iter__(self):
        if self.kind == "wrong":
            return [1]
        if self.kind == "instance":
            self.__next__ = lambda: 1
            return object()
        return Countdown(self.n)

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Blocked:
    __iter__ = None

    def __getitem__(self, i):
        return i


@documented(
    "library/stdtypes: iter() wants an iterator and says what it got; an iterator's own __iter__ is asked again by for",
    lambda: [
        (x(), Countdown(3)),
        (x(), Countdown(3, "wrong")),
        (x(), Countdown(2, "instance")),
        (x(), Blocked()),
        (x(), 5),
        (x(), Countdown(0)),
        (x(), x(2)),
    ],
)
def iterator_protocol(t, o):
    try:
        it = iter(o)
        first = next(it, "none")
        rest = [v for v in it]
        for v in rest:
            t = t + v
        return t, first, len(rest), len([*o]), next(it, "end"), it is iter(it)
    except TypeError as error:
        return t, str(error)


class Ready:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        log.append("awaiting")
        got = yield self.value
        return got


async def doubled(t, n):
    async with Entered() as by:
        total = t * by
        async for v in numbers(n):
            if v == 1:
                continue
            total = total + v
        total = total + await Ready("ready")
    return total, [v async for v in numbers(n) if v % 2 == 0]


class Entered:
    async def __aenter__(self):
        log.append("aenter")
        return await Ready("enter")

    async def __aexit__(self, *details):
        log.append(("aexit", details[0]))
        return details[0] is KeyError


async def numbers(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("numbers done")


@documented(
    "reference/datamodel: a coroutine is driven by send; what awaits yield goes to the driver, its result is StopIteration's value",
    lambda: [
        (x(), 3, [2, 5]),
        (x(), 0, [1, 1]),
        (x(), 4, [3]),
        (x(), 2, [4, KeyError("k")]),
        (x(), 1, [2, ValueError("v")]),
    ],
    **cleared,
)
def driven_by_hand(t, n, answers):
    c = doubled(t, n)
    seen = [c.send(None)]
    try:
        for a in answers:
            seen.append(c.throw(a) if isinstance(a, Exception) else c.send(a))
    except StopIteration as stop:
        return stop.value, seen
    except (ValueError, UnboundLocalError) as error:
        return t, str(error), seen
    state = inspect.getcoroutinestate(c)
    c.close()
    return t + 1, state, seen


def pairs_of(values, extra):
    return ((a, b) for a in values for b in range(len(extra)) if extra[b] != a)


@documented(
    "reference/expressions: a generator expression reads its free variables when it runs, and its first iterable when it is made",
    lambda: [
        (x(), [1, 2], [1]),
        (x(), [3], [4, 5]),
        (x(), [], [1]),
        (x(), 7, [1]),
        (x(), [1, 2, 3], []),
    ],
    **cleared,
)
def lazy_parts(t, values, extra):
    k = 10
    try:
        lazy = (t * k + a for a in values)
        product = pairs_of(values, extra)
        k = 1
        extra.append(2)
        if isinstance(values, list):
            values.append(6)
        t = t - 1
        return list(lazy), list(product)
    except TypeError as error:
        return t, k, extra, str(error)
