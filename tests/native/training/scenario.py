"""What a training program is here: a function of `wrap`, which compiles or does not, and of a log that it tells things.

    @scenario
    def hook(wrap, log):
        f = wrap(lambda x, w: (x @ w).sin())
        ...
        log(w.grad)

Both ways must tell the same: bits, layouts, versions, errors' texts, order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

Call = Callable[..., Any]
Wrap = Callable[[Call], Call]
Scenario = Callable[[Wrap, "Log"], None]

SCENARIOS: dict[str, Scenario] = {}
ROUNDS = 6  # a backward is recorded in the second call, and run from the third on


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


class Log:
    """What was told, as plain data. Versions only where a scenario tells them: a gradient's says how it was summed."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __call__(self, *values: Any) -> Any:
        self.told.append([_plain(leaf) for leaf in pytree.tree_leaves(values, is_leaf=lambda v: v is None)])

    def raised(self, call: Callable[[], Any]) -> Any:
        """The call's result; its error is told."""
        try:
            return call()
        except Exception as error:
            self.told.append([type(error).__name__, str(error).split("\nException raised from")[0]])
            return None


def _plain(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, (int, str, float, bool, type(None))) else repr(value)
    tensor = value.detach()
    if tensor.layout != torch.strided:
        return str(tensor)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    data = tensor.resolve_neg().contiguous().reshape(-1)
    data = data.view(torch.uint8).numpy().tobytes() if data.numel() else b""
    return (data, str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, value.is_leaf)


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype).requires_grad_()


def data(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)
