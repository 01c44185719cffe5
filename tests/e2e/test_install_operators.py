"""Operators that PyTorch compiles to run them eagerly: under gramme.install() they give what they give without it."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._higher_order_ops import map as map_
from torch._higher_order_ops import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention

from e2e.front import GRAMME

if not GRAMME:
    pytest.skip("gramme.install", allow_module_level=True)

import gramme


@pytest.fixture
def installed() -> Iterator[None]:
    torch._dynamo.reset()
    with gramme.install():
        yield
    torch._dynamo.reset()


def conditional(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


def mapped(x: torch.Tensor) -> Any:
    return map_(lambda row, y: row * 2 + y, x, x.sum(0))


def scanned(x: torch.Tensor) -> Any:
    return scan(lambda carry, row: (carry + row, carry * row), x.sum(0), x, dim=0)


def looped(x: torch.Tensor) -> Any:
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def attended(x: torch.Tensor) -> Any:
    q = x[None, None]
    return flex_attention(q, q + 1, q * 2, lambda score, b, h, i, j: score + (i - j))


OPERATORS: list[Callable[[torch.Tensor], Any]] = [conditional, mapped, scanned, looped, attended]


def leaves(value: Any) -> list[torch.Tensor]:
    return [t for item in value for t in leaves(item)] if isinstance(value, (list, tuple)) else [value]


def inputs() -> list[torch.Tensor]:
    x = torch.linspace(-1, 2, 128).view(16, 8)
    return [x, -x, x[:8].contiguous()]


def same(found: Any, expected: Any) -> bool:
    pairs = zip(leaves(found), leaves(expected), strict=True)
    return type(found) is type(expected) and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_eagerly(operator: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    expected = [operator(x) for x in inputs()]
    torch._dynamo.reset()
    with gramme.install():
        for x, wanted in zip(inputs(), expected, strict=True):
            assert same(operator(x), wanted)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_in_compiled_code(operator: Callable[..., Any], installed: None) -> None:
    def around(x: torch.Tensor) -> Any:
        return operator(x + 1), x * 2

    compiled = torch.compile(around, backend="eager")
    for x in inputs()[:2]:
        assert same(compiled(x), around(x))
    assert gramme.statistics(compiled).captures > 0


def test_gradients(installed: None) -> None:
    x, y = (inputs()[0].requires_grad_() for _ in range(2))
    conditional(x).sum().backward()
    (y.sin() + 1).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert torch.equal(x.grad, y.grad)


@pytest.mark.filterwarnings("ignore:gramme hit the recompile limit")
@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, sys.maxsize, 2**80, 0])
def test_a_recompile_limit_of_any_size(limit: int, installed: None) -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager", recompile_limit=limit)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert gramme.statistics(compiled).captures == int(limit > 0)


def test_a_negative_recompile_limit(installed: None) -> None:
    with pytest.raises(ValueError, match="recompile_limit: expected 0 or more, got -1"):
        torch.compile(lambda x: x + 1, backend="eager", recompile_limit=-1)


def test_the_limit_of_torchs_settings(installed: None) -> None:
    with torch._dynamo.config.patch(recompile_limit=sys.maxsize):
        compiled = torch.compile(lambda x: x + 1, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert gramme.statistics(compiled).captures == 1
