"""More programs from torch's pages on data assignment, swapped tensors, meta, quantised and sparse tensors, arrays."""

import weakref

import numpy as np
import torch
from torch import nn

from documented import Between, documented, x


@documented(
    "torch.Tensor.data as an attribute: assignment gives the tensor other memory, shape and dtype; kinds must be compatible",
    calls=lambda: (
        lambda w: [
            (w, x(3)),
            (w, x(2, 2)),
            (w, x(2).double()),
            (w, torch.ones(2, requires_grad=True)),
            (w, 3.0),
            (w, x(2)),
        ]
    )(x(2).requires_grad_()),
)
def data_assigned(w, value):
    w.grad = None
    before = w._version
    view = w.detach()
    w.data = value
    y = (w * 2).sum()
    y.backward()
    return w.shape, w._version - before, view, w.data_ptr() == view.data_ptr(), w.grad.dtype


@documented(
    "torch.utils.swap_tensors: contents and attributes change places; weak references are refused",
    calls=lambda: (
        lambda a, b, keep: [
            (a, b),
            (a, b),
            (a, a),
            Between(lambda: keep.append(weakref.ref(a))),
            (a, b),
            Between(keep.clear),
            (b, a),
            (nn.Parameter(x(2)), b),
        ]
    )(x(3), x(2).requires_grad_(), []),
)
def swapped(a, b):
    a.note = a.numel()
    torch.utils.swap_tensors(a, b)
    return a.shape, b.shape, getattr(a, "note", None), getattr(b, "note", None), a.requires_grad, (a.sum() + b.sum())


@documented(
    "torch.nn.Module.to_empty, torch.device('meta'): parameters without data; values cannot be read",
    calls=lambda: [("meta", "cpu"), ("cpu", "meta"), ("cpu", "cpu"), ("meta", "meta")],
)
def without_data(device, other):
    with torch.device(device):
        m = nn.Linear(2, 2, bias=False)
    kind = m.weight.device.type
    m.to_empty(device=other)
    with torch.no_grad():
        m.weight.fill_(1.5)
    y = m(torch.ones(1, 2, device=other))
    return kind, y.is_meta, y.shape, m.weight.is_leaf, (y.sum().item() if other == "cpu" else y.dtype)


@documented(
    "meta tensors: shapes and dtypes are computed without data; item and tolist raise; mixing with the CPU raises",
    calls=lambda: [
        (torch.ones(2, 3, device="meta"), x(3)),
        (torch.ones(2, 3, device="meta"), torch.ones(3, device="meta")),
        (torch.ones(2, 3, device="meta"), torch.tensor(2.0)),
        (torch.ones(2, device="meta"), 2),
        (x(2), 2),
    ],
)
def shapes_only(t, other):
    y = t * other
    z = y.sum(-1).to(torch.float64)
    return y.shape, z.dtype, z.device.type, y.stride(), torch.empty_like(y).shape, z


@documented(
    "quantised tensors: relu, max, views, clone and copy keep scale and zero point; mixing with floats raises",
    calls=lambda: [
        (x(4) - 2, 0.5, "clone"),
        (x(4) - 2, 0.25, "relu"),
        (x(2, 2), 0.5, "view"),
        (x(2, 2), 0.5, "add"),
        (x(4), 0.5, "copy"),
        (x(4), 0.5, "float"),
    ],
)
def quantised_further(t, scale, what):
    q = torch.quantize_per_tensor(t, scale, 1, torch.qint8)
    if what == "clone":
        r = q.clone()
    elif what == "relu":
        r = torch.relu(q)
    elif what == "view":
        r = q.t().reshape(-1)
    elif what == "add":
        r = q + 1.0
    elif what == "copy":
        r = torch.empty_like(q)
        r.copy_(t)
    else:
        return q.float()
    values = r.dequantize()
    return values, r.q_scale(), r.int_repr(), str(r.qscheme()), r is q


