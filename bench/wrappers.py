"""Captures and hits of models whose parameters are tensors that wrap others, beside torch.compile's.

    .venv/bin/python bench/wrappers.py [PARAMETERS]

A model multiplies by 100 parameters in turn; each wraps two tensors and runs a `__torch_dispatch__` in Python.
The backend of both answers with a constant: a hit is all guards and nothing else. A capture is the least of six, in a
process that has captured the model before. Rows: sizes as they are; sizes that vary; gradients for the parameters; as
many linear layers, each of another size, so that no two operations are alike.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import gramme
import torch
from torch.utils import _pytree as pytree

PARAMETERS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
HITS = 30


class Scaled(torch.Tensor):
    """Data and a scale: operators get their product."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data: torch.Tensor, scale: torch.Tensor) -> None:
        self.inner, self.scale = data, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: None, size: Any, stride: Any) -> "Scaled":
        return Scaled(parts["inner"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return Scaled(func(args[0].inner), args[0].scale)
        return func(*pytree.tree_map_only(Scaled, lambda each: each.inner * each.scale, args), **(kwargs or {}))


class Model(torch.nn.Module):
    def __init__(self, gradients: bool) -> None:
        super().__init__()
        made = [Scaled(torch.ones(2, 2), torch.ones(1)) for _ in range(PARAMETERS)]
        self.parts = torch.nn.ParameterList(torch.nn.Parameter(each, requires_grad=gradients) for each in made)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = torch.mm(x, part)
        return x


class Layers(torch.nn.Module):
    """Each layer is wider than the one before, and linear() decomposes below the class."""

    def __init__(self) -> None:
        super().__init__()
        made = [Scaled(torch.ones(i + 3, i + 2), torch.ones(1)) for i in range(PARAMETERS)]
        self.parts = torch.nn.ParameterList(torch.nn.Parameter(each, requires_grad=False) for each in made)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = torch.nn.functional.linear(x, part).relu()
        return x


def constant(graph: Any, examples: Any) -> Callable[..., Any]:
    result = (torch.ones(2, 2),)
    return lambda *args: result


def capture(
    front: Any, reset: Callable[[], None], model: torch.nn.Module, x: torch.Tensor, dynamic: bool | None
) -> float:
    """Milliseconds."""
    least = float("inf")
    for _ in range(6):
        reset()
        compiled = front(model, backend=constant, dynamic=dynamic)
        start = time.perf_counter()
        compiled(x)
        least = min(least, time.perf_counter() - start)
    return least * 1e3


def hit(front: Any, model: torch.nn.Module, x: torch.Tensor, dynamic: bool | None) -> float:
    """Microseconds."""
    compiled, least = front(model, backend=constant, dynamic=dynamic), float("inf")
    compiled(x)
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(HITS):
            compiled(x)
        least = min(least, (time.perf_counter() - start) / HITS)
    return least * 1e6


def main() -> None:
    print(f"torch {torch.__version__}, {PARAMETERS} parameters, {torch.get_num_threads()} threads")
    ratios = []
    for name, model, dynamic in [
        ("sizes fixed", Model(gradients=False), False),
        ("sizes vary", Model(gradients=False), True),
        ("gradients", Model(gradients=True), None),
        ("all differ", Layers(), False),
    ]:
        x = torch.ones(2, 2)
        with torch.set_grad_enabled(name == "gradients"):
            ours = capture(gramme.compile, gramme.reset, model, x, dynamic)
            theirs = capture(torch.compile, torch._dynamo.reset, model, x, dynamic)
            hits = [hit(front, model, x, dynamic) for front in (gramme.compile, torch.compile)]
        ratios.append(theirs / ours)
        print(
            f"{name:12} capture {ours:6.1f} ms, torch.compile {theirs:7.1f}: {ratios[-1]:5.1f} times sooner;"
            f"  hit {hits[0]:5.2f} µs, torch.compile {hits[1]:6.2f}: {hits[1] / hits[0]:5.1f} times"
        )
    print(f"captures, geometric mean: {torch.tensor(ratios).log().mean().exp():.1f} times sooner")


if __name__ == "__main__":
    main()
