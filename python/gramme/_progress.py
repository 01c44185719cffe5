"""Shows the graph at which a slow compiler is.

On a terminal the line comes after five seconds and a second one at the end; elsewhere the log (`gramme`) has the second
one.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["AFTER", "compiling"]

AFTER = 5.0  # seconds
_log = logging.getLogger("gramme")


@contextmanager
def compiling(backend: str, compile_id: object) -> Iterator[None]:
    """The scope in which a backend compiles the graph with this id."""
    what = f"{backend} compiles graph {compile_id}"
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    timer = threading.Timer(AFTER, _say, [f"gramme: {what}, {AFTER:.0f} s so far ..."]) if on_terminal else None
    began = time.perf_counter()
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        took = time.perf_counter() - began
        if timer is not None:
            timer.cancel()
        if took >= AFTER:
            text = f"{what}: {took:.0f} s"
            if on_terminal:
                _say(f"gramme: {text}")
            else:
                _log.info("%s", text)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
