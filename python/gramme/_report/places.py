"""Places in the program as a reader knows them."""

from __future__ import annotations

import linecache
import os
import re

from .tree import Place

__all__ = ["short", "words_of_place"]

_LIBRARY = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/")


def short(file: str) -> str:
    """A file, from the working directory or from the folder of libraries."""
    if _LIBRARY.match(file):
        return _LIBRARY.sub("", file)
    if not file.startswith(os.sep):
        return file
    relative = os.path.relpath(file)
    return relative if not relative.startswith("..") else os.path.join(*file.split(os.sep)[-2:])


def words_of_place(place: Place) -> str:
    """train.py:88 in step: y = model(x)."""
    code, line = place
    text = linecache.getline(code.co_filename, line).strip()
    return f"{short(code.co_filename)}:{line} in {code.co_qualname}" + (f": {text}" if text else "")
