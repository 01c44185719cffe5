"""Shared by all tests: slow ones run last, so that a quick failure shows first; of many instances a sample runs."""

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from sampling import EVEN, SEED, SOAK, evenly, some

CAPABILITY = os.environ.get("ATEN_CPU_CAPABILITY")
if CAPABILITY:  # inductor finds its code for another instruction set in a cache that runs under both share
    cache = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}_{CAPABILITY}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))


def pytest_report_header() -> str:
    if EVEN:
        return f"{EVEN} quick tests evenly spread, drawn by GRAMME_SEED={SEED}"
    return "sampled tests: all instances" if SOAK else f"sampled tests: instances drawn by GRAMME_SEED={SEED}"


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    left_out = _left_out(items)
    if EVEN:
        quick = [item for item in items if item not in left_out and not item.get_closest_marker("slow")]
        left_out = set(items).difference(evenly(quick, EVEN))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Instances of sampled tests beyond their number."""
    instances: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            instances[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for name, group in instances.items():
        marker = group[0].get_closest_marker("sampled")
        assert marker is not None
        left_out.update(set(group).difference(some(group, *marker.args, name)))
    return left_out


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
