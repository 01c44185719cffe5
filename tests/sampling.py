"""What of many cases runs today: a day's sample in ordinary runs, everything in a soak."""

import os
import random
import re
import time
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

EVEN = int(os.environ.get("GRAMME_EVEN", "0"))  # so many of the quick tests, evenly spread; 0: all
SOAK = os.environ.get("GRAMME_SOAK") == "1"
SEED = os.environ.setdefault("GRAMME_SEED", str(int(time.time()) // 86400))  # processes started by this one draw alike


def some(cases: Iterable[T], count: int, what: str) -> list[T]:
    """At most `count` of the cases, in their order; `what` draws for it alone.

    >>> some([1, 2], 3, "numbers")
    [1, 2]
    """
    cases = list(cases)
    if SOAK or len(cases) <= count:
        return cases
    drawn = random.Random(f"{SEED} {what}").sample(range(len(cases)), count)
    return [cases[i] for i in sorted(drawn)]


def evenly(cases: list[T], count: int) -> list[T]:
    """About `count` of the cases, equally far apart; where they begin is drawn."""
    step = max(len(cases) / count, 1.0)
    start = random.Random(f"{SEED} even").random() * step
    return [cases[int(start + i * step)] for i in range(int((len(cases) - start) / step))]


def steady(value: Any) -> str:
    """The value's text without its address: an instance's name is the same in each process.

    >>> steady(iter([]))
    '<list_iterator object>'
    """
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
