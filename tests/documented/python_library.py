"""From library/inspect, threading, logging, warnings, asyncio, string, tutorial/classes: what reaches outside the function."""

import ast
import asyncio
import inspect
import logging
import threading
import warnings
from collections import UserString

from documented import Between, documented, x


class Base:
    factor = 2
    names = ("a",)

    def apply(self, t):
        return t * self.factor


class Child(Base):
    factor = 3

    def apply(self, t):
        return super().apply(t) + super().factor


class Other(Base):
    def apply(self, t):
        return t - 1


def restore_base():
    Base.factor = 2
    Child.__bases__ = (Base,)
    Child.__name__ = "Child"


def classes():
    o = Child()
    return [
        (x(), o),
        Between(lambda: setattr(Base, "factor", 10)),
        (x(), o),
        Between(lambda: setattr(Child, "__name__", "Renamed")),
        (x(), o),
        Between(lambda: setattr(o, "__class__", Other)),
        (x(), o),
        Between(lambda: setattr(Child, "__bases__", (Other,))),
        (x(), Child()),
    ]


@documented(
    "reference/datamodel: class attributes, __name__, __bases__ and an object's __class__ may be assigned",
    classes,
    setup=restore_base,
)
def classes_changed(t, o):
    return o.apply(t), type(o).__name__, isinstance(o, Other), o.__class__ is Child


class Odd(set):
    def __iter__(self):
        return iter(sorted(set.__iter__(self), reverse=True))

    def __len__(self):
        return 50

    def __contains__(self, v):
        return v == "always"


@documented(
    "library/stdtypes: a set subclass' own __iter__, __len__ and __contains__ serve for, len, in; the C methods see the content",
    lambda: [(x(), Odd([1, 2])), (x(), {1, 2}), (x(), Odd([1, 3])), (x(), Odd())],
)
def set_subclass(t, s):
    for v in s:
        t = t * v
    return t + len(s), list(s), "always" in s, s | {9}, max(s, default=None), bool(s), sorted(s)


class Key(str):
    __slots__ = ()

    def __hash__(self):
        return hash(self.lower())

    def __eq__(self, other):
        return self.lower() == other.lower()


@documented(
    "library/stdtypes: mapping keys compare by their own __eq__ and __hash__, also those of str subclasses",
    lambda: [
        (x(), {Key("A"): 1}, Key("a")),
        (x(), {"a": 1}, "A"),
        (x(), {Key("A"): 1}, "a"),
        (x(), {"a": 2}, Key("A")),
        (x(), {Key("q"): 1}, Key("a")),
    ],
)
def string_keys(t, d, key):
    n = d.get(key, 5)
    d[key] = n + 1
    return t * n, len(d), key in d, [str(k) for k in d], {k: v for k, v in d.items()}[key]


local = threading.local()


def forget_local():
    vars(local).clear()


@documented(
    "library/threading: local's attributes are the thread's own",
    lambda: [(x(), 1), (x(), 2), Between(lambda: setattr(local, "n", 100)), (x(), 1), Between(forget_local), (x(), 3)],
    state=lambda: dict(vars(local)),
    setup=forget_local,
)
def thread_local(t, n):
    old = getattr(local, "n", 0)
    local.n = old + n
    seen = []
    other = threading.Thread(target=lambda: seen.append(hasattr(local, "n")))
    other.start()
    other.join()
    return t * local.n, seen


@documented(
    "library/inspect: signature binds arguments; getdoc, isfunction, parameters' kinds and defaults",
    lambda: [(x(), (1,), {}), (x(), (1, 2), {}), (x(), (), {}), (x(), (1,), {"c": 3}), (x(), (1, 2, 3), {})],
)
def signatures(t, args, kwargs):
    def target(a, b=2, *, c=0):
        """Doc."""
        return t * a + b * c

    sig = inspect.signature(target)
    try:
        bound = sig.bind(*args, **kwargs)
    except TypeError as error:
        return t, str(error)
    bound.apply_defaults()
    return (
        target(*bound.args, **bound.kwargs),
        bound.arguments,
        str(sig),
        inspect.getdoc(target),
        inspect.isfunction(target),
    )


records: list = []


class Keep(logging.Handler):
    def emit(self, record):
        records.append((record.levelname, record.getMessage()))


logger = logging.getLogger("documented.programs")
logger.propagate = False
logger.addHandler(Keep())


