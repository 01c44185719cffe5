"""Submodules whose signatures are preserved: called several times, nested, with keywords, with a shared parameter."""

from __future__ import annotations

import copy
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.export import Dim

from export.beside_torch import assert_same, loaded, quietly


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, *, more: Any, flag: bool = True) -> Any:
        y = self.linear(x) + more["u"]
        return (y if flag else -y), {"twice": x * 2}


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Inner(), Inner()
        self.b.linear.weight = self.a.linear.weight

    def forward(self, x: Any) -> Any:
        y, said = self.a(x, more={"u": x + 1})
        z, _ = self.b(y, more={"u": said["twice"]}, flag=False)
        w, _ = self.a(z, more={"u": y})
        return w, x.shape[0]


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


@pytest.mark.parametrize("paths", [("a",), ("a.linear", "b"), ("a", "b", "a.linear")], ids="+".join)
def test_preserved(paths: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    module = Outer()
    options: dict[str, Any] = {"dynamic_shapes": ({0: Dim("rows", min=2)},), "preserve_module_call_signature": paths}
    with quietly():
        ours = gramme.export(copy.deepcopy(module), (rows(),), **options)
        theirs = torch.export.export(copy.deepcopy(module), (rows(),), strict=True, **options)
    assert [entry.fqn for entry in ours.module_call_graph] == [entry.fqn for entry in theirs.module_call_graph]
    for mine, other in zip(ours.module_call_graph, theirs.module_call_graph, strict=True):
        assert (mine.signature is None) == (other.signature is None)
        if mine.signature is not None and other.signature is not None:
            assert mine.signature.in_spec == other.signature.in_spec
            assert mine.signature.out_spec == other.signature.out_spec
            assert [type(arg) for arg in mine.signature.inputs] == [type(arg) for arg in other.signature.inputs]
    for program in (ours, loaded(ours)):
        unflattened = torch.export.unflatten(program)
        for n in (4, 7):
            x = rows(n)
            assert_same(unflattened(x), module(x))
    unflattened = torch.export.unflatten(ours)
    x, more = rows(), {"u": rows()}
    if "a" in paths:
        assert_same(unflattened.a(x, more=more), module.a(x, more=more))
