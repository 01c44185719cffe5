"""Programs from torch's pages on pointwise, reduction, matrix, spectral, convolution and custom operators."""

import torch
from torch import nn

from documented import documented
from documented.once import told_before


@documented(
    "torch.nn.functional.pad: modes constant, reflect, replicate, circular; reflect needs padding less than the size",
    calls=lambda: (
        lambda x: [
            (x, (1, 1), "constant", 5.0),
            (x, (1, 2), "reflect", None),
            (x, (1, 4), "reflect", None),
            (x, (2, 1), "replicate", None),
            (x, (3, 4), "circular", None),
            (x, (-1, -1), "constant", 0.0),
            (x, (-3, -3), "constant", 0.0),
        ]
    )(torch.arange(4.0).view(1, 1, 4)),
)
def padded(x, pad, mode, value):
    x.add_(1)
    y = nn.functional.pad(x, pad, mode, value)
    return y, y.shape[-1] - x.shape[-1]


@documented(
    "torch.nn.functional.interpolate: either size or scale_factor; the output size is floor(size * scale)",
    calls=lambda: [
        (torch.randn(1, 1, 4), 2.0, None, "nearest"),
        (torch.randn(1, 1, 4), 1.5, None, "linear"),
        (torch.randn(1, 1, 5), 0.5, None, "linear"),
        (torch.randn(1, 1, 5), None, 7, "nearest"),
        (torch.randn(1, 1, 5), 2.0, 7, "nearest"),
        (torch.randn(1, 1, 5), 0.1, None, "nearest"),
        (torch.randn(1, 1, 5), 3, None, "nearest"),
    ],
)
def interpolated(x, scale, size, mode):
    y = nn.functional.interpolate(x, size=size, scale_factor=scale, mode=mode)
    return y, y.shape[-1] / x.shape[-1]


@documented(
    "torch.nn.functional.conv1d: output length by padding, stride, dilation; padding='same' needs stride 1",
    calls=lambda: [
        (torch.randn(1, 2, 6), 0, 1, 1),
        (torch.randn(1, 2, 6), 1, 2, 1),
        (torch.randn(1, 2, 7), 2, 1, 2),
        (torch.randn(1, 2, 7), "same", 1, 1),
        (torch.randn(1, 2, 7), "same", 2, 1),
        (torch.randn(1, 2, 2), 0, 1, 1),
        (torch.randn(1, 3, 7), 0, 1, 1),
        (torch.randn(2, 2, 9), 3, 3, 1),
    ],
)
def convolved(x, padding, stride, dilation):
    x.mul_(2)
    weight = torch.ones(1, 2, 3)
    y = nn.functional.conv1d(x, weight, padding=padding, stride=stride, dilation=dilation)
    return y, y.size(2)


@documented(
    "torch.nn.MaxPool1d: return_indices for MaxUnpool1d; output_size of unpool",
    calls=lambda: [
        (torch.randn(1, 1, 6), 2, False),
        (torch.randn(1, 1, 7), 2, True),
        (torch.randn(1, 1, 7), 3, False),
        (torch.randn(1, 1, 2), 3, False),
        (torch.randn(2, 1, 9), 3, True),
    ],
)
def pooled(x, size, ceil):
    y, where = nn.functional.max_pool1d(x, size, ceil_mode=ceil, return_indices=True)
    back = nn.functional.max_unpool1d(y, where, size, output_size=x.shape)
    return y, where, back, nn.functional.adaptive_avg_pool1d(x, y.shape[-1])


@documented(
    "torch.cumsum, cumprod, logsumexp, var: dim out of range raises IndexError; correction; keepdim",
    calls=lambda: (lambda x: [(x, 0, 1), (x, 1, 0), (x, -1, 1), (x, 2, 1), (x, -3, 1), (x, 0, 3), (x[0], 0, 1)])(
        torch.arange(1.0, 7.0).view(2, 3)
    ),
)
def reduced(x, dim, correction):
    x.div_(2)
    return (
        x.cumsum(dim),
        x.cumprod(dim)[-1],
        x.logsumexp(dim, keepdim=True),
        x.var(dim, correction=correction),
        x.amax(dim).shape,
    )


