"""Steps of PyTorch's optimizers: one graph a step, eager's bits, captured no more often than twice."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
WHOLE: dict[str, Make] = {
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "SGD, momentum and decay": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "SGD, for-loop": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=False),
    "SGD, foreach": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=True),
    "SGD, fused": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, fused=True),
    "SGD, groups": lambda ps: torch.optim.SGD(
        [{"params": ps[:1], "lr": 0.2}, {"params": ps[1:], "momentum": 0.5}], lr=0.1
    ),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.1, centered=True),
    "Adadelta": lambda ps: torch.optim.Adadelta(ps, lr=0.1),
    "Adam, fused": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, fused=True),
    "AdamW, fused": lambda ps: torch.optim.AdamW(ps, lr=0.1, fused=True),
}


def steps(make: Make, compile: Callable[[Any], Any]) -> tuple[list[torch.Tensor], Any]:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(3)]
    optimizer = make(parameters)
    step = compile(optimizer.step)
    for _ in range(5):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        step()
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
    return [*parameters, *state], step


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE.keys())
def test_one_graph_a_step(make: Make, backend: str) -> None:
    want, _ = steps(make, lambda step: step)
    got, compiled = steps(make, lambda step: gramme.compile(step, backend=backend, fullgraph=True))
    assert len(got) == len(want)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert gramme.statistics(compiled).captures <= 2


def test_grad_mode_is_the_programs_after_a_step() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(3)

    def program(x: torch.Tensor) -> Any:
        optimizer.step()
        y = x * parameter
        return y.requires_grad, torch.is_grad_enabled()

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(3)) == (True, True)
