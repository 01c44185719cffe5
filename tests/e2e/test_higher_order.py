"""Operators that take functions: bodies as graphs of their own, what goes into them and what comes out."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._higher_order_ops.wrap import wrap

from e2e.nested_text import Shown

BACKENDS = ["eager", "native", "aot_eager"]
outside = torch.arange(3.0)


def operands_and_closure(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x + outside
    result = wrap(lambda a, *, b: ({"s": a + b * y}, [a.sin() + w]), x, b=2.0)
    return result[0]["s"] * 2, result[1][0]


def nested(x: torch.Tensor, y: torch.Tensor) -> Any:
    def inner(a: torch.Tensor) -> torch.Tensor:
        return wrap(lambda b: (b + x).cos() * y, a) * 2

    return wrap(inner, x + 1) + 1


def tensor_that_is_not_returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    log = []

    def body(a: torch.Tensor) -> torch.Tensor:
        log.append(a.sin())
        return log[0] * y

    return wrap(body, x), log[0] + 1


def tensor_of_a_body_in_a_body(x: torch.Tensor, y: torch.Tensor) -> Any:
    kept = []

    def inner(a: torch.Tensor) -> torch.Tensor:
        kept.append(a * 3)
        return a + y

    return wrap(lambda a: wrap(inner, a) * 2, x), kept[0] - 1


def number_of_a_size(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = x.shape[0] * 2
    return wrap(lambda a: a * n + y.shape[0], x)


def write_to_an_intermediate(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x * 1
    return wrap(lambda a: a.add_(y), z) * 2, z


def write_to_an_input(x: torch.Tensor, y: torch.Tensor) -> Any:
    return wrap(lambda a: a.mul_(y) + 1, x), x + 0


def input_returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    result = wrap(lambda a: (a, a + y), x)
    return result[0] is x, result[1]


def view_returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x + y
    result = wrap(lambda a: a[1:], z)
    result.add_(1)
    return z, result


PROGRAMS = [
    operands_and_closure,
    nested,
    tensor_that_is_not_returned,
    tensor_of_a_body_in_a_body,
    number_of_a_size,
    write_to_an_intermediate,
    write_to_an_input,
    input_returned,
    view_returned,
]


def arguments(size: int) -> list[torch.Tensor]:
    return [torch.linspace(-1, 2, size) if size == 3 else torch.linspace(0, 1, size), torch.full((size,), 0.5)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_body_gives_what_the_call_gives(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        mine, own = arguments(3), arguments(3)
        want, got = program(*own), compiled(*mine)
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        torch.testing.assert_close(mine, own, rtol=0, atol=0)


def test_sizes_that_vary_go_into_bodies() -> None:
    shown = Shown()
    compiled = gramme.compile(number_of_a_size, backend=shown, fullgraph=True)
    for size in (3, 4, 5, 6, 7):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(compiled(x, y), number_of_a_size(x, y), rtol=0, atol=0)
    assert len(shown.graphs) == 2


@pytest.mark.parametrize("front", [gramme.compile, torch.compile])
def test_graph_of_graphs(front: Callable[..., Any]) -> None:
    shown = Shown()
    front(nested, backend=shown, fullgraph=True)(*arguments(3))
    assert shown.graphs == [
        [
            "l_x_ = L_x_",
            "l_y_ = L_y_",
            "add = operator.add(l_x_, 1)",
            "wrap_body_1 = self.wrap_body_1",
            "    add",
            "    l_x_",
            "    l_y_",
            "    wrap_body_0 = self.wrap_body_0",
            "        add",
            "        l_x_",
            "        l_y_",
            "        add_1 = operator.add(add, l_x_)",
            "        cos = .cos(add_1)",
            "        mul = operator.mul(cos, l_y_)",
            "        return (mul,)",
            "    wrap = HOP wrap(wrap_body_0, add, l_x_, l_y_)",
            "    getitem = operator.getitem(wrap, 0)",
            "    mul = operator.mul(getitem, 2)",
            "    return (mul,)",
            "wrap = HOP wrap(wrap_body_1, add, l_x_, l_y_)",
            "getitem = operator.getitem(wrap, 0)",
            "add_1 = operator.add(getitem, 1)",
            "return (add_1,)",
        ]
    ]


def test_body_that_breaks_is_called_for_real() -> None:
    printed: list[int] = []

    def body(a: torch.Tensor) -> torch.Tensor:
        gramme.graph_break()
        printed.append(1)
        return a.sin()

    def program(x: torch.Tensor) -> torch.Tensor:
        return wrap(body, x + 1) * 2

    x = torch.ones(3)
    compiled = gramme.compile(program, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(x), (x + 1).sin() * 2, rtol=0, atol=0)
    assert len(printed) == 3
