"""Small programs as models are made of them: chains of operators, modules in modules, Python around a few calls.

Each name gives a function or module made anew, with its arguments.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Case = Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
CORPUS: dict[str, Case] = {}


def case(make: Case) -> Case:
    CORPUS[make.__name__] = make
    return make


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


@case
def one_addition() -> Any:
    return (lambda x: x + 1), (r(4).requires_grad_(),)


@case
def chain() -> Any:
    def f(a, b):
        for _ in range(200):
            a = a + b
            b = b * 0.5
        return a, b

    return f, (r(4).requires_grad_(), r(4).requires_grad_())


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 10) for _ in range(20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = self.layers[i // 2](x) + layer(x)
        return x


@case
def list_of_linears() -> Any:
    return Linears(), (r(1, 10),)


class Tree(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.left = Tree(depth - 1) if depth else nn.Linear(8, 8)
        self.right = Tree(depth - 1) if depth else nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.right(self.left(x))


@case
def nested_modules() -> Any:
    return Tree(6), (r(2, 8),)


@case
def deep_calls() -> Any:
    def g(x, depth):
        return x + 1 if depth == 0 else g(x, depth - 1) * 2

    def f(x):
        for _ in range(20):
            x = g(x, 20) * 1e-6
        return x

    return f, (r(4).requires_grad_(),)


@case
def mostly_python() -> Any:
    def f(x):
        table = {i: (i * 3, str(i)) for i in range(500)}
        return x + sum(number for number, _ in table.values())

    return f, (r(4).requires_grad_(),)


@case
def hundred_arguments() -> Any:
    return (lambda *xs: xs[0] + xs[-1]), tuple(r(4).requires_grad_() for _ in range(100))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.before(x)
        attention = torch.softmax(self.q(h) @ self.k(h).transpose(-1, -2) * 0.5, -1)
        x = x + self.out(attention @ self.v(h))
        return x + self.mlp(self.after(x))


@case
def decoder() -> Any:
    return nn.Sequential(*(Layer() for _ in range(20))), (r(1, 4, 8),)


@case
def convnet() -> Any:
    block = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*block, nn.Conv2d(8, 8, 3, stride=2), nn.Flatten(), nn.Linear(72, 5)), (r(2, 3, 16, 16),)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layers = nn.LSTM(8, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, ids: torch.Tensor) -> Any:
        hidden, (h, c) = self.layers(self.embedding(ids))
        return self.head(hidden), h, c


@case
def recurrent() -> Any:
    return Recurrent(), (torch.arange(12).reshape(2, 6),)
