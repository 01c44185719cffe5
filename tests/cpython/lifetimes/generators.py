"""Generators and coroutines, also suspended inside an expression."""

import gc
import sys

from lifetimes.objects import Tracked, program


@program
def generator(log):
    def g(x):
        y = Tracked(log, "y")
        yield x.name
        yield y.name

    i = g(Tracked(log, "x"))
    log.append(next(i))
    log.append(next(i))
    log.append(next(i, "end"))
    log.append("exhausted")
    del i


@program
def generator_dropped(log):
    def g(x):
        y = Tracked(log, "y")
        try:
            yield x.name
        finally:
            log.append("finally")
            del y
            log.append("behind")

    i = g(Tracked(log, "x"))
    log.append(next(i))
    del i
    log.append("dropped")


@program
def generator_never_begun(log):
    def g(x):
        yield x

    i = g(Tracked(log, "x"))
    log.append(type(i).__name__)
    del i
    log.append("dropped")


@program
def generator_keeps_stack(log):
    def g(x):
        z = [x, Tracked(log, "t"), (yield 1)]
        yield len(z)

    i = g(Tracked(log, "x"))
    next(i)
    log.append("suspended")
    log.append(next(i))
    log.append(next(i, None))


@program
def generator_dropped_with_stack(log):
    def g(x):
        z = [x, Tracked(log, "t"), (yield 1)]
        yield z

    i = g(Tracked(log, "x"))
    next(i)
    log.append("suspended")
    del i
    log.append("dropped")


@program
def generator_throw(log):
    def g(x):
        try:
            yield [x, (yield 1)]
        except ValueError as e:
            log.append(repr(e))
            yield x.name

    i = g(Tracked(log, "x"))
    next(i)
    log.append(i.throw(ValueError("t")))
    i.close()
    log.append("closed")


@program
def generator_send(log):
    def g():
        x = None
        while True:
            x = yield x and x.name
            log.append(sys.getrefcount(x) if x is not None else 0)

    i = g()
    next(i)
    log.append(i.send(Tracked(log, "a")))
    log.append(i.send(Tracked(log, "b")))
    i.close()
    log.append("closed")


@program
def generator_delegates(log):
    def inner(x):
        yield x.name
        return Tracked(log, "r")

    def outer(x):
        y = yield from inner(x)
        log.append("inner done")
        yield y.name

    log.append(list(outer(Tracked(log, "x"))))


@program
def generator_expression(log):
    total = sum(len(x.name) for x in [Tracked(log, "a"), Tracked(log, "bb")])
    log.append(total)
    i = (x.name for x in [Tracked(log, "c"), Tracked(log, "d")])
    log.append(next(i))
    del i
    log.append("dropped")


@program
def generator_in_cycle(log):
    def g(box):
        x = Tracked(log, "x")
        box.append(i)  # noqa: F821
        yield x

    box = []
    i = g(box)
    next(i)
    del i, box
    log.append("dropped")
    gc.collect()
    log.append("collected")


@program
def generator_raises(log):
    def g(x):
        yield 1
        raise KeyError(x.name)

    i = g(Tracked(log, "x"))
    next(i)
    try:
        next(i)
    except KeyError as e:
        log.append(repr(e))
    log.append(next(i, "done"))
    log.append("end")


@program
def generator_frame(log):
    def g(x):
        yield x.name
        yield 2

    i = g(Tracked(log, "x"))
    next(i)
    frame = i.gi_frame
    log.append(sorted(frame.f_locals))
    del i
    log.append("dropped")
    log.append(sorted(frame.f_locals))
    del frame
    log.append("end")


@program
def generator_local_written(log):
    def g(x):
        z = [x, (yield 1)]
        yield repr(z[0])

    i = g(Tracked(log, "x"))
    next(i)
    i.gi_frame.f_locals["x"] = "other"
    log.append("written")
    log.append(next(i))
    log.append(next(i, None))
    log.append("end")


@program
def coroutine(log):
    class Waits:
        def __await__(self):
            yield "waiting"
            return Tracked(log, "awaited")

    async def f(x):
        y = await Waits()
        log.append(y.name)
        return x.name

    c = f(Tracked(log, "x"))
    log.append(c.send(None))
    try:
        c.send(None)
    except StopIteration as e:
        log.append(e.value)
    log.append("end")


@program
def coroutine_closed(log):
    class Waits:
        def __await__(self):
            yield 1

    async def f(x):
        async def inner(y):
            await Waits()
            log.append(y)

        await inner(Tracked(log, "y"))
        log.append(x)

    c = f(Tracked(log, "x"))
    c.send(None)
    log.append("waits")
    c.close()
    log.append("closed")


@program
def asynchronous_generator(log):
    async def g(x):
        yield x.name
        log.append("between")
        yield Tracked(log, "y").name

    async def main():
        async for name in g(Tracked(log, "x")):
            log.append(name)

    try:
        main().send(None)
    except StopIteration:
        log.append("end")


@program
def asynchronous_with(log):
    class Manager:
        async def __aenter__(self):
            return Tracked(log, "entered")

        async def __aexit__(self, *args):
            log.append(args[0] and args[0].__name__)
            return True

    async def main():
        async with Manager() as m:
            log.append(m.name)
            raise ValueError(m.name)

    try:
        main().send(None)
    except StopIteration:
        log.append("end")
