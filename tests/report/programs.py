"""Programs whose reports are looked at."""

import time

import torch


def helper(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    time.monotonic()  # breaks
    return y + 1


def middle(x: torch.Tensor) -> torch.Tensor:
    return helper(x * 2)


def outer(x: torch.Tensor) -> torch.Tensor:
    y = middle(x)
    return y.cos()


def whole(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x) * x.shape[0]


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        self.seen.append(len(y))
        return y


def long(x: torch.Tensor) -> torch.Tensor:
    for i in range(500):
        x = x.sin() + i
    return x
