"""From reference/simple_stmts, compound_stmts, executionmodel: import, global, class, builtins."""

import builtins
import contextlib
import sys
import types

from documented import Between, documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Bag:
    def __init__(self):
        self.a, self.b = 1, 2


class Manager:
    def __init__(self, name, enter=None, swallow=False):
        self.name, self.enter, self.swallow = name, enter, swallow

    def __enter__(self):
        log.append("enter " + self.name)
        if self.enter is not None and isinstance(self.enter, Exception):
            raise self.enter
        return self.enter

    def __exit__(self, *details):
        log.append(("exit " + self.name, *(d if isinstance(d, type) else str(d) for d in details[:2])))
        return self.swallow


def fake_module(**names):
    module = types.ModuleType("gramme_documented_fake")
    vars(module).update(names)
    sys.modules["gramme_documented_fake"] = module


@documented(
    "reference/simple_stmts: import looks in sys.modules each time; a name that is missing raises ImportError with name and path",
    lambda: [
        (x(), 1),
        Between(lambda: fake_module(factor=4)),
        (x(), 1),
        Between(lambda: fake_module(factor=x())),
        (x(), 1),
        Between(lambda: fake_module(other=4)),
        (x(), 2),
        Between(lambda: fake_module(__getattr__=lambda name: len(name))),
        (x(), 2),
        Between(lambda: sys.modules.update({"gramme_documented_fake": None})),  # type: ignore[dict-item]
        (x(), 3),
    ],
    setup=lambda: sys.modules.pop("gramme_documented_fake", None),  # type: ignore[arg-type]
)
def imports_now(t, n):
    try:
        import gramme_documented_fake as whole
        from gramme_documented_fake import factor
    except ImportError as error:
        return t * n, type(error).__name__, error.name, str(error)
    return t * factor + n, whole.factor is factor


def reset_globals():
    globals().pop("made_here", None)
    globals().pop("counter", None)
    log.clear()


@documented(
    "reference/simple_stmts: global binds, changes and deletes names of the module; a class body may do so, too",
    lambda: [
        (x(), 2),
        (x(), 3),
        Between(lambda: globals().pop("made_here")),
        (x(), 4),
        Between(lambda: globals().update(made_here=100)),
        (x(), 0),
        (x(), 1),
    ],
    state=lambda: (globals().get("made_here", "unset"), globals().get("counter", "unset")),
    setup=reset_globals,
)
def global_statement(t, n):
    global made_here
    try:
        before = made_here
    except NameError as error:
        before = (str(error), error.name)
    made_here = n

    class Inner:
        global counter
        counter = n * 2
        local = counter + made_here

    if n == 0:
        del made_here
    return t * counter, before, Inner.local, hasattr(Inner, "counter"), "made_here" in globals()


def bases_logged(c):
    log.append(("base", c.__name__))
    return c


class Entry:
    def __mro_entries__(self, bases):
        log.append(("entries", len(bases)))
        return (Bag,)


def decorate(name):
    log.append("evaluated " + name)

    def apply(target):
        log.append(f"applied {name}")
        target.tags = [*getattr(target, "tags", []), name]
        return target

    return apply


@documented(
    "reference/compound_stmts: decorators are evaluated before, applied after from the innermost; bases before the body; __mro_entries__",
    lambda: [(x(), 1), (x(), 2), (x(), 2), (x(), 1.5), (x(), 3)],
    **cleared,
)
def class_statement(t, n):
    @decorate("outer")
    @decorate("inner")
    class Made(bases_logged(Manager), Entry(), metaclass=bases_logged(type)):
        log.append("body")
        size = n
        doubled = [i * 2 for i in range(size if isinstance(size, int) else 1)]
        size: int = size + 1
        note: str

        def scaled(self, t):
            return t * self.size

    made = Made("m")
    return (
        made.scaled(t),
        Made.tags,
        Made.doubled,
        [c.__name__ for c in Made.__mro__],
        Made.__orig_bases__[1].__class__,
        Made.__annotations__,
        Made.__qualname__,
    )


@documented(
    "reference/executionmodel: __build_class__, __import__ and print are looked up in builtins when used",
    lambda: [
        (x(), "a"),
        Between(lambda: setattr(builtins, "gramme_documented_name", 5)),
        (x(), "b"),
        Between(lambda: setattr(builtins, "gramme_documented_name", x())),
        (x(), "c"),
        Between(lambda: delattr(builtins, "gramme_documented_name")),
        (x(), "d"),
    ],
    setup=lambda: vars(builtins).pop("gramme_documented_name", None),
)
def builtins_now(t, name):
    try:
        return t * gramme_documented_name, name  # noqa: F821
    except NameError as error:
        return t, str(error), error.name


@documented(
    "library/contextlib: what a with statement suppresses leaves the assignments before it; the value of return is kept or dropped",
    lambda: [(x(), [1, 2, 0], True), (x(), [1, 2], True), (x(), [0], False), (x(), ["a"], True), (x(), [], False)],
    **cleared,
)
def partly_done(t, values, inside):
    done = []
    with contextlib.suppress(ZeroDivisionError, TypeError), Manager("m"):
        for v in values:
            t = t + 6 / v
            done.append(v)
        if inside:
            return t, "inside", done
    return t, "after", done
