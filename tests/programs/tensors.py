"""torch functions, methods, operators and attributes."""

import torch
import torch.nn.functional as F
from torch import nn

from programs import program


@program("tensors", lambda t: (t(), t()))
def arithmetic(x, y):
    return x + y, x - 2, 3 - x, x * 0.5, 2 / (y + 10), x // 1, x % 0.7, (x.abs() + 1) ** 2, 2**x, -x, +x, abs(y)


@program("tensors", lambda t: (t(), t.ints()))
def comparisons_and_bits(x, n):
    return x > 0, 0 <= x, x == x, x != 1, n & 3, n | 1, n ^ 7, ~n, n << 1, n >> 1, (x > 0) & (n < 5), ~(x > 0)


@program("tensors", lambda t: (t(t.n, 3), t(3, 2), t(2)))
def linear_algebra(x, w, b):
    y = x @ w + b
    return (
        y,
        torch.matmul(x, w),
        x.mm(w),
        torch.addmm(b, x, w),
        F.linear(x, w.t(), b),
        torch.einsum("ij,jk->ik", x, w),
        torch.bmm(x[None], w[None]),
        x.T @ x,
        torch.linalg.norm(x),
        torch.outer(b, b),
    )


@program("tensors", lambda t: (t(t.n, 3),))
def reductions(x):
    return (
        x.sum(),
        x.sum(0),
        x.mean(dim=1, keepdim=True),
        x.std(unbiased=False),
        torch.prod(x, 0),
        x.norm(),
        x.argmax(),
        x.amax((0, 1)),
        torch.logsumexp(x, 1),
        x.cumsum(0),
        (x > 0).any(),
        (x > 0).all(1),
        x.var(0),
        torch.count_nonzero(x),
    )


@program("tensors", lambda t: (t(t.n, 3),))
def named_results(x):
    values, indices = x.max(dim=0)
    top = torch.topk(x, 2)
    ordered = x.sort(descending=True)
    low = torch.min(x, 1)
    return values + top.values[0, 0], indices, ordered.indices, low, top, type(low).__name__


@program("tensors", lambda t: (t(2, t.n, 3),))
def shapes_changed(x):
    return (
        x.view(2, -1),
        x.reshape(-1),
        x.permute(2, 0, 1),
        x.transpose(0, 1),
        x.unsqueeze(0).squeeze(0),
        x[:1].expand(4, -1, -1),
        x.flatten(1),
        x.movedim(0, -1),
        x.narrow(1, 0, 2),
        x.mT,
        x.unflatten(0, (1, 2)),
        x.swapaxes(0, 2).contiguous(),
        x.repeat(1, 2, 1),
        x.flip(0),
        x.roll(1, 1),
    )


@program("tensors", lambda t: (t(4, t.n), t(4, t.n)))
def joined_and_split(x, y):
    a, b = x.chunk(2)
    c, *rest = torch.split(y, 1)
    parts = torch.unbind(x, 0)
    return torch.cat([a, b, y]), torch.stack((a, b), dim=1), c, len(rest), parts[3], torch.hstack([x, y]), rest


@program("tensors", lambda t: (t(2, t.n),))
def constructors(x):
    n = x.shape[1]
    return (
        torch.zeros(2, n),
        torch.ones_like(x),
        x.new_full((2,), 3.0),
        torch.arange(n, dtype=x.dtype),
        torch.full((n,), 2),
        torch.eye(3),
        torch.linspace(0, 1, n),
        torch.tensor([1.0, 2.0]),
        torch.tensor([[1, n]]),
        torch.tensor(3.5),
        torch.zeros_like(x, dtype=torch.int64),
        x.new_zeros(1),
        torch.tril(torch.ones(n, n)),
        torch.empty(0),
        torch.scalar_tensor(2.0),
        torch.as_tensor([1, 2]),
    )


