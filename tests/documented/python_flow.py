"""From library/contextlib, library/exceptions, tutorial/errors, reference/compound_stmts, reference/expressions (generators)."""

import contextlib
import sys

import torch

from documented import Between, documented, x

log: list = []


class Managed:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        log.append("enter " + self.name)
        return self

    def __exit__(self, kind, value, trace):
        log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return self.swallow

    def close(self):
        log.append("close " + self.name)


cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "reference/compound_stmts: a true __exit__ suppresses the exception and goes on after the with statement",
    lambda: [(x(), True, 1), (x(), True, 0), (x(), False, 2), (x(), False, 0), (x(), 1, 0), (x(), [], 0)],
    **cleared,
)
def suppressing(t, swallow, n):
    try:
        with Managed("outer", swallow) as a, Managed("inner") as b:
            t = t * (10 // n)
            log.append(a.name + b.name)
    except ZeroDivisionError as error:
        return t - 1, str(error)
    return t + 1


@documented(
    "library/contextlib: ExitStack unwinds in reverse order, callbacks too; pop_all hands them on",
    lambda: [
        (x(), ["a", "b"], False),
        (x(), [], True),
        (x(), ["c"], True),
        (x(), ["d", "e", "f"], False),
        (x(), ["a", "b"], True),
    ],
    **cleared,
)
def exit_stack(t, names, fail):
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyError))
        for n in names:
            stack.enter_context(Managed(n))
        stack.callback(log.append, len(names))
        kept = stack.pop_all() if len(names) == 1 else None
        t = t + len(names)
        if fail:
            raise KeyError("k")
        t = t * 2
    if kept:
        log.append("later")
        kept.close()
    return t


@contextlib.contextmanager
def section(name):
    log.append("<" + name)
    try:
        yield name.upper()
    except ValueError as error:
        log.append(f"caught {error}")
    finally:
        log.append(name + ">")


@documented(
    "library/contextlib: contextmanager throws the exception in at the yield; caught there, it is suppressed",
    lambda: [
        (x(), "a", None),
        (x(), "b", ValueError("v")),
        (x(), "c", TypeError("t")),
        (x(), "d", None),
        (x(), "b", ValueError("w")),
    ],
    **cleared,
)
def context_manager(t, name, error):
    with section(name) as got:
        t = t + len(got)
        if error:
            raise error
        t = t * 2
    return t, got


@section("deco")
def decorated(t):
    return t * 3


@documented(
    "library/contextlib: a contextmanager as decorator is made anew at each call; it is not reusable in with",
    lambda: [(x(), "a"), (x(), "b"), (x(), "c"), (x(3), "d")],
    **cleared,
)
def context_decorators(t, name):
    manager = section(name)
    with manager:
        t = decorated(t)
    try:
        with manager:
            t = t + 1
    except (RuntimeError, AttributeError) as error:
        return t, str(error)
    return t


@documented(
    "library/contextlib: suppress, closing, nullcontext, redirect_stdout",
    lambda: [(x(), "1", True), (x(), "one", True), (x(), "2", False), (x(), "", False), (x(), "3", True)],
    **cleared,
)
def small_contexts(t, text, close):
    thing = Managed("m")
    n = None
    with contextlib.suppress(ValueError, KeyError):
        n = int(text)
        log.append(n)
    with contextlib.closing(thing) if close else contextlib.nullcontext(7) as got:
        t = t * (n or 5)
    with contextlib.redirect_stdout(sys.stderr):
        print("hidden", n)
    print("shown")
    return t, n, got is thing or got


@documented(
    "tutorial/errors: else runs when nothing was raised, finally always, and its return overrides",
    lambda: [(x(), 1, False), (x(), 0, False), (x(), "a", False), (x(), 0, True), (x(), 2, True), (x(), None, False)],
    **cleared,
)
def finally_overrides(t, n, override):
    try:
        t = t * (1 / n)
    except ZeroDivisionError:
        log.append("zero")
        t = t + 100
    except (TypeError, AttributeError) as error:
        log.append(str(error))
        raise RuntimeError("wrapped") from error
    else:
        log.append("else")
        t = t - 1
    finally:
        log.append("finally")
        if override:
            return "overridden"
    return t


