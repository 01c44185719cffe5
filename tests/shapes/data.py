"""Sizes that follow from data, and random numbers."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from shapes import program

TWICE = "two segments, three captures each"
TWICE_ONE = "two segments, three captures each, and no size of data or one"


@program(lambda t, n: (t(n),), limit=7, why=TWICE_ONE)
def positions_of_positive(x):
    index = (x > 0).nonzero()
    return index * 2, index.shape[0], x[index[:, 0]]


@program(lambda t, n, m: (t(n, m),), limit=7, why=TWICE_ONE)
def masked_values(x):
    y = x * 2
    picked = y[y > 0]
    return picked.sum() / max(picked.numel(), 1), picked[: picked.shape[0] // 2]


@program(lambda t, n: (t.ints(9, n) + 1,), limit=7, why=TWICE_ONE + "; an empty maximum raises")
def mask_of_lengths(lengths):
    longest = lengths.max().item()
    mask = torch.arange(longest)[None] < lengths[:, None]
    return mask.shape, mask.float().mean() * mask.numel()


@program(lambda t, n: (torch.tensor(n), t(50, 2)), limit=4, why="the number 0")
def number_read_from_an_input(k, x):
    k = k.item()
    return x[:k].sum(0), torch.zeros(k, 2), k + 1


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(chosen == i)[0]
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, None])
        return out


@program(
    lambda t, n: (t(n, 4),), limit=16, why="four segments, three captures each, and experts without rows", fresh=True
)
def experts_routed():
    return Experts()


@program(
    lambda t, n: (t(n), t(n)),
    limit=12,
    why="three segments: before, in and after the loop, static, dynamic, and with none left",
    high=40,
)
def overlaps_removed(scores, places):
    order, kept = scores.argsort(descending=True), []
    while order.numel() and len(kept) < 3:
        kept.append(order[0])
        order = order[(places[order] - places[order[0]]).abs() > 0.5]
    return torch.stack(kept) if kept else order


@program(
    lambda t, n, m: (t(n % 9, m, 3), t.ints(m, n % 9) + 1, t(4, 3)),
    limit=12,
    why="packing reads the lengths: four segments, three captures each",
    high=64,
)
def packed_sequences(x, lengths, weight):
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    packed = packed._replace(data=F.linear(packed.data, weight).tanh())
    return pad_packed_sequence(packed, batch_first=True)


@program(lambda t, n: (t.ints(9, n),), limit=7, why=TWICE_ONE)
def distinct_values(x):
    values, counts = x.unique(return_counts=True)
    return values * counts, len(values), torch.bincount(x, minlength=9)


@program(lambda t, n: (t.ints(4, n), t(n, 2)), limit=7, why=TWICE_ONE)
def rows_repeated_by_data(times, x):
    y = x.repeat_interleave(times, 0)
    return y, y.shape[0], y.mean(0)


@program(lambda t, n: (t.ints(5, n % 4),), limit=11, why="a list of none to three numbers, read after a break")
def numbers_from_a_list(sizes):
    return [torch.zeros(k).shape for k in sizes.tolist()], sizes.sum()


@program(lambda t, n: (t(n, 3),), limit=7, why="a branch on data: two segments, two sides")
def branch_on_data(x):
    y = x * x.shape[0]
    if y.sum() > 0:
        return y[: x.shape[0] // 2]
    return y + 1


@program(lambda t, n, m: (t(n, m),), backward=True)
def dropped_out(x):
    return F.dropout(x, 0.3, training=True) * 2, F.dropout(x[: x.shape[0] // 2], 0.5)


@program(lambda t, n, m: (t(n, m),))
def noise_added(x):
    y = x + torch.rand(x.shape) + torch.randn_like(x) * torch.randint(0, 9, (x.shape[1],))
    return y, torch.rand(x.shape[0] // 2, 2), torch.bernoulli(x.sigmoid())


@program(lambda t, n: (t(n, 2),))
def rows_permuted(x):
    order = torch.randperm(x.shape[0])
    return x[order], order.argsort()


@program(lambda t, n: (t(n, 3),), limit=4, why="a step with the int 0 or a size of it")
def filled_in_place(x):
    mask = x > 0
    x.masked_fill_(mask, 0.5)
    x[~mask] = x.shape[0]
    return mask.sum() * x.shape[0], torch.where(mask, x, -x)