@documented(
    "torch.einsum: subscripts; operands' sizes for one letter must agree",
    calls=lambda: [
        ("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2)),
        ("ij,jk->ki", torch.ones(2, 3), torch.ones(3, 2)),
        ("ij,kj->ik", torch.ones(2, 3), torch.ones(3, 2)),
        ("...i,i->...", torch.ones(2, 4), torch.arange(4.0)),
        ("ii,ij->j", torch.ones(3, 3), torch.ones(3, 2)),
        ("ij,jk", torch.ones(1, 3), torch.ones(3, 4)),
    ],
)
def summed_by_letters(equation, a, b):
    a.add_(1)
    out = torch.einsum(equation, a, b)
    return out, out.ndim, equation.split("->")[-1]


@documented(
    "torch.matmul: 1-D, 2-D and batched operands; inner dimensions must match",
    calls=lambda: [
        (torch.ones(3), torch.arange(3.0)),
        (torch.ones(2, 3), torch.arange(3.0)),
        (torch.ones(2, 1, 3), torch.ones(4, 3, 2)),
        (torch.ones(2, 3), torch.ones(2, 3)),
        (torch.ones(2, 3), torch.tensor(1.0)),
        (torch.ones(0, 3), torch.ones(3, 2)),
        (torch.ones(2, 3).long(), torch.ones(3)),
    ],
)
def multiplied(a, b):
    a *= 2
    out = a @ b
    return out, out.shape, b.dim() - a.dim()


@documented(
    "torch.baddbmm, addmm: beta 0 ignores the input, also its nan; beta and alpha are integers for integer tensors",
    calls=lambda: [
        (torch.ones(2, 2), 1.0, 1.0),
        (torch.full((2, 2), float("nan")), 0.0, 2.0),
        (torch.full((2, 2), float("nan")), 0.5, 2.0),
        (torch.ones(2, 2, dtype=torch.long), 2, 3),
        (torch.ones(2, 2, dtype=torch.long), 0.5, 1),
        (torch.ones(3, 2), 1, 1),
    ],
)
def added_products(x, beta, alpha):
    a = torch.ones(2, 2, dtype=x.dtype)
    y = torch.addmm(x, a, a, beta=beta, alpha=alpha)
    return y, torch.baddbmm(x[None], a[None], a[None], beta=beta, alpha=alpha).sum()


@documented(
    "torch.linalg.solve, inv: a singular matrix raises torch.linalg.LinAlgError",
    calls=lambda: (
        lambda n: [
            (n, torch.eye(2) * 2),
            (n, torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
            (n, torch.ones(2, 2)),
            (n, torch.eye(3)),
            (n, torch.ones(2, 3)),
            (n, torch.zeros(3, 3)),
        ]
    )(torch.zeros(1)),
)
def solved(count, a):
    count.add_(1)
    try:
        x = torch.linalg.solve(a, torch.ones(a.shape[0]))
    except torch.linalg.LinAlgError:
        return "singular", count.clone()
    count.add_(10)
    return x, torch.linalg.inv(a), count.clone()


@documented(
    "torch.linalg.cholesky: raises for matrices that are not positive-definite; cholesky_ex returns info instead",
    calls=lambda: (
        lambda s: [
            (s, torch.eye(2)),
            (s, torch.tensor([[2.0, 1.0], [1.0, 2.0]])),
            (s, -torch.eye(2)),
            (s, torch.eye(3) * 4),
            (s, torch.ones(2, 2)),
            (s, torch.eye(2)),
        ]
    )({"n": 0, "trace": torch.zeros(())}),
)
def factored(state, a):
    state["n"] += 1
    state["trace"] += a.trace()
    l, info = torch.linalg.cholesky_ex(a)
    full = torch.linalg.cholesky(a)
    state["n"] += 100
    return l, info.item(), full @ full.mT


@documented(
    "torch.linalg.svd, eigh, qr, norm, matrix_rank: shapes by full_matrices; ord as number or name",
    calls=lambda: [
        (torch.eye(3)[:2], 2, False),
        (torch.eye(3)[:2], "fro", True),
        (torch.eye(3)[:2], "nuc", False),
        (torch.ones(2, 2), float("inf"), False),
        (torch.ones(2, 2), 5, False),
        (torch.diag(torch.arange(1.0, 4.0)), -2, True),
    ],
)
def decomposed(a, order, full):
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    return (
        u.shape,
        s,
        vh.shape,
        torch.linalg.norm(a, order),
        torch.linalg.matrix_rank(a).item(),
        torch.linalg.eigvalsh(a @ a.mT),
    )


@documented(
    "torch.fft: n trims or pads; rfft has n // 2 + 1 points; irfft needs n for odd lengths",
    calls=lambda: [
        (torch.arange(4.0), None),
        (torch.arange(4.0), 3),
        (torch.arange(5.0), 8),
        (torch.arange(5.0), 0),
        (torch.arange(6.0), 5),
        (torch.arange(6), None),
    ],
)
def spectrum(x, n):
    f = torch.fft.rfft(x, n=n)
    back = torch.fft.irfft(f, n=n if n else x.shape[0])
    return f, f.shape[0], back, torch.fft.fftfreq(f.numel()), torch.fft.fftshift(f).abs()


@documented(
    "torch.stft / istft: frames from n_fft and hop_length",
    calls=lambda: [
        (torch.arange(16.0), 4, 2),
        (torch.arange(16.0), 8, 4),
        (torch.arange(20.0), 4, 1),
        (torch.arange(2.0), 8, 4),
        (torch.arange(16.0), 4, None),
    ],
)
def spectrogram(x, n, hop):
    window = torch.hann_window(n)
    frames = torch.stft(x, n, hop, window=window, return_complex=True)
    return frames.abs(), frames.shape[-1], torch.istft(frames, n, hop, window=window, length=x.shape[0])


@documented(
    "torch.clamp: min greater than max gives max; one of both is enough, none raises; tensors as bounds",
    calls=lambda: [
        (torch.arange(4.0), 1, 2),
        (torch.arange(4.0), 2, 1),
        (torch.arange(4.0), None, 1.5),
        (torch.arange(4.0), None, None),
        (torch.arange(4), 1.5, None),
        (torch.arange(4.0), torch.tensor(1.0), torch.tensor(2.0)),
        (torch.arange(4.0), float("nan"), None),
    ],
)
def clamped(x, low, high):
    y = x.clamp(low, high)
    x.clamp_(max=2)
    return y, y.dtype, x, torch.clip(x, 0, 1).sum()


@documented(
    "torch.pow: integers to negative integer powers raise; 0 ** 0 is 1; Python number as base",
    calls=lambda: (
        lambda n: [
            (n, torch.tensor([2, 3]), 2),
            (n, torch.tensor([2, 3]), 0),
            (n, torch.tensor([2, 3]), -1),
            (n, torch.tensor([2.0, 0.0]), -1),
            (n, torch.tensor([4.0]), 0.5),
            (n, torch.tensor([2, 3]), 0.5),
            (n, torch.tensor([0.0]), 0),
        ]
    )([]),
)
def powers(log, x, n):
    log.append(n)
    x.add_(0)
    return x**n, 2**x, torch.float_power(x, n).dtype, len(log)


@documented(
    "torch.bitwise_left_shift, //, ~ and logical operators on integer and bool tensors; floats raise",
    calls=lambda: [
        (torch.tensor([1, 6]), 1),
        (torch.tensor([1, 6]), 62),
        (torch.tensor([True, False]), True),
        (torch.tensor([1.0]), 1),
        (torch.tensor([-1, 6], dtype=torch.int8), 3),
        (torch.tensor([5], dtype=torch.uint8), 2),
    ],
)
def bits(x, n):
    both = x & n
    x ^= n
    return both, x, ~x, (x << n if x.dtype != torch.bool else x | n)


@documented(
    "torch.where, torch.maximum: scalar arguments promote; nan propagates in maximum but not in fmax",
    calls=lambda: [
        (torch.tensor([1.0, float("nan")]), 0),
        (torch.tensor([1, -1]), 0.5),
        (torch.tensor([1, -1]), 2),
        (torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0])),
        (torch.tensor([True, False]), 3j),
    ],
)
def selected(x, other):
    y = torch.where(x > 0 if not x.is_complex() else x.real > 0, x, other)
    z = torch.fmax(x, torch.as_tensor(other).to(x.dtype)) if not isinstance(other, complex) else None
    return y, y.dtype, z, torch.nan_to_num(y)


