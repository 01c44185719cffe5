"""Objects whose type is made by an extension module (pybind11 and the like) are made by their own constructor, for
real: __new__ alone leaves in them what crashes at the first use."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from e2e import front

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")


def placement(x: torch.Tensor) -> Any:
    from torch.distributed.tensor import Replicate

    p = Replicate()
    front.graph_break()
    return p.is_partial(), x + 1


def placements(x: torch.Tensor) -> Any:
    from torch.distributed.tensor import Replicate, Shard

    made = [Replicate(), Shard(1)]
    y = x * 2
    front.graph_break()
    return [p.is_shard() for p in made], made[1].dim, y, made


def returned(x: torch.Tensor) -> Any:
    return dist.AllreduceOptions().asyncOp, x * 2


def by_new(x: torch.Tensor) -> Any:
    options = dist.AllreduceOptions.__new__(dist.AllreduceOptions)
    options.__init__()
    front.graph_break()
    return options.timeout, x


def in_python(x: torch.Tensor) -> Any:
    """A class in Python over one of the extension's."""

    class Mine(dist.AllreduceOptions):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

    made = Mine(3)
    front.graph_break()
    return made.n, made.timeout, x + made.n


def copied(x: torch.Tensor) -> Any:
    from torch.distributed.tensor import Shard

    made = copy.copy(EXISTING), Shard(0)
    front.graph_break()
    return made[0] == EXISTING, made[1].is_shard(), x


def build() -> Any:
    from torch.distributed.tensor import Shard

    return Shard(2)


EXISTING = build()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [placement, placements, returned, by_new, in_python, copied])
def test_is_made_for_real(program: Callable[..., Any], backend: str) -> None:
    compiled = front.compile(program, backend=backend)
    for _ in range(3):
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
