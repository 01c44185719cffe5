"""DistributedDataParallel under a compiler: a function for each bucket of gradients, and uncompiled training's bits."""

from pathlib import Path

import pytest

from e2e import bucketed_models
from e2e.several_processes import run

BUCKETS = {
    "tied": [1, 2, 2, 2],  # the last linear takes the first layer's weight
    "breaks": [2, 2, 2, 2, 2, 2],
    "sizes": [2, 2, 2, 2, 2, 2],  # two captures
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
def test_a_function_for_each_bucket(tmp_path: Path, outside: bool) -> None:
    for found in run(bucketed_models.run, tmp_path, 2, outside):
        if not outside:
            assert found.pop("whole") == [6]
            assert found.pop("by autograd") == (True, 1)
        for name, (equal, graphs, *of_torch) in found.items():
            assert equal, name
            assert graphs == BUCKETS.get(name, [2, 2, 2]), name
            assert of_torch in ([], [graphs]), name
