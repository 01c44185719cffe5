"""Functions that compiled code decorates with torch's context managers: captured once, named as eagerly."""

import traceback
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

MANAGERS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_is_captured_once(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        @MANAGERS[name]()
        def inner(y: torch.Tensor) -> torch.Tensor:
            return y @ y + 1

        return inner(x)

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(12):
        x = torch.randn(3, 3, requires_grad=True)
        found, expected = compiled(x), program(x)
        assert torch.equal(found, expected)
        assert (found.dtype, found.requires_grad) == (expected.dtype, expected.requires_grad)
    assert gramme.statistics(compiled).captures == 1


def test_what_is_returned_has_eagers_names() -> None:
    def program(x: torch.Tensor) -> Any:
        @torch.no_grad()
        def inner(y: torch.Tensor) -> torch.Tensor:
            """Its text."""
            if y.shape[0] == 2:
                raise KeyError("two")
            return y + x

        return inner, x * 2

    compiled = gramme.compile(program, backend="eager")
    for _ in range(3):
        described = []
        for made, _ in (program(torch.ones(3)), compiled(torch.ones(3))):
            assert torch.equal(made(torch.ones(3)), torch.full((3,), 2.0))
            try:
                made(torch.ones(2))
            except KeyError as error:
                frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            code = made.__code__
            described.append((made.__name__, made.__doc__, code.co_name, code.co_qualname, code.co_filename, frames))
        assert described[0] == described[1]
