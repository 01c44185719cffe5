"""From library/dataclasses, contextlib, copy, weakref, types, inspect, typing, pickle: what makes and examines objects."""

import contextlib
import copy
import dataclasses
import gc
import typing
import weakref

import torch

from documented import Between, documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@dataclasses.dataclass(order=True)
class Run:
    name: str = dataclasses.field(compare=False)
    loss: float = 1.0
    _: dataclasses.KW_ONLY
    tags: list = dataclasses.field(default_factory=list, repr=False)
    step: int = dataclasses.field(init=False, default=7)
    note: typing.ClassVar[str] = "shared"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    data: object
    size: int = 0

    def __post_init__(self):
        log.append("post")
        object.__setattr__(self, "size", len(self.data))


@dataclasses.dataclass(eq=False)
class Child(Run):
    loss: float = 5.0
    extra: dict = dataclasses.field(default_factory=dict, hash=False, metadata={"unit": "m"})


@documented(
    "library/dataclasses: keyword-only and init=False fields, order between classes, frozen with slots, asdict copies, replace checks",
    lambda: [
        (x(), Run("a", 2.0), Run("b", 2.0)),
        (x(), Run("a", 2.0, tags=[x()]), Child("c")),
        (x(), Frozen([1, 2]), Frozen([1, 2])),
        (x(), Frozen(x()), Frozen(x())),
        (x(), Child("c", 1.0, {"k": [x()]}), Child("c", 1.0)),
        (x(), Run("q", 3), None),
    ],
    **cleared,
)
def dataclass_small_print(t, a, b):
    kind = type(a)
    out = attempt(
        lambda: a == b,
        lambda: a < b,
        lambda: repr(a),
        lambda: hash(a) == hash(b),
        lambda: dataclasses.replace(a, loss=t),
        lambda: dataclasses.replace(a, step=1),
        lambda: dataclasses.asdict(a, dict_factory=list),
        lambda: dataclasses.astuple(a)[-1],
        lambda: setattr(a, "size", 3),
        lambda: setattr(a, "name", "new"),
        lambda: kind.__match_args__,
        lambda: [(f.name, f.kw_only, f.init) for f in dataclasses.fields(kind)],
        lambda: dict(dataclasses.fields(a)[-1].metadata),
        lambda: kind("only", 1.0, 2, 3, 4, 5),
        lambda: kind(),
        lambda: dataclasses.make_dataclass("Made", [("m", int), "n"], frozen=True)(1, t).n is t,
        lambda: dataclasses.dataclass(type("Made", (), {"__annotations__": {"m": list}, "m": []})),
        lambda: dataclasses.is_dataclass(kind) and not dataclasses.is_dataclass(5),
    )
    return t * len(dataclasses.fields(a)), [o.split(" at 0x")[0] if isinstance(o, str) else o for o in out]


@contextlib.contextmanager
def yields(n):
    log.append(("before", n))
    for i in range(n):
        try:
            yield i
        except ValueError as error:
            log.append(repr(error))
            if n == 3:
                raise KeyError("instead") from error
    log.append("after")


class Deco(contextlib.ContextDecorator):
    def __init__(self, n):
        self.n = n

    def __enter__(self):
        log.append("enter")
        return self

    def __exit__(self, kind, *rest):
        log.append(kind and kind.__name__)
        return self.n > 1


@documented(
    "library/contextlib: a generator that does not yield, or yields twice, is a RuntimeError; ContextDecorator wraps each call; ExitStack's errors",
    lambda: [(x(), 1, False), (x(), 0, False), (x(), 2, True), (x(), 2, False), (x(), 3, True), (x(), 1, True)],
    **cleared,
)
def contexts_small_print(t, n, fail):
    @Deco(n)
    def inner(v):
        if fail:
            raise ValueError("inner")
        return v * 3

    def block():
        with yields(n) as got:
            if fail:
                raise ValueError("body")
            return got

    def stacked():
        with contextlib.ExitStack() as stack:
            stack.push(lambda kind, value, trace: log.append(str(value)) or n == 1)
            stack.callback(lambda: log.append("callback") or 1 / (n - 1))
            stack.enter_context(Deco(0))
            if fail:
                raise LookupError("stacked")
        return "left"

    out = attempt(
        block, lambda: inner(t), stacked, lambda: contextlib.ExitStack().enter_context(n), lambda: inner.__name__
    )
    return t * (n + 1), out


