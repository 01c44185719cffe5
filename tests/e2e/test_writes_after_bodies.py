"""A tensor that an operator with a function took is written afterwards, and gradients are computed."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.wrap import wrap
from torch.utils.checkpoint import checkpoint


@torch.compiler.nested_compile_region
def region(a: torch.Tensor) -> torch.Tensor:
    return a * 2 + 1


def of_region(x: torch.Tensor) -> Any:
    y = x * 1
    result = region(y)
    y.add_(1)
    return result, y


def of_region_by_a_view(x: torch.Tensor) -> Any:
    y = x * 1
    result = region(y[1:])
    y[0] = 3.0
    return result, y


def of_checkpoint(x: torch.Tensor) -> Any:
    y = x.detach() * 1
    result = checkpoint(lambda a: a * y, x, use_reentrant=False)
    y.add_(1)
    return result, y


def of_checkpoint_used_later(x: torch.Tensor) -> Any:
    y = x * 1
    result = checkpoint(lambda a: a.sin() * 2, x, use_reentrant=False)
    result.add_(y)
    return result, y


def of_wrap(x: torch.Tensor) -> Any:
    y = x * 1
    result = wrap(lambda a: a * 3, y)
    y.mul_(2)
    return result, y


def of_cond(x: torch.Tensor) -> Any:
    y = x.detach() * 1
    result = torch.cond(x.sum() > 0, lambda a: a + y, lambda a: a - y, (x,))
    return result, y


def of_cond_that_is_written(x: torch.Tensor) -> Any:
    result = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
    result.add_(1)
    return result, x


def of_loop(x: torch.Tensor) -> Any:
    y = x * 1
    _, result = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5), (torch.tensor(0), y))
    y.add_(1)
    return result, y


def raises_map(x: torch.Tensor) -> Any:
    y = x * 1
    result = hop_map(lambda a: a * a, y)
    y.add_(1)
    return result, y


def raises_cond(x: torch.Tensor) -> Any:
    y = x * 1
    result = torch.cond(y.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))
    y.add_(1)
    return result, y


def raises_checkpoint(x: torch.Tensor) -> Any:
    y = x * 1
    result = checkpoint(lambda a: a.sin(), y, use_reentrant=False)
    y.add_(1)
    return result, y


def outcome(function: Callable[..., Any]) -> Any:
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    results = function(x)
    try:
        (gradient,) = torch.autograd.grad(sum(each.sum() for each in results), x)
    except RuntimeError as error:
        return [each.tolist() for each in results], "modified by an inplace operation" in str(error)
    return [each.tolist() for each in results], gradient.tolist()


SAME = [of_region, of_region_by_a_view, of_checkpoint, of_checkpoint_used_later, of_wrap, of_cond]
SAME += [of_cond_that_is_written, of_loop, raises_cond, raises_checkpoint]


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("function", SAME)
def test_like_eager(function: Callable[..., Any], backend: str) -> None:
    assert outcome(gramme.compile(function, backend=backend)) == outcome(function)


def test_compilers_leave_a_map_to_eager() -> None:
    assert outcome(gramme.compile(raises_map, backend="aot_eager")) == outcome(raises_map)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("function", [of_region, of_region_by_a_view, of_wrap, raises_cond, raises_checkpoint])
def test_without_gradients_in_one_graph(function: Callable[..., Any], backend: str) -> None:
    x = torch.tensor([0.5, 1.0, 2.0])
    found = gramme.compile(function, backend=backend, fullgraph=True)(x)
    assert [each.tolist() for each in found] == [each.tolist() for each in function(x)]


def test_scan_of_rows() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 1
        carry, rows = scan(lambda c, row: (c + row, row * 2), torch.zeros(()), y)
        y.add_(1)
        return carry, rows, y

    assert outcome(gramme.compile(function, backend="aot_eager")) == outcome(function)
