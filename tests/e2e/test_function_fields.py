"""What functions made inside compiled code carry besides code: annotations, what makes them, type parameters."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


def annotated(x: torch.Tensor) -> Any:
    def inner(a: int, *b: str, c: float = 3.0, **k: bool) -> float:
        return a + c

    return x + inner(2)


def given_out(x: torch.Tensor) -> Any:
    def inner(a: int, b: "list[int]") -> None:
        return None

    return x + 1, inner


def annotations_read(x: torch.Tensor) -> Any:
    def inner(a: int, b: float) -> None:
        return None

    return x + len(inner.__annotations__), sorted(inner.__annotations__)


def annotations_written(x: torch.Tensor) -> Any:
    def inner(a: int) -> None:
        return None

    inner.__annotations__ = {"a": float}
    return x * 2, inner


def wrapped(x: torch.Tensor) -> Any:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def around(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) + 1

        return around

    @decorate
    def inner(a: torch.Tensor) -> torch.Tensor:
        """Text of its own."""
        return a.sin()

    return inner(x), inner.__name__, inner.__doc__


def wraps_one_from_before(x: torch.Tensor) -> Any:
    @functools.wraps(annotated)
    def around(y: torch.Tensor) -> torch.Tensor:
        return y.cos()

    return around(x), around.__name__


def in_closure(x: torch.Tensor) -> Any:
    kind = type(x)

    def inner(a: kind) -> kind:  # type: ignore[valid-type]
        return a + 1

    return inner(x), inner


PROGRAMS = (
    annotated,
    given_out,
    annotations_read,
    annotations_written,
    wrapped,
    wraps_one_from_before,
    in_closure,
)


def shown(result: Any) -> Any:
    if isinstance(result, tuple):
        return [shown(item) for item in result]
    if callable(result) and not isinstance(result, type):
        fields = ("__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__")
        return [getattr(result, field, None) for field in fields]
    return result.tolist() if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_equals_eager_in_one_graph(program: Callable[[torch.Tensor], Any]) -> None:
    x = torch.linspace(-1, 1, 5)
    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert shown(compiled(x)) == shown(program(x))
    assert gramme.statistics(compiled).captures == 1


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are made when a function is")
def test_annotations_that_are_made_late() -> None:
    def inner(x: torch.Tensor) -> Any:
        def made(a: unknown_name) -> None:  # type: ignore[name-defined]  # noqa: F821
            return None

        return x + 1, made

    _, made = gramme.compile(inner, backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(NameError, match="unknown_name"):
        made.__annotations__  # noqa: B018
    assert callable(made.__annotate__)
