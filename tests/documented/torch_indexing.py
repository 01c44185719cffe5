"""Programs from torch's pages on indexing, slicing, gathering and scattering."""

import torch

from documented import Between, documented


@documented(
    "Tensor indexing (torch.Tensor, 'as NumPy's'): negative indices count from the end; out of range raises IndexError",
    calls=lambda: (lambda x: [(x, 0), (x, -1), (x, 2), (x, 3), (x, -3), (x, -4), (x, 1)])(torch.arange(3.0)),
)
def row_after_a_write(x, i):
    x.add_(1)
    return x[i] * 2


@documented(
    "Tensor indexing: slices are clipped, never out of range; a step must be positive",
    calls=lambda: (
        lambda x: [
            (x, 0, 2, 1),
            (x, 1, 9, 2),
            (x, -3, None, 1),
            (x, 4, 2, 1),
            (x, 0, 6, -1),
            (x, None, -2, 3),
            (x, 0, 6, 0),
        ]
    )(torch.arange(6.0)),
)
def slice_with_bounds(x, start, stop, step):
    part = x[start:stop:step]
    part *= 2
    return part, part.shape, len(part), part.stride(), part.storage_offset()


@documented(
    "Tensor indexing: mini-batches data[i*bs:(i+1)*bs], the last may be smaller",
    calls=lambda: (lambda d: [(d, 0, 3), (d, 1, 3), (d, 2, 3), (d, 3, 3), (d, 0, 4), (d, 2, 4)])(
        torch.arange(20.0).view(10, 2)
    ),
)
def mean_of_a_minibatch(data, i, size):
    batch = data[i * size : (i + 1) * size]
    if not len(batch):
        return "empty"
    return batch.sum(0) / len(batch), batch.shape[0]


@documented(
    "Tensor indexing: ellipsis, None and integers together",
    calls=lambda: [
        (torch.arange(24.0).view(2, 3, 4), 0),
        (torch.arange(24.0).view(2, 3, 4), -1),
        (torch.arange(24.0).view(4, 3, 2), 1),
        (torch.arange(6.0).view(2, 3), 2),
        (torch.arange(6.0).view(2, 3), 3),
        (torch.arange(6.0), 3),
    ],
)
def ellipsis_and_none(x, i):
    last = x[..., i]
    return last, x[None, ..., 0].shape, last[..., None] - x[..., :1], x[:, None].shape


@documented(
    "Tensor indexing: boolean masks select; assignment writes in place; a mask of another shape raises IndexError",
    calls=lambda: (
        lambda x: [
            (x, torch.tensor([True, False, True]), 1.0),
            (x, torch.tensor([False, False, False]), 2.0),
            (x, torch.tensor([True, True, True]), torch.arange(3.0)),
            (x, torch.tensor([True, True, False]), torch.arange(3.0)),
            (x, torch.tensor([True, False]), 3.0),
            (x, x > 1, -1),
        ]
    )(torch.arange(3.0)),
)
def masked_assignment(x, mask, value):
    x += 1
    x[mask] = value
    chosen = x[mask]
    return chosen, chosen.shape[0], x[~mask].sum()


@documented(
    "Tensor indexing by tensors: broadcast together; duplicates under += count once, index_put_(accumulate=True) each",
    calls=lambda: (
        lambda x: [
            (x, torch.tensor([0, 0, 1])),
            (x, torch.tensor([2, 2, 2, 2])),
            (x, torch.tensor([], dtype=torch.long)),
            (x, torch.tensor([-1, 0])),
            (x, torch.tensor([0, 5])),
            (x, torch.tensor([1])),
        ]
    )(torch.zeros(3)),
)
def indexed_addition(x, where):
    x[where] += 1
    x.index_put_((where,), torch.tensor(10.0), accumulate=True)
    return x.clone(), x[where]