@documented(
    "torch.quantize_per_channel: scales and zero points by an axis; q_per_channel_axis; a per tensor question raises",
    calls=lambda: [
        (x(2, 2), [0.1, 0.5], 0),
        (x(2, 2), [0.1, 0.5], 1),
        (x(2, 3), [0.1, 0.5], 1),
        (x(2, 2), [0.25, 0.5], -1),
        (x(2), [0.25, 0.5], 0),
    ],
)
def quantised_by_channel(t, scales, axis):
    q = torch.quantize_per_channel(t, torch.tensor(scales), torch.zeros(2, dtype=torch.long), axis, torch.qint8)
    y = q.dequantize() * 2
    return y, q.q_per_channel_axis(), q.q_per_channel_scales(), q.dtype, q.int_repr()


@documented(
    "torch.sparse: products with dense matrices, addition, gradients; element access and in-place dense are limited",
    calls=lambda: [
        (torch.eye(2), x(2, 2)),
        (torch.eye(3), x(3, 1)),
        (torch.eye(2).requires_grad_(), x(2, 2)),
        (torch.eye(2), x(3, 2)),
        (torch.zeros(2, 2), x(2, 2)),
    ],
)
def sparse_products(t, d):
    s = t.to_sparse()
    y = torch.sparse.mm(s, d)
    z = s + s
    total = (z.to_dense() * 2).sum() + y.sum()
    if total.requires_grad:
        total.backward()
    return y, str(z.layout), total, s._nnz(), t.grad, y.requires_grad


@documented(
    "torch.Tensor.to_sparse_csr, bsr: products with vectors, row counts; values() can be written; dense again",
    calls=lambda: [(x(2, 2), 1.0), (x(3, 3) - 5, 2.0), (torch.zeros(2, 3), 1.0), (x(2, 2).long(), 2), (x(3), 1.0)],
)
def rows_compressed(t, factor):
    c = t.to_sparse_csr()
    values = c.values()
    values.mul_(factor)
    return c.crow_indices(), values, c.to_dense(), c @ torch.ones(t.shape[1], dtype=t.dtype), c._nnz(), t


@documented(
    "NumPy functions on tensors: results are arrays or tensors by __array_wrap__; requires_grad refuses",
    calls=lambda: (lambda a: [(x(3), a), (x(3).double(), a), (x(3).requires_grad_(), a), (x(3).bool(), a), (x(2), a)])(
        np.arange(3.0)
    ),
)
def universal_functions(t, a):
    left = np.sin(t)
    right = t + torch.from_numpy(a)
    both = np.add(t, a)
    return type(left).__name__, left, right, type(both).__name__, both, np.asarray(t).dtype, a * 2


@documented(
    "torch.Tensor.numpy(force=True): detaches, resolves and copies where it must; the array follows a shared tensor",
    calls=lambda: [
        (x(3), False),
        (x(3).requires_grad_(), True),
        (torch.tensor([1 + 1j]).conj(), True),
        (torch.tensor([1 + 1j]).conj(), False),
        (x(3).to(torch.bfloat16), True),
        (x(2, 2).t(), False),
    ],
)
def forced_array(t, force):
    a = t.numpy(force=force)
    t.detach().add_(1)
    return a.tolist(), a.strides, a.dtype, a.flags.writeable


@documented(
    "torch.Tensor.type, type_as, new_tensor, new_full: strings of types; new_tensor copies and warns for tensors",
    calls=lambda: [
        (x(2), "torch.IntTensor"),
        (x(2), torch.float64),
        (x(2), "torch.FloatTensor"),
        (x(2), "torch.NoTensor"),
        (x(2).double(), torch.half),
    ],
)
def types_of_tensors(t, kind):
    name = t.type()
    y = t.type(kind)
    z = t.new_tensor(y)
    return name, y, y is t, z.dtype, t.new_full((2,), True).dtype, t.type_as(y).dtype, torch.typename(y)


@documented(
    "torch.Tensor.is_set_to, is_shared, share_memory_, is_pinned: the same memory, size and strides",
    calls=lambda: (lambda t: [(t, t), (t, t.view(4)), (t, t.clone()), (t.clone().share_memory_(), t), (t, t[:2])])(
        x(4)
    ),
)
def same_memory(a, b):
    c = a.view_as(a)
    c.add_(1)
    return a.is_set_to(b), a.is_set_to(c), a.is_shared(), b.data_ptr() == a.data_ptr(), torch.is_same_size(a, b)


