"""Lazy modules: the first call makes their parameters for real, with eager's random numbers; the second is whole."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from e2e.nested_text import assert_alike


class Scale(LazyModuleMixin, nn.Module):  # type: ignore[misc]
    """One of the program's own, which tells what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = UninitializedParameter()
        self.seen: list[tuple[int, ...]] = []

    def initialize_parameters(self, x: torch.Tensor) -> None:
        if self.has_uninitialized_params():
            self.seen.append(tuple(x.shape))
            self.weight.materialize((x.shape[-1],))
            with torch.no_grad():
                self.weight.uniform_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


class Drawing(nn.Module):
    """Random numbers are drawn before, between and behind those of the parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LazyLinear(4), Scale()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = x + torch.rand_like(x)
        x = torch.rand(3, 4) + self.first(x)
        return nn.functional.dropout(self.second(x), 0.5, training=True)


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(3), nn.LazyBatchNorm1d()),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.LazyConv2d(2, 2), nn.Flatten(), nn.LazyLinear(2)
    ),
    "own": Scale,
    "drawing": Drawing,
}


def outcome(call: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> Any:
    try:
        result: Any = call(x)
    except (RuntimeError, IndexError, ValueError) as error:
        result = str(error)
    state = {name: None if torch.nn.parameter.is_lazy(t) else t for name, t in model.state_dict().items()}
    kinds = [type(module) for module in model.modules()]
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    return result, state, kinds, hooks, getattr(model, "seen", None), torch.get_rng_state()


def calls(compile: Callable[[nn.Module], Any], maker: Callable[[], nn.Module], inputs: list[torch.Tensor]) -> Any:
    torch.manual_seed(0)
    model = maker()
    call = compile(model)
    return [outcome(call, model, x) for x in inputs]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_calls_are_eagers(maker: Callable[[], nn.Module], backend: str, fullgraph: bool) -> None:
    inputs = [torch.randn(3, 6, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    compiled = calls(lambda model: gramme.compile(model, backend=backend, fullgraph=fullgraph), maker, inputs)
    assert_alike(compiled, calls(lambda model: model, maker, inputs), rtol=0, atol=0)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_input_that_does_not_fit(fullgraph: bool) -> None:
    """The first lazy module is made, the second refuses; the next call goes on from there."""
    inputs = [torch.randn(6), torch.randn(3, 6), torch.randn(3, 6)]

    def maker() -> nn.Module:
        return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())

    compiled = calls(lambda model: gramme.compile(model, backend="eager", fullgraph=fullgraph), maker, inputs)
    assert_alike(compiled, calls(lambda model: model, maker, inputs), rtol=0, atol=0)
    assert isinstance(compiled[0][0], str)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_first_call_breaks_once_a_module(fullgraph: bool) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        x = model[0](x + 1)
        return model[1](x).relu()

    model = nn.ModuleList([nn.LazyLinear(4), Scale()])
    compiled = gramme.compile(run, backend="eager", fullgraph=fullgraph)
    compiled(torch.randn(3, 6))
    first = gramme.statistics(compiled)
    assert (first.segments, first.steps, first.plain_runs) == ((1, 0, 1) if fullgraph else (3, 2, 0))
    for _ in range(3):
        compiled(torch.randn(3, 6))
    now = gramme.statistics(compiled)
    assert (now.captures - first.captures, now.hits - first.hits, now.plain_runs - first.plain_runs) == (1, 2, 0)
