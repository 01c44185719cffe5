"""A model in two stages, each compiled, and the micro-batches that go through them."""

import gramme
import torch
from gramme.torchgpipe import GPipe

torch.manual_seed(0)
torch.set_num_threads(1)


class Residual(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.GELU(), torch.nn.Linear(size, size))
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.inner(x))


stages = [torch.nn.Sequential(Residual(64), Residual(64)), torch.nn.Sequential(Residual(64), torch.nn.Linear(64, 4))]
layers = torch.nn.Sequential(*(gramme.compile(stage, backend="native") for stage in stages))
model = GPipe(layers, [1, 1], devices=["cpu", "cpu"], chunks=4)

for batch in (32, 32, 32, 24):
    model(torch.randn(batch, 64)).sum().backward()
