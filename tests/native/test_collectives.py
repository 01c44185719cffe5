"""Collectives of torch.distributed in graphs, and what its code does to storages.

Its functional collectives run beside the program until somebody waits; its modules free and fill the storages of
parameters, and ask `is_compiling()` in order not to.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.distributed.nn.functional as differentiable
import torch.multiprocessing as mp
from torch import nn
from torch.distributed._composable import checkpoint, replicate
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.utils import _alloc_storage, _free_storage

BACKENDS = ["eager", "native", "aot_eager"]
Call = Callable[[torch.Tensor], Any]


@pytest.fixture(autouse=True)
def fresh() -> None:
    gramme.reset()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = f"file://{tmp_path_factory.mktemp('group') / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1, timeout=timedelta(seconds=60))
    assert dist.group.WORLD is not None
    yield dist.group.WORLD.group_name
    dist.destroy_process_group()


COLLECTIVES: dict[str, Callable[[torch.Tensor, str], torch.Tensor]] = {
    "all_reduce": lambda x, g: collectives.all_reduce(x * 2, "sum", g) + 1,
    "all_gather": lambda x, g: collectives.all_gather_tensor(x * 2, 0, g) + 1,
    "reduce_scatter": lambda x, g: collectives.reduce_scatter_tensor(x * 2, "sum", 0, g) + 1,
    "all_to_all": lambda x, g: collectives.all_to_all_single(x * 2, None, None, g) + 1,
    "broadcast": lambda x, g: collectives.broadcast(x * 2, 0, g) + 1,
    "two at once": lambda x, g: (
        collectives.reduce_scatter_tensor(x * 2, "sum", 0, g) * collectives.all_reduce(x * 3, "sum", g)
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_graph_waits_for_its_collectives(name: str, backend: str, group: str) -> None:
    x = torch.arange(6.0).view(2, 3)
    compiled = gramme.compile(COLLECTIVES[name], backend=backend)
    wanted = COLLECTIVES[name](x, group)
    for _ in range(100):
        assert torch.equal(compiled(x, group), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["all_reduce", "broadcast"])
def test_differentiable_collectives(name: str, backend: str, group: str) -> None:
    """They raise if they are told that they are compiled."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return differentiable.broadcast(x * 2, 0) + 1 if name == "broadcast" else differentiable.all_reduce(x * 2) + 1

    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = gramme.compile(f, backend=backend)(x)
    y.sum().backward()
    assert y.tolist() == [3, 3, 3]
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]


def test_a_deprecated_collective_warns_as_it_does_eagerly(group: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return collectives.all_gather_tensor(x, 0, group) + 1

    with pytest.warns(FutureWarning, match="all_gather_single"):
        assert gramme.compile(f, backend="eager")(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_storages_are_freed_and_filled(backend: str) -> None:
    """PyTorch's own front end traces these functions without what they do."""
    freed, filled, both = torch.ones(4), torch.ones(4), torch.ones(4)
    filled.untyped_storage().resize_(0)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        _free_storage(freed)
        _alloc_storage(filled, torch.Size([4]))
        filled.fill_(2)
        _free_storage(both)
        _alloc_storage(both, torch.Size([4]))
        both.copy_(y)
        return y + filled + both

    compiled = gramme.compile(f, backend=backend)
    for n in range(3):
        freed.untyped_storage().resize_(16)
        filled.untyped_storage().resize_(0)
        assert compiled(torch.full((4,), float(n))).tolist() == [2 * n + 4.0] * 4
        assert [t.untyped_storage().nbytes() for t in (freed, filled, both)] == [0, 16, 16]
        assert (filled.tolist(), both.tolist()) == ([2] * 4, [n + 1.0] * 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_freed_tensor_is_no_input(backend: str) -> None:
    """Neither its fake nor a kernel could look at it."""

    def f(x: torch.Tensor, t: torch.Tensor) -> Any:
        view = t.view(2, 2)
        before = t.untyped_storage().nbytes()
        t.untyped_storage().resize_(16)
        view.copy_(x.view(2, 2))
        return t * 2, view.t() + x.view(2, 2), before

    compiled = gramme.compile(f, backend=backend)
    for _ in range(3):
        t = torch.ones(4)
        t.untyped_storage().resize_(0)
        doubled, added, before = compiled(torch.arange(4.0), t)
        assert (doubled.tolist(), added.tolist(), before) == ([0, 2, 4, 6], [[0, 3], [3, 6]], 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fully_shard(backend: str, group: str) -> None:
    """Around a compiled model, and of compiled blocks, whose class and hooks it sets."""

    def train(wrap: Callable[[nn.Module], Any], inside: Callable[[nn.Module], Any]) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(inside(nn.Linear(3, 3)), nn.ReLU(), inside(Block()), nn.Linear(3, 2))
        for layer in (model[0], model[2], model):
            fully_shard(layer)
        return steps(model, wrap(model))

    def plain(model: nn.Module) -> Any:
        return model

    def compiled(model: nn.Module) -> Any:
        return torch.compile(model, backend=backend)

    wanted = train(plain, plain)
    with gramme.install():
        assert train(compiled, plain) == wanted
        assert train(plain, compiled) == wanted
        assert train(compiled, compiled) == wanted


@pytest.mark.parametrize("wrap", [replicate, checkpoint_wrapper, checkpoint])
def test_other_wrappers_of_a_compiled_block(wrap: Callable[[nn.Module], Any], group: str) -> None:
    torch.manual_seed(0)
    plain = Block()
    wrapped = wrap(gramme.compile(copy.deepcopy(plain), backend="native"))
    assert steps(wrapped, wrapped) == steps(plain, plain)


def steps(model: nn.Module, called: Any, rank: int = 0) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        loss = called(torch.randn(2, 3)).pow(2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(3), nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.last(torch.relu(self.first(self.norm(x))))


def sharded(rank: int, store: str, folder: str) -> None:
    """One of two processes: losses of FSDP models, compiled and not."""
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    found = []
    for own_parameters, inner, strategy in ((True, False, "FULL_SHARD"), (True, True, "FULL_SHARD"),
                                            (False, True, "SHARD_GRAD_OP")):  # fmt: skip
        losses = []
        for backend in ("", "eager", "native"):
            torch.manual_seed(0)
            kwargs: Any = {
                "use_orig_params": own_parameters,
                "device_id": torch.device("cpu"),
                "sharding_strategy": ShardingStrategy[strategy],
            }
            block = FullyShardedDataParallel(Block(), **kwargs) if inner else Block()
            model = FullyShardedDataParallel(nn.Sequential(block, nn.Linear(3, 2)), **kwargs)
            losses.append(steps(model, gramme.compile(model, backend=backend) if backend else model, rank))
        found.append(losses)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()


def test_sharded_modules_of_two_processes(tmp_path: Path) -> None:
    mp.start_processes(sharded, (f"file://{tmp_path / 'store'}", str(tmp_path)), nprocs=2, start_method="spawn")
    for rank in range(2):
        for eager, *compiled in torch.load(tmp_path / str(rank)):
            assert compiled == [eager] * 2