class Failure(Exception):
    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


@documented(
    "library/exceptions: __cause__, __context__, __suppress_context__, notes and attributes of user-defined exceptions",
    lambda: [(x(), "from"), (x(), "none"), (x(), "during"), (x(), "bare"), (x(), "no")],
)
def chaining(t, how):
    try:
        try:
            if how == "no":
                return t * 2
            t = t + 1
            {}["key"]
        except KeyError as error:
            error.add_note("looked up " + how)
            if how == "from":
                raise Failure("cause", code=len(how)) from error
            if how == "none":
                raise Failure("quiet") from None
            if how == "during":
                raise Failure("context", 3)
            raise
    except Exception as error:
        e = error
    return (
        t,
        str(e),
        type(e.__cause__).__name__,
        type(e.__context__).__name__,
        e.__suppress_context__,
        getattr(e, "__notes__", None),
        vars(e),
    )


@documented(
    "library/exceptions: except* splits a group; subgroup and derive; what is not handled goes on",
    lambda: [
        (x(), [ValueError("a")]),
        (x(), [ValueError("a"), TypeError("b")]),
        (x(), []),
        (x(), [OSError(2, "no"), ValueError("c")]),
        (x(), [KeyError("k")]),
    ],
    **cleared,
)
def exception_groups(t, errors):
    try:
        if errors:
            raise ExceptionGroup("many", errors)
        t = t * 2
    except* ValueError as group:
        log.append([str(e) for e in group.exceptions])
        t = t + 1
    except* (TypeError, OSError) as group:
        log.append(group.message)
        t = t + 10
    return t


@documented(
    "reference/simple_stmts: assert, raise of a class, raise without an active exception, the message of each",
    lambda: [(x(), "assert"), (x(), "class"), (x(), "bare"), (x(), "not"), (x(), "fine"), (x(), "stop")],
)
def raising(t, what):
    assert what != "assert", f"not {what}"
    t = t * 2
    if what == "class":
        raise Failure
    if what == "bare":
        raise  # noqa: PLE0704
    if what == "not":
        raise "text"
    if what == "stop":
        return [next(iter(())) for _ in range(2)]
    return t


@documented(
    "library/exceptions: uncaught errors carry the arguments the pages promise: KeyError, IndexError, UnboundLocalError, AttributeError.name",
    lambda: [(x(), {"a": 1}, "b"), (x(), [1], 5), (x(), (1,), "k"), (x(), None, 1), (x(), {"b": 2}, "b")],
)
def uncaught(t, c, key):
    t = t + 1
    return t * c[key]


