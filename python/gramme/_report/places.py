"""Names of places in the program, for readers."""

from __future__ import annotations

import linecache
import os
import re
import types

from .._words import in_words

__all__ = ["Place", "first_line", "reworded", "short", "words_of_place"]

Place = tuple[types.CodeType, int]
"""A line of a function that is running."""

_FILE = re.compile(r"/[^\s:'\"]+(?=:\d+)")
_LIBRARY = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/")


def short(file: str) -> str:
    """A file's path relative to the working directory or the folder of libraries."""
    if _LIBRARY.match(file):
        return _LIBRARY.sub("", file)
    if not file.startswith(os.sep):
        return file
    relative = os.path.relpath(file)
    return relative if not relative.startswith("..") else os.path.join(*file.split(os.sep)[-2:])


def reworded(condition: str) -> str:
    """A guard or a change in words, with its file name shortened."""
    return _FILE.sub(lambda found: short(found[0]), in_words(condition))


def first_line(code: types.CodeType, line: int) -> int:
    """The line, or the line of `def` for a decorated function's first line."""
    if line != code.co_firstlineno:
        return line
    last = max((at for _, _, at in code.co_lines() if at), default=line)
    lines = ((at, linecache.getline(code.co_filename, at).lstrip()) for at in range(line, last + 1))
    return next((at for at, text in lines if text.startswith(("def ", "async def "))), line)


def words_of_place(place: Place) -> str:
    """train.py:88 in step: y = model(x)."""
    code, line = place
    text = linecache.getline(code.co_filename, line).strip()
    return f"{short(code.co_filename)}:{line} in {code.co_qualname}" + (f": {text}" if text else "")
