"""What PyTorch's structured log says of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

LOG = torch._logging._internal.trace_log


class Entry(NamedTuple):
    """An entry of the log.

    Attributes:
        at: its compile id and attempt, as tlparse writes them: 0/1, or 0/1_1; "-" if it has none.
        name: what it is; an artifact's own name.
        about, payload: what it says.

    """

    at: str
    name: str
    about: Any
    payload: str


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def emit(self, record: logging.LogRecord) -> None:
        known = dict(record.metadata)  # type: ignore[attr-defined]
        frame, number, attempt = (known.pop(key, None) for key in ("frame_id", "frame_compile_id", "attempt"))
        at = "-" if frame is None else f"{frame}/{number}" + (f"_{attempt}" if attempt else "")
        known.pop("has_payload", None)
        known.pop("stack", None)
        (name, about), *more = known.items()
        assert not more, more
        if name == "artifact":
            name = about["name"]
        self.entries.append(Entry(at, name, about, record.payload or ""))  # type: ignore[attr-defined]


@contextmanager
def written() -> Iterator[list[Entry]]:
    """The entries of what runs in the block."""
    kept = _Kept()
    LOG.addHandler(kept)
    try:
        yield kept.entries
    finally:
        LOG.removeHandler(kept)


def named(entries: list[Entry], *names: str) -> list[Entry]:
    return [entry for entry in entries if entry.name in names]
