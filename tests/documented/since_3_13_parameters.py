"""From "What's New In Python 3.13" on PEP 696 and on small changes of builtins: defaults of parameters, text, time."""

import array
import ast
import asyncio
import collections
import datetime
import dis
import functools
import itertools
import marshal
import operator
import pickle
import types
import typing
import warnings

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Cell[T, U = T, *Rest = *tuple[U, ...]]:
    def __init__(self, t: T, *rest: *Rest) -> None:
        self.t, self.rest = t, rest

    def combine(self):
        value = self.t
        for other in self.rest:
            value = value + other
        return value


@documented(
    "PEP 696: a default that names an earlier parameter fills what a subscript leaves out",
    lambda: [(x(), [1]), (x(), []), (x(2), [x(2), 2]), (x(2), ["s"])],
)
def defaults_fill_up(t, rest):
    made = Cell[torch.Tensor](t, *rest)
    try:
        return made.combine(), str(made.__orig_class__)
    except TypeError as error:
        return t, type(error).__name__


@documented(
    "PEP 696: defaults are evaluated when they are first asked for, in the scope they were written in",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def late_defaults(t, n):
    def noted(kind):
        log.append(n)
        return kind

    def inner[T = noted(int), **P = [noted(str)]](v: T) -> T:
        return v * n

    first, second = inner.__type_params__
    t = inner(t)
    seen = [p.__default__ for p in (first, first, second) if n]
    return t, [str(s) for s in seen], second.has_default()


@documented(
    "PEP 696: a default of an alias; an alias subscripted with fewer arguments",
    lambda: [(x(), int), (x(), str), (x(2), None), (x(2), float)],
)
def defaults_of_aliases(t, kind):
    type Table[K, V = list[K]] = dict[K, V]
    made = Table[kind]
    return t * len(made.__args__), str(made), str(Table.__value__), str(Table.__type_params__[1].__default__)


@documented(
    "PEP 696: old type variables have defaults by keyword, and NoDefault without one",
    lambda: [(x(), int), (x(), None), (x(2), str), (x(2), 3)],
)
def defaults_by_keyword(t, default):
    made = typing.TypeVar("made", default=default)
    bare = typing.TypeVar("bare")
    return t + made.has_default(), made.__default__, bare.__default__ is typing.NoDefault, repr(typing.NoDefault)


@documented(
    "PEP 696: a parameter without default may not follow one with a default",
    lambda: [(x(), "class A[T=int, U]: pass"), (x(), "def f[T=int](): pass"), (x(2), "type X[*T=int] = 1"), (x(2), "")],
)
def refused_parameters(t, source):
    try:
        code = compile(source, "<program>", "exec")
    except SyntaxError as error:
        return t, error.msg, error.lineno
    return t * 2, code.co_names


@documented(
    "library/stdtypes: str.replace(count=) in a loop and in a keyword's mapping",
    lambda: [(x(), "aaa", 1), (x(), "aaa", -1), (x(2), "", 2), (x(2), "aba", 0)],
)
def replaced_text(t, text, count):
    for i in range(2):
        text = text.replace("a", f"b{i}", count=count)
        t = t + len(text)
    return t, text, "xx".replace("x", "y", **{"count": 1})


@documented(
    "library/functions: messages of calls with wrong keywords name what was meant",
    lambda: [(x(), "dims"), (x(), "scale"), (x(2), "factors"), (x(2), "")],
)
def mistaken_keywords(t, name):
    def inner(value, *, scale=1, factor=2):
        return value * scale * factor

    try:
        return inner(t, **{name: 3})
    except TypeError as error:
        return t, str(error), attempt(lambda: "a".split(maxsplits=1), lambda: sorted([1], keys=None))


@documented(
    "library/functions: a property's name follows what it is made from and can be set",
    lambda: [(x(), "a"), (x(), "b"), (x(2), "c"), (x(2), "")],
)
def properties_with_names(t, name):
    class Model:
        @property
        def value(self):
            return t * 2

        other = property(lambda self: t * 3)

    renamed = property(lambda self: None)
    renamed.__name__ = name
    model = Model()
    return model.value + model.other, Model.value.__name__, Model.other.__name__, renamed.__name__


@documented(
    "library/array: arrays of code points; their text",
    lambda: [(x(), "ab"), (x(), ""), (x(2), "é☃"), (x(2), "c")],
)
def arrays_of_text(t, text):
    made = array.array("w", text)
    made.append("!")
    return t * len(made), made.tounicode(), made.itemsize


@documented(
    "library/itertools: strict batches between which a tensor grows",
    lambda: [(x(), 4, 2), (x(), 5, 2), (x(2), 0, 3), (x(2), 3, 3)],
)
def growing_batches(t, n, size):
    try:
        for i, batch in enumerate(itertools.batched(range(n), size, strict=True)):
            t = torch.cat([t, t[:1] * sum(batch) + i])
    except ValueError as error:
        return t, str(error)
    return t


@documented(
    "library/ast: omitted fields are empty; a tree made by hand is compiled and called with tensors",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 0)],
)
def trees_by_hand(t, n):
    body = ast.BinOp(ast.Name("t", ast.Load()), ast.Mult(), ast.Constant(n))
    tree = ast.fix_missing_locations(ast.Expression(body))
    call = ast.Call(ast.Name("f", ast.Load()))
    return eval(compile(tree, "<program>", "eval"), {"t": t}), call.args, call.keywords