class Node:
    def __init__(self, data, link=None):
        self.data, self.link = data, link

    def __deepcopy__(self, memo):
        log.append(id(self) in memo)
        made = Node(copy.deepcopy(self.data, memo))
        memo[id(self)] = made
        made.link = copy.deepcopy(self.link, memo)
        return made


def ring():
    a = Node(x())
    a.link = Node(a.data, a)
    return a


class Reduced:
    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        log.append("reduce")
        return Reduced, (self.n,), {"added": True}, iter([1, 2]), iter([("k", self.n)])

    def append(self, v):
        log.append(("append", v))

    def extend(self, values):
        log.append(("extend", list(values)))

    def __setitem__(self, k, v):
        log.append(("set", k))


@documented(
    "library/copy: the memo keeps shared tensors and circles; __reduce__'s items are put in; functions, classes and None are not copied",
    lambda: [
        (x(), ring()),
        (x(), [x(), {"k": x(2)}]),
        (x(), Reduced(3)),
        (x(), (1, (2, "t"))),
        (x(), {"f": len, "c": Node, "m": torch.nn.Linear(1, 1).weight}),
        (x(), x().requires_grad_() * 2),
        (x(), Reduced([4])),
    ],
    **cleared,
)
def copies_small_print(t, o):
    deep = attempt(lambda: copy.deepcopy(o))[0]
    pair = attempt(lambda: copy.deepcopy([o, o]))[0]
    shallow = attempt(lambda: copy.copy(o))[0]
    same = pair[0] is pair[1] if isinstance(pair, list) else None
    ringed = deep.link.link is deep and deep.link.data is deep.data if isinstance(deep, Node) else None
    return t * 2, deep if ringed is None else None, shallow is o, same, ringed, deep is o


class Observed:
    def __init__(self, n):
        self.n = n

    def method(self, t):
        return t * self.n

    def __eq__(self, other):
        return isinstance(other, Observed) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


held: list = []


@documented(
    "library/weakref: refs compare as their objects while these live, then by identity; proxies, WeakMethod, WeakKeyDictionary, what cannot",
    lambda: [
        (x(), held),
        Between(lambda: held.append(Observed(2))),
        (x(), held),
        Between(lambda: held.append(Observed(3))),
        (x(), held),
        Between(held.clear),
        (x(), held),
        Between(lambda: held.append(Observed(4))),
        (x(), held),
    ],
    setup=held.clear,
)
def weak_small_print(t, objects):
    keys: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
    refs = [weakref.ref(o) for o in objects]
    proxies = [weakref.proxy(o) for o in objects]
    for i, o in enumerate(objects):
        keys[o] = i
        t = t * weakref.WeakMethod(o.method)()(i + 1)
    twin = Observed(4)
    out = attempt(
        lambda: refs[0] == weakref.ref(twin),  # noqa: F821
        lambda: refs[0] is weakref.ref(objects[0]),
        lambda: hash(refs[0]) == hash(objects[0]),
        lambda: proxies[0].n + 1,
        lambda: proxies[0].method(t),
        lambda: keys.get(twin, "none"),  # noqa: F821
        lambda: len(keys),
        lambda: weakref.ref(5),
        lambda: weakref.ref([]),
        lambda: weakref.getweakrefcount(objects[0]) > 1,
        lambda: weakref.ref(t)() is t,
        lambda: weakref.WeakMethod(twin.method) == weakref.WeakMethod(Observed(4).method),  # noqa: F821
    )
    dead = weakref.proxy(twin)
    del twin
    gc.collect()
    out += attempt(lambda: dead.n)
    return t, out