@documented(
    "torch.Tensor.__format__, __repr__ of parameters, complex, empty and 0-d tensors; float(), int(), complex()",
    calls=lambda: [
        (torch.tensor(1.5), ".3f"),
        (torch.tensor(1.5, requires_grad=True), ".1f"),
        (torch.tensor([1.5]), ".3f"),
        (torch.tensor(2), "04d"),
        (torch.tensor(1 + 2j), ""),
        (torch.zeros(0, 2), ""),
    ],
)
def formatted(t, spec):
    y = t * 2
    text = f"{y:{spec}}"
    return text, repr(y), str(t.detach()), f"{t.shape}", complex(t.sum())


@documented(
    "torch.Tensor.__contains__, __reversed__, __len__, __dir__ and iteration over zip and enumerate",
    calls=lambda: [
        (x(3), 2),
        (x(3), 2.5),
        (x(2, 2), torch.tensor([1.0, 2.0])),
        (torch.tensor(1.0), 1),
        (x(3), "text"),
        (x(0), 1),
    ],
)
def as_container(t, item):
    found = item in t
    back = [v + i for i, v in enumerate(reversed(t))]
    pairs = {int(a): b for a, b in zip(t.view(-1), t)}
    return found, back, pairs, len(t), "backward" in dir(t)


@documented(
    "Tensor attributes of one's own: kept on the object, not on views, copies or results; deepcopy copies them",
    calls=lambda: (lambda t: [(t, 1), (t, 2), (x(3), "a"), (t.view(2), [3]), (nn.Parameter(x(2)), 4)])(x(2)),
)
def own_attributes(t, value):
    before = getattr(t, "label", None)
    t.label = value
    y = t + 1
    v = t.view(-1)
    t.extra = y
    return before, hasattr(y, "label"), hasattr(v, "label"), t.detach() is t, sorted(vars(t)), t.label


@documented(
    "torch.gradient, trapezoid, cumulative_trapezoid, diff: spacing as number or coordinates; edge_order",
    calls=lambda: [
        (x(4) ** 2, 1.0, 1),
        (x(4) ** 2, 2, 2),
        (x(4) ** 2, [torch.tensor([0.0, 1.0, 3.0, 4.0])], 1),
        (x(1), 1.0, 1),
        (x(3, 3), 1.0, 1),
        (x(4) ** 2, 1.0, 3),
    ],
)
def differences(t, spacing, order):
    t.sub_(1)
    g = torch.gradient(t, spacing=spacing, edge_order=order)
    return g, len(g), torch.trapezoid(t, dx=2.0), torch.cumulative_trapezoid(t), torch.diff(t, n=2)


@documented(
    "torch.addcmul, addcdiv, lerp, addmv: value and alpha; in place dtypes; integer division is refused",
    calls=lambda: [
        (x(2), x(2), x(2), 0.5),
        (x(2).long(), x(2).long(), x(2).long(), 2),
        (x(2), x(2), torch.tensor(2.0), 1),
        (x(2), x(2, 1), x(2), 1),
        (x(2).double(), x(2), x(2), 1),
        (x(2), x(2), torch.zeros(2), 1),
    ],
)
def combined(t, a, b, value):
    t.addcmul_(a, b, value=value)
    y = torch.lerp(t, t * 2, 0.5)
    return t, y, torch.addcdiv(t, a, b, value=value)


@documented(
    "torch.tensor_split, hsplit, dsplit, combinations, vander, block_diag, unravel_index: sections and indices",
    calls=lambda: [
        (x(5), 2),
        (x(5), (1, 3)),
        (x(5), torch.tensor([2, 4])),
        (x(5), torch.tensor(3)),
        (x(2, 4), 2),
        (torch.tensor(1.0), 2),
        (x(3), 0),
    ],
)
def split_sections(t, sections):
    parts = torch.tensor_split(t, sections)
    parts[0].add_(10)
    i = torch.unravel_index(torch.tensor([1, 2]), (2, 2))
    return (
        t,
        [p.shape for p in parts],
        parts[-1]._base is t,
        i,
        torch.combinations(t.view(-1)[:3], 2),
        torch.vander(t.view(-1)[:2]),
    )
