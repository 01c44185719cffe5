"""Shared by the tests of the decoder."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import gramme._C as _C
import pytest

only_311 = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="of 3.11's code; tests/cpython/decoding.py looks at each version's",
)
native: Any = getattr(_C, "testing_runtime", None) or _C.testing.testing_runtime


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code object and all that it contains."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def listing(code: types.CodeType) -> str:
    """A code object as text: line, unit, what may resume there, instruction, argument, target and handler."""
    text = [f"{code.co_qualname}:"]
    last_line = None
    for offset, at, name, arg, _, target, line, resumable, names in native.decode(code):
        shown = f"{line:4}" if line != last_line else "    "
        last_line = line
        mark = " " if resumable else "-"
        extra = f" -> {target}" if target >= 0 else ""
        extra += f" ({at - offset} units in front)" if at != offset else ""
        extra += f" names {code.co_consts[names]}" if names >= 0 else ""
        handler = native.handler(code, at)
        extra += f"  ! {handler[0]} depth {handler[1]}{' lasti' if handler[2] else ''}" if handler else ""
        text.append(f"{shown} {offset:4}{mark} {name:28}{arg:6}{extra}".rstrip())
    return "\n".join(text)
