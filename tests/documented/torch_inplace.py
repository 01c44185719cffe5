"""Programs from torch's pages on in-place operations, views, storages, broadcasting, type promotion and out=."""

import copy
import pickle

import torch

from documented import Between, documented
from documented.once import told_before


@documented(
    "notes/autograd, in-place correctness: a tensor keeps a version counter, incremented by each in-place operation",
    calls=lambda: (lambda x: [(x, 1), (x, 2), (x, 0), (x.view(2, 2), 1), (torch.ones(3), 3), (x[1:], 2)])(
        torch.zeros(4)
    ),
)
def version_counters(x, times):
    before = x._version
    y = x.view(-1)
    for _ in range(times):
        y.add_(1)
    z = x.detach()
    z.mul_(2)
    return x._version - before, y._version == x._version, z._version - before, x.clone()


@documented(
    "torch.Tensor.data vs detach: writes through .data are not counted by the version counter",
    calls=lambda: (lambda x: [(x, 1.0), (x, 2.0), (torch.ones(2, requires_grad=True), 3.0), (x, 4.0)])(torch.zeros(2)),
)
def written_through_data(x, value):
    before = x._version
    x.data.add_(value)
    x.data[0] = -value
    return x.detach().clone(), x._version - before, x.data.requires_grad, (x * 2).requires_grad


@documented(
    "autograd: a leaf Variable that requires grad is being used in an in-place operation: RuntimeError",
    calls=lambda: (
        lambda n: [
            (n, torch.ones(2), 1),
            (n, torch.ones(2, requires_grad=True), 1),
            (n, torch.ones(2), 2),
            (n, torch.ones(2, requires_grad=True) * 1, 2),
        ]
    )(torch.zeros(1)),
)
def in_place_on_a_leaf(count, x, value):
    count += 1
    x += value
    count += 10
    return x.sum() + count


@documented(
    "autograd, in-place correctness: a saved tensor modified in place makes backward raise",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), False),
        (torch.ones(2, requires_grad=True), True),
        (torch.ones(3, requires_grad=True), False),
        (torch.ones(3), True),
    ],
)
def saved_then_modified(x, modify):
    y = x.exp()
    z = y * 2
    if modify:
        y.add_(1)
    if not z.requires_grad:
        return z
    z.sum().backward()
    return x.grad


@documented(
    "Tensor Views: a view shares the underlying data with its base; an in-place write shows in both",
    calls=lambda: [
        (torch.arange(6.0), (2, 3), 0),
        (torch.arange(6.0), (3, 2), 1),
        (torch.arange(8.0), (2, -1), 1),
        (torch.arange(6.0), (4, -1), 0),
        (torch.arange(8.0)[::2], (2, 2), 1),
        (torch.arange(6.0).view(2, 3).t(), (6,), 0),
    ],
)
def written_through_a_view(x, shape, row):
    x.add_(1)
    y = x.view(shape)
    y[row] = -1
    return x, y.stride(), y.is_contiguous(), y._base is x


@documented(
    "torch.Tensor.view: not possible for incompatible strides, use reshape, which copies",
    calls=lambda: [
        (torch.arange(6.0).view(2, 3), False),
        (torch.arange(6.0).view(2, 3), True),
        (torch.arange(4.0).view(2, 2), True),
        (torch.zeros(0, 2), True),
    ],
)
def reshape_copies_or_not(x, transpose):
    y = x.t() if transpose else x
    z = y.reshape(-1)
    z.fill_(7)
    return x, z, z.data_ptr() == x.data_ptr(), y.contiguous().view(-1)


@documented(
    "torch.as_strided: a view with the given size, stride and offset; out of bounds for storage raises",
    calls=lambda: (
        lambda x: [
            (x, (2, 2), (1, 2), 0),
            (x, (3, 2), (1, 1), 1),
            (x, (2,), (3,), 2),
            (x, (4,), (3,), 0),
            (x, (2, 2), (0, 1), 0),
            (x, (5,), (-1,), 4),
        ]
    )(torch.arange(9.0)),
)
def strided(x, size, stride, offset):
    x += 1
    y = torch.as_strided(x, size, stride, offset)
    return y.sum(0), y.stride(), y.storage_offset(), y + y


