"""From "What's New In Python 3.14": types, dates, text, views of memory and models that use several of them."""

import concurrent.futures
import dataclasses
import datetime
import decimal
import enum
import functools
import graphlib
import inspect
import json
import sys
import types
import typing
import unicodedata
import uuid
from collections import Counter, OrderedDict

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "library/typing: unions are made by | and by Union alike, hashed alike and gone through",
    lambda: [(x(), int), (x(), None), (x(2), "Later"), (x(2), list[int])],
)
def unions_alike(t, kind):
    made = attempt(lambda: int | kind, lambda: typing.Union[int, kind], lambda: typing.Optional[kind])
    same = made[0] == made[1]
    return t * same, [str(m) for m in made], isinstance(made[1], types.UnionType), types.UnionType is typing.Union


@documented(
    "library/typing: a union as a key, as a class pattern's guard and for isinstance() of tensors",
    lambda: [(x(), 1), (x(), x(2)), (x(2), "s"), (x(2), None)],
)
def unions_as_keys(t, value):
    number = int | float
    table = {number: 2, number | torch.Tensor: 3}
    for union, factor in table.items():
        if isinstance(value, union):
            t = t * factor
    return t, table[torch.Tensor | float | int], len(number.__args__)


@documented(
    "library/datetime: date and time are parsed by strptime()",
    lambda: [(x(), "2024-05-03"), (x(), "2023-12-31"), (x(2), "2024-13-01"), (x(2), "")],
)
def parsed_dates(t, text):
    try:
        date = datetime.date.strptime(text, "%Y-%m-%d")
    except ValueError as error:
        return t, str(error)
    return t * date.day, date, datetime.time.strptime("10:20", "%H:%M").minute


@documented(
    "library/decimal: contexts as managers of a loop that scales tensors",
    lambda: [(x(), 1), (x(), 7), (x(2), 28), (x(2), 3)],
)
def decimal_contexts(t, digits):
    with decimal.localcontext(prec=digits) as context:
        value = decimal.Decimal(1) / 3
        context.rounding = decimal.ROUND_UP
        rounded = +decimal.Decimal("0.12345678")
    return t * float(value), value, rounded, decimal.Decimal.from_number(2) / 3


@documented(
    "library/stdtypes: bytes.fromhex() and bytearray.fromhex() take bytes and buffers",
    lambda: [(x(), b"01 02"), (x(), bytearray(b"ff")), (x(2), memoryview(b"0a")), (x(2), 3)],
)
def hexadecimal_buffers(t, source):
    made = attempt(lambda: bytes.fromhex(source), lambda: bytearray.fromhex(source))
    return t * sum(made[0]) if isinstance(made[0], bytes) else t, made


@documented(
    "library/stdtypes: a memoryview is indexed and counted as a sequence is",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 9)],
)
def searched_views(t, value):
    view = memoryview(bytes([1, 2, 2, 3]))
    return (
        t * view.count(value),
        attempt(lambda: view.index(value), lambda: view.index(value, 2)),
        typing.get_origin(memoryview[int]),
    )


@documented(
    "library/uuid: versions of identifiers and the ends of their range",
    lambda: [(x(), "a"), (x(), "b"), (x(2), ""), (x(2), "a")],
)
def newer_identifiers(t, name):
    made = uuid.uuid8(1, 2, len(name))
    return t * (made.int % 11), made.version, str(made), uuid.NIL < uuid.MAX


@documented(
    "library/graphlib: prepare() may be called again before the sorting starts",
    lambda: [(x(), {"b": ["a"], "c": ["b"]}), (x(), {}), (x(2), {"a": ["b"], "b": ["a"]}), (x(2), {"d": "abc"})],
)
def sorted_graphs(t, edges):
    sorter = graphlib.TopologicalSorter(edges)
    try:
        sorter.prepare()
        sorter.prepare()
    except graphlib.CycleError as error:
        return t, error.args[0]
    order = []
    while sorter.is_active():
        for node in sorted(sorter.get_ready()):
            order.append(node)
            t = t * 2 + len(order)
            sorter.done(node)
    return t, order


@documented(
    "library/json: what an encoder refuses says where by notes",
    lambda: [(x(), {"a": [1]}), (x(), {"a": [object]}), (x(2), {"b": {"c": 1j}}), (x(2), [])],
)
def notes_of_json(t, value):
    try:
        text = json.dumps(value)
    except TypeError as error:
        return t, str(error), error.__notes__
    return t * len(text), json.loads(text)


@documented(
    "library/inspect: a closed, a fresh and a suspended coroutine's state, beside tensors",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 3)],
)
def states_of_coroutines(t, steps):
    class Wait:
        def __await__(self):
            yield t * 2

    async def work():
        await Wait()
        await Wait()
        return t * 3

    made, got = work(), []
    for _ in range(steps):
        try:
            got.append(made.send(None))
        except StopIteration as stop:
            got.append(stop.value)
    state = inspect.getcoroutinestate(made)
    made.close()
    return sum(got, t), state, inspect.getcoroutinestate(made)


