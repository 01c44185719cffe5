"""prefer_deferred_runtime_asserts_over_guards: what operators need of sizes is asserted where the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.export import Dim

from export.beside_torch import quietly, ranges

N, M = {"x": {0: Dim("n", min=2)}, "y": {0: Dim("m", min=2)}}, {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
FORWARDS: dict[str, tuple[Callable[..., Any], Any]] = {
    "halves": (lambda self, x, y: x.view(x.shape[0] // 2, 6) + y.sum(), N),
    "joined": (lambda self, x, y: torch.cat([x, y]).view(2, -1), N),
    "equal": (lambda self, x, y: x + y, M),
    "said_equal": (lambda self, x, y: x + y, N),
    "branch": (lambda self, x, y: (x + 1 if x.shape[0] > 3 else x - 1) + y.sum(), N),
}
SIZES = ((4, 4), (6, 6), (2, 2), (5, 5), (6, 4), (3, 4))


def outcomes(program: Any, module: nn.Module) -> list[Any]:
    """By sizes: whether the program computes what the module does, or that it raises."""
    found: list[Any] = []
    for n, m in SIZES:
        x, y = torch.randn(n, 3), torch.randn(m, 3)
        try:
            result = program.module()(x, y)
        except (AssertionError, RuntimeError):
            found.append("raises")
        else:
            torch.testing.assert_close(result, module(x, y))
            found.append("as the module")
    return found


@pytest.mark.parametrize("name", FORWARDS)
def test_as_torch_defers_it(name: str) -> None:
    forward, shapes = FORWARDS[name]
    module = type("Deferring", (nn.Module,), {"forward": forward})()
    made: list[Any] = []
    for export, more in ((gramme.export, {}), (torch.export.export, {"strict": True})):
        given = (torch.randn(4, 3), torch.randn(4, 3))
        deferred = {"prefer_deferred_runtime_asserts_over_guards": True, **more}
        with quietly():
            try:
                made.append(export(module, given, dynamic_shapes=shapes, **deferred))
            except torch._dynamo.exc.UserError as refusal:
                made.append(str(refusal).splitlines()[0])
    ours, theirs = made
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert ranges(ours) == ranges(theirs)
    assert outcomes(ours, module) == outcomes(theirs, module)
    if name == "halves":
        with pytest.raises(torch._dynamo.exc.UserError, match="Constraints violated"), quietly():
            gramme.export(module, (torch.randn(4, 3), torch.randn(4, 3)), dynamic_shapes=shapes)
