"""Functions that the program declares constant: they run once, when the program is exported."""

from __future__ import annotations

from typing import Any

import gramme
import pytest
import torch
from torch import nn


class Declared(nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.register_buffer("total", torch.ones(3))

    @torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
    def number(self, x: Any) -> Any:
        return int(x.sum().item())


class CountsFirst(Declared):
    def forward(self, x: Any) -> Any:
        self.count += 1
        return x * self.number(x)


class WritesFirst(Declared):
    def forward(self, x: Any) -> Any:
        self.total.add_(1)
        return x * self.number(self.total)


class Computes(Declared):
    def forward(self, x: Any) -> Any:
        return x * self.number(x + 1)


@pytest.mark.parametrize("make", [CountsFirst, WritesFirst, Computes])
def test_a_function_declared_constant_is_given_what_was_there_before(make: Any) -> None:
    """Nothing runs, so what the call makes or changes cannot be handed to a function that has to."""
    with pytest.raises(gramme.CaptureError, match="number"):
        gramme.export(make(), (torch.ones(3),))


class Lists(Declared):
    @torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
    def sizes(self, x: Any) -> Any:
        if x.sum() > 100:
            raise ValueError("too large")
        return [1, {"two": int(x.max())}]

    def forward(self, x: Any) -> Any:
        try:
            first, more = self.sizes(x)
        except ValueError:
            return x
        return x * first + more["two"]


@pytest.mark.parametrize("scale", [1, 100])
def test_containers_and_exceptions_of_a_function_declared_constant(scale: int) -> None:
    x = torch.ones(3) * scale
    exported = gramme.export(Lists(), (x,))
    torch.testing.assert_close(exported.module()(x), Lists()(x))
