"""Full backward hooks of modules under compiled autograd: nodes of the graph, as with PyTorch's front end."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo import compiled_autograd

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts graphs of gramme")

Log = list[Any]


class Pair(nn.Module):
    """Takes and gives several, of which some are no tensors or need no gradient."""

    def forward(self, x: torch.Tensor, k: float, mask: torch.Tensor) -> Any:
        return x.tan() * k, mask + 1, x * mask


class Breaks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y * 2


def net(inner: nn.Module, log: Log) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), inner, nn.Linear(4, 4))


def scales(log: Log) -> nn.Module:
    made = net(nn.Tanh(), log)
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return made


def scales_before(log: Log) -> nn.Module:
    made = net(nn.Tanh(), log)
    made[1].register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    return made


def appends(log: Log) -> nn.Module:
    made = net(nn.Tanh(), log)
    made[1].register_full_backward_hook(lambda m, i, o: log.append((type(m).__name__, i, o)))
    made[1].register_full_backward_pre_hook(lambda m, o: log.append(o))
    return made


def several(log: Log) -> nn.Module:
    made = net(nn.Tanh(), log)
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] + o[0],))
    made[2].register_full_backward_hook(lambda m, i, o: log.append(i[0]))
    removed = made[2].register_full_backward_hook(lambda m, i, o: (i[0] * 100,))
    removed.remove()
    return made


def nested(log: Log) -> nn.Module:
    torch.manual_seed(0)
    made = net(nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), log)
    made[1].register_full_backward_hook(lambda m, i, o: log.append(("outer", o[0])))
    made[1][0].register_full_backward_hook(lambda m, i, o: (i[0] * 3,))
    return made


class AroundPair(nn.Module):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self.pair = Pair()
        self.pair.register_full_backward_hook(lambda m, i, o: (i[0] * 2, None, None))
        self.pair.register_full_backward_pre_hook(lambda m, o: log.append(len(o)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c = self.pair(x.sin(), 2.0, torch.ones(4))
        return a + b * c


def of_inputs_without_gradient(log: Log) -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4))
    made[0].register_full_backward_hook(lambda m, i, o: log.append((i, o)))
    return made


def passes_on(log: Log) -> nn.Module:
    made = net(nn.Identity(), log)
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return made


def gives_its_input(log: Log) -> nn.Module:
    made = nn.Sequential(nn.Identity())
    made[0].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return made


def breaks(log: Log) -> nn.Module:
    made = net(Breaks(), log)
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return made


def writes_its_input(log: Log) -> nn.Module:
    made = net(nn.ReLU(inplace=True), log)
    made[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return made


def raises(log: Log) -> nn.Module:
    made = net(nn.Tanh(), log)

    def hook(m: nn.Module, i: Any, o: Any) -> None:
        raise ValueError("no such gradient")

    made[1].register_full_backward_hook(hook)
    return made


CAPTURED = [scales, scales_before, appends, several, nested, AroundPair, passes_on]
OTHERS = [of_inputs_without_gradient, gives_its_input, breaks, writes_its_input, raises]


def outcome(make: Callable[[Log], nn.Module], front: Callable[[nn.Module], Any], needs_gradient: bool = True) -> Any:
    log: Log = []
    module = make(log)
    call, results = front(module), []
    for n in range(3):
        x = torch.linspace(-1, 1 + n, 4)
        if needs_gradient:
            x.requires_grad_()
        try:
            y = call(x)
            (y * y).sum().backward()
            results.append((y, x.grad))
        except (RuntimeError, ValueError) as error:
            results.append((type(error), str(error)[:60]))
    return results, [p.grad for p in module.parameters()], log


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, torch.Tensor):
        return isinstance(found, torch.Tensor) and torch.equal(found, wanted)
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


def captured(backend: Any) -> Callable[[nn.Module], Any]:
    return lambda module: gramme.compile(module, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("make", CAPTURED + OTHERS)
def test_as_eager(make: Callable[[Log], nn.Module], backend: str) -> None:
    needs_gradient = make is not of_inputs_without_gradient
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = outcome(make, lambda module: module, needs_gradient)
        torch._dynamo.reset()
        assert same(outcome(make, captured(backend), needs_gradient), wanted)
        torch._dynamo.reset()
        with compiled_autograd._enable(lambda graph: graph):
            of_pytorch = outcome(make, lambda module: module, needs_gradient)
            assert same(outcome(make, captured(backend), needs_gradient), of_pytorch)
        if make is not raises:
            assert same(of_pytorch, wanted)


@pytest.mark.parametrize("make", CAPTURED)
def test_one_graph_as_with_pytorch(make: Callable[[Log], nn.Module]) -> None:
    counts = []
    for front in (torch.compile, gramme.compile):
        torch._dynamo.reset()
        graphs: list[torch.fx.GraphModule] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[Any], graphs: list[Any] = graphs) -> Any:
            graphs.append(graph)
            return graph.forward

        module = make([])
        with compiled_autograd._enable(lambda graph: graph):
            x = torch.linspace(-1, 1, 4).requires_grad_()
            front(module, backend=backend, fullgraph=True)(x).sum().backward()
        counts.append(len(graphs))
    assert counts == [1, 1]
