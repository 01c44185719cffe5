"""Random programs of two processes that communicate, break and recompile in different places at different speeds."""

import io
import random
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import gramme
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

BACKENDS = ("eager", "native")
CALLS = 4
said = io.StringIO()


class State:
    """What differs from rank to rank and from call to call."""

    scale = 1

    def __init__(self, rank: int) -> None:
        self.rank = rank


def reduces(x: torch.Tensor, state: State) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y)
    return y - x


def gathers(x: torch.Tensor, state: State) -> torch.Tensor:
    return functional.all_gather_single(x, 0, dist.group.WORLD).view(2, *x.shape).sum(0) + state.rank


def scatters(x: torch.Tensor, state: State) -> torch.Tensor:
    out = x.new_empty(2, 2)
    dist.reduce_scatter_single(out, x, dist.ReduceOp.MAX)
    return torch.cat([out, out])


def sends(x: torch.Tensor, state: State) -> torch.Tensor:
    y = x + state.rank
    dist.broadcast(y, 1)
    return y * x.sign()


def waits(x: torch.Tensor, state: State) -> torch.Tensor:
    y = x.clone()
    work = dist.all_reduce(y, dist.ReduceOp.MIN, async_op=True)
    z = x + 1
    assert work is not None
    work.wait()
    return y + z


def breaks(x: torch.Tensor, state: State) -> torch.Tensor:
    print("here", file=said)
    return x + 1


def breaks_on_one(x: torch.Tensor, state: State) -> torch.Tensor:
    if state.rank == 0:
        print("here", file=said)
    return x * 3


def branches_on_data(x: torch.Tensor, state: State) -> torch.Tensor:
    return x + 1 if x.sum() > 100 * state.rank else x - 1


def recompiles_on_one(x: torch.Tensor, state: State) -> torch.Tensor:
    return x * state.scale if state.rank == 1 else x + 2


def computes(x: torch.Tensor, state: State) -> torch.Tensor:
    return (x.remainder(7) - 3).relu() + x.abs().remainder(5)


PIECES = (
    (reduces, gathers, scatters, sends, waits),
    (breaks, breaks_on_one, branches_on_data, recompiles_on_one, computes),
)


def program(seed: int) -> Callable[[torch.Tensor, State], torch.Tensor]:
    draw = random.Random(seed)
    pieces = [draw.choice(PIECES[draw.random() < 0.6]) for _ in range(draw.randint(3, 8))]
    pieces.insert(draw.randrange(len(pieces)), draw.choice(PIECES[0]))

    def run(x: torch.Tensor, state: State) -> torch.Tensor:
        for piece in pieces:
            x = piece(x, state)
        return x.remainder(1000)

    return run


def results(f: Callable[[torch.Tensor, State], torch.Tensor], rank: int, seed: int) -> list[torch.Tensor]:
    state, pace, found = State(rank), random.Random(2 * seed + rank), []
    for call in range(CALLS):
        state.scale = 1 + call % 3
        time.sleep(pace.random() * 0.003)
        found.append(f(torch.arange(8.0).view(4, 2) + 10 * rank + call, state))
    return found


def run_all(rank: int, store: str, folder: str, seeds: list[int]) -> None:
    """Saves the seeds whose results differ from those of the uncompiled program, by backend."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    wrong = []
    for seed in seeds:
        f = program(seed)
        wanted = results(f, rank, seed)
        for backend in BACKENDS:
            gramme.reset()
            found = results(gramme.compile(f, backend=backend), rank, seed)
            if not all(map(torch.equal, found, wanted)):
                wrong.append((seed, backend))
    torch.save(wrong, Path(folder) / str(rank))
    dist.destroy_process_group()
