"""What two processes capture with guard collectives, where one of them meets something new."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist

STEPS = 6


def plain(x: torch.Tensor, scale: int) -> torch.Tensor:
    return (x * scale).relu() + x.shape[0]


def broken(x: torch.Tensor, scale: int) -> torch.Tensor:
    y = x * scale
    torch._dynamo.graph_break()
    return y.relu() + scale


def summed(x: torch.Tensor, scale: int) -> torch.Tensor:
    y = x.sum(0) * scale
    dist.all_reduce(y)
    return y


PROGRAMS: dict[str, Callable[..., Any]] = {"plain": plain, "broken": broken, "summed": summed}


def new_number(rank: int, step: int) -> tuple[Any, ...]:
    """One process gets another number at its fourth step."""
    return torch.ones(3, 2) * step, 5 if (rank, step) == (1, 3) else 2


def new_size(rank: int, step: int) -> tuple[Any, ...]:
    return torch.ones(4 if (rank, step) == (1, 3) else 3, 2), 2


def nothing_new(rank: int, step: int) -> tuple[Any, ...]:
    return torch.ones(3, 2) * step, 2


ARGUMENTS = {"number": new_number, "size": new_size, "nothing": nothing_new}


def run_all(rank: int, store: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    found: dict[Any, Any] = {"before": torch.compiler.set_enable_guard_collectives(False)}
    for together in (False, True):
        for name, program in PROGRAMS.items():
            for what, arguments in ARGUMENTS.items():
                for backend in ("eager", "native"):
                    gramme.reset()
                    compiled = gramme.compile(program, backend=backend)
                    torch.compiler.set_enable_guard_collectives(together)
                    captures, equal = [], True
                    for step in range(STEPS):
                        given = arguments(rank, step)
                        equal &= torch.equal(compiled(*given), program(*given))
                        captures.append(gramme.statistics(compiled).captures)
                    torch.compiler.set_enable_guard_collectives(False)
                    found[together, name, what, backend] = equal, captures
    found["after"] = torch.compiler.set_enable_guard_collectives(True), torch.compiler.set_enable_guard_collectives(0)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
