"""A U-Net cut into stages: shows the plan, draws it, and trains a few steps, one thread a stage."""

import itertools
import sys

import torch
from gramme.pipeline import Runtime, split
from torch import Tensor, nn


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 16, 64, 128)) -> None:
        super().__init__()
        levels = list(itertools.pairwise(widths))
        self.first = nn.Conv2d(1, widths[0], 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 5, stride=2, padding=2) for a, b in levels)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * b, a, 4, stride=2, padding=1) for a, b in reversed(levels))
        self.last = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, skips = self.first(x), []
        for layer in self.down:
            x = layer(x).relu()
            skips.append(x)
        for layer in self.up:
            x = layer(torch.cat([x, skips.pop()], 1)).relu()
        return self.last(x)


torch.manual_seed(0)
model = UNet()
cut = split(model, (torch.randn(4, 1, 64, 64),), stages=4)
print(cut.plan)
if sys.argv[1:]:
    cut.plan.save(sys.argv[1])

pipeline = Runtime(cut, micro_batches=8, loss=nn.functional.mse_loss)
optimizer = torch.optim.Adam(model.parameters(), lr=0.0003)
clean = torch.linspace(-1, 1, 64).expand(32, 1, 64, 64)
noisy = clean + torch.randn_like(clean) / 4
for step in range(5):
    optimizer.zero_grad()
    loss, _ = pipeline.step(noisy, target=clean)
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