@documented(
    "torch.Tensor.unfold, expand: a view of all slices of a size; expanded tensors must not be written in place",
    calls=lambda: [
        (torch.arange(5.0), 2, 1),
        (torch.arange(7.0), 3, 2),
        (torch.arange(3.0), 3, 1),
        (torch.arange(3.0), 4, 1),
        (torch.arange(6.0), 2, 3),
    ],
)
def sliding(x, size, step):
    windows = x.unfold(0, size, step)
    total = windows.sum(1)
    wide = x.expand(size, -1)
    try:
        wide.add_(1)
    except RuntimeError as error:
        return total, wide.stride(), str(error).split(".")[0]
    return total, wide


@documented(
    "torch.split, torch.chunk: chunks are views; split sizes must sum to the size; the last chunk may be smaller",
    calls=lambda: [
        (torch.arange(6.0), 2),
        (torch.arange(6.0), 4),
        (torch.arange(7.0), 3),
        (torch.arange(6.0), [1, 5]),
        (torch.arange(6.0), [1, 4]),
        (torch.arange(3.0), [3, 0]),
        (torch.arange(5.0), 0),
    ],
)
def split_in_parts(x, sizes):
    parts = x.split(sizes)
    for i, part in enumerate(parts):
        part.mul_(i + 1)
    chunks = torch.chunk(x, 4)
    return x, [p.shape[0] for p in parts], len(chunks), chunks[-1]


@documented(
    "torch.unbind, torch.Tensor.tolist: all slices along a dimension; unpacking a wrong count raises ValueError",
    calls=lambda: [
        (torch.ones(2, 3),),
        (torch.arange(4.0).view(2, 2),),
        (torch.ones(3, 2),),
        (torch.ones(1, 2),),
        (torch.ones(2),),
    ],
)
def unpacked(x):
    x.add_(1)
    a, b = x
    a -= b * 2
    return x, a * b, [len(t.shape) for t in x.unbind(-1)]


@documented(
    "torch.Tensor.resize_, storage: resize_ to more elements reallocates, to fewer keeps the storage",
    calls=lambda: (lambda x: [(x, 2), (x, 4), (x, 3), (x, 8), (x, 1)])(torch.arange(4.0)),
)
def resized(x, n):
    size_before = x.untyped_storage().nbytes()
    x.resize_(n)
    x.fill_(n)
    return x.clone(), x.shape, size_before, x.untyped_storage().nbytes()


@documented(
    "torch.Tensor.set_: the tensor shares the source's storage, size and strides afterwards",
    calls=lambda: (lambda x, s: [(x, s), (x, torch.ones(3)), (x, s[1:]), (x, torch.zeros(2, 2)), (x, s)])(
        torch.zeros(2), torch.arange(4.0)
    ),
)
def set_to_a_source(x, source):
    x.set_(source)
    x.add_(1)
    return x.shape, source.clone(), x.data_ptr() == source.data_ptr(), x * 2


@documented(
    "torch.Tensor.copy_: broadcasts src, converts its dtype; shapes that do not broadcast raise",
    calls=lambda: (
        lambda x: [
            (x, torch.ones(2)),
            (x, torch.tensor(3)),
            (x, torch.arange(4).view(2, 2)),
            (x, torch.ones(3)),
            (x, torch.tensor([1 + 1j])),
            (x, x.t()),
            (x, x[0]),
        ]
    )(torch.zeros(2, 2)),
    setup=lambda: told_before(lambda: torch.tensor([1j]).to(torch.float32)),
)
def copied_into(x, source):
    x.mul_(3)
    x.copy_(source)
    x[0, 0] += 1
    return x.clone()


@documented(
    "Broadcasting semantics: in-place operations do not allow the in-place tensor to change shape",
    calls=lambda: [
        (torch.ones(2, 3), torch.arange(3.0)),
        (torch.ones(2, 3), torch.arange(2.0)[:, None]),
        (torch.ones(1, 3), torch.ones(2, 1)),
        (torch.ones(3), torch.ones(2, 3)),
        (torch.ones(2, 3), torch.ones(2)),
        (torch.ones(0, 3), torch.ones(3)),
    ],
)
def broadcast_in_place(x, y):
    out = x + y
    x += y
    return out.shape, x, torch.broadcast_shapes(x.shape, y.shape)


