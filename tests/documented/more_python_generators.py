"""From reference/expressions (yield), datamodel (coroutines), library/inspect: generators, coroutines, iterators of one's own."""

import inspect

import torch

from documented import Between, documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


def steps(t, n):
    try:
        for i in range(n):
            got = yield t * i
            if got is not None:
                t = t + got
        return "finished"
    finally:
        log.append(("closed", n))


running: dict = {}


def start():
    running.update(g=steps(x(), 4), h=steps(x(2), 5))
    log.clear()


def send_to(name, value):
    return Between(lambda: log.append(type(running[name].send(value)).__name__))


@documented(
    "library/inspect: getgeneratorstate says created, suspended, closed; gi_frame is None once it ended",
    lambda: [
        (x(), "g"),
        (x(), "g"),
        send_to("g", 10),
        (x(), "g"),
        (x(), "h"),
        (x(), "g"),
        (x(), "g"),
        Between(lambda: running["h"].close()),
        (x(), "h"),
    ],
    state=lambda: list(log),
    setup=start,
)
def generator_states(t, name):
    g = running[name]
    before = inspect.getgeneratorstate(g)
    got = next(g, t)
    after = inspect.getgeneratorstate(g)
    local = inspect.getgeneratorlocals(g).get("i", "none")
    return t + got.sum(), before, after, local, g.gi_frame is None, g.gi_running, g.gi_yieldfrom, g.__name__


def stops_early(values):
    for v in values:
        yield next(iter(v))


def itself():
    yield "first"
    g = holder[0]
    yield next(g)


holder: list = []


@documented(
    "reference/expressions: StopIteration inside a generator becomes RuntimeError; a started one takes values, a running one nothing",
    lambda: [
        (x(), [[1, 2], [3]], "loop"),
        (x(), [[1], []], "loop"),
        (x(), [[1]], "send early"),
        (x(), [], "itself"),
        (x(), [[4]], "loop"),
        (x(), [], "send end"),
    ],
    setup=holder.clear,
)
def generator_errors(t, values, how):
    g = itself() if how == "itself" else stops_early(values)
    holder.append(g)
    got = []
    try:
        if how == "send early":
            g.send(t)
        elif how == "send end":
            g.send(None)
        for v in g:
            got.append(v)
            t = t + (v if v != "first" else 100)
    except (RuntimeError, TypeError, ValueError, StopIteration) as error:
        return t, got, type(error).__name__, str(error), repr(error.__cause__), repr(error.__context__)
    return t, got


def stubborn(t, kind):
    for i in range(9):
        try:
            yield t
            t = t * 2
        except GeneratorExit:
            log.append("asked to close")
            if kind == "ignore" and log.count("asked to close") == 1:
                continue
            if kind == "return":
                return
            if kind == "other":
                raise ValueError("instead") from None
            raise
        except LookupError as error:
            log.append(repr(error))
            yield "thrown"


@documented(
    "reference/expressions: close raises GeneratorExit at the yield; one that goes on is a RuntimeError; throw gives the next value",
    lambda: [
        (x(), "ignore", None),
        (x(), "raise", None),
        (x(), "return", KeyError("k")),
        (x(), "other", IndexError),
        (x(), "raise", ValueError("v")),
        (x(), "return", None),
    ],
    **cleared,
)
def closing(t, kind, error):
    g = stubborn(t, kind)
    one, two = next(g), next(g)
    try:
        thrown = g.throw(error) if error else None
        closed = g.close()
        again = g.close()
        return one + two, thrown, closed, again, next(g, "ended")
    except (RuntimeError, ValueError) as e:
        return one * two, type(e).__name__, str(e), repr(e.__context__)


def fresh_throw():
    log.append("body")
    yield 1


@documented(
    "reference/expressions: throw into a generator that has not begun raises there; afterwards it is finished",
    lambda: [(x(), ValueError("a")), (x(), KeyError), (x(), StopIteration(3)), (x(), 5), (x(), GeneratorExit())],
    **cleared,
)
def thrown_at_start(t, error):
    g = fresh_throw()
    try:
        g.throw(error)
    except BaseException as e:
        return t * 2, type(e).__name__, str(e), e is error, list(g)
    return t


class Sub:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        log.append("iter")
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration("value of Sub")
        return self.n


class SubThrow(Sub):
    def throw(self, error, *rest):
        log.append(("throw", str(error)))
        return "from throw"

    def close(self):
        log.append("close")

    def send(self, value):
        log.append(("send", value))
        return next(self)


def delegate(sub):
    try:
        result = yield from sub
        log.append(("result", result))
    except ValueError as error:
        log.append(str(error))
        result = "caught"
    yield result


@documented(
    "reference/expressions: yield from passes send, throw and close on to what has them; without send it is an AttributeError",
    lambda: [
        (x(), Sub(2), "send"),
        (x(), SubThrow(3), "send"),
        (x(), Sub(2), "throw"),
        (x(), SubThrow(2), "throw"),
        (x(), SubThrow(2), "close"),
        (x(), [7, 8], "send"),
        (x(), 5, "next"),
        (x(), Sub(0), "next"),
    ],
    **cleared,
)
def delegated_methods(t, sub, how):
    g = delegate(sub)
    out = []
    try:
        out.append(next(g))
        if how == "send":
            out.append(g.send("sent"))
        elif how == "throw":
            out.append(g.throw(ValueError("thrown")))
        elif how == "close":
            out.append(g.close())
        out += g
    except (AttributeError, TypeError) as error:
        out.append(str(error))
    return t * len(out), out


def without_grad(values):
    with torch.no_grad():
        for v in values:
            yield v * 2
    log.append(torch.is_grad_enabled())


@documented(
    "reference/datamodel: a with statement in a suspended generator stays open: torch.no_grad holds for the caller until it goes on",
    lambda: [
        (x().requires_grad_(), 1, True),
        (x().requires_grad_(), 2, False),
        (x().requires_grad_(), 0, True),
        (x().requires_grad_(), 3, False),
        (x().requires_grad_(), 2, True),
    ],
    state=lambda: list(log),
    setup=lambda: (log.clear(), torch.set_grad_enabled(True))[0],
)
def modes_across_yields(t, n, exhaust):
    g = without_grad([t] * n)
    out = []
    for v in g:
        out.append((v.requires_grad, (t * 3).requires_grad, torch.is_grad_enabled()))
        if not exhaust:
            break
    g.close()
    return t * 2, out, torch.is_grad_enabled()
