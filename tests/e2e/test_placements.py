"""Placements and meshes of distributed tensors as values: compared by what they say, made, passed on."""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture(autouse=True)
def groups() -> Iterator[None]:
    gramme.reset()
    dist.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
    yield
    dist.destroy_process_group()


given: list[Any] = []  # inputs of the last program's graphs


def counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[torch.fx.GraphModule]]:
    graphs: list[torch.fx.GraphModule] = []
    given.clear()

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        given.append(inputs)
        return graph.forward

    return gramme.compile(f, backend=backend, fullgraph=True), graphs  # type: ignore[arg-type]


def test_equal_placements_share_a_graph() -> None:
    mesh = init_device_mesh("cpu", (4,))
    compiled, graphs = counted(lambda x: x * 2)
    for placement, count in (
        (Shard(0), 1),
        (Shard(0), 1),
        (Shard(1), 2),
        (Replicate(), 3),
        (Shard(1), 3),
        (Partial(), 4),
        (Partial("avg"), 5),
        (Partial("sum"), 5),
    ):
        x = DTensor.from_local(torch.ones(2, 2), mesh, [placement])
        result = compiled(x)
        assert result.placements == (x * 2).placements
        assert len(graphs) == count


def test_another_mesh_has_another_graph() -> None:
    meshes = [init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))]
    compiled, graphs = counted(lambda x: x + 1)
    for mesh in (*meshes, *meshes):
        x = DTensor.from_local(torch.ones(2, 2), mesh, [Replicate()] * mesh.ndim)
        assert compiled(x).device_mesh == mesh
    assert len(graphs) == 2


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "dim": lambda p: p.dim if isinstance(p, Shard) else None,
    "kinds": lambda p: (p.is_shard(), p.is_shard(1), p.is_replicate(), p.is_partial()),
    "equal": lambda p: (p == Shard(0), p != Replicate(), p in (Shard(1), Replicate()), (p,) == (Shard(0),)),
    "hash": lambda p: {Shard(0): "first", Shard(1): "second", Replicate(): "whole"}.get(p),
    "made": lambda p: [Shard(dim=1), Replicate(), Partial("max"), p],
    "text": lambda p: (str(p), repr(p)),
    "type": lambda p: type(p).__name__,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name: str) -> None:
    ask = QUESTIONS[name]

    def f(x: torch.Tensor, placement: Any) -> Any:
        return x + 1, ask(placement)

    compiled, _ = counted(f)
    for placement in (Shard(0), Shard(1), Replicate(), Partial(), Shard(0)):
        assert compiled(torch.ones(2), placement)[1] == ask(placement)


def test_a_class_of_the_program_is_asked_for_its_equality() -> None:
    class Loose(Shard):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    def f(x: torch.Tensor, placement: Any) -> Any:
        return x + 1, placement == Shard(3), placement.dim

    compiled = gramme.compile(f, backend="eager")
    for placement, wanted in (
        (Shard(0), (False, 0)),
        (Loose(1), (True, 1)),
        (Loose(2), (True, 2)),
        (Shard(3), (True, 3)),
    ):
        assert compiled(torch.ones(2), placement)[1:] == wanted


def test_methods_are_nodes() -> None:
    mesh = init_device_mesh("cpu", (4,))

    def f(x: Any) -> Any:
        y = DTensor.from_local(x, mesh, (Shard(0),), run_check=False)
        return y.redistribute(placements=[Shard(1)]).to_local()

    compiled, graphs = counted(f)
    compiled(torch.ones(4, 4))
    calls = [node for node in graphs[0].graph.nodes if node.op.startswith("call")]
    assert [getattr(node.target, "__name__", node.target) for node in calls] == [
        "from_local",
        "redistribute",
        "to_local",
    ]
    assert calls[1].kwargs == {"placements": [Shard(1)]}
    *_, made = graphs[0].graph.find_nodes(op="placeholder")
    assert made in calls[0].args
    assert made.meta["example_value"].real_obj is mesh
    assert given[0][-1] is mesh


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_a_mesh_that_the_program_replaces(backend: str) -> None:
    class Model(torch.nn.Module):
        mesh: DeviceMesh

        def forward(self, x: torch.Tensor) -> Any:
            return DTensor.from_local(x, self.mesh, [Shard(0)] * self.mesh.ndim).shape[0]

    model = Model()
    compiled = gramme.compile(model, backend=backend)
    for shape, size in (((4,), 8), ((2, 2), 8), ((4,), 8)):
        model.mesh = init_device_mesh("cpu", shape)
        assert compiled(torch.ones(2)) == size
