"""Where metadata of one call is inferred for all sizes at once."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import Source
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

__all__ = ["Environment"]


class _Atom(Source):
    """No place to read from: the n-th symbol of an environment."""

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "number", number)

    @property
    def _name_template(self) -> str:
        return f"v{self.number}"  # type: ignore[attr-defined]


class Environment:
    """A ShapeEnv with one symbol for each size or number of a call.

    It knows nothing of them but what they are now, and of sizes that they are not negative: so what it learns while
    the call runs is all that the results depend on.
    """

    def __init__(self) -> None:
        self.env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        self._before = 0
        self._entered = contextlib.ExitStack()

    def symbol(self, hint: int, is_size: bool) -> tuple[torch.SymInt, str]:
        """A new symbol, as the operators get it, and its name."""
        symbol = self.env.create_symbol(
            hint,
            _Atom(len(self.env.backed_var_to_val)),
            dynamic_dim=DimDynamic.DYNAMIC,
            positive=None,
            do_not_specialize_zero_one=True,
        )
        self.env.var_to_range[symbol] = ValueRanges(1, int_oo) if is_size else ValueRanges(-int_oo, int_oo)
        return self.env.create_symintnode(symbol, hint=hint), symbol.name  # type: ignore[return-value]

    def __enter__(self) -> None:
        self._before = len(self.env.guards)
        self._entered.enter_context(enable_python_dispatcher())

    def __exit__(self, *raised: object) -> None:
        self._entered.close()

    def guards(self) -> list[Any]:
        """Conditions, of sympy, that were found true while the environment was entered."""
        return [guard.expr for guard in self.env.guards[self._before :]]
