"""torch.vmap around and inside captured functions: the thread is in no level that eager is not in."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._C._functorch import peek_interpreter_stack

from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="Dynamo leaves levels open where it fails")


def rows() -> torch.Tensor:
    return torch.arange(12.0).reshape(4, 3)


def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return torch.vmap(lambda row, i: row.gather(0, i.unsqueeze(0)))(x, index)


def test_a_graph_that_raises_inside() -> None:
    compiled = Compiled(pick, fullgraph=True)
    good, bad = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 7, 0])
    assert torch.equal(compiled(rows(), good), pick(rows(), good))
    x, y = rows(), rows()
    with pytest.raises((RuntimeError, IndexError)) as eager:
        pick(x, bad)
    with pytest.raises(eager.type) as captured:
        compiled(y, bad)
    assert str(captured.value) == str(eager.value)
    assert torch.equal(x, y)
    assert peek_interpreter_stack() is None
    assert torch.equal(compiled(rows(), good), pick(rows(), good))


def fails_in_inference(x: torch.Tensor) -> torch.Tensor:
    def outer(row: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda a: a.reshape(5))(row)

    return torch.vmap(outer)(x.unsqueeze(2))


def test_an_inference_that_raises_inside() -> None:
    compiled = Compiled(fails_in_inference)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="reshape|shape"):
            compiled(rows())
        assert peek_interpreter_stack() is None


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def mapped(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(twice)(x)


def squared(x: torch.Tensor) -> torch.Tensor:
    return (x**2).sum()


TRANSFORMS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (torch.vmap, twice),
    (torch.vmap, squared),
    (lambda f: torch.vmap(torch.vmap(f)), mapped),
    (torch.func.grad, squared),
]


@pytest.mark.parametrize(("transform", "function"), TRANSFORMS)
@pytest.mark.parametrize("warm", [False, True])
def test_a_compiled_function_inside_a_transform(
    transform: Callable[..., Any], function: Callable[..., Any], warm: bool
) -> None:
    compiled = Compiled(function, fullgraph=True)
    x = rows() if function is squared or transform is torch.vmap else rows().reshape(2, 2, 3, 1)
    if warm:
        assert torch.equal(compiled(rows()), function(rows()))
    for _ in range(3):
        assert torch.equal(transform(compiled.call)(x), transform(function)(x))
    if warm:
        hits = compiled.hits
        assert torch.equal(compiled(rows()), function(rows()))
        assert hits is not None
        assert compiled.hits == hits + 1


def test_a_number_of_rows_that_changes() -> None:
    compiled = Compiled(mapped, fullgraph=True)
    for n in (2, 3, 3, 1, 0):
        x = torch.ones(n, 2)
        assert torch.equal(compiled(x), mapped(x))
