"""From "What's New In Python 3.12" on PEP 695: generics, aliases, bounds and constraints around tensor work."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


def first_of[T](values: Sequence[T], default: T | None = None) -> T | None:
    return values[0] if values else default


@documented(
    "PEP 695: a generic function called in a loop with tensors, numbers and text",
    lambda: [(x(), [1, 2]), (x(), ["a"]), (x(2), []), (x(2), [x(2)])],
)
def called_for_several_types(t, values):
    for _ in range(2):
        t = t + first_of([t * 2, t])
    found = first_of(values, "nothing")
    return t, found, first_of((t,)) is t


class Pair[A, B: (int, float)]:
    def __init__(self, a: A, b: B) -> None:
        self.a, self.b = a, b

    def map[C](self, f: Callable[[A], C]) -> "Pair[C, B]":
        return Pair(f(self.a), self.b)


@documented(
    "PEP 695: a generic method of a generic class that makes another instance",
    lambda: [(x(), 2), (x(), 3), (x(2), 0.5), (x(2), "s")],
)
def mapped_pairs(t, k):
    pair = Pair(t, k).map(lambda v: v.sum()).map(lambda v: [v, v + 1])
    return pair.a[0] * 2, pair.a[1], pair.b, [p.__name__ for p in Pair.map.__type_params__]


@documented(
    "PEP 695: __orig_class__ of an instance made by a subscripted class",
    lambda: [(x(), int), (x(), str), (x(2), float), (x(2), int)],
)
def original_classes(t, kind):
    pair = Pair[torch.Tensor, kind](t, 1)
    plain = Pair(t * 2, 2)
    return pair.a + plain.a, str(pair.__orig_class__.__args__[1]), hasattr(plain, "__orig_class__")


@documented(
    "PEP 695: bound and constraints of a type parameter, evaluated when asked for and kept",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
    **cleared,
)
def kept_bounds(t, n):
    def noted(kind):
        log.append(kind.__name__)
        return kind

    def inner[T: noted(int), U: (noted(str), noted(bytes))](v: T) -> U:
        return v * n

    bound, constrained = inner.__type_params__
    t = inner(t)
    seen = [bound.__bound__ for _ in range(n)]
    return t, seen, constrained.__constraints__ if n == 2 else None


@documented(
    "PEP 695: a bound that names what is missing raises only when it is asked for",
    lambda: [(x(), True), (x(), False), (x(2), True), (x(2), False)],
)
def failing_bounds(t, ask):
    def inner[T: Missing](v: T) -> T:  # noqa: F821
        return v.sin()

    (parameter,) = inner.__type_params__
    try:
        return inner(t), parameter.__bound__ if ask else parameter.__name__
    except NameError as error:
        return inner(t) + 1, str(error)


@documented(
    "PEP 695: variance of type parameters is inferred, and says so in their text",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def inferred_variance(t, n):
    def inner[T, *Ts, **P](v: T) -> T:
        return v * n

    old = typing.TypeVar("old", covariant=True)
    return inner(t), [str(p) for p in inner.__type_params__], str(old), inner.__type_params__[0].__infer_variance__


type Nested = list[Nested] | float
type Chain[T] = T | tuple[T, Chain[T]]


def weigh(t: torch.Tensor, nested: Nested) -> torch.Tensor:
    if isinstance(nested, list):
        for item in nested:
            t = weigh(t, item)
        return t
    return t * nested


@documented(
    "PEP 695: a recursive alias annotates a recursive function",
    lambda: [(x(), [1.0, [2.0, [3.0]]]), (x(), 2.0), (x(2), []), (x(2), [[], [0.5]])],
)
def recursive_aliases(t, nested):
    return weigh(t, nested), Nested.__name__, str(Nested.__value__)


@documented(
    "PEP 695: a generic alias is subscripted; its value keeps its parameter",
    lambda: [(x(), int), (x(), str), (x(2), list[int]), (x(2), None)],
)
def subscripted_aliases(t, argument):
    made = Chain[argument]
    t = t * len(made.__args__)
    return t, made.__origin__ is Chain, str(made), Chain.__parameters__ == Chain.__type_params__


@documented(
    "PEP 695: an alias made in a loop sees what the loop's variable is when its value is asked for",
    lambda: [(x(), [int, str]), (x(), [float]), (x(2), []), (x(2), [int, int, bytes])],
)
def aliases_in_loops(t, kinds):
    made = []
    for kind in kinds:
        type Local = dict[str, kind]
        made.append(Local)
        t = t + 1
    return t, [str(alias.__value__) for alias in made], [alias.__name__ for alias in made]


@documented(
    "PEP 695: an alias is no class: isinstance() refuses it, isinstance() with its value does not",
    lambda: [(x(), 1), (x(), "s"), (x(2), 2.5), (x(2), None)],
)
def aliases_are_no_classes(t, value):
    type Number = int | float
    seen = isinstance(value, Number.__value__)
    try:
        return t * seen, isinstance(value, Number)
    except TypeError as error:
        return t - int(seen), seen, str(error)


class Outer:
    scale = 3

    class Inner[T]:
        kinds = [T, list[T]]

        def work(self, t: T) -> T:
            return t * Outer.scale

    def method[S](self, t: S, other: S | None = None) -> S:
        __class__  # noqa: B018
        return t if other is None else t + other


@documented(
    "PEP 695: a generic class in a class; a generic method that has a __class__ cell",
    lambda: [(x(), 1.0), (x(), None), (x(2), x(2)), (x(2), 0)],
)
def nested_generic_classes(t, other):
    inner = Outer.Inner()
    t = inner.work(t)
    return Outer().method(t, other), str(Outer.Inner.kinds), Outer.method.__qualname__, Outer.Inner.work.__qualname__


@documented(
    "PEP 695: generic classes of a loop are classes of their own, with parameters of their own",
    lambda: [(x(), 2), (x(), 3), (x(2), 1), (x(2), 0)],
)
def generic_classes_of_loops(t, n):
    kinds = []
    for i in range(n):

        class Scaled[T]:
            by = i + 1

            def apply(self, value: T) -> T:
                return value * self.by

        kinds.append(Scaled)
        t = Scaled().apply(t)
    return t, len({k.__type_params__ for k in kinds}), [k.by for k in kinds], [k.__qualname__ for k in kinds]


@dataclasses.dataclass(slots=True, order=True)
class Sized[T: (int, str)]:
    key: T
    weight: float = 1.0

    def grown(self) -> "Sized[T]":
        return dataclasses.replace(self, weight=self.weight * 2)


@documented(
    "PEP 695: a generic dataclass with slots is ordered, replaced and subscripted",
    lambda: [(x(), 1, 2), (x(), "b", "a"), (x(2), 3, 3), (x(2), 1, "a")],
)
def generic_dataclasses(t, a, b):
    first, second = Sized[int](a), Sized(b).grown()
    try:
        smaller = first < second
    except TypeError as error:
        smaller = str(error)
    return t * first.weight + second.weight, smaller, second, Sized.__slots__


class Sink[T](typing.Protocol):
    def put(self, value: T) -> None: ...


@typing.runtime_checkable
class Source[T](typing.Protocol):
    def get(self) -> T: ...


class Store[T]:
    def __init__(self, value: T) -> None:
        self.value = value

    def get(self) -> T:
        return self.value


@documented(
    "PEP 695: generic protocols; isinstance() asks for their members",
    lambda: [(x(), Store(2)), (x(), 3), (x(2), Store(x(2))), (x(2), None)],
)
def generic_protocols(t, value):
    if isinstance(value, Source):
        t = t * value.get()
    return t + 1, issubclass(Store, Source), Sink.__parameters__ == Sink.__type_params__


class Layer[T: torch.Tensor](torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((1,), factor))
        self.calls = 0

    def forward(self, value: T) -> T:
        self.calls += 1
        return value * self.weight


class Doubled(Layer[torch.Tensor]):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return super().forward(super().forward(value))


@documented(
    "PEP 695: subclasses of a generic module that call super() without arguments",
    lambda: [(x(), 2.0, 1), (x(), 3.0, 2), (x(2), 2.0, 0), (x(2), 0.5, 3)],
)
def generic_modules(t, factor, n):
    layer = Doubled(factor)
    for _ in range(n):
        t = layer(t)
    return t, layer.calls, [str(b) for b in Doubled.__orig_bases__]


def each[T, R](f: Callable[[T], R], values: Iterable[T]) -> Iterable[R]:
    for value in values:
        yield f(value)


@documented(
    "PEP 695: a generic generator function; its type parameters cost its frame nothing",
    lambda: [(x(), [1, 2, 3]), (x(), []), (x(2), [2.5]), (x(2), [x(2), 1])],
)
def generic_generators(t, values):
    total = t
    for product in each(lambda v: t * v, values):
        total = total + product
    return total, each.__type_params__[1].__name__, sum(1 for _ in each(str, values))


@documented(
    "PEP 695: a type parameter of a class is not seen as the class's attribute, yet by its methods",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def scopes_of_parameters(t, n):
    T = "outer"  # noqa: N806

    class Holder[T]:
        seen = T.__name__

        def method(self):
            return T

    inside = Holder().method()
    return t * n, T, Holder.seen, hasattr(Holder, "T"), type(inside).__name__, inside is Holder.__type_params__[0]


@documented(
    "PEP 695: decorators and defaults of a generic function are evaluated outside of its type scope",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def evaluated_outside(t, n):
    def doubled(f):
        log.append(f.__name__)
        return lambda *args: f(*args) * 2

    @doubled
    def inner[T](value: T, k: int = log.append("default") or n) -> T:
        return value + k

    return inner(t), inner(t, 5), list(log[-2:])
