"""Collectives that write to tensors, in graphs: two processes see what they see uncompiled."""

from typing import Any

import pytest
from torch.utils import _pytree as pytree

from e2e import collectives
from e2e.several_processes import is_equal, run

UNCOUNTED = ("one group collects", "of other sizes")  # what PyTorch does around them breaks


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(collectives.run_all, tmp_path_factory.mktemp("collectives"), 2)


@pytest.mark.parametrize("name", collectives.PROGRAMS)
def test_both_processes_see_what_they_see_uncompiled(name: str, found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        wanted = pytree.tree_leaves(of_rank[name][""])
        for backend in collectives.backends_of(name):
            for outcome in of_rank[name][backend]:
                leaves = pytree.tree_leaves(outcome)
                assert len(leaves) == len(wanted)
                assert all(map(is_equal, leaves, wanted)), backend


@pytest.mark.parametrize("name", [n for n in collectives.PROGRAMS if n not in UNCOUNTED])
def test_breaks(name: str, found: list[dict[str, Any]]) -> None:
    assert [of_rank[name]["breaks"] for of_rank in found] == [collectives.BREAKS.get(name, 0)] * 2
