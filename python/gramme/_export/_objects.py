"""Opaque objects as arguments of operators: instances of classes that the program registered as opaque."""

from __future__ import annotations

from typing import Any

from .._torch.names import is_opaque_type, is_opaque_value_type

__all__ = ["is_input", "is_opaque"]


def is_opaque(cls: type[Any]) -> bool:
    """Whether graphs may hold instances of the class; called from C++.

    Not of classes of C++ (torch.ScriptObject): none that torch has can be flattened, so PyTorch exports none either.
    """
    return is_opaque_type(cls)


def is_input(value: Any) -> bool:
    """Whether it is an input of the exported program, as tensors are: those that are values stand in calls."""
    return is_opaque_type(type(value)) and not is_opaque_value_type(type(value))
