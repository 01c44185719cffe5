"""Random programs of views, writes and arithmetic: who shares memory with whom, and who is told of writes, as eager."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from sampling import SOAK

from native.same import difference, outcome, twin

native: Any = gramme._C.native

VIEWS: list[Callable[[Any, random.Random], Any]] = [
    lambda t, rng: t.t() if t.dim() == 2 else t.unsqueeze(0),
    lambda t, rng: t.view(-1),
    lambda t, rng: t.reshape(-1),
    lambda t, rng: t.flatten(),
    lambda t, rng: t.contiguous(),
    lambda t, rng: t[rng.randrange(t.shape[0])],
    lambda t, rng: t[rng.randrange(2) :],
    lambda t, rng: t[..., ::2],
    lambda t, rng: t.unsqueeze(-1),
    lambda t, rng: t.squeeze(),
    lambda t, rng: t.transpose(0, -1),
    lambda t, rng: t.expand(2, *t.shape),
    lambda t, rng: t.chunk(2, -1)[0],
    lambda t, rng: t.split(1)[rng.randrange(2)],
    lambda t, rng: t.detach(),
    lambda t, rng: t.to(torch.float32),
    lambda t, rng: t.movedim(0, -1),
    lambda t, rng: t.narrow(0, 0, 1),
    lambda t, rng: torch.unbind(t)[-1],
    lambda t, rng: torch.broadcast_to(t, (2, *t.shape)),
    lambda t, rng: torch.nn.functional.dropout(t, 0.5, False),
    lambda t, rng: t.view_as(t),
]
WRITES: list[Callable[[Any, Any, random.Random], Any]] = [
    lambda t, o, rng: t.add_(1),
    lambda t, o, rng: t.mul_(2),
    lambda t, o, rng: t.zero_(),
    lambda t, o, rng: t.copy_(o),
    lambda t, o, rng: t.add_(o),
    lambda t, o, rng: t.clip_(-1, 1),
    lambda t, o, rng: t.fill_(3),
    lambda t, o, rng: torch.nn.functional.relu(t, inplace=True),
    lambda t, o, rng: torch.sin(t, out=t),
]
MADE: list[Callable[[Any, Any, random.Random], Any]] = [
    lambda t, o, rng: t + o,
    lambda t, o, rng: t * 2,
    lambda t, o, rng: t.relu(),
    lambda t, o, rng: t.clone(),
    lambda t, o, rng: torch.cat([t, t]),
    lambda t, o, rng: torch.stack([t, t]),
    lambda t, o, rng: torch.softmax(t, -1),
    lambda t, o, rng: t @ t.transpose(-1, -2),
    lambda t, o, rng: torch.nn.functional.layer_norm(t, t.shape[-1:]),
]


def inputs(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(4, 6, generator=generator)
    return [whole[:2, :3], torch.randn(2, 3, generator=generator), torch.randn(3, generator=generator)]


def make_program(seed: int) -> torch.fx.GraphModule:
    """Steps that eager can carry out, one after the other."""
    rng = random.Random(seed)
    tracer = torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph())
    graph = tracer.graph
    values = [(torch.fx.Proxy(graph.placeholder(f"x{i}"), tracer), t) for i, t in enumerate(map(twin, inputs(0)))]
    for _ in range(rng.randrange(2, 12)):
        proxy, tensor = rng.choice(values[-5:])
        other, like = rng.choice(values)
        kind, choice = rng.choices((VIEWS, WRITES, MADE), (6, 3 * (seed % 2), 3))[0], rng.random()
        state = rng.getstate()
        step: Any = kind[int(choice * len(kind))]
        arguments = [(tensor, rng)] if kind is VIEWS else [(tensor, like, rng)]
        try:
            real = step(*arguments[0])
        except (RuntimeError, IndexError, ValueError):
            continue
        if real.numel() == 0 or real.numel() > 200:
            continue
        rng.setstate(state)
        values.append((trace(step, (proxy, tensor), (other, like), rng, kind is VIEWS, tracer), real))
    kept = rng.sample(values, rng.randrange(1, min(5, len(values)) + 1))
    graph.output([proxy.node for proxy, _ in kept])
    return torch.fx.GraphModule({}, graph)


def trace(step: Any, first: Any, second: Any, rng: random.Random, is_view: bool, tracer: Any) -> Any:
    """The step on proxies that know sizes."""
    proxies = [Sized(proxy.node, tracer, tensor) for proxy, tensor in (first, second)]
    return step(proxies[0], rng) if is_view else step(*proxies, rng)


class Sized(torch.fx.Proxy):
    def __init__(self, node: torch.fx.Node, tracer: Any, tensor: torch.Tensor) -> None:
        super().__init__(node, tracer)
        self.shape = tensor.shape
        self.dim = tensor.dim


def check(seed: int, grad: bool) -> None:
    module = make_program(seed)
    compiled = native.from_graph_module(module)
    with torch.set_grad_enabled(grad):
        for data in (1, 2, 3):
            wanted, found = (outcome(call, list(map(twin, inputs(data)))) for call in (module.forward, compiled))
            different = difference(wanted, found)
            assert different is None, f"call {data}: {different}\n{module.code}\n{native.tape(compiled)}"


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_same_as_eager(grad: bool) -> None:
    for seed in range(60):
        check(seed, grad)


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 120)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_many(grad: bool) -> None:
    for seed in range(1000, 31_000 if SOAK else 1800):
        check(seed, grad)
