"""Each test starts without compiled functions, and with all older objects out of the collector's way: collections
inside tests then take a millisecond, not two hundred."""

import gc
from collections.abc import Iterator

import pytest

from e2e import front


@pytest.fixture(autouse=True)
def fresh_front() -> Iterator[None]:
    front.reset()
    gc.freeze()
    yield
    front.reset()