@documented(
    "library/logging: messages below the level are dropped, arguments are merged only when emitted; isEnabledFor",
    lambda: [
        (x(), 1),
        Between(lambda: logger.setLevel("DEBUG")),
        (x(), 2),
        (x(), 2),
        Between(lambda: logger.setLevel("ERROR")),
        (x(), 3),
    ],
    state=lambda: list(records),
    setup=lambda: (records.clear(), logger.setLevel("WARNING")),
)
def logged(t, n):
    logger.debug("n is %d", n)
    t = t * n
    logger.warning("sum %s of %r", t.shape, n)
    return t + logger.isEnabledFor(logging.INFO)


@documented(
    "library/warnings: warn in a catch_warnings block with record=True is kept, outside goes to the filters; error makes an exception",
    lambda: [(x(), "keep"), (x(), "error"), (x(), "out"), (x(), "keep"), (x(), "out")],
)
def warned(t, how):
    if how == "out":
        warnings.warn("outside", UserWarning, stacklevel=1)
        return t * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always" if how == "keep" else "error")
        try:
            warnings.warn("deprecated thing", DeprecationWarning, stacklevel=1)
            t = t + 1
        except DeprecationWarning as error:
            return t, str(error)
    return t, [(w.category.__name__, str(w.message)) for w in caught]


async def compute(t, n):
    await asyncio.sleep(0)
    return t * n


@documented(
    "library/asyncio: run drives a coroutine; gather keeps the order of its arguments",
    lambda: [(x(), 1), (x(), 2), (x(), 0), (x(3), 4)],
)
def coroutines(t, n):
    async def main():
        return await asyncio.gather(*(compute(t, i) for i in range(n + 1)))

    return sum(asyncio.run(main())) + 1


@documented(
    "library/functions: eval and exec with given namespaces; ast.literal_eval takes literals only",
    lambda: [(x(), "1 + 2"), (x(), "t * 2"), (x(), "[1, 2]"), (x(), "1 +"), (x(), "1 + 2")],
)
def evaluated(t, text):
    space = {"t": t}
    try:
        v = eval(text, space)
        exec("made = 5", space)
    except SyntaxError as error:
        return t, error.msg
    try:
        literal = ast.literal_eval(text)
    except ValueError:
        literal = "no literal"
    return t + space["made"], v, literal


@documented(
    "library/collections: UserString behaves as a string but is none; its results are of its class",
    lambda: [(x(), UserString("ab"), "c"), (x(), "ab", "c"), (x(), UserString(""), "x"), (x(), UserString("ab"), 5)],
)
def user_strings(t, s, more):
    try:
        both = s + more
    except TypeError as error:
        both = str(error)
    return (
        t * len(s),
        type(both).__name__,
        str(both),
        s.upper() == "AB",
        isinstance(s, str),
        s.count("a"),
        {s: 1}.get("ab"),
    )


class Events:
    """Handlers by name, added between calls; dispatch walks the table as it is."""

    def __init__(self):
        self.handlers = {}

    def on(self, name):
        def register(function):
            self.handlers.setdefault(name, []).append(function)
            return function

        return register


def events():
    e = Events()
    e.on("a")(lambda t: t + 1)
    return [
        (x(), e, "a"),
        Between(lambda: e.on("a")(lambda t: t * 10)),
        (x(), e, "a"),
        (x(), e, "b"),
        Between(lambda: e.handlers["a"].reverse()),
        (x(), e, "a"),
        Between(lambda: e.handlers.clear()),
        (x(), e, "a"),
    ]


@documented("faq/programming: functions in a table are looked up when called", events)
def dispatch_table(t, e, name):
    @e.on("late")
    def late(t):
        return t - len(e.handlers)

    for handler in e.handlers.get(name, ()):
        t = handler(t)
    return late(t), len(e.handlers["late"])


class Box:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        print("eq", self.n)
        return self.n == getattr(other, "n", other)

    def __hash__(self):
        print("hash", self.n)
        return hash(self.n)

    def __repr__(self):
        return f"Box({self.n})"


@documented(
    "library/stdtypes: index, count, remove and in compare by identity first, then ==, from the left; dicts hash once a look-up",
    lambda: [
        (x(), [Box(1), Box(2), Box(1)], 2),
        (x(), [1, 2], 2),
        (x(), [Box(3)], 5),
        (x(), [], 1),
        (x(), [Box(2), Box(2)], 2),
    ],
)
def printed_comparisons(t, items, v):
    found = v in items
    where = items.index(v) if found else -1
    n = items.count(v)
    d = {k: i for i, k in enumerate(items)}
    got = d.get(v)
    if found:
        items.remove(v)
    return t * n, where, got, items == list(items), len(set(items))
