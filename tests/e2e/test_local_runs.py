"""Runs of steps on distributed tensors below DTensor's dispatch tell two processes what eager tells them."""

from typing import Any

import pytest
from torch.utils import _pytree as pytree

from e2e import local_runs
from e2e.several_processes import is_equal, run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(local_runs.run_all, tmp_path_factory.mktemp("local"), 2)


@pytest.mark.parametrize("name", local_runs.PROGRAMS)
def test_runs_on_local_tensors(name: str, found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        told, runs, expected = of_rank[name]
        leaves, wanted = pytree.tree_leaves(told), pytree.tree_leaves(expected)
        assert len(leaves) == len(wanted)
        assert all(map(is_equal, leaves, wanted))
        assert (runs == 0) == (name in local_runs.LEFT_TO_THE_DISPATCH)
