"""Shared by all tests: slow ones run last, so that a quick failure shows first."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOAK = os.environ.get("GRAMME_SOAK") == "1"
CAPABILITY = os.environ.get("ATEN_CPU_CAPABILITY")
if CAPABILITY:  # inductor finds its code for another instruction set in a cache that runs under both share
    cache = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}_{CAPABILITY}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture
def soak() -> bool:
    """True under `make soak`: run full counts instead of the capped ones."""
    return SOAK


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Operators run on one thread: their bits do not depend on how work is split."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