@documented(
    "torch.Tensor.index_add_: index values must be in range; index and the source's dimension must agree",
    calls=lambda: (
        lambda x: [
            (x, torch.tensor([0, 2]), torch.ones(2, 2)),
            (x, torch.tensor([1, 1]), torch.ones(2, 2)),
            (x, torch.tensor([0, 3]), torch.ones(2, 2)),
            (x, torch.tensor([0]), torch.ones(2, 2)),
            (x, torch.tensor([0, 1, 2]), torch.ones(3, 2)),
        ]
    )(torch.zeros(3, 2)),
)
def rows_added(x, index, rows):
    x.mul_(2)
    x.index_add_(0, index, rows, alpha=3)
    return x.sum(0)


@documented(
    "torch.Tensor.scatter_, torch.gather: indices out of bounds raise, what was written before remains",
    calls=lambda: (
        lambda out: [
            (out, torch.tensor([[0, 1, 2]])),
            (out, torch.tensor([[2, 2, 2]])),
            (out, torch.tensor([[0, 1, 4]])),
            (out, torch.tensor([[0, -1, 1]])),
            (out, torch.tensor([[3, 0, 3]])),
        ]
    )(torch.zeros(1, 4)),
)
def scattered(out, index):
    out.add_(1)
    out.scatter_(1, index, torch.tensor([[10.0, 20.0, 30.0]]))
    return (
        out.gather(1, index),
        out.scatter_add(1, index, torch.ones(1, 3)),
        out.scatter_reduce(1, index, torch.full((1, 3), 50.0), "amax"),
    )


@documented(
    "torch.nn.functional.embedding / torch.index_select: an index out of range raises IndexError",
    calls=lambda: (
        lambda table, hits: [
            (table, hits, torch.tensor([0, 1])),
            (table, hits, torch.tensor([3])),
            (table, hits, torch.tensor([4, 0])),
            (table, hits, torch.tensor([[1, 2], [3, 0]])),
            (table, hits, torch.tensor([-1])),
            (table, hits, torch.tensor([2, 2])),
        ]
    )(torch.arange(8.0).view(4, 2), torch.zeros(1)),
)
def lookups_are_counted(table, hits, ids):
    hits += ids.numel()
    rows = torch.nn.functional.embedding(ids, table)
    hits += 100
    return rows, hits.item()


@documented(
    "torch.nonzero, torch.where with one argument: the number of rows depends on the data",
    calls=lambda: [
        (torch.tensor([0, 1, 2]),),
        (torch.tensor([0, 0, 0]),),
        (torch.tensor([5, 1, 2]),),
        (torch.tensor([[0, 1], [1, 0]]),),
        (torch.tensor(3),),
        (torch.tensor([0.0, float("nan")]),),
    ],
)
def nonzero_places(x):
    places = torch.nonzero(x)
    columns = x.nonzero(as_tuple=True)
    found = [tuple(p) for p in places.tolist()]
    return places, columns, len(places), found, torch.where(x)[0].numel()


@documented(
    "torch.masked_select, Tensor.masked_fill_, masked_scatter_: source must have as many elements as ones in the mask",
    calls=lambda: (
        lambda x: [
            (x, torch.tensor([1, 0, 1, 0]).bool(), torch.arange(4.0)),
            (x, torch.tensor([1, 1, 1, 0]).bool(), torch.arange(4.0)),
            (x, torch.tensor([1, 1, 1, 0]).bool(), torch.arange(2.0)),
            (x, torch.tensor([0, 0, 0, 0]).bool(), torch.arange(2.0)),
            (x, torch.tensor([1, 1, 1, 1]).bool(), torch.arange(4.0)),
        ]
    )(torch.zeros(4)),
)
def masked_scatter(x, mask, source):
    x.masked_fill_(mask, -1)
    x.masked_scatter_(mask, source)
    return x.masked_select(mask), x.masked_select(~mask).sum(), mask.sum().item()