@documented(
    "torch.quantize-like: torch.fake_quantize_per_tensor_affine; zero_point within the range; scale changes",
    calls=lambda: (
        lambda o: [
            (o, torch.tensor([0.1, 1.2]), 0.1, 0),
            (o, torch.tensor([0.1, 1.2]), 0.5, 3),
            (o, torch.tensor([0.1, 1.2]), 0.5, 300),
            (o, torch.tensor([0.1, 9.0]), 0.01, 10),
            (o, torch.tensor([0.1]), 1.0, 0),
        ]
    )(torch.zeros(())),
)
def fake_quantised(observed, x, scale, zero):
    observed.copy_(torch.maximum(observed, x.max()))
    y = torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)
    q = torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)
    return y, q, observed.item()


@documented(
    "torch.sparse_coo_tensor: coalesce sums duplicates; to_dense; indices out of the size raise",
    calls=lambda: [
        ([[0, 1, 1]], [1.0, 2.0, 3.0], (2,)),
        ([[0, 1]], [1.0, 2.0], (4,)),
        ([[0, 5]], [1.0, 2.0], (4,)),
        ([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)),
        ([[]], [], (3,)),
    ],
    setup=lambda: told_before(lambda: torch.sparse_coo_tensor([[0]], [1.0], (1,))),
)
def sparse(indices, values, size):
    s = torch.sparse_coo_tensor(indices, values, size)
    c = s.coalesce()
    dense = s.to_dense()
    return (
        c.values(),
        c._nnz(),
        dense * 2,
        s.is_sparse,
        (torch.sparse.mm(s, dense) if len(size) == 2 else dense.to_sparse().indices()),
    )