@documented(
    "torch.Tensor dtypes, type promotion: of one category, dimensioned operands win over 0-dim ones",
    calls=lambda: [
        (torch.ones(2, dtype=torch.int32), 1),
        (torch.ones(2, dtype=torch.int32), 1.5),
        (torch.ones(2), torch.tensor(2.0, dtype=torch.float64)),
        (torch.ones(2, dtype=torch.int8), torch.tensor(2, dtype=torch.int64)),
        (torch.ones(2, dtype=torch.bool), True),
        (torch.ones(2, dtype=torch.bool), 2),
        (torch.tensor(1, dtype=torch.int32), 3.5),
        (torch.ones(2), 2j),
        (torch.ones(2, dtype=torch.float16), torch.tensor(2.0)),
        (torch.ones((), dtype=torch.bfloat16), torch.ones(2, dtype=torch.float16)),
    ],
)
def promoted(x, y):
    z = x * y
    return z, z.dtype, torch.result_type(x, y), (x + y).dtype, (x / 2).dtype


@documented(
    "type promotion in place: the result type can't be cast to the tensor's: RuntimeError",
    calls=lambda: (
        lambda a, b: [
            (a, 1),
            (a, 2.5),
            (a, True),
            (b, 1),
            (b, 2.5),
            (b, torch.ones(2, dtype=torch.float64)),
            (a, torch.tensor(1.5)),
            (b, 1j),
            (a, 300),
        ]
    )(torch.ones(2, dtype=torch.uint8), torch.ones(2)),
)
def promoted_in_place(x, value):
    x.add_(1)
    x += value
    return x.clone()


@documented(
    "integer tensors wrap around; torch.add with a Python int out of the dtype's range",
    calls=lambda: [
        (torch.tensor([250, 5], dtype=torch.uint8), 10),
        (torch.tensor([250, 5], dtype=torch.uint8), 300),
        (torch.tensor([250, 5], dtype=torch.uint8), -1),
        (torch.tensor([2**62], dtype=torch.int64), 2**62),
        (torch.tensor([2**62], dtype=torch.int64), 2**63),
        (torch.tensor([1], dtype=torch.int64), 2**70),
        (torch.tensor([127], dtype=torch.int8), 1),
        (torch.tensor([1.0]), 2**70),
    ],
)
def overflowing(x, n):
    return x + n, x * 2, (x - n).dtype


@documented(
    "torch.div rounding_mode, floor division, remainder: the sign follows Python; integer division by zero raises",
    calls=lambda: (
        lambda c: [
            (c, torch.tensor([7, -7]), 2, "floor"),
            (c, torch.tensor([7, -7]), 2, "trunc"),
            (c, torch.tensor([7, -7]), -3, None),
            (c, torch.tensor([7, -7]), 0, "floor"),
            (c, torch.tensor([7.0, -7.0]), 0, "floor"),
            (c, torch.tensor([7, -7]), 2.5, "up"),
            (c, torch.tensor([7, -7]), torch.tensor([2, -2]), "floor"),
        ]
    )([]),
)
def divided(calls, x, by, mode):
    calls.append(mode)
    quotient = torch.div(x, by, rounding_mode=mode)
    x.mul_(2)
    return quotient, x // by, x % by, len(calls)


@documented(
    "out=: the output tensor is resized when it is empty, written in place when the shape matches, and returned",
    calls=lambda: (
        lambda out: [
            (out, torch.ones(3), 2),
            (out, torch.ones(3), 3),
            (torch.empty(0), torch.ones(2), 4),
            (out.long(), torch.ones(3), 1.5),
            (out[:2], torch.ones(2), 5),
        ]
    )(torch.zeros(3)),
)
def into_out(out, x, value):
    got = torch.mul(x, value, out=out)
    total = torch.sum(x, 0, out=torch.empty(()))
    return got is out, out.clone(), out.shape, total


