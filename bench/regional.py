"""First step of an embedding and equal blocks, compiled whole or block by block, with both front ends.

    python bench/regional.py [layers]

Prints seconds and ratios, all in one run; PyTorch's caches on disk are off.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import gramme
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.first, self.second = nn.LayerNorm(64), nn.LayerNorm(64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


def first_call(model: nn.Module) -> float:
    x = torch.randint(100, (2, 32))
    start = time.perf_counter()
    model(x).sum().backward()
    return time.perf_counter() - start


def model(layers: int, compiler: Callable[..., Any] | None) -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Embedding(100, 64), *map(Block, range(layers)))
    for block in made[1:] if compiler else ():
        block.forward = compiler(block.forward, backend="inductor")
    return made


def main() -> None:
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    first_call(model(1, gramme.compile))  # what is imported and started once
    gramme.reset()
    whole = model(layers, None)
    whole.forward = gramme.compile(whole.forward, backend="inductor")
    seconds = {"whole": first_call(whole), "blocks": first_call(model(layers, gramme.compile))}
    torch._dynamo.reset()
    seconds["blocks, torch.compile"] = first_call(model(layers, torch.compile))
    for name, taken in seconds.items():
        print(f"{name:24s} {taken:7.2f} s   whole / this {seconds['whole'] / taken:5.2f}")


if __name__ == "__main__":
    main()
