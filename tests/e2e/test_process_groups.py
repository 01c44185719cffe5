"""Questions about process groups: answered in the capture, asked again when groups come and go."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore

BACKENDS = ["eager", "native", "aot_eager"]


def begin(rank: int, size: int) -> None:
    """A default group that communicates with nobody."""
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    gramme.reset()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def whole(f: Callable[..., Any], backend: str = "eager") -> Callable[..., Any]:
    return gramme.compile(f, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_whether_there_are_groups(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + dist.get_world_size() if dist.is_available() and dist.is_initialized() else x - 1

    compiled, x = whole(f, backend), torch.zeros(1)
    for _ in range(2):
        assert compiled(x).item() == -1
        begin(0, 3)
        assert compiled(x).item() == 3
        dist.destroy_process_group()
        assert compiled(x).item() == -1
        begin(0, 2)
        assert compiled(x).item() == 2
        dist.destroy_process_group()


def test_ranks_of_later_groups() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 10 * dist.get_rank() + dist.get_world_size()

    compiled, x = whole(f), torch.zeros(1)
    for rank, size in ((0, 2), (1, 2), (3, 4), (0, 2)):
        begin(rank, size)
        for _ in range(2):
            assert compiled(x).item() == 10 * rank + size
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        compiled(x)


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "rank": dist.get_rank,
    "size": dist.get_world_size,
    "methods": lambda g: (g.rank(), g.size(), g.name(), g.group_name, g.group_desc),
    "ranks": dist.get_process_group_ranks,
    "global rank": lambda g: dist.get_global_rank(g, 1),
    "rank in the group": lambda g: dist.get_group_rank(g, 3),
    "tag": dist.distributed_c10d._get_group_tag,
    "size by name": lambda g: dist.distributed_c10d._get_group_size_by_name(g.group_name),
    "default": lambda g: (g is dist.group.WORLD, dist.group.WORLD is dist.GroupMember.WORLD),
    "in": lambda g: g in (dist.group.WORLD, None),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_about_a_group(name: str) -> None:
    begin(1, 4)
    groups = [dist.new_group([1, 3]), dist.new_group([0, 1, 3]), dist.group.WORLD]
    ask = QUESTIONS[name]

    def f(x: torch.Tensor, group: Any) -> Any:
        return x + 1, ask(group)

    compiled, x = whole(f), torch.zeros(1)
    for group in (*groups, *groups):
        assert compiled(x, group)[1] == ask(group)


def test_a_group_of_others() -> None:
    begin(1, 4)
    group = dist.new_group([0, 2])

    def f(x: torch.Tensor) -> Any:
        return x + dist.get_rank(group), dist.get_world_size(group)

    y, size = whole(f)(torch.zeros(1))
    assert (y.item(), size) == (-1, -1)


def test_a_name_that_another_group_has_later() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return functional.all_gather_single(x, 0, "0") * 1

    compiled, x = whole(f), torch.ones(2)
    for size in (2, 3, 2):
        begin(0, size)
        for _ in range(2):
            assert compiled(x).shape == (2 * size,)
        dist.destroy_process_group()


@pytest.mark.parametrize("backend", BACKENDS)
def test_collectives_stand_in_the_graph(backend: str) -> None:
    begin(0, 2)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        out = y.new_zeros(8)
        dist.all_gather_single(out, y)
        part = y.new_empty(2)
        dist.reduce_scatter_single(part, y, dist.ReduceOp.AVG)
        dist.broadcast(y, group_src=0)
        return out.sum() + part.sum() + y.sum()

    whole(f, backend)(torch.ones(4))


def test_which_functional_collectives() -> None:
    begin(0, 2)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x, dist.ReduceOp.MAX)
        return x + 1

    gramme.compile(f, backend=backend)(torch.ones(4))  # type: ignore[arg-type]
    calls = [str(node.target) for node in graphs[0].graph.nodes if node.op.startswith("call")]
    assert calls[:3] == ["_c10d_functional.all_reduce", "_c10d_functional.wait_tensor", "copy_"]
    first = next(node for node in graphs[0].graph.nodes if node.op.startswith("call"))
    assert first.args[1:] == ("max", dist.group.WORLD.group_name)


def test_settings_are_asked_again() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if dist.config.use_torchcomms else x - 1

    compiled, x = whole(f), torch.zeros(1)
    assert compiled(x).item() == -1
    with dist.config.patch(use_torchcomms=True):
        assert compiled(x).item() == 1
    assert compiled(x).item() == -1


def test_a_setting_that_does_not_exist() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + hasattr(dist.config, "no_such_setting")

    assert whole(f)(torch.zeros(1)).item() == 0
    with pytest.raises(AttributeError, match="no_such_setting does not exist"):
        gramme.compile(lambda x: x + dist.config.no_such_setting, backend="eager")(torch.zeros(1))


def test_explanations_and_reports_name_the_rank(tmp_path: Path) -> None:
    begin(1, 4)
    found = gramme.explain(lambda x: x + dist.get_rank())(torch.ones(1))
    assert str(found).startswith("rank 1 of 4: 1 segment, 1 graph")
    found.save(tmp_path / "report.html")
    assert "rank 1 of 4</h1>" in (tmp_path / "report.html").read_text()
    dist.destroy_process_group()
    assert str(gramme.explain(lambda x: x + 1)(torch.ones(1))).startswith("1 segment")