@documented(
    "torch.Tensor.is_floating_point, element_size, nbytes, is_contiguous: attributes used in Python arithmetic",
    calls=lambda: [
        (torch.ones(2),),
        (torch.ones(3, dtype=torch.float64),),
        (torch.ones(2, 3).t(),),
        (torch.ones(4, dtype=torch.bool),),
        (torch.ones(2, dtype=torch.complex64),),
    ],
)
def memory_report(x):
    layout = "contiguous" if x.is_contiguous() else x.stride()
    report = f"{tuple(x.shape)} {x.dtype} {x.element_size() * x.numel()} bytes, {layout}"
    scale = x.nbytes / (x.ndim + 1)
    if x.is_floating_point():
        return report, x * scale
    return report, x, x.is_complex()


@documented(
    "torch.Size: a subclass of tuple; numel(), slicing gives a Size, adding gives a Size",
    calls=lambda: [
        (torch.ones(2, 3),),
        (torch.ones(4),),
        (torch.ones(()),),
        (torch.ones(2, 3, 4),),
        (torch.ones(0, 2),),
    ],
)
def size_arithmetic(x):
    shape = x.shape
    more = shape + (1,)
    lead = shape[:-1]
    return (
        x.reshape(more),
        type(lead).__name__,
        type(more).__name__,
        lead.numel(),
        shape == tuple(shape),
        2 * shape,
        str(shape),
        x.size(-1) if shape else None,
    )


@documented(
    "torch.Tensor.__bool__: ambiguous for more than one value; one value is its truth, also as a while condition",
    calls=lambda: [
        (torch.tensor(3.0),),
        (torch.tensor([2.0]),),
        (torch.tensor([1.0, 2.0]),),
        (torch.tensor(0.0),),
        (torch.zeros(0),),
        (torch.tensor(-1.0),),
    ],
)
def counting_down(x):
    steps = 0
    while x > 0:
        x -= 1
        steps += 1
    return steps, x, not x, x.item() if x.numel() == 1 else None, 0 <= x < 1


@documented(
    "torch.Tensor.item: only one element tensors convert to Python scalars; the kind follows the dtype",
    calls=lambda: [
        (torch.tensor(3),),
        (torch.tensor(2.5),),
        (torch.tensor(True),),
        (torch.tensor([1j]),),
        (torch.ones(2),),
        (torch.tensor([[4]]),),
        (torch.tensor(float("inf")),),
    ],
)
def python_numbers(x):
    value = x.item()
    x.zero_()
    return value, type(value).__name__, [value] * 2, x.tolist(), float(x) if not x.is_complex() else complex(x)


@documented(
    "torch.Tensor.__index__: integer tensors of one element may be indices of lists and ranges",
    calls=lambda: [
        (torch.tensor(1), [5, 6, 7]),
        (torch.tensor([2]), [5, 6, 7]),
        (torch.tensor(-1), "abc"),
        (torch.tensor(1.0), [5, 6, 7]),
        (torch.tensor(9), [5]),
        (torch.tensor(True), [5, 6]),
    ],
)
def tensor_as_index(i, items):
    picked = items[i]
    return picked, list(range(i)), "x" * i, torch.arange(4)[i]


@documented(
    "torch.equal, torch.allclose, torch.isclose: True if same size and elements; nan differs unless equal_nan",
    calls=lambda: [
        (torch.ones(2), torch.ones(2)),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2) + 1e-6),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")])),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.zeros(2), torch.full((2,), 1e-7)),
    ],
)
def compared(x, y):
    if torch.equal(x, y):
        return "equal", x - y
    if x.shape == y.shape and torch.allclose(x, y, equal_nan=True):
        return "close", torch.isclose(x, y)
    return "different", (x.sum() - y.sum()).abs(), (x == y).all() if x.shape == y.shape else None


