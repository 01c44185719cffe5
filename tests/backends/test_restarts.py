"""AOTAutograd starts again where it finds numbers in tensors of one element that it cannot keep apart."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "add alpha": lambda x, y: torch.add(x, y, alpha=2),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "chain": lambda x, y: ((x + y) * y).sin() - y,
}
OPERANDS: list[Callable[[float], Any]] = [
    lambda v: (torch.tensor([2.0]), torch.tensor(v, dtype=torch.double)),
    lambda v: (torch.tensor(v, dtype=torch.double), torch.tensor([2.0])),
    lambda v: (torch.tensor([2]), torch.tensor(v)),
    lambda v: (torch.tensor(2.0), torch.tensor(int(v))),
    lambda v: (torch.tensor(int(v)), torch.tensor([2.0])),
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", OPERANDS)
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_operands_of_one_element(name: str, make: Callable[[float], Any], backend: str) -> None:
    function = FUNCTIONS[name]
    compiled = gramme.compile(function, backend=backend)
    for value in (3.0, 3.0, 4.0, 5.0):
        expected, found = function(*make(value)), compiled(*make(value))
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)
    assert gramme.statistics(compiled).captures == 1


def test_a_backend_that_always_restarts_is_given_up() -> None:
    calls = 0

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal calls
        calls += 1
        raise torch._dynamo.exc.TensorifyScalarRestartAnalysis

    compiled = gramme.compile(lambda x: x * 2, backend=backend)
    for _ in range(3):
        assert compiled(torch.ones(1)).item() == 2
    assert calls == 101
    assert gramme.statistics(compiled).captures == 1