@documented(
    "reference/compound_stmts: the except target is deleted at the end of the clause",
    lambda: [(x(), 0), (x(), 1), (x(), 0), (x(), "s")],
)
def except_target(t, n):
    error = "before"
    try:
        t = t / (1 // n)
    except ZeroDivisionError as error:  # noqa: F841
        t = t + 1
    try:
        return t, error
    except UnboundLocalError as gone:
        return t, str(gone)


def averager():
    total, count, got = 0.0, 0, None
    try:
        while True:
            got = yield (total / count if count else None)
            if got is None:
                return total
            total, count = total + got, count + 1
    except KeyError as error:
        yield f"caught {error}"
    finally:
        log.append("finished")


@documented(
    "reference/expressions: generator.send, throw and close; return gives StopIteration.value",
    lambda: [
        (x(), [1, 2, 3], None),
        (x(), [4], KeyError("k")),
        (x(), [], ValueError("v")),
        (x(), [1.5, 2.5], "close"),
        (x(), [7, 8], None),
    ],
    **cleared,
)
def generator_methods(t, values, end):
    g = averager()
    out = [next(g)]
    for v in values:
        out.append(g.send(v))
        t = t + out[-1]
    if end is None:
        try:
            g.send(None)
        except StopIteration as stop:
            return t, out, stop.value
    elif end == "close":
        g.close()
        return t, out, next(g, "closed")
    return t, out, g.throw(end)


def inner(n):
    got = []
    for i in range(n):
        got.append((yield i))
    return got


def outer(n):
    first = yield from inner(n)
    second = yield from [n * 10]
    return first, second


@documented(
    "reference/expressions: yield from passes sent values on and evaluates to the return value",
    lambda: [(x(), 2), (x(), 0), (x(), 3), (x(), 1), (x(), 2)],
)
def delegation(t, n):
    g = outer(n)
    out = [next(g)]
    try:
        while True:
            out.append(g.send(len(out)) if out[-1] != n * 10 else next(g))
    except StopIteration as stop:
        return t * len(out), out, stop.value


def rows():
    def make(n):
        for i in range(n):
            log.append(i)
            yield x() * i

    g = make(5)
    return [(x(), g), (x(), g), (x(), g), (x(), make(1)), (x(), g), (x(), g), (x(), g)]


@documented(
    "tutorial/classes: a generator resumes where it left off, also between calls of another function", rows, **cleared
)
def generators_that_go_on(t, g):
    for row in g:
        return t + row
    return "exhausted"


@documented(
    "reference/expressions: generator expressions are lazy, their first iterable is evaluated at once; comprehensions have a scope of their own",
    lambda: [(x(), [1, 2]), (x(), []), (x(), [3, 4, 5]), (x(), (6,)), (x(), [1, 2])],
    **cleared,
)
def comprehension_scopes(t, values):
    v = "outer"
    lazy = (log.append(v) or v * 2 for v in list(values))
    values = [9]
    squares = [v * v for v in values if (last := v)]
    pairs = {(a, b): a + b for a in range(2) for b in range(a, 2)}
    functions = [lambda: v for v in range(3)]
    before = len(log)
    return t * sum(lazy), v, squares, last, pairs, [f() for f in functions], before


@documented(
    "tutorial/controlflow: for-else and while-else run unless broken off; continue in finally",
    lambda: [(x(), [1, 3, 5], 3), (x(), [1, 3], 4), (x(), [], 1), (x(), [2, 4, 6, 8], 8), (x(), [1], 1)],
)
def loop_else(t, values, wanted):
    for i, v in enumerate(values):
        if v == wanted:
            where = i
            break
        t = t + v
    else:
        where = "nowhere"
    n = len(values)
    while n:
        n -= 1
        try:
            if n % 2:
                continue
        finally:
            t = t * 2
        if n > wanted:
            break
    else:
        t = -t
    return t, where


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@documented(
    "reference/compound_stmts: match: literals, captures, guards, sequences, mappings with rest, classes, or, as",
    lambda: [
        (x(), 1),
        (x(), [1, 2, 3]),
        (x(), {"op": "add", "n": 3, "more": 1}),
        (x(), Point(0, 5)),
        (x(), Point(7, 7)),
        (x(), "text"),
        (x(), (1, "a")),
        (x(), {"op": "mul"}),
        (x(), None),
    ],
)
def matching(t, command):
    match command:
        case bool() | None:
            return "nothing"
        case int(n) | [int(n)]:
            return t * n
        case [first, *rest] if rest and isinstance(rest[-1], int):
            return t + first, rest
        case (n, str() as s):
            return t - n, s
        case {"op": "add", "n": n, **rest}:
            return t + n, rest
        case {"op": ("mul" | "div") as op}:
            return t, op
        case Point(0, b):
            return t * b
        case Point(a=p, b=q) if p == q:
            return t - p
        case str():
            return t, command.upper()
    return "unreached"


resource: dict = {"level": 0}


@contextlib.contextmanager
def raised_level(by):
    old = resource["level"]
    resource["level"] = old + by
    try:
        yield resource["level"]
    finally:
        resource["level"] = old


@documented(
    "library/contextlib: nested context managers restore global state in reverse, also when left by return or break",
    lambda: [
        (x(), [1, 2], 5),
        Between(lambda: resource.update(level=10)),
        (x(), [1, 2], 12),
        (x(), [3], 2),
        (x(), [], 0),
        (x(), [1, 1, 1], 12),
    ],
    state=lambda: dict(resource),
    setup=lambda: resource.update(level=0),
)
def restored_on_return(t, bys, limit):
    for by in bys:
        with raised_level(by) as level, torch.no_grad():
            t = t + level
            if level > limit:
                return t, "left", resource["level"]
            with raised_level(by * 10):
                t = t * resource["level"]
    return t, "through", resource["level"], torch.is_grad_enabled()
