"""Trains under torchrun; one process dies in the middle of the first try, and all start again from the checkpoint.

    torchrun --standalone --nproc-per-node 2 --max-restarts 1 restarted.py FOLDER BACKEND

BACKEND is one of gramme's, or "none". Each process leaves its weights in FOLDER.
"""

import os
import sys
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, DIES_AT = 6, 3


def main(folder: Path, backend: str) -> None:
    torch.set_num_threads(1)
    rank, attempt = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
    dist.init_process_group("gloo", f"file://{folder}/store{attempt}", world_size=2, rank=rank)
    is_first = attempt == "0"
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))
    step: Any = model if backend == "none" else gramme.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters())
    saved, start = folder / "checkpoint", 0
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    assert (start == 0) == is_first
    for turn in range(start, STEPS):
        if is_first and turn == DIES_AT and rank == 1:
            os._exit(7)
        torch.manual_seed(10 * turn + rank)
        step(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": turn + 1}, f"{saved}.new"
            )
            os.replace(f"{saved}.new", saved)
        dist.barrier()
    torch.save([p.detach() for p in model.parameters()], folder / f"weights{rank}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
