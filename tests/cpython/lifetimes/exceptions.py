"""Exceptions in flight."""

import sys
import traceback

from lifetimes.calls import gives_back
from lifetimes.objects import Failing, Number, program


@program
def exception_holds(log):
    x = Number(log, "x")
    try:
        raise ValueError(Number(log, "arg"))
    except ValueError as e:
        log.append("caught")
        x = e
    log.append("left")
    x.__traceback__ = None
    x = None
    log.append("end")


@program
def exception_in_callee(log):
    def f():
        y = Number(log, "y")
        raise KeyError(y.name)

    try:
        f()
    except KeyError as e:
        log.append(e.__traceback__.tb_next.tb_frame.f_locals["y"].name)
    log.append("end")


@program
def exception_kept(log):
    def f(n):
        y = Number(log, f"y{n}")
        if n == 0:
            raise KeyError(y.name)
        f(n - 1)

    kept = None
    try:
        f(2)
    except KeyError as e:
        kept = e
    log.append("kept")
    log.append([t.name for t in traceback.extract_tb(kept.__traceback__)][1:])
    kept = None
    log.append("end")


@program
def exception_context(log):
    try:
        try:
            raise KeyError(Number(log, "1"))
        except KeyError:
            raise ValueError(Number(log, "2")) from None
    except ValueError as e:
        log.append(type(e.__context__).__name__)
        e.__context__ = None
        log.append("forgot")
    log.append("end")


@program
def exception_replaced(log):
    try:
        try:
            raise KeyError(Number(log, "1"))
        finally:
            Failing(log, "f") + Number(log, "g")
    except ValueError as e:
        log.append(repr(e.__context__))
    log.append("end")


@program
def finally_runs(log):
    def f():
        x = Number(log, "x")
        try:
            return x.name
        finally:
            log.append("finally")
            x = None
            log.append("none")

    log.append(f())


@program
def finally_overrides(log):
    def f():
        for _ in range(2):
            try:
                raise ValueError(Number(log, "v"))
            finally:
                log.append("finally")
                break
        return "r"

    log.append(f())


@program
def reraise(log):
    def f():
        x = Number(log, "x")
        try:
            raise ValueError("v")
        except ValueError:
            log.append("first")
            del x
            raise

    try:
        f()
    except ValueError as e:
        log.append([t.lineno - f.__code__.co_firstlineno for t in traceback.extract_tb(e.__traceback__)][1:])
    log.append("end")


@program
def not_matched(log):
    try:
        try:
            raise ValueError(Number(log, "v"))
        except KeyError:
            log.append("no")
    except ValueError:
        log.append(sys.exc_info()[0].__name__)
    log.append(sys.exc_info())


@program
def exception_group(log):
    try:
        raise ExceptionGroup("g", [ValueError(Number(log, "v")), KeyError(Number(log, "k"))])
    except* ValueError as e:
        log.append(len(e.exceptions))
    except* KeyError:
        log.append("key")
    log.append("end")


@program
def finalizer_raises(log):
    class Bad:
        def __del__(self):
            log.append("bad")
            raise ValueError("ignored")

    hook, sys.unraisablehook = sys.unraisablehook, lambda args: log.append(type(args.exc_value).__name__)
    try:
        Bad()
        log.append("end")
    finally:
        sys.unraisablehook = hook


@program
def finalizer_in_flight(log):
    class Asks:
        def __del__(self):
            log.append(sys.exc_info()[0])

    def f():
        x = Asks()
        log.append(type(x).__name__)
        raise KeyError

    try:
        f()
    except KeyError as e:
        log.append("caught")
        e.__traceback__ = None
    log.append("end")


@program
def operands_in_flight(log):
    try:
        [Number(log, "a"), Number(log, "b"), Failing(log, "c") + Number(log, "d")]
    except ValueError:
        log.append("caught")
    log.append("end")


@program
def operands_in_flight_of_call(log):
    try:
        gives_back(Number(log, "a"), k=Number(log, "b"), j=Failing(log, "c")())
    except ValueError:
        log.append("caught")
    log.append("end")


@program
def lines_of_traceback(log):
    def line(e):
        return e.__traceback__.tb_lineno - lines_of_traceback.__code__.co_firstlineno

    try:
        raise ValueError(Number(log, "v"))
    except ValueError as e:
        log.append(f"line {line(e)}")
    try:
        del unbound  # noqa: F821
        log.append("next line")
    except UnboundLocalError as e:
        log.append(f"line {line(e)}")
    unbound = 1
    try:
        (Failing(log, "a") + unbound)
    except ValueError as e:
        log.append(f"line {line(e)}")
