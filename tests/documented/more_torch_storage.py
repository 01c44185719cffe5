"""More programs from torch's pages on storages, out= and resizing, arrays, serialization and copies."""

import copy
import io

import numpy as np
import torch
from torch.utils import dlpack

from documented import Between, documented, x


@documented(
    "torch.Tensor.untyped_storage: shared by views; resize_, fill_ and copy_ through the storage change the tensors",
    calls=lambda: (lambda t: [(t, t[2:], 1), (t, t.view(2, 2), 0), (t, t.clone(), 2), (t[1:], t[:1], 0)])(x(4)),
)
def storages(a, b, byte):
    s, r = a.untyped_storage(), b.untyped_storage()
    same = s.data_ptr() == r.data_ptr()
    before = a._version
    s[byte] = 0
    s.fill_(byte) if byte else None
    return same, len(s), s.nbytes(), a.storage_offset(), b.clone(), a._version - before, a.element_size()


@documented(
    "out=: an out tensor that is not empty and of another shape is resized with a warning",
    calls=lambda: (
        lambda o: [
            (x(3), o),
            (x(3), o),
            (x(2), o),
            (x(2, 2), o),
            (x(2, 2), torch.ones(4).view(2, 2).t()),
            (x(2), torch.ones(1, 5)[:, ::2]),
            (x(2), torch.empty(0, dtype=torch.int64)),
        ]
    )(torch.empty(0)),
)
def resized_out(t, out):
    version = out._version
    y = torch.mul(t, 2, out=out)
    return y is out, out.stride(), out._version - version, t + 1


@documented(
    "out=: the dtype must be one the result can be cast to; tensors that require grad are refused",
    calls=lambda: [
        (x(2), torch.zeros(2, dtype=torch.float64)),
        (x(2), torch.zeros(2, dtype=torch.int64)),
        (x(2).long(), torch.zeros(2)),
        (x(2).requires_grad_(), torch.zeros(2)),
        (x(2), torch.zeros(2, requires_grad=True)),
        (x(2).to(torch.complex64), torch.zeros(2)),
        (x(2), torch.zeros(2, dtype=torch.complex64)),
    ],
)
def cast_out(t, out):
    out.data.add_(1)
    y = torch.add(t, t, alpha=2, out=out)
    return y is out, y.dtype


@documented(
    "out=: several outputs as a tuple are resized each; topk, max with dim, sort return the named tuple over them",
    calls=lambda: (
        lambda v, i: [
            (x(4), v, i, 2),
            (x(4).flip(0), v, i, 3),
            (x(2, 4), v, i, 1),
            (x(4), v, torch.empty(0), 1),
            (x(4), v, i, 5),
        ]
    )(torch.empty(0), torch.empty(0, dtype=torch.long)),
)
def two_outs(t, values, indices, k):
    r = torch.topk(t, k, out=(values, indices))
    s = torch.sort(t, descending=True, out=(values, indices))
    return type(r).__name__, r.values is values, s[1] is indices, values.shape, r.indices


@documented(
    "out= over an input: overlapping memory of input and output is refused where it is unsafe",
    calls=lambda: (
        lambda t: [(t, t), (t[1:], t[:-1]), (t[:2], t[2:]), (t.expand(2, 4), t), (t, t.expand(2, 4)), (t[::2], t[:2])]
    )(x(4)),
)
def overlapping_out(t, out):
    torch.exp(t * 0, out=out) if t is out else torch.neg(t, out=out)
    return out, t


@documented(
    "in-place on memory that overlaps itself: refused, the tensor stays",
    calls=lambda: [
        (x(3), 2),
        (x(1), 3),
        (x(4), 1),
        (x(2, 1), 3),
        (x(5)[::2], 2),
    ],
)
def written_expanded(t, n):
    t.add_(1)
    wide = t.unsqueeze(-1).expand(*t.shape, n)
    wide.sub_(torch.ones(n))
    return t, wide.stride()


@documented(
    "torch.Tensor.resize_as_, resize_ with strides kept, memory_format; a tensor that requires grad is refused",
    calls=lambda: (
        lambda t: [
            (t, torch.zeros(2)),
            (t, torch.zeros(2, 3)),
            (t[1:], torch.zeros(2)),
            Between(t.requires_grad_),
            (t, torch.zeros(2)),
            (t.detach(), torch.zeros(1, 2, 2, 2)),
        ]
    )(x(4)),
)
def resized_as(t, other):
    view = t.view(-1)
    t.resize_as_(other)
    t.zero_()
    return t.shape, t.stride(), view.shape, t.untyped_storage().nbytes(), view.sum()


@documented(
    "torch.from_dlpack: shares memory with the producer in both directions; requires_grad and conj are refused",
    calls=lambda: (
        lambda t, a: [
            (t, 1),
            (a, 2),
            (t.view(2, 2).t(), 3),
            (t.clone().requires_grad_(), 4),
            (torch.ones(2, dtype=torch.complex64).conj(), 5),
            (a[::2], 6),
        ]
    )(x(4), np.arange(4.0)),
)
def through_dlpack(t, value):
    y = torch.from_dlpack(t)
    y.view(-1)[0].fill_(value) if y.is_contiguous() else y[0].fill_(value)
    z = dlpack.from_dlpack(dlpack.to_dlpack(y))
    return y, z.stride(), z.data_ptr() == y.data_ptr(), type(t).__name__


@documented(
    "torch.from_numpy, torch.asarray: copy=None shares when it can, copy=True never; negative strides are refused",
    calls=lambda: (
        lambda a: [
            (a, None, None),
            (a, True, None),
            (a, None, torch.float32),
            (a[::-1], None, None),
            (a, False, torch.float32),
            (a.tolist(), None, None),
            (a.astype(np.uint16), None, None),
        ]
    )(np.arange(3.0)),
)
def as_array(a, copied, dtype):
    t = torch.asarray(a, copy=copied, dtype=dtype)
    t[0] += 5
    return t, a[0], t.dtype


@documented(
    "torch.save and load through BytesIO: views share storage after loading, and the whole storage is written",
    calls=lambda: (
        lambda t: [
            (t, t[1:]),
            (t, t.clone()),
            (t[:2], t[2:]),
            (x(2).requires_grad_(), t.detach()),
            (torch.zeros(0), t),
        ]
    )(x(4)),
)
def through_a_buffer(a, b):
    buffer = io.BytesIO()
    torch.save({"a": a, "b": b}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    c, d = loaded["a"], loaded["b"]
    shares = c.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
    return c, d, shares, c.requires_grad, c.is_leaf, d.storage_offset()


@documented(
    "copy.copy and deepcopy of tensors: the shallow copy shares storage; a non-leaf is refused by the deep one",
    calls=lambda: [
        (x(3), 1.0),
        (x(3).requires_grad_(), 2.0),
        (x(3).requires_grad_() * 2, 3.0),
        (x(6)[::2], 4.0),
        (torch.nn.Parameter(x(2)), 5.0),
    ],
)
def shallow_and_deep(t, value):
    t.data[0] = value
    a = copy.copy(t)
    a.data[1] = -value
    b = copy.deepcopy(t)
    return a, b, t.data.sum(), type(a), type(b), b.stride(), b.is_leaf, a is t
