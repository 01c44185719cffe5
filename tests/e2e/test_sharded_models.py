"""Training under fully_shard, in several settings: two processes see the losses that they see uncompiled."""

from typing import Any

import pytest
import torch

from e2e import sharded_models
from e2e.several_processes import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(sharded_models.run_all, tmp_path_factory.mktemp("sharded"), 2)


@pytest.mark.parametrize("place", ["outside", "inside"])
@pytest.mark.parametrize("name", [*sharded_models.SETTINGS, "accumulation"])
def test_training(name: str, place: str, found: list[dict[str, Any]]) -> None:
    for of_rank in found:
        losses, parameters = of_rank[name][""]
        for backend in sharded_models.BACKENDS:
            other_losses, other_parameters = of_rank[name][backend, place]
            assert other_losses == losses, backend
            assert all(map(torch.equal, other_parameters, parameters)), backend
