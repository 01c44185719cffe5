"""Graphs captured inside DistributedDataParallel, split where its buckets of gradients end.

A compiler turns a graph's backward into one function, so that all gradients are ready at its end and nothing is left to
compute while they are summed over the processes. PyTorch's DDPOptimizer has the compiler make one function a bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from ._torch import names

__all__ = ["are_wanted", "by_buckets"]


def are_wanted() -> bool:
    """Whether a graph that is compiled now runs inside DistributedDataParallel, and its settings ask for buckets."""
    return (
        getattr(DistributedDataParallel, names.ACTIVE_DDP) is not None
        and names.get_optimize_ddp_mode() == "ddp_optimizer"
    )


def by_buckets(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """The compiler, given the part of a graph that belongs to each bucket in turn."""
    active = getattr(DistributedDataParallel, names.ACTIVE_DDP)
    least = names.DEFAULT_FIRST_BUCKET_BYTES  # the optimizer takes none smaller
    optimizer = names.DDPOptimizer(max(active.bucket_bytes_cap, least), compiler)
    return optimizer.compile_fn
