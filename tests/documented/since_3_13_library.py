"""From "What's New In Python 3.13": replace(), deprecations, enumerations, statistics, text and other libraries."""

import base64
import collections
import contextlib
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import glob
import inspect
import itertools
import math
import queue
import random
import re
import statistics
import traceback
import types
import typing
import warnings

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@dataclasses.dataclass(frozen=True)
class Step:
    value: torch.Tensor
    count: int = 0
    total: int = dataclasses.field(default=0, init=False)


@documented(
    "library/copy: replace() of frozen dataclasses carries tensors through a loop",
    lambda: [(x(), 1), (x(), 3), (x(2), 2), (x(2), 0)],
)
def replaced_in_loops(t, n):
    step = Step(t)
    for i in range(n):
        step = copy.replace(step, value=step.value * 2 + i, count=step.count + 1)
    return step.value, step.count, attempt(lambda: copy.replace(step, total=1), lambda: copy.replace(step, odd=1))


@documented(
    "library/copy: replace() of dates, namespaces, signatures, slices' refusal",
    lambda: [(x(), 1), (x(), 2), (x(2), 12), (x(2), 13)],
)
def replaced_objects(t, month):
    space = types.SimpleNamespace(t=t, n=1)
    changed = copy.replace(space, n=month)
    try:
        date = copy.replace(datetime.date(2024, 5, 1), month=month)
    except ValueError as error:
        return changed.t * 2, type(error).__name__
    signature = copy.replace(inspect.signature(lambda a, b: a), parameters=[])
    return changed.t * changed.n, date.isoformat(), str(signature), attempt(lambda: copy.replace(slice(1), stop=2))


@documented(
    "library/copy: replace() of a function's code changes what later calls compute",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 5)],
)
def replaced_code(t, n):
    def inner(v):
        return v * 1000

    first = inner(t)
    inner.__code__ = copy.replace(
        inner.__code__, co_consts=tuple(n if c == 1000 else c for c in inner.__code__.co_consts)
    )
    return first, inner(t)


@warnings.deprecated("Old is old", category=FutureWarning)
class Old:
    def __init__(self, n):
        self.n = n

    def scale(self, t):
        return t * self.n


with warnings.catch_warnings(action="ignore"):  # that Old has a subclass

    class Younger(Old):
        @warnings.deprecated("scale less")
        def scale(self, t):
            return super().scale(t) + 1

        @staticmethod
        @warnings.deprecated("helper", category=None)
        def helper(t):
            return t - 1


@documented(
    "PEP 702: deprecated classes and methods warn when an instance is made or one is called",
    lambda: [(x(), Old, 1), (x(), Younger, 2), (x(2), Younger, 0), (x(2), Old, 3)],
)
def deprecated_classes(t, kind, n):
    model = kind(n)
    t = model.scale(t)
    if kind is Younger:
        t = model.helper(t)
    return t, kind.__dict__.get("__deprecated__"), getattr(kind.scale, "__deprecated__", None)


@documented(
    "PEP 702: a deprecated function's warning becomes an exception by a filter",
    lambda: [(x(), "error"), (x(), "ignore"), (x(2), "always"), (x(2), "once")],
)
def deprecations_that_raise(t, action):
    @warnings.deprecated("gone soon")
    def inner(v):
        return v * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        try:
            t = inner(t)
            t = inner(t)
        except DeprecationWarning as error:
            return t + 1, str(error)
    return t, [str(w.message) for w in caught]


@documented(
    "library/enum: EnumDict keeps members apart from methods",
    lambda: [(x(), {"A": 1}), (x(), {"A": 1, "B": "b"}), (x(2), {}), (x(2), {"_odd": 3, "f": len})],
)
def enumerations_by_hand(t, items):
    space = enum.EnumDict()
    space._cls_name = "Made"
    for name, value in items.items():
        space[name] = value
    return t * len(space.member_names), list(space.member_names), sorted(space)


@documented(
    "library/types: a SimpleNamespace takes a mapping first",
    lambda: [(x(), {"a": 1}), (x(), [("a", 2)]), (x(2), {}), (x(2), {1: 2})],
)
def namespaces_of_mappings(t, items):
    try:
        space = types.SimpleNamespace(items, a=5, t=t)
    except TypeError as error:
        return t, str(error)
    return space.t * space.a, vars(space) | {"t": 0}


@documented(
    "library/fractions: fractions have fill, alignment and zero padding; the rational form too",
    lambda: [(x(), 1, 3), (x(), 22, 7), (x(2), -1, 8), (x(2), 3, 1)],
)
def padded_fractions(t, p, q):
    value = fractions.Fraction(p, q)
    return t * float(value), f"{value:*^10}|{value:+}|{value:#}|{value:,}", attempt(lambda: f"{value:q}")


@documented(
    "library/statistics: kde() smooths; its function scales a tensor's mean",
    lambda: [(x(), 1.0), (x(), 0.5), (x(2), 2.0), (x(2), 0.0)],
)
def smoothed(t, h):
    try:
        f = statistics.kde(t.tolist(), h)
    except statistics.StatisticsError as error:
        return t, str(error)
    return t * f(2.0), round(f(100.0), 6)