@program("tensors", lambda t: (t(), t.ints()))
def types_changed(x, n):
    y = x.to(torch.float64)
    return (
        y,
        x.double(),
        x.half().float(),
        x.int(),
        n.float(),
        n.to(x),
        x.bool(),
        x.type(torch.bfloat16),
        n.type_as(x),
        x.to("cpu"),
        x.to(dtype=torch.float32) is x,
        x.to(torch.device("cpu"), torch.float16),
        (x + n).dtype,
        (n + 1.5).dtype,
        (n / 2).dtype,
        torch.promote_types(torch.int32, torch.float16),
        x.view(torch.int32),
    )


# Breaks: storage_offset() is not guarded.
@program("tensors", lambda t: (t(t.n, 3), torch.float32), one_graph=False)
def facts_about_tensors(x, dtype):
    assert x.dtype == dtype
    assert x.dtype is torch.float32
    info = torch.finfo(x.dtype)
    return (
        x * info.eps + torch.iinfo(torch.int8).max,
        x.dim(),
        x.ndim,
        x.numel(),
        x.size(),
        x.size(1),
        x.stride(),
        x.is_floating_point(),
        x.is_contiguous(),
        x.T.is_contiguous(),
        x.device,
        x.device.type == "cpu",
        x.layout,
        x.requires_grad,
        x.is_leaf,
        x.grad is None,
        x.element_size(),
        x.storage_offset(),
        torch.is_tensor(x),
        x.is_cuda,
        len(x),
        x.itemsize,
        dtype.is_floating_point,
        x.shape[0] * x.shape[-1],
        torch.is_complex(x),
        x.is_sparse,
    )


@program("tensors", lambda t: (t(t.n, 4), t(4), t(4)))
def functional(x, w, b):
    return (
        F.relu(x),
        F.gelu(x, approximate="tanh"),
        F.softmax(x, dim=-1),
        F.log_softmax(x, 1),
        F.layer_norm(x, (4,), w, b, 1e-5),
        F.dropout(x, 0.5, training=False),
        F.silu(x),
        F.pad(x, (1, 1)),
        F.leaky_relu(x, 0.2),
        F.normalize(x, dim=1),
        F.mse_loss(x, torch.zeros_like(x)),
        F.one_hot(torch.arange(3), 4),
        F.elu(x),
    )


@program("tensors", lambda t: (t(1, 2, t.n, 5), t(3, 2, 3, 3), t(3)))
def convolution(x, w, b):
    y = F.conv2d(x, w, b, padding=1)
    return y, F.max_pool2d(x, 2), F.avg_pool2d(y, 2, stride=1), F.interpolate(x, scale_factor=2.0), F.group_norm(y, 3)


@program("tensors", lambda t: (t(1, 2, t.n, 4), t(1, 2, t.n, 4), t(1, 2, t.n, 4)))
def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    by_hand = scores.softmax(-1) @ v
    return by_hand, F.scaled_dot_product_attention(q, k, v, is_causal=True)


@program("tensors", lambda t: (t.ints(t.n), t(10, 3)))
def embedding_lookup(ids, table):
    return F.embedding(ids, table), table.index_select(0, ids), table.take_along_dim(ids[:, None], 0), table[ids]


@program("tensors", lambda t: (t(t.n, 3), t.ints(t.n, 2, below=3)))
def gather_and_scatter(x, i):
    return (
        x.gather(1, i),
        torch.zeros_like(x).scatter(1, i, 1.0),
        x.scatter_add(1, i, x[:, :2]),
        x.index_add(0, i[0], x[:2]),
    )


@program("tensors", lambda t: (t(), t(), t.bools()))
def selections(x, y, mask):
    return (
        torch.where(mask, x, y),
        torch.where(x > 0, x, 0.0),
        x.masked_fill(mask, -1),
        x.clamp(min=-0.5, max=0.5),
        x.clamp_min(0),
        torch.maximum(x, y),
        torch.lerp(x, y, 0.3),
        torch.isclose(x, y),
        x.nan_to_num(),
        x.sign() * x.sigmoid(),
        torch.heaviside(x, y),
    )


