"""Pipeline stages of sharded, tensor parallel blocks that are compiled: eight processes train as they do uncompiled."""

from typing import Any

import pytest
import torch

from e2e import three_parallelisms
from e2e.several_processes import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    return run(three_parallelisms.run_all, tmp_path_factory.mktemp("three"), 8)


def is_same(left: Any, right: Any) -> bool:
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


@pytest.mark.parametrize("backend", three_parallelisms.BACKENDS)
def test_losses_and_shards(backend: str, found: list[dict[Any, Any]]) -> None:
    for of_rank in found:
        for key in [k for k in of_rank if len(k) == 3 and k[2] == backend]:
            expected = of_rank[*key[:2], ""]
            assert len(of_rank[key]) == len(expected)
            assert all(map(is_same, of_rank[key], expected)), key
            assert of_rank["captures", *key] == [1, 1], key
