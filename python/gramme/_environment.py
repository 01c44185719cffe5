"""Environments in which the metadata of a call is inferred for all sizes at once."""

from __future__ import annotations

import contextlib
from typing import Any

import sympy  # type: ignore[import-untyped, unused-ignore]
import torch

from ._torch import names
from ._torch.names import DimDynamic, ShapeEnv, Source, ValueRanges, enable_python_dispatcher, int_oo

__all__ = ["Environment", "SharedEnvironment", "bound"]


def bound(env: ShapeEnv, symbol: sympy.Symbol, lowest: Any, highest: Any) -> None:
    """Tells the ShapeEnv of a symbol's bounds.

    PyTorch's method remembers its calls without a limit, so each ShapeEnv would live until the process ends.
    """
    method: Any = ShapeEnv.constrain_symbol_range
    (method.__wrapped__ if hasattr(method, "cache_clear") else method)(env, symbol, lowest, highest)


class _Atom(Source):
    """A source without a place in the program: the n-th symbol of an environment."""

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "number", number)

    @property
    def _name_template(self) -> str:
        return f"v{self.number}"  # type: ignore[attr-defined]


class Environment:
    """A ShapeEnv with one symbol for each size or number of a call.

    It knows only their present values, and that sizes are not negative. So the guards that it records during the call
    are exactly what the results depend on.
    """

    def __init__(self, scalars: bool = True, shapes: bool = True) -> None:
        self.env = ShapeEnv(allow_scalar_outputs=scalars, allow_dynamic_output_shape_ops=shapes)
        self._before = 0
        self._entered = contextlib.ExitStack()

    def symbol(self, hint: int, is_size: bool) -> tuple[torch.SymInt, str]:
        """A new symbol for operators, and its name."""
        return self._add(hint, ValueRanges(1, int_oo) if is_size else ValueRanges(-int_oo, int_oo))

    def _add(self, hint: int, known: ValueRanges[Any]) -> tuple[torch.SymInt, str]:
        symbol = self.env.create_symbol(
            hint,
            _Atom(len(self.env.backed_var_to_val)),
            dynamic_dim=DimDynamic.DYNAMIC,
            positive=None,
            do_not_specialize_zero_one=True,
        )
        self.env.var_to_range[symbol] = known
        return self.env.create_symintnode(symbol, hint=hint), symbol.name  # type: ignore[return-value]

    def __enter__(self) -> None:
        self._before = len(self.env.guards)
        self._entered.enter_context(enable_python_dispatcher())

    def __exit__(self, *raised: object) -> None:
        self._entered.close()

    def guards(self) -> list[Any]:
        """The sympy conditions that calls relied on while the environment was entered."""
        return [guard.expr for guard in self.env.guards[self._before :]]


class SharedEnvironment(Environment):
    """The ShapeEnv for all calls of one capture whose sizes may come from data.

    Its symbols are the capture's. It learns what the program says of them, and remembers what calls said.
    """

    def __init__(self, scalars: bool, shapes: bool) -> None:
        """Says whether numbers and sizes may come from data."""
        super().__init__(bool(scalars), bool(shapes))
        self._known: dict[Any, ValueRanges[Any]] = {}
        self._asserts: dict[Any, int] = {}

    def number(self, hint: int | None, lowest: int | None, highest: int | None) -> tuple[torch.SymInt, str]:
        """A new symbol within the bounds, unbacked without a hint, and its name."""
        known = ValueRanges(-int_oo if lowest is None else lowest, int_oo if highest is None else highest)
        if hint is not None:
            return self._add(hint, known)
        made = self.env.create_unbacked_symint()
        self.env.pending_fresh_unbacked_symbols.clear()
        bound(self.env, made.node.expr, known.lower, known.upper)
        self._known[made.node.expr] = self.env.var_to_range[made.node.expr]
        return made, made.node.expr.name

    def bounds(self, name: str) -> tuple[int | None, int | None, torch.SymInt] | None:
        """For an int that a call took from data: lowest, highest and the number; None for other values."""
        symbol = next((s for s in self.env.var_to_range if s.name == name), None)
        if symbol is None or not self.env.is_unbacked_symint(symbol):
            return None
        known = self._known[symbol] = self.env.var_to_range[symbol]
        return _bound(known.lower), _bound(known.upper), self.env.create_symintnode(symbol, hint=None)  # type: ignore[return-value]

    def is_opaque(self, number: torch.SymInt | torch.SymFloat | torch.SymBool) -> bool:
        """Whether it is a float or a bool that comes from data."""
        if isinstance(number, torch.SymInt):
            return False
        return any(s not in self.env.backed_var_to_val for s in number.node._expr.free_symbols)

    def __enter__(self) -> None:
        super().__enter__()
        self._asserts = {symbol: len(rows) for symbol, rows in self.env.deferred_runtime_asserts.items()}

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self.env.pending_fresh_unbacked_symbols.clear()

    def asserted(self) -> list[Any]:
        """What the last call assumed of numbers from data."""
        found: list[Any] = []
        for symbol, rows in self.env.deferred_runtime_asserts.items():
            found += [row.expr for row in rows[self._asserts.get(symbol, 0) :]]
        for symbol, known in self._known.items():
            now = self.env.var_to_range[symbol]
            if now != known:
                self._known[symbol] = now
                if now.lower > known.lower:
                    found.append(sympy.Ge(symbol, now.lower))
                if now.upper < known.upper:
                    found.append(sympy.Le(symbol, now.upper))
        return found

    def assume(self, condition: torch.SymBool | bool) -> None:
        """Adds a condition that the program ensures."""
        names.check(condition)  # type: ignore[no-untyped-call]
        for symbol in self._known:
            self._known[symbol] = self.env.var_to_range[symbol]


def _bound(number: Any) -> int | None:
    """The bound; None if there is none within 64 bits."""
    return int(number) if number.is_Integer and abs(int(number)) < 2**62 else None