@documented(
    "library/marshal: code objects may be refused; values come back",
    lambda: [(x(), [1, 2]), (x(), (1.5, "a")), (x(2), len), (x(2), None)],
)
def marshalled(t, value):
    try:
        back = marshal.loads(marshal.dumps(value, allow_code=False))
    except ValueError as error:
        return t, str(error)
    return t * 2, back, attempt(lambda: marshal.dumps((lambda: 0).__code__, allow_code=False))


class Steps:
    def __init__(self, n):
        self.n = n

    def scaled(self, t, k):
        return t * self.n * k


@documented(
    "library/pickle: nested classes' methods, methodcaller with keywords go through pickle",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def pickled_callers(t, n):
    call = pickle.loads(pickle.dumps(operator.methodcaller("scaled", t, k=n)))
    try:
        return call(Steps(2)), call
    except AttributeError as error:
        return t, str(error)


async def doubled(t):
    await asyncio.sleep(0)
    return t * 2


@documented(
    "library/asyncio: a coroutine with a bare yield is driven by hand, step by step",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def driven_by_hand(t, n):
    async def work(v):
        for _ in range(n):
            v = await doubled(v)
        return v

    coroutine, steps = work(t), 0
    while True:
        try:
            coroutine.send(None)
            steps += 1
        except StopIteration as stop:
            return stop.value, steps


@documented(
    "library/dis: a program reads instructions of a function it calls",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def read_instructions(t, n):
    def inner(v):
        return v + n

    names = [i.opname for i in dis.get_instructions(inner) if "BINARY" in i.opname]
    return inner(t), names, dis.Bytecode(inner).codeobj is inner.__code__


@documented(
    "library/collections: a namedtuple and a deque of tensors are replaced and rotated",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def named_and_rotated(t, n):
    pair = collections.namedtuple("Pair", "t n")(t, n)
    pair = pair.__replace__(n=n + 1)
    items = collections.deque([pair.t * i for i in range(3)], maxlen=3)
    items.rotate(n)
    return items[0] * pair.n, pair.n


@documented(
    "library/datetime: replace() and timedelta arithmetic between tensor operations",
    lambda: [(x(), 1), (x(), 40), (x(2), 0), (x(2), -1)],
)
def shifted_dates(t, days):
    start = datetime.datetime(2024, 2, 28, tzinfo=datetime.UTC)
    end = start + datetime.timedelta(days=days)
    return t * end.day, end.isoformat(), end.__replace__(hour=5).hour, (end - start) / datetime.timedelta(hours=1)


@documented(
    "library/warnings: the module's deprecated utcnow() says what to call",
    lambda: [(x(), "utcnow"), (x(), "utcfromtimestamp"), (x(2), "utcnow"), (x(2), "nothing")],
)
def deprecated_clocks(t, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = getattr(datetime.datetime, name, None)
        if f is not None:
            f(0) if "from" in name else f()
    return t * len(caught), [w.category.__name__ for w in caught]


@documented(
    "library/functools: singledispatch on a union, on classes made inside, and on tensors",
    lambda: [(x(), 1), (x(), "s"), (x(2), [1]), (x(2), x(2))],
)
def dispatched(t, value):
    @functools.singledispatch
    def scale(v):
        return 1

    @scale.register
    def _(v: int | float):
        return v

    @scale.register(torch.Tensor)
    def _(v):
        return v * 2

    return t * scale(value), len(scale.registry), types.NoneType