@documented(
    "library/concurrent.futures: a future's value, exception and done callbacks without a thread",
    lambda: [(x(), 1), (x(), ValueError("v")), (x(2), x(2)), (x(2), None)],
    **cleared,
)
def futures_by_hand(t, value):
    future: concurrent.futures.Future = concurrent.futures.Future()
    future.add_done_callback(lambda f: log.append(f.done()))
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    try:
        return t * (future.result() if future.result() is not None else 5)
    except ValueError as error:
        return t + 1, str(error), future.exception() is value


class Mode(enum.StrEnum):
    SUM = enum.auto()
    MEAN = enum.auto()


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


@documented(
    "library/enum: flags and text members steer a tensor's reduction; a match over both",
    lambda: [(x(), "sum", 1), (x(), "mean", 3), (x(2), Mode.SUM, 2), (x(2), "max", 0)],
)
def enumerations(t, mode, bits):
    access = Access(bits)
    try:
        match Mode(mode), access:
            case Mode.SUM, Access.READ:
                return t.sum(), repr(access)
            case Mode.SUM, flags:
                return t.sum() * len(flags), [f.name for f in flags]
            case Mode.MEAN, Access.BOTH:
                return t.mean(), f"{Mode.MEAN:>6}", ~access
    except ValueError as error:
        return t, str(error)
    return t


@dataclasses.dataclass(kw_only=True, slots=True)
class Layer:
    width: int = dataclasses.field(default=2, doc="how wide")
    weights: list[torch.Tensor] = dataclasses.field(default_factory=list, repr=False)

    def __post_init__(self):
        self.weights.extend(torch.full((1,), float(i + 1)) for i in range(self.width))


@documented(
    "library/dataclasses: fields with doc=, slots and keywords alone",
    lambda: [(x(), {}), (x(), {"width": 3}), (x(2), {"width": 0}), (x(2), {"odd": 1})],
)
def documented_fields(t, options):
    try:
        layer = Layer(**options)
    except TypeError as error:
        return t, str(error)
    for w in layer.weights:
        t = t * w
    return t, repr(layer), Layer.__slots__, [f.doc for f in dataclasses.fields(Layer)]


@documented(
    "library/types: a method-wrapper, a partial and a wrapper of a class compare by what they are bound to",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def compared_methods(t, n):
    values = [n]
    same = values.append == values.append, values.__len__ == [n].__len__, (n).__add__ == (n).__add__
    descriptor = functools.partial(torch.mul, t)
    return (
        descriptor(n),
        same,
        descriptor == functools.partial(torch.mul, t),
        hash(values.append) == hash(values.append),
    )


@documented(
    "library/sys: sizes, flags and the recursion limit are read between operations",
    lambda: [(x(), 50), (x(), 20), (x(2), 5), (x(2), 0)],
)
def recursion(t, depth):
    def inner(v, left):
        return inner(v + 1, left - 1) if left else v

    limit = sys.getrecursionlimit()
    return inner(t, depth), limit == sys.getrecursionlimit(), sys.flags.context_aware_warnings, sys.is_finalizing()


@documented(
    "library/unicodedata: text that is normalised, cased and counted",
    lambda: [(x(), "é"), (x(), "ﬁ"), (x(2), "ß"), (x(2), "")],
)
def normalised_text(t, text):
    made = unicodedata.normalize("NFKD", text)
    return t * len(made), made, text.casefold(), [unicodedata.category(c) for c in made], text.isidentifier()


@documented(
    "library/collections: counters and ordered dicts of a training loop that steps tensors",
    lambda: [(x(), "abca"), (x(), ""), (x(2), "zz"), (x(2), "ba")],
)
def counted_steps(t, names):
    counts, states = Counter(), OrderedDict()
    for name in names:
        counts[name] += 1
        states[name] = states.pop(name, t) * 2
    if states:
        states.move_to_end(next(iter(states)))
    return (
        list(states.values()),
        list(states),
        counts.most_common(1),
        counts.total(),
        (counts ^ Counter("a")) if hasattr(Counter, "__xor__") else None,
    )


class Recurrent(torch.nn.Module):
    def __init__(self, width: int, *, hooks: Hooks | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(width) * 2)
        self.hooks = hooks or []

    def forward(self, t: torch.Tensor, steps: int = 1) -> Result:
        for i in range(steps):
            t = t @ self.weight
            for hook in self.hooks:
                try:
                    t = hook(t, step=i)
                except ValueError, TypeError:
                    t = t - 1
        return t


type Hooks = list[typing.Callable[..., torch.Tensor]]
type Result = torch.Tensor


@documented(
    "PEP 649, 695, 758: a module with late annotations, aliases and clauses in its loop",
    lambda: [(x(1, 4), 1), (x(2, 4), 2), (x(1, 4), 0), (x(3, 4), 3)],
)
def whole_models(t, steps):
    model = Recurrent(4, hooks=[lambda v, step: v + step, lambda v: v, functools.partial(torch.clamp, max=50.0)])
    result = model(t, steps)
    return result, typing.get_type_hints(Recurrent.forward)["return"] is Result, list(dict(model.named_parameters()))
