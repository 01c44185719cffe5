# ruff: noqa: E402  `last` is registered before torch is imported
"""Threads of a process group drop tensors while the interpreter ends: `last` runs last, and keeps the GIL."""

import atexit
import sys


def last() -> None:
    groups[1].allreduce([torch.ones(4)])
    sum(range(10**8))  # without a Python instruction: the threads wait for the GIL


atexit.register(last)

import threading
from datetime import timedelta

import gramme
import torch
import torch.distributed as dist

gramme.compile(torch.neg, backend=sys.argv[1])(torch.ones(2))
store, groups = dist.HashStore(), {}


def join(rank: int) -> None:
    groups[rank] = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=20))


threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
awaited = torch.ones(4)
groups[0].allreduce([awaited])
