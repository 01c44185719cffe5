"""Classes with annotations and methods: made inside, and asked for their annotations, which 3.14 makes late."""

import typing
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

BACKENDS = ["eager", "native"]
X = torch.arange(3.0)
T = typing.TypeVar("T")


def plain(x: torch.Tensor) -> Any:
    class Made:
        def go(self) -> Any:
            return x * 2

    return Made().go(), Made


def annotated(x: torch.Tensor) -> Any:
    class Made:
        kind = int
        size: kind = 3  # type: ignore[valid-type]

        def go(self, y: kind) -> kind:  # type: ignore[valid-type]
            return x * self.size + y

    return Made().go(1), Made


def with_a_method_that_names_the_class(x: torch.Tensor) -> Any:
    class Made:
        kind = int

        def go(self, y: kind = 2) -> kind:  # type: ignore[valid-type]
            return x * __class__.kind(y)  # type: ignore[name-defined] # noqa: F821

    return Made().go(), Made


def one_in_the_other(x: torch.Tensor) -> Any:
    class Made:
        kind = int

        class Inner:
            size: "int" = 4

            def go(self) -> Any:
                return x + self.size

        def go(self, y: kind = 2) -> Any:  # type: ignore[valid-type]
            return self.Inner().go() * y

    return Made().go(), Made


def outcome(made: type) -> Any:
    """Late annotations see what the class has by then."""
    before = dict(typing.cast(Any, made.go).__annotations__)
    if hasattr(made, "kind"):
        made.kind = str
    return before, dict(made.__annotations__), sorted(vars(made)), made.__qualname__


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [plain, annotated, with_a_method_that_names_the_class, one_in_the_other])
def test_made_in_a_graph(program: Callable[..., Any], backend: str) -> None:
    expected, eager = program(X)
    seen = outcome(eager)
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        result, made = compiled(X)
        assert torch.equal(result, expected)
        assert outcome(made) == seen


def test_only_the_annotations_are_kept() -> None:
    def program(x: torch.Tensor) -> Any:
        class Made:
            kind = int

            def go(self, y: kind) -> Any:  # type: ignore[valid-type]
                return x

        return x + 1, Made.go

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        result, function = compiled(X)
        assert torch.equal(result, X + 1)
        assert function.__annotations__ == program(X)[1].__annotations__


class Annotated:
    size: int = 3


class Below(Annotated):
    pass


class Other:
    pass


@pytest.mark.parametrize("cls", [Annotated, Below, Other])
def test_asked_for_in_a_graph(cls: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            names = sorted(cls.__annotations__)
        except AttributeError:
            return x - 1
        return x + len(names), names

    compiled = gramme.compile(program, backend="eager")
    for changed in ({}, {"a": int}, {"a": int, "b": str}, {}):
        cls.__annotations__ = dict(changed)
        for _ in range(2):
            result, names = compiled(X)
            assert torch.equal(result, X + len(changed))
            assert names == sorted(changed)


@pytest.mark.filterwarnings("ignore:gramme hit the recompile limit")
def test_asked_for_before_they_are_made() -> None:
    def program(x: torch.Tensor, cls: Any) -> Any:
        return x + len(cls.__annotations__), sorted(cls.__annotations__)

    compiled = gramme.compile(program, backend="eager")
    for _ in range(3):
        cls = type("Made", (), {})
        assert compiled(X, cls)[1] == []
        cls.__annotations__ = {"a": int}
        assert compiled(X, cls)[1] == ["a"]

        class Here:
            a: int
            b: str

        assert compiled(X, Here)[1] == ["a", "b"]


class Holder(typing.Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value

    def doubled(self) -> Any:
        return self.value * 2  # type: ignore[operator]


class Slotted(typing.Generic[T]):
    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


@pytest.mark.parametrize("backend", BACKENDS)
def test_instances_of_generic_classes(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        made, slotted = Holder(x + 1), Slotted[int](3)
        return made.doubled() * slotted.value, made, slotted

    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        result, made, slotted = compiled(X)
        assert torch.equal(result, (X + 1) * 6)
        assert torch.equal(made.value, X + 1)
        assert type(made) is Holder
        assert (type(slotted), slotted.value) == (Slotted, 3)
