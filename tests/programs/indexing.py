"""Reading and writing parts of tensors."""

import torch

from programs import program


@program("indexing", lambda t: (t(t.n, 3, 2),))
def basic(x):
    return x[0], x[-1, 1], x[1:], x[:, ::2], x[..., 0], x[None].shape, x[:, None, 0], x[0, ..., 1], x[()], x[1:3, 1:]


# Breaks: an index of no dimensions is a number known only from data.
@program("indexing", lambda t: (t(t.n, 3), torch.tensor([0, 2]), torch.tensor([1, 1])), one_graph=False)
def with_tensors(x, i, j):
    return x[i], x[:, j], x[i, j], x[i[:, None], j], x[[0, 1]], x[[0, 1], [2, 0]], x[i][:, 0], x[torch.tensor(1)]


# Breaks: the shape of y[mask] depends on data.
@program("indexing", lambda t: (t(t.n, 3), t.bools(t.n, 3)), one_graph=False)
def masks_written(x, mask):
    y = x.clone()
    y[mask] = 0.0
    y[~mask] *= 2
    return y, torch.where(mask, x, 0)


@program("indexing", lambda t: (t(t.n, 3), 1, slice(0, 2)))
def with_python_values(x, i, s):
    return x[i], x[s], x[s, i], x[i - 1 : i + 1], x[..., -i], x[[i]], x.shape[i], x[True].shape


@program("indexing", lambda t: (t(t.n, 3), t(3)))
def writes(x, row):
    x[0] = row
    x[1, 1] = 5.0
    x[-1:] = 0
    x[:, 0] += 1
    x[..., 2] = x[..., 1] * 2
    return x.sum()


# Breaks: a write that may raise on data, after an input was written.
@program("indexing", lambda t: (t(t.n, 3), torch.tensor([0, 2])), one_graph=False)
def writes_with_tensors(x, i):
    x[i] = 1.0
    x[i, 0] = torch.tensor([7.0, 8.0])
    x.index_fill_(1, torch.tensor([1]), -1)
    x.index_put_((i,), torch.zeros(3), accumulate=True)
    return x[i]


@program("indexing", lambda t: (t(t.n, 3),))
def views_share_memory(x):
    row = x[1]
    row += 1
    column = x[:, 0]
    column.zero_()
    flat = x.view(-1)
    flat[0] = 9
    return row, column, flat, x[1, 1] * 2


@program("indexing", lambda t: (t(t.n, 3), []))
def views_collected(x, out):
    for i in range(3):
        out.append(x[:, i])
    out[0].add_(out[1])
    return torch.stack(out)


@program("indexing", lambda t: (t(t.n, 3),))
def unpacked_rows(x):
    (a, b), (c, d) = x[:2, :2]
    first, *rest = x.unbind(1)
    return a + d, b - c, first, len(rest), [r.sum() for r in rest]


@program("indexing", lambda t: (t(t.n, 3),))
def diagonals_and_triangles(x):
    d = x.diagonal()
    d.fill_(1)
    return x.triu(), x.tril(-1), torch.diag(x), torch.trace(x[:3]), x.select(0, 1), x.as_strided((2,), (1,))
