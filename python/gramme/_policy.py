"""What PyTorch's settings say of captures: torch.compiler.set_stance and lists in torch.compiler.config."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

from . import _C
from ._torch import names

__all__ = ["follow_stance", "named_sources", "numbers"]


def named_sources(text: str) -> list[tuple[re.Pattern[str], int | None]]:
    """The entries of a comma-separated list of sources: a name or a regex, and the dimension of a suffix ":1"."""
    rows: list[tuple[re.Pattern[str], int | None]] = []
    for entry in filter(None, text.replace(" ", "").split(",")):
        parts = re.fullmatch(r"(.*?)(?::(\d+))?", entry)
        assert parts is not None
        pattern, dim = parts.groups()
        rows.append((re.compile(rf"{re.escape(pattern)}\Z|(?:{pattern})"), None if dim is None else int(dim)))
    return rows


def numbers(text: str) -> list[int]:
    """The entries of a comma-separated list of whole numbers."""
    return [int(entry) for entry in text.split(",") if entry.strip()]


def follow_stance() -> None:
    """From now on what torch.compiler.set_stance says counts. PyTorch's own front end need not be imported for it."""
    decorators: Any = names.loaded(names.DYNAMO_DECORATORS)
    if decorators is not None:
        _follow(decorators)
    elif not hasattr(torch.compiler.set_stance, "_of_gramme"):
        torch.compiler.set_stance = _watched(torch.compiler.set_stance)


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def set_stance(*args: Any, **given: Any) -> Any:
        from ._torch.names import dynamo_decorators as decorators

        _follow(decorators)
        return original(*args, **given)

    set_stance._of_gramme = True  # type: ignore[attr-defined]
    return set_stance


def _follow(decorators: Any) -> None:
    from ._torch.names import dynamo_eval_frame as eval_frame

    original = decorators._set_stance
    if hasattr(original, "_of_gramme"):
        return

    @functools.wraps(original)
    def set_stance(stance: Any) -> Any:
        try:
            _C.set_stance(stance.stance)
        except ValueError:
            raise RuntimeError(f"invalid torch.compile stance: {stance.stance!r}") from None
        return original(stance)

    set_stance._of_gramme = True  # type: ignore[attr-defined]
    decorators._set_stance = set_stance
    _C.set_stance(eval_frame._stance.stance)
