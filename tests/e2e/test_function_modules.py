"""Modules with functions of their own gradients and with checkpoints: one graph, eager's results and gradients."""

from typing import Any

import gramme
import pytest
import torch

from e2e.function_modules import CHECKPOINTS, FUNCTIONS, Make


def trained(make: Make, backend: str | None) -> Any:
    torch.manual_seed(0)
    module, args = make()
    args = tuple(a.clone().requires_grad_() if a.is_floating_point() else a for a in args)
    called: Any = gramme.compile(module, backend=backend, fullgraph=True) if backend else module
    results = []
    for seed in range(2):
        torch.manual_seed(seed)
        result = called(*args)
        (result * torch.arange(1.0, result.numel() + 1).view_as(result)).sum().backward()
        results.append(result.detach())
    return results, args[0].grad, [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, backend: str) -> None:
    make = FUNCTIONS[name]
    torch.testing.assert_close(trained(make, backend), trained(make, None), rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(name: str, backend: str) -> None:
    make = CHECKPOINTS[name]
    torch.testing.assert_close(trained(make, backend), trained(make, None), rtol=0, atol=0)
