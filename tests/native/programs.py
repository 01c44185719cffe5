"""Programs that are hard to replay: what they do is not all told by the operators they call.

Each function gives a program of its own, with state of its own, that takes x: float[3, 4] and w: float[4, 4].
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

Program = Callable[[torch.Tensor, torch.Tensor], Any]
PROGRAMS: list[Callable[[], Program]] = []


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS.append(make)
    return make


def plain(function: Program) -> Program:
    """A program without state."""
    made = lambda: function  # noqa: E731
    made.__name__ = function.__name__
    PROGRAMS.append(made)
    return function


# ---- modes


@plain
def autocast_region(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        z = F.linear(y, w).softmax(-1)
    return y, z, z.float() @ w


@plain
def autocast_switched_off_inside(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    return y.float() + z


@plain
def no_grad_region(x: Any, w: Any) -> Any:
    with torch.no_grad():
        mean = (x @ w).mean()
        shifted = x.view(-1)[2:]
    return x @ w - mean, shifted


@plain
def enable_grad_region(x: Any, w: Any) -> Any:
    with torch.enable_grad():
        y = (x @ w).relu()
        with torch.no_grad():
            z = y.sum()
    return y, z, y * 2


@plain
def grad_mode_set_from_data_of_the_thread(x: Any, w: Any) -> Any:
    with torch.set_grad_enabled(not torch.is_grad_enabled()):
        y = x @ w
    return y, y.detach() + 1


@plain
def inference_region(x: Any, w: Any) -> Any:
    with torch.inference_mode():
        y = x.detach() @ w.detach()
    return y, x.sum()


# ---- writes


@plain
def writes_through_views(x: Any, w: Any) -> Any:
    y = x.clone()
    y[1:, ::2] += 1
    y[0] = 5
    y.view(-1)[3:6].mul_(2)
    z = y.t()
    z.add_(1)
    return y @ w, z, y.view(2, 6)


@plain
def writes_a_view_that_was_read_before(x: Any, w: Any) -> Any:
    y = x * 1
    row, column = y[0], y[:, 1]
    before = row + column[0]
    column.zero_()
    row.exp_()
    return before, row, column + 1, y


@plain
def writes_inputs(x: Any, w: Any) -> Any:
    with torch.no_grad():
        x.add_(1)
        x[0].mul_(2)
        x.view(-1)[-1] = 7.0
        w.transpose(0, 1)[1].copy_(x[0])
    return x.detach().sum()


@plain
def changes_the_form_in_place(x: Any, w: Any) -> Any:
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    z = y.squeeze(0) + 1
    y.squeeze_(0)
    return y.reshape(-1), z, y


@plain
def writes_to_out(x: Any, w: Any) -> Any:
    with torch.no_grad():
        out = torch.empty(3, 4)
        product = torch.mm(x, w, out=out)
        values = torch.max(x, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.long)))
    return out, product + 1, values


@plain
def uninitialised_memory_is_written_first(x: Any, w: Any) -> Any:
    y = torch.empty_like(x)
    y.copy_(x)
    z = x.new_empty(2, 2).fill_(3)
    return y, z, torch.empty(0)


@plain
def data_and_detach(x: Any, w: Any) -> Any:
    y = x * 2
    z = y.data
    z.add_(1)
    v = (x + 1).detach_()
    return y, z, v, x.detach().mul(2)


@plain
def leaves_made_inside(x: Any, w: Any) -> Any:
    y = torch.ones(3, requires_grad=True)
    z = (x.detach() + 1).requires_grad_()
    return (z * 2).sum() + y.sum(), z.requires_grad


# ---- random numbers


@plain
def random_numbers(x: Any, w: Any) -> Any:
    return (
        F.dropout(x, 0.5, True) + torch.rand_like(x),
        torch.randn(3).sum(),
        torch.randint(0, 5, (2,)),
        torch.bernoulli(torch.full((4,), 0.5)),
        torch.randperm(5),
        torch.empty(4).normal_(1, 2),
        F.rrelu(x, training=True),
        F.gumbel_softmax(x),
        torch.multinomial(torch.ones(5), 3),
    )


@plain
def dropout_of_both_kinds(x: Any, w: Any) -> Any:
    return F.dropout(x, 0.3, True), F.dropout(x, 0.3, False), F.dropout1d(x, 0.5, True), F.alpha_dropout(x, 0.2, True)


@program
def explicit_generator() -> Program:
    generator = torch.Generator().manual_seed(3)

    def run(x: Any, w: Any) -> Any:
        a = torch.rand(3, generator=generator)
        b = torch.ones(3).bernoulli_(0.5, generator=generator)
        return a, b, a + torch.randn(3)

    return run


# ---- lists, indices


@plain
def lists_of_tensors(x: Any, w: Any) -> Any:
    a, b = x.split([1, 2])
    stacked = torch.stack(torch.unbind(w, 0))
    grid = torch.meshgrid(a[0], b[0], indexing="ij")
    c, d = torch.chunk(w, 2, 1)
    return a, b, stacked, grid[0] + grid[1], torch.cat([c, d, c]), torch.broadcast_tensors(a, b)


@plain
def indices(x: Any, w: Any) -> Any:
    i = torch.tensor([0, 2])
    y = x.clone()
    y[i, :2] = 7.0
    y[[0, 1]] = y[[1, 0]]
    y[y > 1] = 0
    y[0, 1] = x[1, 1]
    return y[i], y[:, [0, 2]], y[..., None, 0], y[-1, 1:], torch.where(x > 0, x, y), y.gather(1, i[None])


@plain
def literals(x: Any, w: Any) -> Any:
    a = torch.tensor([1.0, 2.0])
    b = torch.tensor(3)
    a.add_(1)
    return a, b + 1, torch.as_tensor([1, 2]), torch.tensor([[1, 2], [3, 4]], dtype=torch.float64) * b


@plain
def sums_of_a_mask(x: Any, w: Any) -> Any:
    return x[x > 0].sum(), torch.masked_select(w, w > 0).mean(), (x > 0).nonzero().sum()


# ---- library functions


@plain
def losses(x: Any, w: Any) -> Any:
    target = torch.tensor([0, 1, 2])
    return (
        F.cross_entropy(x, target, label_smoothing=0.1),
        F.mse_loss(x, x.detach() * 2),
        F.smooth_l1_loss(x, torch.zeros_like(x)),
        F.kl_div(x.log_softmax(-1), w[:3].softmax(-1), reduction="batchmean"),
        F.one_hot(target, 4),
        F.cosine_similarity(x, w[:3]),
        F.gaussian_nll_loss(x, w[:3], torch.ones(3, 4)),
    )


@plain
def norms(x: Any, w: Any) -> Any:
    return (
        F.layer_norm(x, (4,)),
        F.group_norm(x[None], 3),
        F.instance_norm(x[None]),
        F.rms_norm(x, (4,)),
        F.normalize(x),
        F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
        F.local_response_norm(x[None], 2),
    )


@program
def batch_norm_in_training() -> Program:
    mean, variance = torch.zeros(4), torch.ones(4)

    def run(x: Any, w: Any) -> Any:
        y = F.batch_norm(x, mean, variance, w[0], w[1], training=True, momentum=0.3)
        return y, mean.clone(), variance.clone()

    return run


@program
def embedding_with_max_norm() -> Program:
    table = torch.arange(20.0).reshape(5, 4)

    def run(x: Any, w: Any) -> Any:
        y = F.embedding(torch.tensor([1, 3, 1]), table, max_norm=1.0)
        bag = F.embedding_bag(torch.tensor([[0, 2], [4, 4]]), table, mode="mean")
        return y + x, bag, table.clone()

    return run


@plain
def attention(x: Any, w: Any) -> Any:
    q = x[None, None]
    y = F.multi_head_attention_forward(
        x[:, None], x[:, None], x[:, None], 4, 2, torch.cat([w, w, w]), None, None, None, False, 0.0, w, None
    )
    return (
        y,
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(q, q, q, x @ x.t()),
    )


@plain
def images(x: Any, w: Any) -> Any:
    image = x[None, None]
    return (
        F.interpolate(image, scale_factor=2.0, mode="bilinear"),
        F.interpolate(image, size=(5, 5), mode="nearest"),
        F.conv2d(image, w[None, None, :2, :2], padding="same"),
        F.conv1d(x[None], w[:3, :3, None]),
        F.conv_transpose2d(image, w[None, None, :2, :2], stride=2),
        F.max_pool2d(image, 2),
        F.adaptive_avg_pool2d(image, (1, 2)),
        F.pad(image, (1, 1), mode="circular"),
        F.pixel_unshuffle(w[None, None], 2),
        F.unfold(image, 2),
    )


@plain
def linear_algebra(x: Any, w: Any) -> Any:
    spd = w @ w.t() + torch.eye(4)
    sign, value = torch.linalg.slogdet(spd)
    return torch.linalg.cholesky(spd), torch.linalg.inv(spd), sign, value, torch.einsum("ij,jk->ki", x, w), x.norm()


@plain
def complex_numbers(x: Any, w: Any) -> Any:
    z = torch.complex(x, x.flip(0))
    return z.conj() @ z.t(), z.imag, torch.fft.rfft(x), torch.view_as_real(z), z.conj().imag + 1, (-z.imag).abs()


@plain
def recurrent(x: Any, w: Any) -> Any:
    weights = [torch.cat([w] * 4), torch.cat([w] * 4), w.new_zeros(16), w.new_zeros(16)]
    state = (x.new_zeros(1, 1, 4), x.new_zeros(1, 1, 4))
    return torch.lstm(x[:, None], state, weights, True, 1, 0.0, False, False, False)


@plain
def foreach(x: Any, w: Any) -> Any:
    values = [x.detach().clone(), w.detach().clone()]
    torch._foreach_add_(values, 1)
    return torch._foreach_mul(values, 2.0), torch._foreach_norm(values)


@plain
def numbers_of_sizes(x: Any, w: Any) -> Any:
    scale = 1 / math.sqrt(x.shape[-1])
    return x * scale, x.reshape(x.numel()), x.new_zeros(x.size(0)), x.float().contiguous().to(torch.float32)


# ---- autograd


class Cube(torch.autograd.Function):
    """Its gradient is not the one of what it computes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x


@plain
def custom_function(x: Any, w: Any) -> Any:
    y = Cube.apply(x)
    return y @ w, y.view(-1)


@plain
def checkpointed(x: Any, w: Any) -> Any:
    return checkpoint(lambda a: torch.sin(a) @ w, x, use_reentrant=False)


@plain
def hook_on_an_intermediate(x: Any, w: Any) -> Any:
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 10)
    return y @ w


@plain
def vectorised(x: Any, w: Any) -> Any:
    return torch.vmap(lambda row: (row @ w).relu())(x)


@plain
def gradient_inside(x: Any, w: Any) -> Any:
    return torch.func.grad(lambda a: (a @ w).sin().sum())(x), x + 1


@plain
def branch(x: Any, w: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x.detach(),))


# ---- results


@plain
def outputs_of_all_kinds(x: Any, w: Any) -> Any:
    y = x + 1
    return {"a": [y, (y, x)], "b": y, "c": None, "d": 3, "e": {"f": y.view(-1), "g": w}}


@plain
def one_number(x: Any, w: Any) -> Any:
    return x.sum().item() * 2


@plain
def numbers_flow_on(x: Any, w: Any) -> Any:
    n = x.abs().sum().item()
    return x * n, w + int(n), torch.full((2,), n)