@documented(
    "torch.Tensor.to_sparse_csr, sparse layouts: crow_indices, col_indices and values",
    calls=lambda: [
        (torch.eye(2),),
        (torch.tensor([[0.0, 3.0], [4.0, 0.0]]),),
        (torch.zeros(2, 3),),
        (torch.ones(3),),
        (torch.ones(2, 2),),
    ],
    setup=lambda: told_before(lambda: torch.eye(2).to_sparse_csr()),
)
def compressed_rows(x):
    x.mul_(2)
    s = x.to_sparse_csr()
    return s.crow_indices(), s.values().sum(), s.values().numel(), s @ torch.ones(x.shape[1]), str(s.layout)


@documented(
    "torch.nested: nested_tensor of rows of different lengths; to_padded_tensor; unbind",
    calls=lambda: [
        ([torch.ones(2, 3), torch.ones(1, 3)], 0.0),
        ([torch.ones(2, 3), torch.ones(4, 3)], -1.0),
        ([torch.ones(1, 3)], 2.0),
        ([torch.ones(2, 3), torch.ones(2, 2)], 0.0),
        ([torch.ones(1, 3), torch.ones(1, 3), torch.ones(5, 3)], 0.0),
    ],
)
def nested_rows(rows, value):
    n = torch.nested.nested_tensor(rows)
    p = torch.nested.to_padded_tensor(n * 2, value)
    return p, p.shape[1], [r.shape[0] for r in n.unbind()], n.is_nested


@documented(
    "torch.nested with layout=torch.jagged: offsets and values; operations keep the ragged structure",
    calls=lambda: [([2, 1],), ([3, 3],), ([1, 0, 4],), ([2, 1],)],
)
def jagged_rows(lengths):
    n = torch.nested.nested_tensor([torch.ones(k, 2) * k for k in lengths], layout=torch.jagged)
    y = n.sin() + 1
    return y.values(), y.offsets(), y.size(0), y.sum()


_LOG: list[int] = []


@torch.library.custom_op("documented_torch::accumulate", mutates_args=("total",))
def accumulate(total: torch.Tensor, x: torch.Tensor, limit: int) -> torch.Tensor:
    _LOG.append(limit)
    total.add_(x.sum())
    if total.item() > limit:
        raise ValueError(f"over {limit}")
    return x * 2


@accumulate.register_fake
def _(total, x, limit):
    return torch.empty_like(x)


@documented(
    "torch.library.custom_op: mutates_args names what is written; the function's exceptions reach the caller",
    calls=lambda: (
        lambda t: [
            (t, torch.ones(2), 10),
            (t, torch.ones(2), 3),
            (t, torch.ones(3), 4),
            (t, torch.ones(3), 100),
            (t, torch.ones(1), 5),
        ]
    )(torch.zeros(())),
    state=lambda: list(_LOG),
    setup=_LOG.clear,
)
def custom_operator(total, x, limit):
    x.add_(1)
    y = accumulate(total, x, limit)
    total.mul_(2)
    return y, total.clone()