@program("tensors", lambda t: (t(grad=True), t(grad=True)), backward=True)
def gradients(x, y):
    z = x.sin() * y
    return z.sum(), (x * y.detach()).mean(), z.requires_grad, z.is_leaf, x.is_leaf, z.detach().requires_grad


@program("tensors", lambda t: (t(grad=True), t()), backward=True)
def gradients_through_views(x, y):
    v = x.view(-1, 1).expand(-1, 2)
    w = y.clone()
    w[1:] = x[1:]
    w.mul_(2)
    return (v * 3).sum() + w.sum(), w.requires_grad


@program("tensors", lambda t: (t(),))
def complex_numbers(x):
    z = torch.complex(x, x.flip(0))
    return z, z.real, z.imag, z.abs(), z.conj(), torch.view_as_real(z * 2j), z.angle(), (z * (1 + 2j)).real


@program("tensors", lambda t: (t(), 3, 0.5, True))
def python_scalars_mixed(x, n, r, flag):
    y = x * n + r + flag
    for i in range(n):
        y = y + i * r
    return y, n * r, y.add(n, alpha=2), torch.add(x, r, alpha=n), torch.pow(x, n), torch.full_like(x, r), x.roll(n)


@program("tensors")
def same_tensor_returned(x):
    y = x + 1
    return x, y, [x, y], {"y": y}, x is x


@program("tensors", lambda t: (t(), t()))
def arguments_returned_unchanged(x, y):
    return y, x, (x, None, 3)


@program("tensors")
def nothing_is_computed(x):
    x + 1
    return None


@program("tensors")
def unused_work(x):
    y = x.sin()
    for _ in range(3):
        y = y + 1
    z = y.cos()  # noqa: F841
    return y


@program("tensors", lambda t: (t(t.n, 2),))
def plain_numbers_returned(x):
    return x.dim(), x.shape, x.dtype, x.device, tuple(x.shape), x.shape[1] * 2


@program("tensors", lambda t: (t(t.n, 10), [t(10, 10) for _ in range(8)], [t(10) for _ in range(8)]))
def list_of_weights(x, weights, biases):
    for i, (w, b) in enumerate(zip(weights, biases)):
        x = F.linear(x, weights[i // 2]) + F.linear(x, w, b)
    return x


class Block:
    def __init__(self, t, deep):
        self.inner = Block(t, deep - 1) if deep else None
        self.weight = t(3, 3)
        self.scale = 0.5 + deep

    def forward(self, x):
        if self.inner is not None:
            x = self.inner.forward(x)
        return torch.tanh(x @ self.weight) * self.scale


@program("tensors", lambda t: (t(t.n, 3), Block(t, 4)))
def tree_of_blocks(x, block):
    return block.forward(x)


@program("tensors", lambda t: (nn.Parameter(t()), t()), backward=True)
def parameters(p, x):
    return p * x, isinstance(p, nn.Parameter), isinstance(p, torch.Tensor), type(x) is torch.Tensor


@program("tensors", lambda t: (t(), 0.1))
def constant_tensors_of_the_module(x, k):
    return x * CONSTANT + CONSTANT.sum() * k, CONSTANT is CONSTANT


CONSTANT = torch.tensor([2.0])


# Breaks: manual_seed runs for real.
@program("tensors", lambda t: (t(),), one_graph=False)
def seeded_random_numbers(x):
    torch.manual_seed(3)
    return x + torch.rand(x.shape), torch.randn_like(x), F.dropout(x, 0.5), torch.randperm(5)


@program("tensors", lambda t: (t(2, t.n), t(t.n, 2)))
def method_forms(x, y):
    return (
        torch.Tensor.add(x, 1),
        torch.Tensor.matmul(x, y),
        x.__add__(2),
        x.__rsub__(1),
        getattr(x, "sin")(),
        x.add(y.T),
    )


@program("tensors", lambda t: (t(1), t()))
def broadcasts(x, y):
    a, b = torch.broadcast_tensors(x, y)
    return a + b, x.expand_as(y), y[:, None] * y[None], x.expand(3)
