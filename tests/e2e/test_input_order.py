"""Graph inputs come in the order in which PyTorch's front end first looks at tensors, often before they are used."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from e2e.nested_text import Shown

PROGRAMS: list[Callable[..., Any]] = []


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


class Kept:
    def __init__(self, *items: Any) -> None:
        self.items = items


class OwnList(list[Any]):
    pass


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.ones(3) * 2)


LAYER, LISTED = Layer(), nn.ParameterList([torch.ones(3), torch.ones(3) * 2])
KEPT, FREE = Kept(), Kept()
KEPT.first, KEPT.second = torch.ones(3), torch.ones(3) + 1  # type: ignore[attr-defined]


# ---- functions made in the program: what their cells and defaults hold, up to the first that is no constant


@program
def cell(x: Any, y: Any) -> Any:
    inner = lambda a: a.sin() + y
    return inner(x)


@program
def only_the_first_cell(x: Any, y: Any, z: Any) -> Any:
    inner = lambda a: a.sin() + z + y
    return inner(x)


@program
def constants_before(x: Any, y: Any) -> Any:
    a, b, sine = 3, [1, (2, "c")], torch.sin
    inner = lambda t: sine(t) * a + y * b[0]
    return inner(x)


@program
def a_list_of_tensors_before(x: Any, y: Any, z: Any) -> Any:
    a = [y, z]
    inner = lambda t: t.sin() * z + a[0]
    return inner(x)


@program
def an_object_before(x: Any, y: Any) -> Any:
    a = Kept(3)
    inner = lambda t: t.sin() + y * a.items[0]
    return inner(x)


@program
def function_in_a_cell(x: Any, y: Any) -> Any:
    inner = lambda a: a * y
    outer = lambda a: a.sin() + inner(a)
    return outer(x)


@program
def itself_in_a_cell(x: Any, y: Any) -> Any:
    def again(a: Any, n: int) -> Any:
        return a if n == 0 else again(a.sin(), n - 1) + y

    return again(x, 2)


@program
def default(x: Any, y: Any) -> Any:
    inner = lambda a, b=y: a.sin() + b
    return inner(x)


@program
def keyword_default(x: Any, y: Any) -> Any:
    def inner(a: Any, *, k: int = 2, b: Any = y) -> Any:
        return a.sin() + b * k

    return inner(x)


@program
def partial(x: Any, y: Any) -> Any:
    return functools.partial(lambda a: a.sin() + y, x)()


@program
def called_by_map(x: Any, y: Any) -> Any:
    return next(map(lambda a: a.sin() + y, [x]))


@program
def decorated(x: Any, y: Any) -> Any:
    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(f)(lambda *args: f(*args))

    @decorate
    def inner(a: Any) -> Any:
        return a.cos() * y

    return inner(x)


@program
def comprehension(x: Any, y: Any) -> Any:
    return [a.cos() * y for a in [x, x]]


@program
def generators_are_not_asked(x: Any, y: Any) -> Any:
    def items(a: Any) -> Iterator[Any]:
        yield a.cos()
        yield y

    return list(items(x))


@program
def context_manager(x: Any, y: Any) -> Any:
    @contextmanager
    def entered() -> Iterator[Any]:
        yield y

    with entered() as t:
        return x.cos() * t


@program
def vmap(x: Any, y: Any, z: Any) -> Any:
    return torch.func.vmap(lambda a, b: (a * b * y).sum())(x, z)


@program
def grad(x: Any, y: Any) -> Any:
    return torch.func.grad(lambda a: (a * y).sum())(x)


@program
def arguments_of_an_operator_before_its_function(x: Any, y: Any, z: Any) -> Any:
    return checkpoint(lambda a: a.sin() * z * KEPT.first * y, x, use_reentrant=False)  # type: ignore[attr-defined]


# ---- variables of cells, where they are loaded


@program
def loaded_from_a_cell(x: Any, y: Any) -> Any:
    inner = lambda a: a + y
    pair = [y, x]
    return pair[1].sin() + inner(pair[0])


@program
def passed_from_a_cell(x: Any, y: Any) -> Any:
    inner = lambda a: a + y
    swap = lambda a, b: b * 2 - a
    return swap(y, x) + inner(x)


# ---- arguments of classes, up to the first that is no constant


@program
def argument_of_a_class(x: Any, y: Any) -> Any:
    return x + Kept(2, y).items[1]


@program
def only_the_first_argument(x: Any, y: Any, z: Any) -> Any:
    kept = Kept(z, y)
    return x.sin() * kept.items[1] + kept.items[0]


@program
def item_of_an_argument(x: Any, y: Any) -> Any:
    return x + OwnList([y])[0]


@program
def argument_of_an_exception(x: Any, y: Any) -> Any:
    try:
        raise ValueError(y)
    except ValueError as error:
        return x + error.args[0]


# ---- attributes


@program
def attributes_are_not_looked_at(x: Any) -> Any:
    second = KEPT.second  # type: ignore[attr-defined]
    return x * KEPT.first + second  # type: ignore[attr-defined]


@program
def parameters_are(x: Any) -> Any:
    weight = LAYER.weight
    return x * LAYER.scale + weight


@program
def parameters_by_getattr(x: Any) -> Any:
    scale = getattr(LAYER, "scale")  # noqa: B009
    return x * LAYER.weight + scale


@program
def parameters_in_a_list(x: Any) -> Any:
    first = LISTED[0]
    return x.sin() + LISTED[1] * first


@program
def set_attribute(x: Any, y: Any) -> Any:
    FREE.there = y  # type: ignore[attr-defined]
    return x.sin() + FREE.there  # type: ignore[attr-defined]


def graph_of(front: Callable[..., Any], function: Callable[..., Any]) -> list[str]:
    shown = Shown()
    torch._dynamo.reset()
    given = [torch.arange(3.0) + i for i in range(function.__code__.co_argcount)]
    front(function, backend=shown, fullgraph=True)(*given)
    (graph,) = shown.graphs
    return graph


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_graph_is_pytorchs(function: Callable[..., Any]) -> None:
    assert graph_of(gramme.compile, function) == graph_of(torch.compile, function)


def test_looks_leave_no_guards() -> None:
    """A tensor that is shown and not used may be another one in the next call."""

    @gramme.compile
    def compiled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kept = Kept(y)
        inner = lambda a: a + 1 if a is not None else (y, kept)
        return inner(x)

    for size in (1, 2, 3):
        torch.testing.assert_close(compiled(torch.ones(3), torch.ones(size)), torch.full((3,), 2.0))
    assert gramme.statistics(compiled).captures == 1


def test_what_is_found_in_itself() -> None:
    """And what is too deep to be looked through."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        around: list[Any] = []
        around.append(around)
        deep: list[Any] = []
        for _ in range(400):
            deep = [deep, deep]
        return x + Kept(around).items[0][0][0].count(1) + len(Kept(deep, y).items[0]) + y

    compiled = gramme.compile(function, backend="eager")
    x, y = torch.arange(3.0), torch.ones(3)
    torch.testing.assert_close(compiled(x, y), function(x, y))
