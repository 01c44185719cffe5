"""`x.data = y` where y is what x has already: nothing happens, so the graph goes on."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import Tensor, nn

WHOLE: list[Callable[[nn.Linear, Tensor], Any]] = []
IN_PIECES: list[Callable[[nn.Linear, Tensor], Any]] = []


def whole(function: Callable[[nn.Linear, Tensor], Any]) -> Callable[[nn.Linear, Tensor], Any]:
    WHOLE.append(function)
    return function


def in_pieces(function: Callable[[nn.Linear, Tensor], Any]) -> Callable[[nn.Linear, Tensor], Any]:
    """Where the memory is, or may be, another one."""
    IN_PIECES.append(function)
    return function


@whole
def moved_to_where_it_is(m: nn.Linear, x: Tensor) -> Any:
    m.weight.data = m.weight.data.to(x.device)
    m.bias.data = m.bias.data.type_as(x)
    return m(x), m.weight.is_leaf


@whole
def view_of_all(m: nn.Linear, x: Tensor) -> Any:
    m.weight.data = m.weight.detach().view(-1).view(2, 2)
    return m.weight * x, m.weight.grad_fn is None


@whole
def itself(m: nn.Linear, x: Tensor) -> Any:
    x = x * 2
    x.data = x
    return m(x), x.requires_grad


@whole
def written_through_both(m: nn.Linear, x: Tensor) -> Any:
    y = x + 1
    kept = y.data
    kept.add_(1)
    y.data = kept
    kept.mul_(3)
    return y * m.bias, kept


@in_pieces
def other_memory_between(m: nn.Linear, x: Tensor) -> Any:
    kept = m.weight.data
    m.weight.data = x * 2
    m.weight.data = kept
    return m(x)


@in_pieces
def set_between(m: nn.Linear, x: Tensor) -> Any:
    y = x + 1
    kept = y.data
    y.set_(x * 5)
    y.data = kept
    return y * 2, kept


@in_pieces
def copied(m: nn.Linear, x: Tensor) -> Any:
    m.weight.data = m.weight.data.clone()
    return m(x)


@in_pieces
def transposed(m: nn.Linear, x: Tensor) -> Any:
    m.weight.data = m.weight.data.t()
    return m(x)


@in_pieces
def behind_the_first(m: nn.Linear, x: Tensor) -> Any:
    y = torch.arange(4.0)[:2]
    y.data = torch.arange(4.0)[1:3]
    return y * x, m.bias + 0


def outcome(function: Callable[..., Any], run: Callable[..., Any], calls: int) -> list[Any]:
    torch.manual_seed(0)
    model, x = nn.Linear(2, 2), torch.randn(2, 2)
    address = model.weight.data_ptr()
    found: list[Any] = []
    for _ in range(calls):
        results = run(model, x)
        leaves = [part for part in (results if isinstance(results, tuple) else (results,)) if isinstance(part, Tensor)]
        for loss in (leaf.sum() for leaf in leaves if leaf.requires_grad):
            loss.backward()
        stays = function in IN_PIECES or model.weight.data_ptr() == address  # else an address may be taken again
        found.append((results, [p.grad.clone() for p in model.parameters() if p.grad is not None], x.clone(), stays))
    return found


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("function", WHOLE + IN_PIECES, ids=lambda function: function.__name__)
def test_equals_eager(function: Callable[..., Any], backend: str) -> None:
    fullgraph = function in WHOLE
    compiled = gramme.compile(function, backend=backend, fullgraph=fullgraph)
    expected = outcome(function, function, 3)
    torch.testing.assert_close(outcome(function, compiled, 3), expected, rtol=0, atol=0)
    if fullgraph:
        assert gramme.statistics(compiled).captures == 1


@pytest.mark.parametrize("function", IN_PIECES, ids=lambda function: function.__name__)
def test_other_memory_is_an_effect(function: Callable[..., Any]) -> None:
    explained = gramme.explain(function)(nn.Linear(2, 2), torch.randn(2, 2))
    assert explained.graph_break_count > 0
