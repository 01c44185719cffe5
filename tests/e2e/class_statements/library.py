"""Classes of abc, enum, dataclasses, typing and torch."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import abc
import dataclasses
import enum
import typing

import torch

from e2e.class_statements.common import Registered, caught, program


@program
def abstract_classes(x, log):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self, t): ...

        @property
        @abc.abstractmethod
        def p(self): ...

    class B(A):
        p = 3

    class C(B):
        def f(self, t):
            return t + self.p

    return C().f(x), caught(A, log), caught(B, log), sorted(B.__abstractmethods__)


@program
def enumerations(x, log):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        @property
        def twice(self):
            return self.value * 2

    def twice():
        class A(enum.Enum):
            a = 1
            a = 2

    def extended():
        class A(Color):
            GREEN = 3

    def unique():
        @enum.unique
        class A(enum.Enum):
            a = 1
            b = 1

    def mixed():
        class A(str, enum.Enum):
            a = 1, 2, 3, 4

    return x + Color.BLUE.twice, [caught(make, log) for make in (twice, extended, unique, mixed)]


@program
def data_classes(x, log):
    @dataclasses.dataclass
    class A:
        a: int
        b: torch.Tensor = None

    def order():
        @dataclasses.dataclass
        class B:
            a: int = 1
            b: int

    def mutable():
        @dataclasses.dataclass
        class B:
            a: list = []

    def frozen():
        @dataclasses.dataclass(frozen=True)
        class B(A):
            pass

    def slots():
        @dataclasses.dataclass(slots=True)
        class B:
            __slots__ = ("a",)
            a: int

    def compared():
        @dataclasses.dataclass(order=True, eq=False)
        class B:
            a: int

    made = A(2, x)
    return made.b * made.a, [caught(make, log) for make in (order, mutable, frozen, slots, compared)]


@program
def typed_classes(x, log):
    class P(typing.NamedTuple):
        a: torch.Tensor
        b: int = 2

    class M(typing.TypedDict):
        a: int

    class Proto(typing.Protocol):
        def f(self): ...

    def order():
        class Q(typing.NamedTuple):
            a: int = 1
            b: int

    def replaced():
        class Q(typing.NamedTuple):
            a: int

            def __new__(cls): ...

    def protocol():
        return Proto()

    def typed():
        class N(M, Registered):
            pass

    made = P(x)
    wrong = [caught(make, log) for make in (order, replaced, protocol, typed)]
    return made.a * made.b, P._field_defaults, M(a=1), wrong


@program
def generic_classes(x, log):
    T = typing.TypeVar("T")  # noqa: N806

    class Box(typing.Generic[T]):
        def __init__(self, t):
            self.t = t

    class Ints(Box[int]):
        pass

    def plain():
        class A(typing.Generic):
            pass

    def twice():
        class A(typing.Generic[T], typing.Generic[T]):
            pass

    def extra():
        return Ints[int]

    def number():
        return Box[int, str]

    return Ints(x).t + 1, Ints.__orig_bases__[0].__args__, [caught(f, log) for f in (plain, twice, extra, number)]


@program
def modules_and_functions_of_torch(x, log):
    class Layer(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, t):
            return t * self.n

    class Without(torch.nn.Module):
        def __init__(self):
            self.layer = Layer(2)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Layer(3)(x) + Twice.apply(x), caught(Without, log)
