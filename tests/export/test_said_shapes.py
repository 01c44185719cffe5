"""Shapes that are said by examples or by collecting them; and the example in gramme.export's documentation."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.export import Dim


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, k: int = 1) -> Any:
        return self.linear(x) * k, {"sum": x.sum()}


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


def test_sizes_and_numbers_of_additional_inputs() -> None:
    more = torch.export.AdditionalInputs()
    more.add((rows(5), 3))
    more.add((rows(7), 4))
    exported = gramme.export(Part(), (rows(), 2), dynamic_shapes=more)
    assert sorted(str(bounds) for bounds in exported.range_constraints.values()) == ["VR[0, int_oo]", "VR[2, int_oo]"]
    more.verify(exported)
    module = exported.module()
    for given in ((rows(5), 3), (rows(9), 11)):
        assert module(*given)[0].shape == given[0].shape
    still = torch.export.AdditionalInputs()
    still.add((rows(),))
    fixed = gramme.export(Part(), (rows(),), dynamic_shapes=still)
    assert fixed.range_constraints == {}
    other = torch.export.AdditionalInputs()
    other.add((rows(5),))
    with pytest.raises(RuntimeError, match=r"shape\[0\] to be equal to 4"):
        other.verify(fixed)


def test_shapes_that_are_collected() -> None:
    x, collected = rows(), torch.export.ShapesCollection()
    collected[x] = (Dim.DYNAMIC, Dim.STATIC)
    exported = gramme.export(Part(), (x,), dynamic_shapes=collected)
    assert [str(bounds) for bounds in exported.range_constraints.values()] == ["VR[2, int_oo]"]


def test_the_documented_example_runs() -> None:
    found = doctest.testmod(importlib.import_module("gramme._export"))
    assert found.attempted >= 3
    assert found.failed == 0