@torch.library.custom_op("documented_torch::pick", mutates_args=())
def pick(x: torch.Tensor, i: int) -> torch.Tensor:
    if i >= len(x):
        raise IndexError(f"{i} of {len(x)}")
    return x[i].clone()


@pick.register_fake
def _(x, i):
    return x.new_empty(x.shape[1:])


pick.register_autograd(
    lambda ctx, grad: (torch.zeros(ctx.shape).index_fill(0, torch.tensor(ctx.i), grad.sum().item()), None),
    setup_context=lambda ctx, inputs, output: (setattr(ctx, "i", inputs[1]), setattr(ctx, "shape", inputs[0].shape)),
)


@documented(
    "torch.library.register_autograd: backward formula with setup_context",
    calls=lambda: (
        lambda c: [
            (c, torch.ones(3, requires_grad=True), 0),
            (c, torch.ones(3, requires_grad=True), 2),
            (c, torch.ones(3, requires_grad=True), 3),
            (c, torch.ones(5), 4),
            (c, torch.ones(4, requires_grad=True), 1),
        ]
    )(torch.zeros(1)),
)
def custom_operator_with_gradient(count, x, i):
    count += 1
    y = pick(x, i) * 3
    if y.requires_grad:
        y.backward()
    return y, x.grad, count.item()


@documented(
    "torch.ops and overloads: torch.ops.aten.add.Tensor takes alpha; _foreach functions take lists of tensors",
    calls=lambda: [
        ([torch.ones(2), torch.ones(3)], 1),
        ([torch.ones(2), torch.ones(3)], 2.5),
        ([torch.ones(1)], -1),
        ([], 3),
        ([torch.ones(2), torch.ones(2)], [1.0, 2.0]),
    ],
)
def foreach(tensors, value):
    torch._foreach_add_(tensors, value)
    more = torch._foreach_mul(tensors, 2)
    return tensors, more, torch.ops.aten.add.Tensor(more[0], more[0], alpha=value if not isinstance(value, list) else 1)


@documented(
    "torch.roll, flip, rot90, tile: shifts and dims must have the same length",
    calls=lambda: [
        (torch.arange(6.0).view(2, 3), 1, 0),
        (torch.arange(6.0).view(2, 3), -2, 1),
        (torch.arange(6.0).view(2, 3), (1, 1), (0, 1)),
        (torch.arange(6.0).view(2, 3), 4, None),
        (torch.arange(6.0).view(2, 3), (1, 1), 0),
        (torch.arange(6.0).view(2, 3), 1, 2),
    ],
)
def rolled(x, shifts, dims):
    x += 1
    return (
        torch.roll(x, shifts, dims),
        x.flip(0),
        torch.rot90(x, shifts if isinstance(shifts, int) else 1),
        x.tile(2).shape,
    )


@documented(
    "torch.stack, hstack, block_diag: all tensors need the same size",
    calls=lambda: [
        ([torch.ones(2), torch.zeros(2)], 0),
        ([torch.ones(2), torch.zeros(2)], 1),
        ([torch.ones(2), torch.zeros(3)], 0),
        ([torch.ones(2)] * 3, -1),
        ([], 0),
        ([torch.ones(2), torch.ones(2, dtype=torch.long)], 2),
    ],
)
def stacked(rows, dim):
    for row in rows:
        row.add_(1)
    together = torch.stack(rows, dim)
    return together, len(rows), torch.hstack(rows), torch.block_diag(*rows).shape


@documented(
    "torch.cond-free control flow: a Newton iteration down to a tolerance; torch.Tensor.__float__",
    calls=lambda: [
        (torch.tensor(2.0), 1e-3),
        (torch.tensor(9.0), 1e-3),
        (torch.tensor(2.0), 1e-6),
        (torch.tensor(0.0), 1e-2),
        (torch.tensor(1e4), 1.0),
    ],
)
def newton(a, tolerance):
    x = a / 2 + 1
    steps = 0
    while abs(float(x * x - a)) > tolerance and steps < 30:
        x = (x + a / x) / 2
        steps += 1
    return x, steps, f"{x.item():.3f}"
