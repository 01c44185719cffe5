"""Somebody begins to watch in mid-frame, in a function that is called: trace and profile functions, sys.monitoring."""

import sys
from collections.abc import Callable
from typing import Any

from lifetimes.objects import Number, add_codes

WATCHED: dict[str, Callable[[list[Any]], Any]] = {}


def watched(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def whole(log: list[Any]) -> Any:
        try:
            return function(log)
        finally:
            sys.settrace(None)
            sys.setprofile(None)
            stop_tool()

    whole.code = function.__code__
    WATCHED[function.__name__] = whole
    add_codes(function.__code__)
    return whole


def event(log, frame, kind, argument):
    line = (frame.f_lineno or 0) - frame.f_code.co_firstlineno
    log.append((kind, frame.f_code.co_name, line if line >= 0 else None, type(argument).__name__))


def trace(log, opcodes=False):
    """In the caller from now on, and in what is called."""

    def local(frame, kind, argument):
        event(log, frame, kind, argument)
        return local

    frame = sys._getframe(1)
    frame.f_trace = local
    frame.f_trace_opcodes = opcodes
    sys.settrace(local)


def profile(log):
    sys.setprofile(lambda frame, kind, argument: event(log, frame, kind, argument))


def own(code):
    return code.co_name in ("inner", "other", "generates") or code.co_name in WATCHED


def start_tool(log, *names, code=None):
    monitoring = sys.monitoring
    monitoring.use_tool_id(3, "watched")
    events = 0
    for name in names:
        number = getattr(monitoring.events, name)
        events |= number

        def callback(code, *rest, name=name):
            if own(code):
                where = rest[0] if rest and isinstance(rest[0], int) else None
                if name == "LINE":
                    where -= code.co_firstlineno
                log.append((name, code.co_name, where))

        monitoring.register_callback(3, number, callback)
    if code:
        monitoring.set_local_events(3, code, events)
    else:
        monitoring.set_events(3, events)


def stop_tool():
    monitoring = sys.monitoring
    if not monitoring.get_tool(3):
        return
    monitoring.set_events(3, 0)
    for whole in WATCHED.values():
        monitoring.set_local_events(3, whole.code, 0)
    monitoring.free_tool_id(3)


def inner(x):
    y = x.name
    return y


@watched
def trace_lines(log):
    x = Number(log, "x")
    trace(log)
    y = inner(x)
    x = y
    return x


@watched
def trace_in_expression(log):
    x = Number(log, "x")
    y = [x, trace(log), inner(x)]
    del x
    return len(y)


@watched
def trace_across_lines(log):
    x = Number(log, "x")
    y = [
        trace(log),
        inner(x),
        x.name,
    ]
    return y


@watched
def trace_is_last_of_line(log):
    x = (
        trace(log),
        1,
    )
    return x


@watched
def trace_in_loop(log):
    for k in range(4):
        if k == 1:
            trace(log)
        inner(Number(log, str(k)))
    return k


@watched
def trace_in_loop_of_one_line(log):
    for k in range(3): k == 1 and trace(log)  # fmt: skip  # noqa: E701
    return k


@watched
def trace_opcodes(log):
    x = Number(log, "x")
    trace(log, opcodes=True)
    x = x + x
    return repr(x)


@watched
def trace_raising(log):
    try:
        trace(log)
        raise ValueError(Number(log, "x"))
    except ValueError:
        log.append("caught")
    return 1


@watched
def trace_lets_raise(log):
    def other():
        trace(log)
        raise KeyError(1)

    try:
        other()
    except KeyError:
        log.append("caught")


@watched
def trace_on_and_off(log):
    trace(log)
    x = Number(log, "x")
    sys.settrace(None)
    y = inner(x)
    trace(log)
    z = y
    return z


@watched
def trace_in_generator(log):
    def generates(x):
        yield x.name
        trace(log)
        yield 2
        del x
        yield 3

    return list(generates(Number(log, "x")))


@watched
def trace_around_generator(log):
    def generates(x):
        y = [x, (yield 1)]
        yield len(y)

    i = generates(Number(log, "x"))
    next(i)
    trace(log)
    next(i)
    return next(i, None)


@watched
def trace_in_with(log):
    with Number(log, "m") as x:
        trace(log)
        log.append(x.name)
    return 1


@watched
def trace_that_jumps(log):
    def local(frame, kind, argument):
        if kind == "line" and frame.f_lineno - frame.f_code.co_firstlineno == 14:
            frame.f_lineno = frame.f_code.co_firstlineno + 15
        return local

    def begin():
        sys._getframe(1).f_trace = local
        sys.settrace(local)

    begin()
    log.append("before")
    log.append("kept")
    log.append("left out")
    log.append("behind")
    return 1


@watched
def trace_that_writes(log):
    def local(frame, kind, argument):
        if kind == "line" and "x" in frame.f_locals:
            frame.f_locals["x"] = Number(log, "written")
        return local

    def begin():
        sys._getframe(1).f_trace = local
        sys.settrace(local)

    x = Number(log, "x")
    begin()
    log.append(x.name)
    return repr(x)


@watched
def profile_calls(log):
    x = Number(log, "x")
    profile(log)
    inner(x)
    len(x.name)
    return 1


@watched
def profile_in_expression(log):
    x = Number(log, "x")
    return [profile(log), inner(x), len(x.name)][1]


@watched
def tool_lines(log):
    x = Number(log, "x")
    start_tool(log, "LINE")
    inner(x)
    x = [
        inner(x),
        x.name,
    ]
    return x


@watched
def tool_starts_in_expression(log):
    x = Number(log, "x")
    x = [
        start_tool(log, "LINE", "PY_START", "PY_RETURN"),
        inner(x),
    ]
    return len(x)


@watched
def tool_instructions(log):
    x = Number(log, "x")
    start_tool(log, "INSTRUCTION")
    x = [x, inner(x)]
    return x[1]


@watched
def tool_of_this_code(log):
    x = Number(log, "x")
    start_tool(log, "LINE", "INSTRUCTION", code=sys._getframe().f_code)
    x = [x, inner(x)]
    return x[1]


@watched
def tool_calls(log):
    x = Number(log, "x")
    start_tool(log, "CALL", "PY_START", "PY_RETURN", "C_RETURN")
    inner(x)
    len(x.name)
    return x.method().name


@watched
def tool_raises(log):
    x = Number(log, "x")
    start_tool(log, "RAISE", "RERAISE", "PY_UNWIND", "PY_THROW", "EXCEPTION_HANDLED")
    try:
        try:
            raise ValueError(x.name)
        finally:
            log.append("finally")
    except ValueError:
        log.append("caught")
    return 1


@watched
def tool_branches(log):
    x = Number(log, "x")
    start_tool(log, "BRANCH_LEFT", "BRANCH_RIGHT", "JUMP")
    for k in range(3):
        if k == 1:
            log.append(x.name)
    return k


@watched
def tool_yields(log):
    def generates(x):
        yield x.name
        start_tool(log, "PY_YIELD", "PY_RESUME", "PY_RETURN")
        yield 2
        yield 3

    return list(generates(Number(log, "x")))


@watched
def tool_restarted(log):
    x = Number(log, "x")
    start_tool(log, "LINE")
    sys.monitoring.restart_events()
    inner(x)
    sys.monitoring.set_events(3, 0)
    inner(x)
    return 1


@watched
def tool_raises_through(log):
    def other():
        start_tool(log, "RAISE", "RERAISE", "PY_UNWIND", "PY_THROW", "EXCEPTION_HANDLED")
        raise KeyError(1)

    try:
        other()
    except KeyError:
        log.append("caught")


@watched
def tool_stops_raising(log):
    def other():
        stop_tool()
        raise KeyError(1)

    start_tool(log, "RAISE", "RERAISE", "PY_UNWIND", "PY_THROW", "EXCEPTION_HANDLED")
    try:
        other()
    except KeyError:
        log.append("caught")


@watched
def trace_of_caller_by_its_callee(log):
    def other():
        def local(frame, kind, argument):
            event(log, frame, kind, argument)
            return local

        sys._getframe(1).f_trace = local
        sys.settrace(lambda *_: None)

    x = Number(log, "x")
    other()
    x = x.name
    return x
