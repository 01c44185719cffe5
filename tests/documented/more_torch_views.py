"""More programs from torch's pages on views, strides, memory formats and broadcasting."""

import torch

from documented import Between, documented, x


@documented(
    "torch.flatten: returns the original, a view or a copy, as dimensions and strides allow",
    calls=lambda: [
        (x(2, 3), 0, -1),
        (x(6), 0, -1),
        (x(2, 3).t(), 0, -1),
        (x(2, 3, 2), 1, 2),
        (x(2, 3, 2), 2, 1),
        (torch.tensor(3.0), 0, -1),
        (x(2, 3, 2).transpose(0, 1), 0, 1),
    ],
)
def flattened(t, start, end):
    t += 1
    y = torch.flatten(t, start, end)
    y.mul_(2)
    return t, y, y is t, y._base is t, y.data_ptr() == t.data_ptr()


@documented(
    "torch.Tensor.contiguous: self when already contiguous in the asked memory format, a copy otherwise",
    calls=lambda: [
        (x(1, 2, 2, 2), torch.contiguous_format),
        (x(1, 2, 2, 2), torch.channels_last),
        (x(2, 2, 2, 2).to(memory_format=torch.channels_last), torch.channels_last),
        (x(2, 1, 2, 2), torch.channels_last),
        (x(2, 2, 1, 1), torch.channels_last),
        (x(2, 3), torch.channels_last),
        (x(2, 2, 2, 2).permute(1, 0, 3, 2), torch.preserve_format),
    ],
)
def in_memory_format(t, form):
    t.neg_()
    y = t.contiguous(memory_format=form)
    y.add_(1)
    return t, y.stride(), y is t, y.is_contiguous(memory_format=torch.channels_last), y.is_contiguous()


@documented(
    "notes/memory format: elementwise operators keep the strides of the inputs, the first input decides a mixture",
    calls=lambda: (
        lambda a, b: [(a, a), (a, b), (b, a), (b, b[:, :1]), (b[:, :1], b), (b[..., 0], b[..., 0]), (b.half(), a)]
    )(x(2, 2, 3, 3), x(2, 2, 3, 3).to(memory_format=torch.channels_last)),
)
def strides_of_sums(a, b):
    y = a + b
    like = torch.zeros_like(a)
    flat = torch.ones_like(a, memory_format=torch.contiguous_format)
    return y.stride(), like.stride(), flat.stride(), a.clone().stride(), torch.empty_like(b).stride(), y.dtype


@documented(
    "torch.nn.Module.to(memory_format): 4-D parameters change their strides in place; convolutions propagate it",
    calls=lambda: (
        lambda m: [
            (m, x(1, 2, 4, 4)),
            Between(lambda: m.to(memory_format=torch.channels_last)),
            (m, x(1, 2, 4, 4)),
            (m, x(1, 2, 4, 4).to(memory_format=torch.channels_last)),
            (m, x(2, 2, 5, 5)),
            Between(lambda: m.to(memory_format=torch.contiguous_format)),
            (m, x(2, 2, 5, 5)),
        ]
    )(torch.nn.Conv2d(2, 3, 2)),
)
def convolution_in_format(m, t):
    y = m(t)
    return y.stride(), m.weight.stride(), torch.relu(y).stride(), y.shape


@documented(
    "torch.Tensor.squeeze, unsqueeze: views; a dimension that is not 1 is left; the tuple form takes several",
    calls=lambda: [
        (x(1, 2, 1), None),
        (x(1, 2, 1), 0),
        (x(1, 2, 1), 1),
        (x(1, 2, 1), (0, 2)),
        (x(1, 2, 1), (0, 1)),
        (x(1, 1), (0, 0)),
        (x(1, 1), 5),
        (torch.tensor(2.0), 0),
    ],
)
def squeezed(t, dim):
    t.add_(1)
    y = t.squeeze() if dim is None else t.squeeze(dim)
    y.mul_(3)
    z = y.unsqueeze(-1)
    return t, y.shape, z.stride(), y._base is t, z._base is t


@documented(
    "torch.Tensor.squeeze_, t_, transpose_, unsqueeze_: change the metadata of the tensor itself",
    calls=lambda: (lambda t: [(t, 0), (t, 1), (t, 0), (x(2, 3, 4), 2), (x(3), 0), (x(1, 3), 1)])(x(2, 3)),
)
def reshaped_itself(t, dim):
    before = t._version
    t.unsqueeze_(dim)
    t.transpose_(0, 1)
    row = t[0]
    t.squeeze_()
    row.add_(1)
    return t.shape, t.stride(), t._version - before, row


