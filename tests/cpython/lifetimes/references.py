"""Weak references and collections."""

import gc
import sys
import weakref

from lifetimes.calls import gives_back
from lifetimes.objects import Tracked, program


@program
def weak_callback(log):
    x = Tracked(log, "x")
    r = weakref.ref(x, lambda _: log.append("callback"))
    log.append(r() is x)
    del x
    log.append(r())


@program
def weak_of_temporary(log):
    r = weakref.ref(Tracked(log, "x"), lambda _: log.append("callback"))
    log.append(r())


@program
def weak_while_called(log):
    refs = []

    def f(x):
        refs.append(weakref.ref(x, lambda _: log.append("callback")))
        del x
        log.append(refs[0]() is None)

    f(Tracked(log, "x"))
    log.append(refs[0]() is None)


@program
def weak_on_stack(log):
    x = Tracked(log, "x")
    r = weakref.ref(x)
    y = [x, r() is not None, (x := 1), r() is not None]
    log.append(y[1:])
    y = None
    log.append(r() is not None)
    return x


@program
def weak_dictionary(log):
    d = weakref.WeakValueDictionary()
    d["k"] = x = Tracked(log, "x")
    log.append(len(d))
    x = None
    log.append(len(d))
    return x


@program
def finalize_object(log):
    x = Tracked(log, "x")
    weakref.finalize(x, log.append, "finalize")
    y = x
    x = None
    log.append("x gone")
    y = x
    log.append("y gone")


@program
def cycle(log):
    x = Tracked(log, "x")
    x.itself = x
    del x
    log.append("gone")
    gc.collect()
    log.append("collected")


@program
def cycle_with_frame(log):
    def f():
        x = Tracked(log, "x")
        frame = sys._getframe()
        x.frame = frame

    f()
    log.append("left")
    gc.collect()
    log.append("collected")


@program
def collect_with_locals(log):
    x = Tracked(log, "x")
    y = [x]
    gc.collect()
    log.append(len(y))
    log.append((x, y, gc.collect() >= 0)[2])
    del x
    gc.collect()
    y.clear()
    log.append("end")


@program
def collect_mid_expression(log):
    x = Tracked(log, "x")
    log.append([x, (x, x), gc.collect() >= 0, x.name][3])
    log.append(gives_back(x, gc.collect()).name)


@program
def cycle_through_exception(log):
    def f():
        x = Tracked(log, "x")
        try:
            raise ValueError(x.name)
        except ValueError as e:
            kept = e
            log.append(type(kept).__name__)

    f()
    log.append("left")
    gc.collect()
    log.append("collected")


@program
def referrers(log):
    x = Tracked(log, "x")
    holder = [x]
    log.append(sorted(type(r).__name__ for r in gc.get_referrers(x)))
    log.append(any(r is holder for r in gc.get_referrers(x)))


@program
def referrers_of_frame(log):
    def f(x):
        frame = sys._getframe()
        found = gc.get_referrers(x)
        log.append(any(r is frame for r in found))
        del found, frame

    x = Tracked(log, "x")
    f(x)
    frame = sys._getframe()
    log.append(any(r is frame for r in gc.get_referrers(x)))
    del frame


@program
def referents_of_frame(log):
    x = Tracked(log, "x")
    frame = sys._getframe()
    log.append(sum(r is x for r in gc.get_referents(frame)))
    log.append((x, x, sum(r is x for r in gc.get_referents(frame)))[2])
    del frame


@program
def referents_of_generator(log):
    def g(x):
        y = [x, (yield 1)]
        yield y

    x = Tracked(log, "x")
    i = g(x)
    next(i)
    log.append(sum(r is x for r in gc.get_referents(i)))
    log.append(sum(r is i for r in gc.get_referrers(x)))
    next(i)
    log.append(sum(r is x for r in gc.get_referents(i)))
