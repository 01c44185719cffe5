"""Distributed tensors in graphs: two processes see what they see uncompiled."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils import _pytree as pytree

from e2e import distributed_tensors
from e2e.several_processes import is_equal, run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(distributed_tensors.run_all, tmp_path_factory.mktemp("distributed"), 2)


@pytest.mark.parametrize("name", distributed_tensors.PROGRAMS)
def test_both_processes_see_what_they_see_uncompiled(name: str, found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        wanted = pytree.tree_leaves(of_rank[name][""])
        for backend in distributed_tensors.BACKENDS:
            for outcome in of_rank[name][backend]:
                leaves = pytree.tree_leaves(outcome)
                assert len(leaves) == len(wanted)
                assert all(map(is_equal, leaves, wanted)), backend


@pytest.mark.parametrize("name", distributed_tensors.PROGRAMS)
def test_graphs(name: str, found: list[dict[str, Any]]) -> None:
    assert [of_rank[name]["graphs"] for of_rank in found] == [distributed_tensors.GRAPHS.get(name, 1)] * 2


@pytest.mark.slow
def test_one_capture_for_many_sizes(tmp_path: Path) -> None:
    """Sizes of one and two aside, which are captured by themselves."""
    for of_rank in run(distributed_tensors.run_sizes, tmp_path, 2):
        for (name, backend), (differs, captures) in of_rank.items():
            assert differs == [], (name, backend)
            assert captures <= 4, (name, backend)
