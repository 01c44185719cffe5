"""PyTorch's compiled autograd with gramme as its compiler: the backward is one graph, with eager's gradients."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo import compiled_autograd

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.k = k
        return x.sin() * k

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * ctx.saved_tensors[0].cos() * ctx.k, None


def plain(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).sin().sum()


def with_a_hook(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = layer(x)
    y.register_hook(lambda g: g * 2)
    return (y * y).sum()


def with_a_function(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return Scaled.apply(layer(x), 0.5).sum()


def with_views(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    left, right = layer(x).chunk(2, -1)
    return (left * right.relu()).mean()


def gradients(
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor], rows: list[int], graphs: list[Any] | None
) -> Any:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        assert graphs is not None
        graphs.append(graph)
        return graph.forward

    def compiler(graph: torch.fx.GraphModule) -> Any:
        return gramme.compile(graph, backend=backend, fullgraph=True)

    for count in rows:
        value = loss(layer, torch.randn(count, 6))
        if graphs is None:
            value.backward()
        else:
            with compiled_autograd._enable(compiler):
                value.backward()
    return [parameter.grad for parameter in layer.parameters()]


@pytest.mark.parametrize("loss", [plain, with_a_hook, with_a_function, with_views])
def test_backward_is_one_graph(loss: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    rows = [5, 5, 5]
    found = gradients(loss, rows, graphs)
    torch.testing.assert_close(found, gradients(loss, rows, None), rtol=0, atol=0)
    assert 1 <= len(graphs) <= 2  # the first adds nothing to a gradient


def test_sizes_that_vary() -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    rows = [5, 7, 3, 6, 9]
    found = gradients(plain, rows, graphs)
    torch.testing.assert_close(found, gradients(plain, rows, None), rtol=0, atol=0)
    assert len(graphs) <= len(rows)
