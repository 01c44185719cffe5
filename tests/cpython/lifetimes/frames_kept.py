"""Frames that outlive their call, and writes to them from outside."""

import sys

from lifetimes.objects import Tracked, program


@program
def frame_kept(log):
    def f():
        x = Tracked(log, "x")
        y = x
        return sys._getframe() if y else None

    frame = f()
    log.append(sorted(frame.f_locals))
    log.append(frame.f_locals["x"].name)
    frame.clear()
    log.append("cleared")


@program
def frame_locals_written(log):
    x = Tracked(log, "x")
    frame = sys._getframe()
    frame.f_locals["x"] = Tracked(log, "y")
    log.append(x.name)
    x = None
    log.append("none")
    del frame
    log.append("end")
    return x


@program
def frame_locals_proxy_outlives(log):
    def f():
        x = Tracked(log, "x")
        log.append(x.name)
        return sys._getframe().f_locals

    proxy = f()
    log.append(proxy["x"].name)
    del proxy
    log.append("end")


@program
def frame_of_caller_written(log):
    def inner():
        sys._getframe(1).f_locals["x"] = Tracked(log, "new")
        log.append("written")

    def outer(x):
        y = [x.name, inner(), x.name]
        log.append(y)
        del x
        log.append("deleted")

    outer(Tracked(log, "x"))
    log.append("end")


@program
def frame_of_caller_written_on_stack(log):
    def inner():
        sys._getframe(1).f_locals["x"] = Tracked(log, "new")
        log.append("written")

    def outer(x):
        y = [x, inner(), x]
        log.append([y[0].name, y[2].name])
        del y
        log.append("list gone")

    outer(Tracked(log, "x"))
    log.append("end")


@program
def locals_called(log):
    x = Tracked(log, "x")
    d = locals()
    log.append(sorted(d))
    del x
    log.append("deleted")
    d.clear()
    log.append("end")


@program
def traceback_keeps(log):
    def f():
        x = Tracked(log, "x")
        log.append(x.name)
        raise ValueError("v")

    try:
        f()
    except ValueError as e:
        tb = e.__traceback__
    log.append("left")
    tb = tb.tb_next
    frame = tb.tb_frame
    del tb
    log.append(frame.f_locals["x"].name)
    del frame
    log.append("end")


@program
def frame_in_generator_of_caller(log):
    def g():
        yield sys._getframe().f_back.f_locals["x"].name

    x = Tracked(log, "x")
    log.append(next(g()))
    del x
    log.append("end")


@program
def stack_walked(log):
    def f(x):
        frame, names = sys._getframe(), []
        while frame and len(names) < 2:
            names.append((frame.f_code.co_name, sorted(frame.f_locals)[:1]))
            frame = frame.f_back
        return names

    log.append(f(Tracked(log, "x")))
    log.append("end")
