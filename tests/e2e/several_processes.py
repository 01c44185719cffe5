"""Programs that several processes run, and what their results are compared by."""

from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp


def run(program: Any, folder: Path, size: int, *args: Any) -> list[Any]:
    """What each process saved under its rank, having run `program(rank, store, folder, *args)`."""
    mp.start_processes(program, (f"file://{folder / 'store'}", str(folder), *args), nprocs=size, start_method="spawn")
    return [torch.load(folder / str(rank), weights_only=False) for rank in range(size)]


def copied(args: list[Any]) -> list[Any]:
    return [a.detach().clone().requires_grad_(a.requires_grad) for a in args]


def is_equal(left: Any, right: Any) -> bool:
    """For tensors: of one dtype, and equal as torch.equal says."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return type(left) is type(right) and left == right
