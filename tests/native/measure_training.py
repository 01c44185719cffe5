"""Prints, as JSON, the peak of tensors' memory in a training step, eagerly and with a recorded backward: run by
test_memory.py on its own, since it replaces the allocator of its process."""

import json
from collections.abc import Callable
from typing import Any

import gramme
import torch
from gramme import _C
from torch import nn
from torch.utils.checkpoint import checkpoint

memory: Any = _C.testing.memory  # type: ignore[attr-defined]
OPTIONS = {"recorded_backward": True, "caching_allocator": False}  # what comes from the cache is not counted


def perceptron() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(8)]
    return nn.Sequential(*layers), torch.randn(32, 64)


def encoder() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(2, 16, 32)


def convolutions() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(4)]
    return nn.Sequential(*layers), torch.randn(2, 8, 12, 12)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64)) for _ in range(6)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def checkpointed() -> tuple[nn.Module, torch.Tensor]:
    return Checkpointed(), torch.randn(512, 64)


def peak(call: Callable[..., Any], model: nn.Module, x: torch.Tensor, fresh: bool) -> int:
    """The most that a step takes above what is held before it; `fresh`: there are no gradients yet."""
    found = 0
    for _ in range(5):
        if fresh:
            model.zero_grad()
        before = memory.held()
        memory.forget_peak()
        call(x).sum().backward()
        found = max(found, memory.peak() - before)
    return found


def held(call: Callable[..., Any], x: torch.Tensor) -> int:
    """Between forward and backward, after steps of warming up."""
    for _ in range(4):
        call(x).sum().backward()
    before = memory.held()
    y = call(x)
    found = memory.held() - before
    y.sum().backward()
    return found


def large() -> tuple[nn.Module, torch.Tensor]:
    """More than 16 MiB of gradients."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(6))), torch.randn(4, 1024)


def steps(call: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> list[int]:
    """Of each step, above what is held without gradients: they are dropped before the first and the sixth."""
    found = []
    for i in range(10):
        if i % 5 == 0:
            model.zero_grad()
            before = memory.held()
        memory.forget_peak()
        call(x).sum().backward()
        found.append(memory.peak() - before)
    model.zero_grad()
    return found


def main() -> None:
    memory.count()
    torch.set_num_threads(1)
    told = {}
    for make in (perceptron, encoder, convolutions, checkpointed):
        model, x = make()
        compiled = gramme.compile(model, backend="native", options=OPTIONS)
        told[make.__name__] = {
            "fresh" if fresh else "added": [peak(model, model, x, fresh), peak(compiled, model, x, fresh)]
            for fresh in (True, False)
        }
    model, x = checkpointed()
    told["activations"] = {"held": [held(model, x), held(gramme.compile(model, backend="native", options=OPTIONS), x)]}
    model, x = large()
    compiled = gramme.compile(model, backend="native", options=OPTIONS)
    told["large"] = {"each step": [steps(model, model, x), steps(compiled, model, x)]}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
