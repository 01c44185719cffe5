"""gramme.export and torch.export.export(strict=True): seconds of the front end, and of the whole export.

    .venv/bin/python bench/export.py [--runs 3] [NAME ...]

The front end is what makes the graph of torch's calls: all below it is torch.export's in both. Each export is made
anew, the best of the runs counts. The last row is a transformer of 32 layers of a 7B model on the meta device.
"""

from __future__ import annotations

import argparse
import functools
import logging
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import torch
from torch import nn
from torch.export import Dim, _trace

N = {0: Dim("n", min=2)}


class Block(nn.Module):
    """A layer of a decoder."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, n, c))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, hidden: int, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, heads, hidden) for _ in range(layers)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def large() -> nn.Module:
    with torch.device("meta"):
        return Decoder(32, 4096, 32, 11008, 32000)


def convolutions() -> nn.Module:
    layers = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(8)]
    return nn.Sequential(nn.Conv2d(3, 8, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


Program = tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]], Any]
PROGRAMS: dict[str, Program] = {
    "linear": (lambda: nn.Linear(3, 3), lambda: (torch.randn(4, 3),), None),
    "perceptron": (
        lambda: nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(8)]),
        lambda: (torch.randn(4, 8),),
        (N,),
    ),
    "convolutions": (convolutions, lambda: (torch.randn(2, 3, 16, 16),), (N,)),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4),
        lambda: (torch.randn(2, 5, 16),),
        None,
    ),
    "decoder": (lambda: Decoder(4, 32, 4, 64, 50), lambda: (torch.randint(50, (2, 6)),), (N,)),
    "7B on meta": (large, lambda: (torch.zeros(1, 128, dtype=torch.long, device="meta"),), None),
}


def timed(program: Program, by_gramme: bool) -> tuple[float, float]:
    """Seconds of the front end, and of all."""
    make, arguments, shapes = program
    module, args = make(), arguments()
    export = gramme.export if by_gramme else torch.export.export
    spent = 0.0
    front_end = _trace._export_to_torch_ir

    @functools.wraps(front_end)
    def watched(*given: Any, **named: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        try:
            return front_end(*given, **named)
        finally:
            spent += time.perf_counter() - start

    _trace._export_to_torch_ir = watched
    start = time.perf_counter()
    try:
        export(module, args, dynamic_shapes=shapes, **({} if by_gramme else {"strict": True}))
    finally:
        _trace._export_to_torch_ir = front_end
    return spent, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    gramme.export(nn.Linear(1, 1), (torch.ones(1, 1),))  # imports, and stands in front
    ratios = []
    print(f"{'':14} {'front end, s':>24} {'whole export, s':>24}")
    print(f"{'':14} {'gramme':>9} {'torch':>8} {'x':>5} {'gramme':>9} {'torch':>8} {'x':>5}")
    for name in given.names or PROGRAMS:
        best = []
        for by_gramme in (True, False):
            rows = [timed(PROGRAMS[name], by_gramme) for _ in range(given.runs)]
            best.append(tuple(min(column) for column in zip(*rows, strict=True)))
        (front, whole), (their_front, their_whole) = best
        ratios.append(their_front / front)
        print(
            f"{name:14} {front:9.4f} {their_front:8.3f} {their_front / front:5.1f} "
            f"{whole:9.3f} {their_whole:8.3f} {their_whole / whole:5.1f}",
            flush=True,
        )
    print(f"front end: {math.prod(ratios) ** (1 / len(ratios)):.1f} times sooner (geometric mean)")


if __name__ == "__main__":
    main()
