"""Models in DistributedDataParallel with several buckets of gradients, trained by two processes.

Uncompiled, and compiled for a backend that makes one function of each graph's backward.
"""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

WIDTH = 400  # a layer has 640 kB, so two fill the first bucket
STEPS = 3
LINEAR = (nn.functional.linear, torch._C._nn.linear)
ALSO_BY_TORCH = ("layers", "statistics", "tied", "in place")


class Layers(nn.Module):
    def __init__(self, count: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Statistics(Layers):
    """Writes to buffers in every bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in self.layers])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return x


class Tied(Layers):
    """The first layer's weight is the last one's, too, so it belongs to two buckets."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(super().forward(x), self.layers[0].weight)  # type: ignore[arg-type]


class Unused(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(WIDTH, 3)


class Random(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.dropout(torch.tanh(layer(x)), 0.3)
        return x


class InPlace(Layers):
    """What one bucket computes the next ones write, also through a view; the step count is the program's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        for layer in self.layers:
            x = layer(x).clone()
            x[:, 0].mul_(self.count)
            x.tanh_()
        return x


class Breaks(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        gramme.graph_break()
        return super().forward(x)


class Program:
    def __init__(self, model: Callable[[], nn.Module], **options: Any) -> None:
        self.model, self.options = model, options
        self.hook: Any = None
        self.accumulates = self.varies = False


def programs() -> dict[str, Program]:
    found = {
        "layers": Program(Layers),
        "statistics": Program(Statistics),
        "tied": Program(Tied),
        "unused": Program(Unused, find_unused_parameters=True),
        "random": Program(Random),
        "in place": Program(InPlace),
        "breaks": Program(Breaks),
        "static": Program(Layers, static_graph=True),
        "views": Program(Layers, gradient_as_bucket_view=True),
        "hook": Program(Layers),
        "accumulated": Program(Layers),
        "sizes": Program(Layers),
    }
    found["hook"].hook = default_hooks.fp16_compress_hook
    found["accumulated"].accumulates = found["sizes"].varies = True
    return found


def train(program: Program, wrap: Callable[[Any], Any], outside: bool, rank: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = program.model()
    made = DistributedDataParallel(model if outside else wrap(model), bucket_cap_mb=1, **program.options)
    if program.hook:
        made.register_comm_hook(None, program.hook)  # type: ignore[no-untyped-call]
    called = wrap(made) if outside else made
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        torch.manual_seed(10 * step + rank)
        x = torch.randn(4 + 3 * step * program.varies, WIDTH)
        with made.no_sync() if program.accumulates and step == 1 else contextlib.nullcontext():
            called(x).square().mean().backward()
        if not (program.accumulates and step == 1):
            optimizer.step()
            optimizer.zero_grad()
    return [*(p.detach().clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]


def compiled(program: Program, compile_: Any, outside: bool, rank: int) -> tuple[list[torch.Tensor], list[int]]:
    """The trained model, and how many layers each graph has that the backend got."""
    graphs: list[int] = []

    def counted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(sum(node.target in LINEAR for node in graph.graph.nodes))
        return aot_eager(graph, inputs)

    return train(program, lambda m: compile_(m, backend=counted), outside, rank), graphs


def by_compiled_autograd(rank: int) -> tuple[bool, int]:
    """Whether a compiled step with the reducer in its backward trains as an uncompiled one; its backwards captured."""

    def weights(wrap: Callable[[Any], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Layers(2)
        made = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = wrap(lambda x: made(x).square().mean().backward())
        for turn in range(STEPS):
            torch.manual_seed(10 * turn + rank)
            step(torch.randn(4, WIDTH))
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    expected = weights(lambda step: step)
    with torch._dynamo.config.patch(optimize_ddp="python_reducer", compiled_autograd=True):
        actual = weights(lambda step: gramme.compile(step, backend="aot_eager"))
    return all(map(torch.equal, expected, actual)), torch._dynamo.utils.counters["compiled_autograd"]["captures"]


def run(rank: int, store: str, folder: str, outside: bool) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store, world_size=2, rank=rank, timeout=timedelta(seconds=120))
    found: dict[str, Any] = {}
    try:
        for name, program in programs().items():
            expected = train(program, lambda m: m, outside, rank)
            actual, graphs = compiled(program, gramme.compile, outside, rank)
            found[name] = (all(torch.equal(a, b) for a, b in zip(expected, actual, strict=True)), graphs)
            gramme.reset()
        if not outside:
            for name in ALSO_BY_TORCH:
                found[name] += (compiled(programs()[name], torch.compile, outside, rank)[1],)
                torch._dynamo.reset()
            with torch._dynamo.config.patch(optimize_ddp=False):
                found["whole"] = compiled(programs()["layers"], gramme.compile, outside, rank)[1]
            found["by autograd"] = by_compiled_autograd(rank)
    finally:
        dist.destroy_process_group()
    torch.save(found, Path(folder) / str(rank))
