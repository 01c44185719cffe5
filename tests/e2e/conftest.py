"""Each test starts without compiled functions, and with the objects of the imports out of the collector's way."""

import gc
from collections.abc import Iterator

import pytest

from e2e import front


@pytest.fixture(scope="session", autouse=True)
def frozen_heap() -> Iterator[None]:
    """Collections inside tests then take a millisecond, not two hundred."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def fresh_front(frozen_heap: None) -> Iterator[None]:
    front.reset()
    yield
    front.reset()