@documented(
    "torch.Tensor.__hash__ / __eq__: hashing is by identity, == is elementwise; tensors as dict keys and set members",
    calls=lambda: (lambda a, b, seen: [(seen, a, 1), (seen, b, 2), (seen, a, 3), (seen, b.view(-1), 4), (seen, a, 5)])(
        torch.ones(1), torch.ones(1), {}
    ),
)
def tensor_keys(seen, x, value):
    again = x in seen
    seen[x] = seen.get(x, 0) + value
    members = {x, x, x + 0}
    return again, seen[x], len(seen), len(members), x is next(iter(seen)), x * seen[x]


@documented(
    "copy.deepcopy of tensors: only leaf tensors support the deepcopy protocol; the copy has its own storage",
    calls=lambda: [
        (torch.ones(2), 1),
        (torch.ones(2, requires_grad=True), 2),
        (torch.ones(2, requires_grad=True) * 2, 2),
        ([torch.ones(1)] * 2, 3),
        ({"a": torch.ones(2)[1:]}, 3),
    ],
)
def deep_copies(x, value):
    y = copy.deepcopy(x)
    with torch.no_grad():
        if isinstance(y, torch.Tensor):
            y.add_(value)
        elif isinstance(y, list):
            y[0].add_(value)
            return x, y, y[0] is y[1]
        else:
            y["a"].add_(value)
    return x, y, y is x


@documented(
    "serialization: tensors that are views of one storage still share it after pickling; requires_grad is kept",
    calls=lambda: (
        lambda x: [
            ({"x": x, "y": x[1:]},),
            ({"x": x.requires_grad_(), "y": torch.ones(1)},),
            ([x, x],),
            ((torch.ones(2, 3).t(),),),
        ]
    )(torch.arange(3.0)),
)
def through_pickle(state):
    back = pickle.loads(pickle.dumps(state))
    leaves = list(back.values()) if isinstance(back, dict) else list(back)
    with torch.no_grad():
        leaves[0].add_(10)
    return (
        back,
        [t.requires_grad for t in leaves],
        [t.stride() for t in leaves],
        len({t.untyped_storage().data_ptr() for t in leaves}),
    )


@documented(
    "torch.set_printoptions, Tensor.__repr__: how tensors print; grad_fn and requires_grad appear",
    calls=lambda: [
        (torch.ones(2),),
        (torch.tensor([1.5, 1e-5]),),
        (torch.ones(1, requires_grad=True),),
        Between(lambda: torch.set_printoptions(precision=2)),
        (torch.tensor([1.23456]),),
        Between(lambda: torch.set_printoptions(profile="default")),
        (torch.ones(2, dtype=torch.bool),),
        (torch.zeros(0, 2),),
    ],
)
def printed(x):
    y = x * 2
    print("doubled:", y)
    return f"{x!r} {y.sum().item():.1f}", str(x + 1)


@documented(
    "torch.Tensor.map of names: transpose, permute, swapaxes, movedim; a repeated or missing dimension raises",
    calls=lambda: [
        (torch.arange(6.0).view(1, 2, 3), (2, 0, 1)),
        (torch.arange(6.0).view(3, 1, 2), (0, 2, 1)),
        (torch.arange(6.0).view(3, 1, 2), (0, 0, 1)),
        (torch.arange(6.0).view(3, 2), (1, 0)),
        (torch.arange(6.0).view(3, 2), (1, 0, 2)),
        (torch.arange(6.0).view(3, 2), (-1, -2)),
    ],
)
def permuted(x, order):
    x.neg_()
    y = x.permute(order)
    y[0] += 100
    return x, y.stride(), torch.movedim(y, 0, -1).shape, y.mT.shape, y.contiguous().view(-1)[:2]


@documented(
    "torch.view_as_real, torch.Tensor.real: views of complex tensors; conj is a lazy view with the conjugate bit",
    calls=lambda: [
        (torch.tensor([1 + 2j]), 1.0),
        (torch.tensor([1 + 2j, 3j]), 2.0),
        (torch.tensor([1.0]), 3.0),
        (torch.tensor([[1j]]), 4.0),
    ],
)
def complex_views(z, value):
    pair = torch.view_as_real(z)
    pair[..., 0] += value
    z.imag.mul_(value)
    c = z.conj()
    return z, c.is_conj(), c.resolve_conj(), (c * z).real, pair.shape, torch.view_as_complex(pair) is z