@documented(
    "torch.Tensor.expand, broadcast_to: -1 keeps a size, no memory is allocated; new dimensions come in front",
    calls=lambda: [
        (x(1, 3), (2, -1)),
        (x(3), (2, 2, 3)),
        (x(3, 1), (-1, 4)),
        (x(3), (-1, 3)),
        (x(2), (3,)),
        (torch.tensor(1.0, requires_grad=True), (2, 2)),
        (x(1, 3), (0, 3)),
    ],
)
def expanded(t, size):
    y = t.expand(size)
    z = t.broadcast_to(size)
    return y.stride(), y._base is t, z.data_ptr() == t.data_ptr(), y.untyped_storage().nbytes(), y.contiguous(), y


@documented(
    "torch.broadcast_tensors, broadcast_shapes: views of the common shape; shapes that do not fit raise",
    calls=lambda: [
        (x(2, 1), x(3)),
        (x(2, 1), x(1, 4)),
        (x(2), x(3)),
        (torch.tensor(1), x(2, 2)),
        (x(0, 1), x(1, 3)),
        (x(2, 1, 3), x(4, 1)),
    ],
)
def broadcast_together(a, b):
    a += 1
    shape = torch.broadcast_shapes(a.shape, b.shape, (1,))
    c, d = torch.broadcast_tensors(a, b)
    return shape, c.stride(), d.stride(), c._base is a, type(shape), c + d


@documented(
    "torch.Tensor.view(dtype): reinterprets; the last dimension scales with the element sizes and must be dense",
    calls=lambda: [
        (torch.ones(4), torch.int32),
        (torch.ones(2, 4), torch.float64),
        (torch.ones(4), torch.uint8),
        (torch.ones(3), torch.float64),
        (torch.ones(2, 4).t(), torch.int16),
        (torch.ones(2, 4).t(), torch.int32),
        (torch.ones(2, requires_grad=True), torch.int32),
        (torch.ones(2, 2, dtype=torch.complex64), torch.float32),
    ],
)
def reinterpreted(t, dtype):
    y = t.view(dtype)
    y[0] = 0
    return t, y, y.stride(), y._is_view(), y.requires_grad


@documented(
    "torch.diagonal, diag, diag_embed, diagflat: diagonal is a view, diag copies",
    calls=lambda: [
        (x(3, 3), 0),
        (x(2, 3), 1),
        (x(3, 2), -1),
        (x(2, 2), 5),
        (x(3), 1),
        (x(2, 2, 3), 0),
    ],
)
def diagonals(t, offset):
    d = torch.diag(t, offset)
    d.fill_(-1)
    e = torch.diag_embed(t[..., 0], offset)
    v = t.diagonal(offset)
    v += 10
    return t, d, e, v.stride(), v._base is t, torch.diagflat(t, offset).shape


@documented(
    "torch.diagonal_scatter, select_scatter, slice_scatter: fresh tensors, not views; shapes must be the slice's",
    calls=lambda: [
        (x(3, 3), torch.zeros(3), torch.zeros(3), 0),
        (x(3, 3), torch.zeros(2), torch.zeros(3), 1),
        (x(3, 3), torch.zeros(3), torch.zeros(2), 0),
        (x(2, 2, 2).transpose(0, 2)[0], torch.zeros(2), torch.zeros(2), 0),
        (x(3, 3), torch.zeros(3, dtype=torch.long), torch.zeros(3), 0),
        (x(3, 3).requires_grad_(), torch.zeros(3), torch.ones(3), 0),
    ],
)
def scattered_slices(t, diagonal, row, offset):
    a = torch.diagonal_scatter(t, diagonal, offset)
    b = torch.select_scatter(a, row, 0, -1)
    c = torch.slice_scatter(b, b[:1] * 2, 0, 1, 2)
    return a, b, c, c.stride(), a._is_view(), t._version


@documented(
    "torch.Tensor.movedim, unflatten, unfold, mT, H, adjoint: views that may be written; mT needs two dimensions",
    calls=lambda: [
        (x(2, 6), (2, 3)),
        (x(2, 4), (2, -1)),
        (x(2, 4), (3, -1)),
        (x(6), (6,)),
        (torch.ones(2, 4, dtype=torch.complex64) * 1j, (4, 1)),
        (x(3, 2, 2), (1, -1)),
    ],
)
def chain_of_views(t, sizes):
    t.mul_(2)
    y = t.unflatten(-1, sizes)
    y = y.movedim(0, -1)
    z = t.mT
    z[0] = 5
    return t, y, z, t.adjoint(), t.adjoint().is_conj(), y._base is t, z.stride()
