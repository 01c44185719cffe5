"""Loops, comprehensions and with."""

from lifetimes.objects import Failing, Number, program


@program
def loop(log):
    for x in Number(log, "n"):
        log.append(repr(x))
    log.append("done")
    del x
    log.append("end")


@program
def loop_broken(log):
    for x in [Number(log, "a"), Number(log, "b"), Number(log, "c")]:
        if x.name == "b":
            break
    log.append("broken")
    return repr(x)


@program
def loop_returns(log):
    def f():
        for x in [Number(log, "a"), Number(log, "b")]:
            for y in [Number(log, "c")]:
                return x.name + y.name

    log.append(f())


@program
def loop_fails(log):
    try:
        for x in [Number(log, "a"), Failing(log, "b")]:
            x + x
    except ValueError as e:
        log.append(repr(e))
    log.append(repr(x))


@program
def loop_over_changed(log):
    items = [Number(log, "a"), Number(log, "b"), Number(log, "c")]
    for x in items:
        log.append(x.name)
        items.pop()
    log.append("end")
    items = None
    log.append("none")
    return repr(x)


@program
def comprehension(log):
    names = [x.name for x in Number(log, "n")]
    log.append(names)
    kept = [x for x in Number(log, "m")]
    log.append("kept")
    del kept[0]
    log.append("end")


@program
def comprehension_hides(log):
    x = Number(log, "outer")
    names = {x.name: x for x in [Number(log, "i"), Number(log, "j")]}
    log.append(x.name)
    names.clear()
    log.append("end")
    return repr(x)


@program
def comprehension_fails(log):
    x = Number(log, "outer")
    try:
        [x + 1 for x in [Number(log, "i"), Failing(log, "j")]]
    except ValueError as e:
        log.append(repr(e))
    log.append(x.name)


@program
def comprehension_nested(log):
    log.append([y.name for x in Number(log, "n") for y in x if y])


@program
def with_plain(log):
    with Number(log, "m") as x:
        log.append(repr(x))
    log.append("behind")
    return repr(x)


@program
def with_swallows(log):
    with Number(log, "swallow"):
        raise ValueError(Number(log, "in exception"))
    log.append("behind")


@program
def with_lets_through(log):
    try:
        with Number(log, "m") as x, Number(log, "n"):
            x + Failing(log, "f") + (Failing(log, "g") + 1)
    except ValueError as e:
        log.append(repr(e))
    log.append("end")


@program
def with_returns(log):
    def f():
        with Number(log, "m"):
            return Number(log, "r").name

    log.append(f())


@program
def with_nested_raise(log):
    with Number(log, "swallow1"):
        with Number(log, "m"):
            with Number(log, "swallow2"):
                raise KeyError("a")
            raise ValueError("b")
    log.append("end")