@documented(
    "library/statistics: kde_random() with a seed repeats its numbers",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def smoothed_randomly(t, seed):
    draw = statistics.kde_random(t.tolist(), h=1.5, seed=seed)
    values = [draw() for _ in range(3)]
    return t * torch.tensor(values).sum(), values, random.random()


@documented(
    "library/queue: a queue that was shut down gives what is left, then raises",
    lambda: [(x(), 2, False), (x(), 2, True), (x(2), 0, False), (x(2), 1, True)],
)
def shut_queues(t, n, at_once):
    q: queue.Queue = queue.Queue()
    for i in range(n):
        q.put(t * i)
    q.shutdown(immediate=at_once)
    total = t
    try:
        while True:
            total = total + q.get()
    except queue.ShutDown as error:
        return total, type(error).__name__, attempt(lambda: q.put(1))


@documented(
    "library/base64: Z85 and its round trip over a tensor's bytes",
    lambda: [(x(),), (x(2),), (x(1),), (x(3),)],
)
def base_85(t):
    text = base64.z85encode(t.numpy().tobytes())
    back = torch.frombuffer(bytearray(base64.z85decode(text)), dtype=torch.float32)
    return t + back, text


@documented(
    "library/re: PatternError says where; positions of a match cut tensors",
    lambda: [(x(6), "a+"), (x(6), "(b"), (x(4), "c"), (x(4), "")],
)
def patterns(t, pattern):
    try:
        found = re.search(pattern, "baaac")
    except re.PatternError as error:
        return t, error.pos, error.msg
    return t[slice(*found.span())] * 2, found[0]


@documented(
    "library/glob: translate() makes patterns that name a model's parameters",
    lambda: [(x(), "*.weight"), (x(), "0.*"), (x(2), "**"), (x(2), "?.bias")],
)
def translated_globs(t, pattern):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False))
    matched = re.compile(glob.translate(pattern, include_hidden=True))
    names = [name for name, _ in model.named_parameters() if matched.match(name)]
    return t * len(names), names


@documented(
    "library/traceback: the text of a group with its exceptions, and the name of a type",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 3)],
)
def texts_of_groups(t, n):
    try:
        t = t * 2
        raise ExceptionGroup("g", [ValueError(i) for i in range(n + 1)])
    except ExceptionGroup as group:
        lines = traceback.format_exception_only(group, show_group=True)
        return t, lines, traceback.TracebackException.from_exception(group).exc_type_str


class Partial:
    scale = functools.partialmethod(lambda self, k, t: t * k * self.n, 2)
    n = 3


@documented(
    "library/functools: partialmethod in a class; partial in a class warns that it will be a method",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def partial_methods(t, n):
    class Inner(Partial):
        bare = functools.partial(lambda *args: len(args), 1)

    made = Inner()
    made.n = n
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        return made.scale(t), made.bare(5), Inner.bare(5)


class Narrow(typing.TypedDict):
    name: typing.ReadOnly[str]
    size: typing.NotRequired[int]


def is_sized(value: object) -> typing.TypeIs[torch.Tensor]:
    return hasattr(value, "shape")


@documented(
    "PEP 705, PEP 742: ReadOnly keys are written all the same; TypeIs functions give booleans",
    lambda: [(x(), {"name": "a"}), (x(), {"name": "b", "size": 2}), (x(2), {}), (x(2), {"name": None})],
)
def typed_narrowly(t, options):
    made: Narrow = Narrow(**options)
    made["name"] = "written"
    known = is_sized(t), is_sized(options)
    return t * made.get("size", 3), made, known, sorted(Narrow.__readonly_keys__), sorted(Narrow.__mutable_keys__)


@documented(
    "library/math: fma() in a loop, with infinities and what is invalid",
    lambda: [(x(), 0.1, 10.0), (x(), math.inf, 1.0), (x(2), math.inf, 0.0), (x(2), 1e308, 10.0)],
)
def fused_in_loops(t, a, b):
    try:
        value = -1.0
        for _ in range(3):
            value = math.fma(a, b, value)
        return t * value
    except (ValueError, OverflowError) as error:
        return t, str(error)


@documented(
    "library/contextlib: stacks of managers made in comprehensions unwind in their order",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def stacks(t, n):
    @contextlib.contextmanager
    def manager(i):
        log.append(i)
        yield i
        log.append(-i)

    with contextlib.ExitStack() as stack:
        values = [stack.enter_context(manager(i)) for i in range(n)]
        t = t * (1 + sum(values))
        rest = stack.pop_all()
    rest.close()
    return t, collections.Counter(itertools.chain(values, values))


@documented(
    "library/functions: a class method does not wrap other descriptors any more: a property below it is not asked",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def class_properties(t, n):
    class Model:
        @classmethod
        @property
        def width(cls):
            return n

        @classmethod
        def depth(cls):
            return n + 1

    return t * Model.depth(), type(Model.width).__name__, type(Model().width).__name__, attempt(Model.width)


@documented(
    "library/re: sub() and split() warn when count and maxsplit are given by their place, at each call",
    lambda: [(x(), 1), (x(), 1), (x(2), 1), (x(2), 2)],
)
def counts_by_place(t, n):
    text = re.sub("a", "b", "aaa", n)
    return t * len(re.split("a", "bab", n)), text, re.sub("a", "b", "aaa", count=n)
