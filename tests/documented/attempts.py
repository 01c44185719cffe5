"""For programs that ask many things of one object."""

from collections.abc import Callable
from typing import Any


def attempt(*actions: Callable[[], Any]) -> list[Any]:
    """What each gives, or its error."""
    out = []
    for action in actions:
        try:
            out.append(action())
        except Exception as error:
            out.append(f"{type(error).__name__} {error}")
    return out
