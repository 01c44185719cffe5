"""Distributed training over time: meshes of two dimensions, many steps, checkpoints, processes that die."""

from pathlib import Path

import pytest
import torch

from e2e import lasting
from e2e.several_processes import run

pytestmark = pytest.mark.slow


def test_tensor_and_data_parallelism(tmp_path: Path) -> None:
    for of_rank in run(lasting.tensor_and_data, tmp_path, 4):
        losses, parameters = of_rank.pop("")
        for backend, (other_losses, other_parameters) in of_rank.items():
            assert other_losses == losses, backend
            assert all(map(torch.equal, other_parameters, parameters)), backend


def test_nothing_is_kept(tmp_path: Path, soak: bool) -> None:
    for before, after in run(lasting.many_steps, tmp_path, 2, 1000 if soak else 300):
        assert after == before


def test_checkpoints(tmp_path: Path) -> None:
    for found in run(lasting.saved_and_loaded, tmp_path, 2):
        for first, second, loaded in found:
            assert not torch.equal(first, second)
            assert torch.equal(loaded, first)


@pytest.mark.parametrize("sent", [lasting.KILLED, lasting.STOPPED])
def test_the_other_process_does_not_wait_for_ever(sent: int, tmp_path: Path) -> None:
    seconds, ended = lasting.run_with_a_death(tmp_path, sent)
    assert ended
    assert seconds < 20
