"""Warnings that torch gives once in a process."""

import warnings
from collections.abc import Callable
from typing import Any


def told_before(do: Callable[[], Any]) -> None:
    """Gives the warning now, so that eager and compiled runs are both silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        do()
