"""More programs from torch's pages on dtypes, reductions, scatters, searches and histograms."""

import math

import torch

from documented import documented, x


@documented(
    "torch.finfo, torch.iinfo: limits of the dtype; finfo of an integer dtype raises",
    calls=lambda: [(x(2),), (x(2).half(),), (x(2).long(),), (x(2).to(torch.bfloat16),), (x(2).to(torch.uint8),)],
)
def limits(t):
    info = torch.finfo(t.dtype) if t.is_floating_point() else torch.iinfo(t.dtype)
    low = torch.full_like(t, info.min)
    return low, info.max, info.bits, str(info.dtype), t.clamp(max=info.max // 2 if info.bits < 16 else 2)


@documented(
    "torch.finfo: takes floating dtypes only, iinfo integer ones; defaults to the default dtype",
    calls=lambda: [(x(2), True), (x(2).long(), True), (x(2), False), (x(2).long(), False), (x(2).cfloat(), True)],
)
def limits_of_the_wrong_kind(t, floating):
    t.add_(1)
    info = (torch.finfo if floating else torch.iinfo)(t.dtype)
    return info.eps if floating else info.max, torch.finfo().bits


@documented(
    "torch.result_type, can_cast, promote_types: dimensions, categories and Python scalars decide",
    calls=lambda: [
        (x(2).long(), 1.5),
        (x(2).long(), torch.tensor(1.5, dtype=torch.float64)),
        (x(2).half(), x(2).to(torch.bfloat16)),
        (torch.tensor(1, dtype=torch.int8), torch.tensor([1], dtype=torch.uint8)),
        (torch.tensor([True]), 2),
        (x(2), 1j),
        (torch.tensor(2.0, dtype=torch.float64), x(2)),
        (torch.tensor(2), True),
    ],
)
def kind_of_a_result(a, b):
    kind = torch.result_type(a, b)
    other = torch.promote_types(a.dtype, b.dtype) if isinstance(b, torch.Tensor) else None
    return kind, other, torch.can_cast(kind, a.dtype), (a * b).dtype, (a + b).dtype == kind


@documented(
    "torch.sum, prod, mean: integer inputs are summed as int64; mean refuses them; dtype casts before the operation",
    calls=lambda: [
        (x(2, 2), None),
        (x(2, 2).to(torch.int8) * 100, None),
        (x(2, 2).to(torch.int8) * 100, torch.int8),
        (x(2, 2) > 1, None),
        (x(2, 2).half() * 40000, torch.float32),
        (x(0, 2), None),
        (x(2, 2).long(), torch.float32),
    ],
)
def summed_as(t, dtype):
    total = torch.sum(t, dtype=dtype)
    product = t.prod(0, dtype=dtype)
    return total, product, product.dtype, t.mean(dtype=dtype)


@documented(
    "torch.cummax, cummin, logcumsumexp: indices of the last maximum; nan once seen stays",
    calls=lambda: [
        (torch.tensor([1.0, 3.0, 3.0, 2.0]), 0),
        (torch.tensor([1.0, math.nan, 3.0, 2.0]), 0),
        (torch.tensor([[1, 2], [0, 2]]), -1),
        (torch.tensor([[1, 2], [0, 2]]), 0),
        (torch.tensor(4.0), 0),
        (torch.zeros(0), 0),
    ],
)
def cumulative_extremes(t, dim):
    high = torch.cummax(t, dim)
    low, where = t.cummin(dim)
    return high.values, high.indices, low, where, type(high).__name__, t.float().logcumsumexp(dim)


@documented(
    "torch.Tensor.cumsum_, cumprod_: in place; the result must fit the dtype; out of range dimension raises",
    calls=lambda: [
        (x(3), 0),
        (x(2, 2), 1),
        (x(3).to(torch.int8) * 60, 0),
        (torch.tensor([True, True]), 0),
        (x(3).requires_grad_(), 0),
        (x(3), 1),
    ],
)
def accumulated_in_place(t, dim):
    y = t * 1
    y.cumsum_(dim)
    z = torch.diff(y, prepend=y[:1])
    return y, y.dtype, z, z.requires_grad


@documented(
    "torch.Tensor.scatter_reduce_: sum, prod, mean, amax, amin; include_self=False ignores what was there",
    calls=lambda: (
        lambda i: [
            (torch.ones(3), i, x(4), "sum", True),
            (torch.ones(3), i, x(4), "sum", False),
            (torch.ones(3), i, x(4), "mean", True),
            (torch.full((3,), 9.0), i, x(4), "amax", False),
            (torch.ones(3).requires_grad_(), i, x(4), "prod", True),
            (torch.ones(3), i + 1, x(4), "amin", True),
            (torch.ones(3), i, x(4).double(), "sum", True),
            (torch.ones(3), i, x(4), "median", True),
        ]
    )(torch.tensor([0, 1, 1, 2])),
)
def reduced_by_scatter(t, index, source, how, own):
    y = t * 2
    y.scatter_reduce_(0, index, source, reduce=how, include_self=own)
    return y, y.requires_grad, t._version


@documented(
    "torch.Tensor.index_reduce_, index_copy_, index_fill_: index must be a vector of integers",
    calls=lambda: [
        (x(4), torch.tensor([0, 2]), x(2), "prod"),
        (x(4), torch.tensor([0, 0]), x(2), "amax"),
        (x(4), torch.tensor([0, 4]), x(2), "mean"),
        (x(4), torch.tensor([1]), x(2), "prod"),
        (x(4), torch.tensor([1.0, 2.0]), x(2), "prod"),
        (x(4, 2), torch.tensor([3, 1]), x(2, 2), "amin"),
    ],
)
def reduced_by_index(t, index, source, how):
    t.index_fill_(0, index.flip(0), -1.0)
    t.index_reduce_(0, index, source, how)
    return t, t.index_copy(0, index, source)


@documented(
    "torch.Tensor.index_put_: accumulate adds duplicates; without it one of them stays; None in the indices",
    calls=lambda: [
        (torch.zeros(3, 2), (torch.tensor([0, 0]), torch.tensor([1, 1])), torch.tensor(2.0), True),
        (torch.zeros(3, 2), (torch.tensor([0, 0]),), torch.ones(2), True),
        (torch.zeros(3, 2), (torch.tensor([True, False, True]),), torch.tensor([1.0, 2.0]), False),
        (torch.zeros(3, 2), (torch.tensor([0, 3]),), torch.ones(2), True),
        (torch.zeros(3, 2), (torch.tensor([0, -1]),), torch.ones(2).long(), False),
        (torch.zeros(3, 2), (torch.tensor([0]), torch.tensor([0]), torch.tensor([0])), torch.ones(1), False),
        (torch.zeros(3, 2), (torch.tensor([0, -3]),), torch.ones(1, 2), True),
    ],
)
def put(t, indices, values, accumulate):
    t += 1
    t.index_put_(indices, values, accumulate)
    return t, t._version, t[indices].shape


@documented(
    "torch.histc, histogram: min and max of the data when both are 0; values outside are ignored",
    calls=lambda: [
        (x(4), 4, 0, 0),
        (x(4), 2, 1, 3),
        (torch.ones(3), 3, 0, 0),
        (x(4), 2, 3, 1),
        (torch.tensor([math.nan, 1.0]), 2, 0, 0),
        (x(4), 0, 0, 1),
    ],
)
def histograms(t, bins, low, high):
    t.add_(1)
    y = torch.histc(t, bins=bins, min=low, max=high)
    h = torch.histogram(t, bins)
    return y, h.hist, h.bin_edges, type(h).__name__


@documented(
    "torch.unique_consecutive, torch.unique(dim): counts and inverse in the shape of the input; dynamic sizes",
    calls=lambda: [
        (torch.tensor([1, 1, 2, 2, 1]), None),
        (torch.tensor([3, 1]), None),
        (torch.tensor([[1, 1], [1, 1], [0, 1]]), 0),
        (torch.tensor([[1, 1], [1, 1], [0, 1]]), 1),
        (torch.zeros(0), None),
        (torch.tensor([[0.0, -0.0], [math.nan, math.nan]]), None),
    ],
)
def runs(t, dim):
    y, inverse, counts = torch.unique_consecutive(t, return_inverse=True, return_counts=True, dim=dim)
    padded = torch.zeros(len(y) + 1)
    padded[: len(counts)] = counts.float() if len(counts) <= len(y) else counts[: len(y)].float()
    return y, inverse, counts, padded, torch.unique(t, dim=dim)


@documented(
    "torch.searchsorted: sorter, side and out_int32; boundaries must match in all but the last dimension",
    calls=lambda: (
        lambda s: [
            (s, torch.tensor([3.0, 4.0]), "left", None, False),
            (s, torch.tensor([3.0, 4.0]), "right", None, True),
            (s, 3.0, "left", None, False),
            (s.flip(0), torch.tensor([3.0]), "left", torch.tensor([3, 2, 1, 0]), False),
            (s, torch.tensor([3]), "left", None, False),
            (s.view(2, 2), torch.tensor([3.0]), "left", None, False),
            (s, torch.tensor([math.nan]), "middle", None, False),
        ]
    )(torch.tensor([1.0, 3.0, 3.0, 7.0])),
)
def searched(boundaries, values, side, sorter, small):
    y = torch.searchsorted(boundaries, values, side=side, sorter=sorter, out_int32=small)
    z = torch.bucketize(values, boundaries.view(-1), right=side == "right")
    return y, y.dtype, z, y.shape
