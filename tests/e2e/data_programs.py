"""Programs whose sizes or numbers come out of data, with calls of different data for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F


class Program(NamedTuple):
    """A program.

    Attributes:
        function: takes a call's arguments.
        calls: makes the arguments of each call.
        whole: PyTorch's front end captures it in one graph; then so does gramme.

    """

    function: Callable[..., Any]
    calls: Callable[[], list[tuple[Any, ...]]]
    whole: bool = True

    def __repr__(self) -> str:
        return self.function.__name__


PROGRAMS: list[Program] = []


def program(calls: Callable[[], list[tuple[Any, ...]]], whole: bool = True) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        PROGRAMS.append(Program(function, calls, whole))
        return function

    return add


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mixed(x: torch.Tensor, turns: int = 6) -> torch.Tensor:
    """Some operations as a layer has them."""
    for i in range(turns):
        x = F.layer_norm(F.gelu(x * (1.0 + i)) + x, x.shape[-1:])
    return x


def matrices() -> list[tuple[Any, ...]]:
    return [(noise(1, 6, 4),), (noise(2, 6, 4),), (torch.zeros(6, 4),), (noise(3, 6, 4).abs() + 1,)]


@program(matrices)
def nonzero_places(x):
    x = mixed(x)
    places = (x > 0).nonzero()
    return places.float().sum(0), places.shape[0] * 2, mixed(x)


@program(matrices)
def masks(x):
    x = mixed(x)
    chosen = x[x > 0.1]
    return mixed(x).sum() + (chosen * 2).exp().sum(), chosen + 1


def lengths() -> list[tuple[Any, ...]]:
    return [(noise(i, 4, 5, 4), torch.tensor(n)) for i, n in enumerate([[3, 5, 2, 1], [1, 1, 1, 1], [2, 4, 4, 3]])]


@program(lengths)
def padding_by_item(x, lengths):
    x = mixed(x)
    longest = int(lengths.max().item())
    torch._check(longest <= x.shape[1])
    torch._check(longest >= 0)
    steps = torch.arange(longest)
    mask = steps[None, :] < lengths[:, None]
    return mixed(x).mean(), mask.float() @ torch.ones(longest), torch.zeros(longest, 3)


def routed() -> list[tuple[Any, ...]]:
    return [(noise(i, 8, 4), noise(9, 4, 3), noise(7, 3, 4, 4)) for i in range(3)]


@program(routed)
def experts(x, gate, weights):
    x = mixed(x)
    chosen = (x @ gate).softmax(-1).argmax(-1)
    out = torch.zeros_like(x)
    for e in range(3):
        (rows,) = torch.where(chosen == e)
        picked = F.gelu(x[rows] @ weights[e])
        out = out.index_add(0, rows, picked)
    return mixed(out)


def boxes() -> list[tuple[Any, ...]]:
    return [(noise(i, 6, 2).abs(), torch.rand(6, generator=torch.Generator().manual_seed(i))) for i in range(3)]


@program(boxes, whole=False)
def suppression(corners, scores):
    corners = mixed(corners, 20)
    scores = mixed(scores[:, None].expand(6, 2), 10).sum(-1).sigmoid() * scores
    kept = []
    for _ in range(3):
        best = scores.argmax()
        if scores[best] < 0.05:
            break
        kept.append(best)
        distance = mixed((corners - corners[best]) ** 2, 8).sum(-1)
        scores = torch.where(distance < 0.1, torch.zeros_like(scores), scores) * 0.9
    return torch.stack(kept) if kept else scores, corners


@program(lambda: [(noise(i, 7, 4), torch.tensor(n)) for i, n in enumerate([[3, 4], [2, 5], [6, 1]])])
def packed(x, lengths):
    x = mixed(x)
    first, second = lengths.tolist()
    torch._check(first >= 0)
    torch._check(second >= 0)
    torch._check(first + second == x.shape[0])
    parts = torch.split(x, [first, second])
    return mixed(x).sum(), [part.sum(0) for part in parts]


@program(lambda: [(noise(i, 9, 4), torch.tensor(n)) for i, n in enumerate([[2, 3, 4], [1, 1, 7], [5, 2, 2]])])
def attention_by_length(x, lengths):
    x = mixed(x)
    sizes = lengths.tolist()
    for size in sizes:
        torch._check(size >= 0)
    torch._check(sum(sizes) == 9)
    done = []
    for part in x.split(sizes):
        done.append(mixed((part @ part.t()).softmax(-1) @ part, 2))
    return torch.cat(done)


def labelled() -> list[tuple[Any, ...]]:
    labels = [[1, 1, 2, 3, 3], [4, 4, 4, 4, 4], [5, 4, 3, 2, 1]]
    return [(noise(i, 5, 4), torch.tensor(n)) for i, n in enumerate(labels)]


@program(labelled)
def unique_counts(x, labels):
    x = mixed(x)
    values, inverse, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    means = torch.zeros(values.shape[0], 4).index_add(0, inverse, x)
    return means / counts[:, None], mixed(x)


@program(lambda: [(noise(i, 4, 3), torch.tensor(n)) for i, n in enumerate([[1, 0, 2, 3], [0, 0, 0, 1], [2, 2, 2, 2]])])
def repeated(x, times):
    x = mixed(x)
    longer = torch.repeat_interleave(x, times, dim=0)
    return mixed(longer, 3), mixed(x)


@program(matrices)
def selected_sum(x):
    x = mixed(x)
    chosen = torch.masked_select(x, x > 0)
    return chosen.sum() / (chosen.numel() + 1), mixed(x)


def pixels() -> list[tuple[Any, ...]]:
    return [(noise(i, 6, 4) * scale,) for i, scale in enumerate([1.0, 7.5, 0.01])]


@program(pixels)
def scaled_by_the_largest(x):
    x = mixed(x)
    largest = x.abs().max().item()
    scale = max(largest, 1e-3) / 127.0
    return torch.round(x * (1.0 / scale)), scale, mixed(x)


@program(pixels)
def bins_of_a_range(x):
    x = mixed(x, 12)
    count = math.ceil(abs(x.max().item()) * 2.5) + 1
    edges = torch.arange(count + 1) * 0.5
    return torch.bucketize(x, edges), torch.zeros(count, 2), round(x.mean().item())


def rows() -> list[tuple[Any, ...]]:
    return [(noise(i, 6, 16), torch.tensor(n)) for i, n in enumerate([[1, 0, 1, 1, 0, 1], [0] * 6, [0, 1, 0, 0, 0, 0]])]


@program(rows)
def attention_of_chosen(x, chosen):
    x = mixed(x)
    rows = x[chosen > 0].view(-1, 1, 2, 8).transpose(1, 2)
    keys = x.view(1, 6, 2, 8).transpose(1, 2).expand(rows.shape[0], 2, 6, 8)
    return F.scaled_dot_product_attention(rows, keys, keys).transpose(1, 2).flatten(1), mixed(x)


@program(labelled)
def spread_of_chosen(x, labels):
    x = mixed(x)
    chosen = x[labels > 1]
    n = chosen.shape[0]
    return chosen.std(0, correction=0) / (n + 1) ** 0.5, chosen.var(1), mixed(x)