@documented(
    "torch.Tensor.select, narrow, index_fill_: start + length must not exceed the size",
    calls=lambda: (lambda x: [(x, 0, 2), (x, 1, 3), (x, 3, 2), (x, -2, 2), (x, 4, 0), (x, 5, 0), (x, 2, 1)])(
        torch.arange(8.0).view(4, 2)
    ),
)
def narrowed(x, start, length):
    x.sub_(1)
    window = x.narrow(0, start, length)
    window.zero_()
    return window.shape, x.select(1, 0), x.clone()


@documented(
    "KV cache: Tensor slices written at a position kept by the object; the returned view covers what is filled",
    calls=lambda: (
        lambda c: [
            (c, torch.ones(1, 2)),
            (c, torch.ones(2, 2) * 2),
            (c, torch.ones(1, 2) * 3),
            (c, torch.ones(3, 2)),
            (c, torch.ones(1, 2) * 4),
        ]
    )(Cache(6)),
)
def cache_update(cache, keys):
    return cache.append(keys)


class Cache:
    def __init__(self, size):
        self.keys = torch.zeros(size, 2)
        self.pos = 0

    def append(self, keys):
        n = keys.shape[0]
        self.keys[self.pos : self.pos + n] = keys
        self.pos += n
        seen = self.keys[: self.pos]
        return torch.softmax(keys @ seen.T, -1), seen.shape[0], self.pos


@documented(
    "torch.cat: a cache that grows by concatenation; shapes must match except in the cat dimension",
    calls=lambda: (
        lambda c: [
            (c, torch.ones(1, 2)),
            (c, torch.ones(1, 2) * 2),
            (c, torch.ones(3, 2)),
            (c, torch.ones(1, 3)),
            (c, torch.ones(1, 2) * 5),
        ]
    )({}),
)
def growing_cache(cache, new):
    cache["calls"] = cache.get("calls", 0) + 1
    cache["k"] = torch.cat([cache["k"], new]) if "k" in cache else new
    return cache["k"].mean(0), len(cache["k"]), cache["calls"]


@documented(
    "masks from lengths: torch.arange(max) < lengths[:, None], the width is lengths.max().item()",
    calls=lambda: [
        (torch.tensor([1, 3]), torch.ones(2, 4)),
        (torch.tensor([2, 2]), torch.ones(2, 4)),
        (torch.tensor([4, 1]), torch.ones(2, 4)),
        (torch.tensor([5, 1]), torch.ones(2, 4)),
        (torch.tensor([0, 0]), torch.ones(2, 4)),
    ],
)
def pooled_by_length(lengths, x):
    width = lengths.max().item()
    mask = torch.arange(width)[None] < lengths[:, None]
    part = x[:, :width] * mask
    return part.sum(1) / lengths, width, mask.any().item()


@documented(
    "positional tables: a registered buffer sliced by a counter attribute",
    calls=lambda: (
        lambda m: [
            (m, torch.zeros(1, 2)),
            (m, torch.zeros(3, 2)),
            (m, torch.zeros(2, 2)),
            Between(lambda: setattr(m, "offset", 0)),
            (m, torch.zeros(2, 2)),
            (m, torch.zeros(7, 2)),
            (m, torch.zeros(1, 2)),
        ]
    )(Positions()),
)
def with_positions(module, x):
    return module(x), module.offset


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(16.0).view(8, 2), persistent=False)
        self.offset = 0

    def forward(self, x):
        n = x.size(0)
        rows = self.table[self.offset : self.offset + n]
        self.offset += n
        return x + rows


