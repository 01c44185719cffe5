"""Calls of Python functions: who holds their arguments."""

import sys

from lifetimes.objects import Number, helper, program


@helper
def forgets(log, x):
    log.append("in")
    del x
    log.append("forgot")


@helper
def replaces(log, x):
    x = Number(log, "replaced")
    log.append("still in")
    return x


@helper
def gives_back(x, *rest, **named):
    return x


@helper
def counts(x):
    return sys.getrefcount(x)


@helper
def counts_deeper(x):
    return counts(x)


@program
def argument_forgotten(log):
    forgets(log, Number(log, "a"))
    log.append("back")


@program
def argument_of_local_forgotten(log):
    x = Number(log, "x")
    forgets(log, x)
    log.append("back")
    del x
    log.append("end")


@program
def argument_replaced(log):
    x = replaces(log, Number(log, "a"))
    log.append("back")
    return repr(x)


@program
def argument_given_back(log):
    x = gives_back(Number(log, "a"), Number(log, "b"), k=Number(log, "c"))
    log.append("back")
    x = gives_back(x)
    log.append("again")
    x = gives_back(*[x], **{"k": Number(log, "d")})
    return repr(x)


@program
def wrong_arguments(log):
    try:
        forgets(log, Number(log, "a"), Number(log, "b"))
    except TypeError as e:
        log.append(type(e).__name__)
    log.append("end")


@program
def counts_of_local(log):
    x = Number(log, "x")
    log.append(sys.getrefcount(x))
    y = x
    log.append(sys.getrefcount(y))
    log.append(counts(x))
    log.append(counts_deeper(x))
    log.append(sys.getrefcount(Number(log, "t")))
    log.append(counts(Number(log, "u")))


@program
def counts_in_expression(log):
    x = Number(log, "x")
    log.append((x, x, sys.getrefcount(x))[2])
    log.append([x, sys.getrefcount(x)][1])
    log.append(len(x.name) + sys.getrefcount(x))
    log.append(max(sys.getrefcount(x), sys.getrefcount(x)))


@program
def counts_of_container(log):
    x = [1, 2]
    for _ in x:
        log.append(sys.getrefcount(x))
    for _ in range(2):
        log.append(sys.getrefcount(x))
    with_it = (x, x)
    log.append(sys.getrefcount(x))
    del with_it
    log.append(sys.getrefcount(x))


@program
def closure(log):
    x = Number(log, "x")

    def inner():
        nonlocal x
        x = Number(log, "y")
        log.append("set")

    inner()
    log.append("called")
    del inner
    log.append("gone")
    return repr(x)


@program
def closure_outlives(log):
    def make(x):
        y = Number(log, "y")

        def inner():
            return x, y

        return inner

    f = make(Number(log, "x"))
    log.append("made")
    log.append(repr(f()))
    del f
    log.append("end")


@program
def default_arguments(log):
    def f(x=Number(log, "default")):
        return x

    f()
    log.append("called")
    del f
    log.append("end")


@program
def lambdas(log):
    fs = [lambda x=Number(log, str(k)): x for k in range(3)]
    log.append(len(fs))
    fs.pop(1)
    log.append("popped")
    for f in fs:
        f()
    del f
    fs.clear()
    log.append("end")


@program
def recursive(log):
    def down(n, x):
        y = Number(log, f"y{n}")
        if n:
            down(n - 1, y)
        log.append(f"up {n}")
        del x
        log.append(f"out {n}")

    down(3, Number(log, "x"))


@program
def constructs(log):
    class Made:
        def __init__(self, x):
            self.x = x
            x = None
            log.append("init")

    m = Made(Number(log, "x"))
    log.append("made")
    m.x = None
    log.append("end")
    return type(m).__name__


@program
def construct_fails(log):
    class Made:
        def __init__(self, x):
            self.x = x
            raise ValueError("init")

        def __del__(self):
            log.append("del made")

    try:
        Made(Number(log, "x"))
    except ValueError as e:
        log.append(repr(e))
        e.__traceback__ = None
        log.append("cleared")
    log.append("end")
