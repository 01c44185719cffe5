"""From library/exceptions, traceback, sys, logging, warnings, threading, queue, contextvars, graphlib, os, functions."""

import concurrent.futures
import logging
import queue
import sys
import threading
import traceback
import warnings

from documented import Between, documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "library/exceptions: constructors choose subclasses and set attributes; args may be changed; str of each follows its own rule",
    lambda: [
        (x(), OSError, (2, "no", "file")),
        (x(), OSError, (999, "odd")),
        (x(), KeyError, ("k",)),
        (x(), KeyError, ("a", "b")),
        (x(), StopIteration, (x(1),)),
        (x(), SystemExit, (3,)),
        (x(), ImportError, ("m",)),
        (x(), UnicodeDecodeError, ("utf-8", b"\xff", 0, 1, "bad")),
        (x(), UnicodeDecodeError, ("utf-8",)),
        (x(), SyntaxError, ("s", ("f.py", 3, 1, "text"))),
        (x(), ExceptionGroup, ("g", [ValueError(1)])),
        (x(), ExceptionGroup, ("g", [])),
        (x(), BaseExceptionGroup, ("g", [ValueError(1)])),
        (x(), AttributeError, ()),
    ],
)
def constructed(t, kind, args):
    try:
        try:
            raise kind(*args)
        except kind as error:
            e = error
    except (TypeError, ValueError) as error:
        return t, str(error)
    shown = (str(e), repr(e), type(e).__name__)
    named = {
        n: getattr(e, n, "none") for n in ("errno", "strerror", "filename", "value", "code", "name", "lineno", "reason")
    }
    e.args = (t, "changed")
    e.add_note("note")
    return t * 2, shown, named, len(e.args), str(e) if kind is KeyError else None, e.__notes__


@documented(
    "library/sys: exc_info and exception tell what is handled now, in functions called as well, and the outer one again afterwards",
    lambda: [(x(), 0), (x(), 1), (x(), 2), (x(), "s"), (x(), 0)],
    **cleared,
)
def being_handled(t, n):
    def now():
        log.append(repr(sys.exception()))
        return sys.exc_info()[0]

    def gen():
        yield now()
        try:
            raise KeyError("gen")
        except KeyError:
            yield now()
        yield now()

    seen = [now()]
    try:
        t = t * (1 / n)
    except Exception:
        g = gen()
        seen += [now(), next(g)]
        try:
            [][n]
        except Exception as inner:
            seen += [now(), next(g), repr(inner.__context__)]
        seen += [now(), *g]
    finally:
        seen.append(now())
    return t + 1, seen


def deep(n):
    if n == 0:
        raise LookupError("bottom")
    return deep(n - 1)


@documented(
    "library/traceback: format_exception_only with notes and causes, extract_tb names the frames, tb_next walks them",
    lambda: [(x(), 1), (x(), 3), (x(), 0), (x(), 2), (x(), "s")],
)
def traced_back(t, n):
    try:
        try:
            t = t + 1
            deep(n)
        except LookupError as error:
            error.add_note(f"note {n}")
            raise RuntimeError("outer") from error
    except (RuntimeError, TypeError) as error:
        cause = error.__cause__ or error
        frames = [(f.name, f.lineno - traced_back_line) for f in traceback.extract_tb(cause.__traceback__)]
        count, tb = 0, cause.__traceback__
        while tb is not None:
            count, tb = count + 1, tb.tb_next
        text = traceback.format_exc().splitlines()
        return t * count, frames, traceback.format_exception_only(cause), text[-1], len(text)


traced_back_line = traced_back.__code__.co_firstlineno


class Keep(logging.Handler):
    def emit(self, record):
        log.append(
            (record.levelname, record.getMessage(), record.funcName, record.exc_info and str(record.exc_info[1]))
        )


class Lazy:
    def __str__(self):
        log.append("formatted")
        return "lazy"


logger = logging.getLogger("gramme.documented.more")


def start_logging():
    log.clear()
    logger.handlers[:] = [Keep()]
    logger.filters.clear()
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.disabled = False


@documented(
    "library/logging: messages are formatted only when a handler wants them; filters, levels and disable as they are now; exc_info",
    lambda: [
        (x(), "%s items", 3),
        (x(), "%s", Lazy()),
        Between(lambda: logger.setLevel(logging.DEBUG)),
        (x(), "%s", Lazy()),
        Between(lambda: logger.addFilter(lambda record: "drop" not in record.msg)),
        (x(), "drop %d", 1),
        Between(lambda: setattr(logger, "disabled", True)),
        (x(), "%d", 4),
        Between(lambda: setattr(logger, "disabled", False)),
        (x(), "%s", x(1)),
    ],
    **{"state": lambda: list(log), "setup": start_logging},
)
def logged_lazily(t, message, arg):
    logger.debug(message, arg)
    t = t * 2
    logger.log(25, "level %s", logger.getEffectiveLevel())
    try:
        1 / 0
    except ZeroDivisionError:
        logger.exception("caught %r", 5, extra={"own": 1})
    logging.LoggerAdapter(logger, {"k": 1}).info("adapted")
    return t, logger.isEnabledFor(logging.DEBUG), logger.hasHandlers()


def warns(n):
    warnings.warn(f"careful {n}", UserWarning, stacklevel=2)
    warnings.warn(DeprecationWarning("old"))
    return n + 1


@documented(
    "library/warnings: filters are tried from the front, error raises, once and default remember, record keeps the messages",
    lambda: [
        (x(), "error", 1),
        (x(), "ignore", 2),
        (x(), "always", 3),
        (x(), "once", 4),
        (x(), "default", 5),
        (x(), "module", 5),
    ],
    **cleared,
)
def warning_filters(t, action, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.filterwarnings(action, message="careful", category=UserWarning)
        out = attempt(lambda: warns(n), lambda: [warns(n) for _ in range(2)])
        t = t * len(caught)
        warnings.simplefilter("error", append=True)
        out += attempt(lambda: warns(n), lambda: warnings.warn("text", int), lambda: warnings.filterwarnings("odd"))
    return t, out, [(w.category.__name__, str(w.message)) for w in caught]


@documented(
    "library/threading and queue: locks, events, queues full and empty, priority; a pool gives results in order and raises on result()",
    lambda: [(x(), [3, 1, 2]), (x(), []), (x(), [x(1)]), (x(), [5, "a"]), (x(), [2])],
    **cleared,
)
def threads_and_queues(t, items):
    lock, rlock, event = threading.Lock(), threading.RLock(), threading.Event()
    q: queue.Queue = queue.Queue(maxsize=2)
    p: queue.PriorityQueue = queue.PriorityQueue()
    got: list = []
    worker = threading.Thread(target=lambda: (event.wait(5), got.append(t * 2)))
    worker.start()
    event.set()
    worker.join()
    out = attempt(
        lambda: [q.put_nowait(i) for i in items],
        lambda: (q.qsize(), q.full(), q.get_nowait()),
        lambda: q.task_done() or q.task_done(),
        lambda: [p.put(i) for i in items] and p.get(),
        lambda: (lock.acquire(), lock.acquire(blocking=False), lock.locked()),
        lambda: lock.release() or lock.release(),
        lambda: (rlock.acquire(), rlock.acquire(), rlock.release()),
        lambda: rlock.release() or rlock.release(),
        lambda: event.is_set(),
    )
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        out += attempt(lambda: list(pool.map(lambda i: i * 2, items)), lambda: pool.submit(divmod, 1, 0).result())
    return t + got[0], out, worker.is_alive(), threading.current_thread() is threading.main_thread()