@documented(
    "torch.unique: sorted unique elements, with inverse indices and counts",
    calls=lambda: [
        (torch.tensor([3, 1, 3]),),
        (torch.tensor([1, 2, 3]),),
        (torch.tensor([7, 7, 7]),),
        (torch.tensor([[1, 2], [2, 1]]),),
        (torch.tensor([], dtype=torch.long),),
    ],
)
def unique_values(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    groups = {v: c for v, c in zip(values.tolist(), counts.tolist())}
    return values, inverse.shape, groups, torch.unique_consecutive(x), len(values)


@documented(
    "torch.topk, torch.sort, torch.kthvalue: k out of range raises",
    calls=lambda: (
        lambda x: [(x, 1, True), (x, 3, True), (x, 2, False), (x, 5, True), (x, 4, True), (x, 0, True), (x, -1, False)]
    )(torch.tensor([3.0, 1.0, 2.0, 9.0])),
)
def best_of(x, k, largest):
    x.neg_()
    values, indices = x.topk(k, largest=largest)
    order = x.sort(descending=largest, stable=True)
    return values, indices, order.indices[:k], x.kthvalue(max(k, 1)).values


@documented(
    "torch.bincount, torch.histc: the length is max + 1 or minlength; negative inputs raise",
    calls=lambda: (
        lambda seen: [
            (seen, torch.tensor([0, 1, 1]), 0),
            (seen, torch.tensor([0, 4]), 0),
            (seen, torch.tensor([0, 4]), 8),
            (seen, torch.tensor([-1, 4]), 8),
            (seen, torch.tensor([], dtype=torch.long), 2),
            (seen, torch.tensor([2, 2]), 1),
        ]
    )(torch.zeros(1)),
)
def counted(seen, x, minimum):
    seen += x.numel()
    counts = torch.bincount(x, minlength=minimum)
    return (
        counts,
        counts.shape[0],
        torch.histc(x.float(), bins=4, min=0, max=4),
        counts.argmax() if len(counts) else None,
    )


@documented(
    "torch.take_along_dim, torch.take, torch.argmax: indices computed from data",
    calls=lambda: [
        (torch.tensor([[3.0, 1.0], [1.0, 3.0]]), 1),
        (torch.tensor([[3.0, 1.0], [1.0, 3.0]]), 0),
        (torch.tensor([[3.0, 1.0, 5.0], [1.0, 3.0, 9.0]]), -1),
        (torch.tensor([[3.0, 1.0, 5.0], [1.0, 3.0, 9.0]]), 2),
        (torch.zeros(0, 2), 0),
    ],
)
def along_a_dimension(x, dim):
    best = x.argmax(dim, keepdim=True)
    return torch.take_along_dim(x, best, dim), torch.take(x, torch.tensor([0, -1])), x.max(dim).values


@documented(
    "torch.Tensor.__iter__, len, in: iterating goes over the first dimension; a 0-d tensor raises TypeError",
    calls=lambda: [
        (torch.tensor([1.0, 2.0]), 2.0),
        (torch.tensor([1.0, 2.0, 3.0]), 5),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 4.0),
        (torch.tensor(3.0), 3.0),
        (torch.zeros(0), 0.0),
    ],
)
def iterated(x, value):
    present = value in x
    total = []
    for i, row in enumerate(x):
        total.append(row * i)
    return present, total, len(x), [bool(r.sum() > 1) for r in x]


@documented(
    "torch.searchsorted, torch.bucketize: positions in a sorted sequence, right or left",
    calls=lambda: [
        (torch.tensor([1.0, 3.0, 5.0]), 3.0, False),
        (torch.tensor([1.0, 3.0, 5.0]), 3.0, True),
        (torch.tensor([1.0, 3.0, 5.0]), 9, False),
        (torch.tensor([1, 3, 5]), torch.tensor([0, 3, 6]), True),
        (torch.tensor([]), 1.0, False),
    ],
)
def buckets(edges, value, right):
    at = torch.searchsorted(edges, value, right=right)
    if not isinstance(value, torch.Tensor):
        return at, edges[: at.item()], torch.bucketize(value, edges, right=right)
    return at, torch.bucketize(value, edges, right=right), edges[at.clamp(max=2)]
