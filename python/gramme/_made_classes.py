"""Makes classes again that a standard library function makes at each call and that outlive a segment."""

import typing
from typing import Any

__all__ = ["named_tuple"]


def named_tuple(name: str, fields: tuple[tuple[str, Any], ...], module: str) -> Any:
    """typing.NamedTuple, as a frame of the module calls it.

    Example:
        >>> from gramme._made_classes import named_tuple
        >>> named_tuple("Point", (("x", int), ("y", int)), "shapes")
        <class 'shapes.Point'>

    """
    made: Any = typing.NamedTuple(name, fields)  # type: ignore[misc]
    made.__module__ = module
    return made
