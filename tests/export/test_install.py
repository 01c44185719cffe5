"""gramme.install(export=True): torch.export.export(strict=True) and torch._dynamo.export capture by gramme."""

from __future__ import annotations

import functools
import inspect
from typing import Any
from unittest import mock

import gramme
import pytest
import torch
from gramme._export import _front
from torch.export import Dim, _trace

from export.beside_torch import quietly


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: Any, *, scale: float = 2.0) -> Any:
        return {"y": self.linear(x) * scale, "rows": x.shape[0]}


def captures(function: Any) -> int:
    """How often gramme captures while it is called."""
    with mock.patch.object(_front, "capture", wraps=_front.capture) as captured:
        function()
    return captured.call_count


def exported(strict: bool = True) -> Any:
    return torch.export.export(Scaled(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: Dim.AUTO}}, strict=strict)


def test_torch_export_strict_is_by_gramme_until_undone() -> None:
    assert captures(exported) == 0
    with gramme.install(export=True):
        assert captures(exported) == 1
        assert captures(lambda: exported(strict=False)) == 0
        x = torch.randn(7, 3)
        assert exported().module()(x)["rows"] == 7
    assert captures(exported) == 0
    with gramme.install():
        assert captures(exported) == 0
        assert gramme.install(export=True) is gramme.install()
        assert captures(exported) == 1
    assert captures(exported) == 0


def test_it_captures_whatever_stands_in_torchs_place() -> None:
    """Who puts torch's own function back, or a wrapper around gramme's, does not switch gramme.export off."""
    given = (Scaled(), (torch.ones(4, 3),))
    assert captures(lambda: gramme.export(*given)) == 1
    original = inspect.unwrap(_trace._export_to_torch_ir)
    with mock.patch.object(_trace, "_export_to_torch_ir", original):
        assert captures(lambda: gramme.export(*given)) == 1
    with mock.patch.object(_trace, "_export_to_torch_ir", functools.wraps(original)(lambda *a, **k: original(*a, **k))):
        assert captures(lambda: gramme.export(*given)) == 1
    assert captures(lambda: gramme.export(*given)) == 1


def function(x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
    return (x * x.shape[0], [x + 1 if y is None else x + y])


@pytest.mark.parametrize("static", [False, True])
def test_torch_dynamo_export(static: bool) -> None:
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    with gramme.install(export=True):
        graph, guards = torch._dynamo.export(function, assume_static_by_default=static)(x, y)
        again = torch._dynamo.export(Scaled().eval())(x, scale=3.0)
    assert captures(lambda: torch._dynamo.export(function)(x, y)) == 0
    assert isinstance(graph, torch.fx.GraphModule)
    torch.testing.assert_close(graph(x, y), function(x, y))
    if not static:
        x, y = torch.randn(6, 5), torch.randn(6, 5)
        torch.testing.assert_close(graph(x, y), function(x, y))
    result = again.graph_module(torch.ones(4, 3), scale=3.0)
    assert sorted(result) == ["rows", "y"]
    assert result["rows"] == 4


class Branches(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum().item() > 2 else x - 1


def test_draft_export_stays_torchs() -> None:
    """It runs the model on data, and reports what its own front end met."""
    x = torch.ones(4)
    with gramme.install(export=True):
        with quietly():
            program = torch.export.draft_export(Branches(), (x,), strict=True)
        with pytest.raises(gramme.CaptureError, match=r"x\.sum\(\)\.item\(\) > 2"):
            torch.export.export(Branches(), (x,), strict=True)
    assert [failure.failure_type.name for failure in program._report.failures] == ["DATA_DEPENDENT_ERROR"]
    torch.testing.assert_close(program.module()(x), x + 1)
