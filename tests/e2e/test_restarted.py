"""torchrun starts the processes of a compiled program again after one died: training goes on to the same weights."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).with_name("restarted.py")


@pytest.mark.slow
def test_training_goes_on(tmp_path: Path) -> None:
    weights = {}
    for backend in ("none", "native"):
        folder = tmp_path / backend
        folder.mkdir()
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        done = subprocess.run(
            [*launcher, "--nproc-per-node", "2", "--max-restarts", "1", PROGRAM, folder, backend],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "(exitcode: 7) local_rank: 1" in done.stderr
        weights[backend] = [torch.load(folder / f"weights{rank}") for rank in range(2)]
    for plain, compiled in zip(weights["none"], weights["native"], strict=True):
        assert all(map(torch.equal, plain, compiled))
