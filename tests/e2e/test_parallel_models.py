"""Training of tensor and sequence parallel models by the native executor tells two processes what eager tells them."""

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from e2e import parallel_models
from e2e.several_processes import is_equal, run

RECORDED_OF_NONE = ("sizes",)
NEARLY = ("second_derivatives",)  # sums of derivatives of linear layers, as on one device


def is_near(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.allclose(left, right, rtol=1e-4, atol=1e-6)
    return left == right


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    return run(parallel_models.run_all, tmp_path_factory.mktemp("parallel"), 2)


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "engine"])
@pytest.mark.parametrize("name", parallel_models.PROGRAMS)
def test_training(name: str, recorded: bool, found: list[dict[Any, Any]]) -> None:
    for of_rank in found:
        told, backwards = of_rank[name, recorded]
        leaves, wanted = pytree.tree_leaves(told), pytree.tree_leaves(of_rank[name])
        assert len(leaves) == len(wanted)
        assert all(map(is_equal if name not in NEARLY else is_near, leaves, wanted))
        assert (backwards > 0) == (recorded and name not in RECORDED_OF_NONE)


def test_waiting_for_a_local_tensor_adds_no_node(found: list[dict[Any, Any]]) -> None:
    for of_rank in found:
        compiled, uncompiled = of_rank["nodes"]
        assert not [name for name in compiled if "wait" in name]
        assert compiled.count("GeluBackward0") == uncompiled.count("GeluBackward0")
