"""torch.compile's option guard_filter_fn, by which the program drops guards."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._sources import dynamo_sources
from ._torch.names import Guard, GuardFilterEntry

if TYPE_CHECKING:
    from ._sources import Row

__all__ = ["ask"]

Filter = Callable[[Sequence[Any]], Sequence[bool]]
_told: set[int] = set()

# The names of PyTorch's front end for kinds of guards (guards/guards.def).
_TYPES = {
    "Type": "TYPE_MATCH",
    "Constant": "EQUALS_MATCH",
    "SameAs": "DUPLICATE_INPUT",
    "Length": "SEQUENCE_LENGTH",
    "Absent": "NOT_PRESENT_IN_GENERIC_DICT",
    "Keys": "DICT_KEYS_MATCH",
    "Tensor": "TENSOR_MATCH",
    "Code": "CLOSURE_MATCH",
    "Subclass": "CLASS_MATCH",
}
_HAVE_VALUE = ("Constant", "Identity")


def _type(kind: str, value: Any) -> str:
    if kind != "Identity":
        return _TYPES.get(kind, f"GRAMME_{kind.upper()}")
    if isinstance(value, types.FunctionType):
        return "CLOSURE_MATCH"
    if isinstance(value, types.ModuleType):
        return "MODULE_MATCH"
    return "CLASS_MATCH" if isinstance(value, type) else "ID_MATCH"


def ask(
    function: Filter, rows: tuple[Sequence[Row], Sequence[int]], facts: Sequence[tuple[str, str, Any, bool, str]]
) -> list[bool]:
    """The function's answer for each guard: (kind, source, operand, whether it may be dropped, text). Called from C++.

    Raises:
        RuntimeError: another number of answers than of guards.
        TypeError: an answer that is no bool.

    """
    sources = dynamo_sources(*rows, repeat=True)
    entries = [
        GuardFilterEntry(
            name=name,
            has_value=kind in _HAVE_VALUE,
            value=value if kind in _HAVE_VALUE else None,
            guard_type=_type(kind, value),
            derived_guard_types=(),
            is_global="G[" in name,
            orig_guard=Guard(source, _checked_in_cpp),  # type: ignore[arg-type]
        )
        for (kind, name, value, _, _), source in zip(facts, sources, strict=True)
    ]
    answers = list(function(entries))
    if len(answers) != len(entries):
        raise RuntimeError(f"guard_filter_fn: expected {len(entries)} answers, got {len(answers)}")
    for answer in answers:
        if not isinstance(answer, bool):
            raise TypeError(f"guard_filter_fn: expected bools, got {type(answer).__name__}")
    kept = [text for (*_, may_go, text), answer in zip(facts, answers, strict=True) if not answer and not may_go]
    if kept and id(function) not in _told:
        _told.add(id(function))
        _warn(function, kept)
    return answers


def _warn(function: Filter, kept: list[str]) -> None:
    shown = ", ".join(kept[:3]) + (f" and {len(kept) - 3} more" if len(kept) > 3 else "")
    name = getattr(function, "__name__", repr(function))
    text = f"guard_filter_fn {name}: gramme keeps guards by which it finds what graphs take, or trusts it: {shown}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _checked_in_cpp(*_: Any) -> None:
    """Stands for the function by which PyTorch's front end makes a guard."""
