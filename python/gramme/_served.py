"""Serves results of earlier calls where code runs again: native's backwards of runs on distributed tensors use it."""

from collections.abc import Sequence
from typing import Any

import torch

from ._torch.names import TorchDispatchMode, pytree

# Autograd calls the first, too, where there is a mode; the dispatcher of some versions does not tell of the second.
PASSED_ON = {"aten::detach", "_c10d_functional::_wrap_tensor_autograd"}


class Served(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode for code that calls the operators it called before, in their order, on tensors of no subclass.

    `calls` has each operator's name, "aten::add.Tensor", and its result, or None where the operator is called again.
    It leaves out those of `PASSED_ON`.
    """

    def __init__(self, calls: Sequence[tuple[str, torch.Tensor | None]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls, self._next = calls, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not {torch.Tensor, torch.nn.Parameter}.issuperset(types):
            return NotImplemented  # what subclasses call comes here in turn
        if func.name() in PASSED_ON:
            return func(*args, **(kwargs or {}))
        known = self._next < len(self._calls)
        name, result = self._calls[self._next] if known else ("", None)
        if name != func.name():
            # what infers sizes makes tensors without data
            if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves((args, kwargs))):
                raise AssertionError(f"code that runs again calls {func.name()} in place of {name or 'nothing'}")
            return func(*args, **(kwargs or {}))
        self._next += 1
        return func(*args, **(kwargs or {})) if result is None else result
