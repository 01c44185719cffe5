"""From "What's New In Python 3.13" on PEP 667 and what classes and generators know: locals, frames, proxies."""

import inspect
import sys

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "PEP 667: f_locals is a proxy that is gone through, compared and copied as a dict is",
    lambda: [(x(), 1), (x(), 2), (x(2), "s"), (x(2), None)],
)
def proxies_as_mappings(t, n):
    proxy = sys._getframe().f_locals
    k = 3
    t = t + k
    plain = dict(proxy)
    return (
        t,
        sorted(plain),
        len(proxy) >= 4,
        list(proxy)[:2],
        proxy.get("k"),
        proxy.get("none", "default"),
        type(proxy | {}).__name__,
    )


@documented(
    "PEP 667: update(), setdefault() and |= of a proxy write variables",
    lambda: [(x(), 1), (x(), 2), (x(2), 5), (x(2), 0)],
)
def updated_by_proxies(t, n):
    a = b = 0
    proxy = sys._getframe().f_locals
    proxy.update({"a": n, "b": n + 1})
    t = t * a + b
    proxy |= {"a": 10}
    proxy.setdefault("b", 99)
    proxy.setdefault("fresh", 7)
    return t * a, a, b, proxy["fresh"]


@documented(
    "PEP 667: a variable cannot be removed by a proxy",
    lambda: [(x(), "n"), (x(), "extra"), (x(2), "absent"), (x(2), "t")],
)
def removed_by_proxies(t, name):
    n = 1
    proxy = sys._getframe().f_locals
    proxy["extra"] = 5
    return t + n, attempt(lambda: proxy.pop(name), lambda: proxy.__delitem__(name), lambda: proxy.clear())


@documented(
    "PEP 667: two proxies of one frame are two objects that see the same",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def several_proxies(t, n):
    frame = sys._getframe()
    first, second = frame.f_locals, frame.f_locals
    first["n"] = n + 5
    return t * n, second["n"], first is second, first == second


@documented(
    "PEP 667: a tensor put in place of another by f_locals is what later operations use",
    lambda: [(x(), x()), (x(), 2.0), (x(2), x(2)), (x(2), "s")],
)
def tensors_put_in_place(t, other):
    t = t * 2
    sys._getframe().f_locals["t"] = other
    try:
        return t + 1
    except TypeError as error:
        return type(error).__name__


def replace_in_caller(**values):
    frame = sys._getframe(1)
    frame.f_locals.update(values)


@documented(
    "PEP 667: a callee replaces a loop's tensor in its caller",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def replaced_in_loops(t, n):
    for i in range(n):
        t = t + i
        replace_in_caller(t=t * 2)
    return t


@documented(
    "PEP 667: locals() at a comprehension's, a generator's and a class's level",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def locals_of_levels(t, n):
    def generator():
        k = n
        yield sorted(locals())
        yield locals()["k"]

    class Body:
        k = n
        names = sorted(name for name in locals() if not name.startswith("__"))

    return t + n, list(generator()), Body.names, [len(locals()) for _ in range(n)]


@documented(
    "PEP 667: locals() of a function whose variable is deleted and made again",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def locals_after_deleting(t, n):
    k = n
    first = locals()
    del k
    second = locals()
    k = t * n
    return k, "k" in first, "k" in second, locals()["k"] is k


@documented(
    "PEP 667: exec() with locals() writes the snapshot alone; eval() reads it",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def executed_on_snapshots(t, n):
    space = locals()
    exec("n = n * 10; made = n + 1", {}, space)
    return t * n, space["made"], eval("n + made", {}, space), eval("t.shape[0] * n")


@documented(
    "PEP 667: exec() with a closure runs the code of an inner function on given cells",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def executed_closures(t, n):
    count = 0

    def inner():
        nonlocal count
        count += n

    exec(inner.__code__, closure=inner.__closure__)
    t = t + count
    return t, count, attempt(lambda: exec(inner.__code__, closure=()))


@documented(
    "library/sys: variables of a caller's caller are read through proxies",
    lambda: [(x(), 1), (x(), "s"), (x(2), 2.5), (x(2), None)],
)
def read_above(t, secret):
    def outer():
        def inner():
            frame = sys._getframe(2)
            return frame.f_locals["secret"], frame.f_code.co_name

        return inner()

    return t.exp(), outer()


@documented(
    "reference/datamodel: close() returns what the generator returns when it is closed",
    lambda: [(x(), "caught"), (x(), "left"), (x(2), "ended"), (x(2), "fresh")],
    **cleared,
)
def closed_generators(t, how):
    def work():
        try:
            yield t * 2
            yield t * 3
        except GeneratorExit:
            log.append("closing")
            if how == "caught":
                return t.sum()
            raise

    made = work()
    first = next(made) if how != "fresh" else t
    if how == "ended":
        list(made)
    return first, made.close()


@documented(
    "reference/datamodel: yield from hands close() down and gets the value of the inner one",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def closed_through_delegation(t, n):
    def inner():
        try:
            yield t + n
        finally:
            log.append("inner")

    def outer():
        try:
            yield from inner()
        except GeneratorExit:
            return n * 10

    made = outer()
    return next(made), made.close(), inspect.getgeneratorstate(made)


@documented(
    "library/types: clear() of a suspended generator's frame raises, of a running one too",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def frames_refuse_to_clear(t, n):
    def work():
        yield t * n

    made = work()
    first = next(made)
    return first + 1, attempt(lambda: sys._getframe().clear(), made.gi_frame.clear), made.gi_frame is not None


class Model:
    """A model.

        An indented line.
    The end.
    """

    def __init__(self, n):
        self.n = n
        self.hidden = n + 1

    def forward(self, t):
        """Scales.

        By n.
        """
        self.last = t * self.n
        return self.last


@documented(
    "reference/datamodel: docstrings lose the indentation of their first column",
    lambda: [(x(), Model(1)), (x(), Model(2)), (x(2), Model(0)), (x(2), Model(3))],
)
def docstrings(t, model):
    """Text of a program.

    indented
    """
    return model.forward(t) + 1, model.__doc__, Model.forward.__doc__


@documented(
    "reference/datamodel: __static_attributes__ names what methods store by self, __firstlineno__ counts",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def static_attributes(t, n):
    class Inner:
        def set(self, value):
            self.value = value
            self.nested = lambda: setattr(self, "unseen", value)

        def other(this):
            this.not_self = 1

    made = Inner()
    made.set(t * n)
    lines = Inner.__firstlineno__ - sys._getframe().f_code.co_firstlineno
    return made.value, sorted(Inner.__static_attributes__), lines, sorted(Model.__static_attributes__)


@documented(
    "reference/simple_stmts: global in an else block, and its write between operations",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 0)],
    state=lambda: counter,
    setup=lambda: globals().__setitem__("counter", 0),
)
def globals_in_blocks(t, n):
    try:
        t = t / (1 if n else 0) if isinstance(n, int) else t
        1 // n
    except ZeroDivisionError:
        global counter
        counter = -1
    else:
        counter += n
    return t * counter


counter = 0


@documented(
    "reference/executionmodel: lambdas and comprehensions in annotation scopes of classes",
    lambda: [(x(), 2), (x(), 3), (x(2), 1), (x(2), 0)],
)
def scopes_in_classes(t, n):
    class Holder[T]:
        width = n
        type Row = [i * n for i in range(3)]
        type Made = (lambda: n + 1)()

        def method[S: (lambda: int)()](self, v: S) -> S:
            return v * self.width

    return Holder().method(t), Holder.Row.__value__, Holder.Made.__value__, torch.is_tensor(t)
