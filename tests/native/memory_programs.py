"""Programs whose peak memory depends on when values are dropped: each takes x: float[64, 256], w: float[256, 256]."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {}


def program(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def a_chain(x, w):
    for _ in range(20):
        x = x * 2 + 1
    return x


@program
def a_chain_of_layers(x, w):
    for _ in range(6):
        x = F.gelu(F.linear(x, w)) + x
    return x


@program
def nested_expressions(x, w):
    return ((x * 2) + (x * 3)).relu() - ((x + 1) * (x + 2)).exp()


@program
def a_big_temporary(x, w):
    big = x.repeat(16, 1)
    total = big.sum()
    del big
    big = x.repeat(1, 16)
    return total + big.mean()


@program
def temporaries_in_turns(x, w):
    total = x.new_zeros(())
    for i in range(5):
        total = total + x.repeat(8, 1).mul(i).sum()
    return total


@program
def a_view_keeps_the_storage(x, w):
    first = x.repeat(16, 1)[:1]
    other = x.repeat(16, 1).sum()
    total = first.sum() + other
    del first
    return total + x.repeat(16, 1).sum()


@program
def a_view_leaves(x, w):
    big = x.repeat(8, 1)
    rest = big.sin().cos().sum()
    return big[3], big.view(-1)[5:7], rest


@program
def in_place(x, w):
    y = x.clone()
    y.add_(1).mul_(x)
    y[:10] = y[10:20] * 2
    y += y.sum(0)
    return F.relu(y, inplace=True)


@program
def parts_of_a_list(x, w):
    parts = [x * i for i in range(8)]
    joined = torch.cat(parts)
    del parts
    return torch.stack([joined, joined * 2]).sum(0)


@program
def one_of_many_results(x, w):
    first, *_ = torch.split(x.repeat(4, 1), 64)
    values, places = first.sort(dim=1)
    copies = values.unbind(1)
    return copies[3] + places[:, 0], torch.topk(x, 5)[1]


@program
def residuals(x, w):
    for _ in range(4):
        before = x
        x = F.layer_norm(x, (256,))
        x = before + (x @ w).softmax(-1)
    return x


@program
def composites(x, w):
    batch = x.view(4, 16, 256)
    y = torch.matmul(batch, w)
    y = torch.einsum("bij,kj->bik", y, w)
    heads = y.view(4, 16, 4, 64).transpose(1, 2)
    y = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    y = torch.tensordot(y.transpose(1, 2).reshape(4, 16, 256), w, dims=1)
    return F.instance_norm(F.pad(y, (1, 1)).flip(-1)).std(-1)


@program
def einsum_of_three(x, w):
    return torch.einsum("ij,jk,lk->il", x, w, w)


@program
def convolutions(x, w):
    image = x.view(1, 1, 64, 256)
    kernel = w[:8, :9].reshape(8, 1, 3, 3)
    y = F.max_pool2d(F.conv2d(image, kernel, padding=1).relu(), 2)
    return F.interpolate(y, scale_factor=2.0).mean(1)


@program
def other_types(x, w):
    y = x.double() @ w.double()
    return y.to(torch.float32).half().float() + x.bool().sum()


@program
def masks(x, w):
    y = torch.where(x > 0, x * 2, x)
    y = y.masked_fill(y > 1, 0.0)
    chosen = y[y > 0.5]
    return chosen.sum() + chosen.numel(), torch.nonzero(y > 2)


@program
def randomness(x, w):
    return F.dropout(x * 2, 0.5) + torch.rand_like(x) * torch.randn(64, 1)


@program
def without_gradients_inside(x, w):
    with torch.no_grad():
        scale = (x.repeat(8, 1) * 2).abs().max()
    return (x @ w) / scale, (x * 2).detach()


@program
def autocast_inside(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        z = F.linear(y, w)
    return z.float().sum()


@program
def recomputed(x, w):
    def block(y):
        return ((y @ w).relu() @ w).sin().cos()

    return checkpoint(block, x.repeat(4, 1), use_reentrant=False).sum()


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 2


@program
def a_function_of_its_own(x, w):
    y = Squared.apply(x.repeat(4, 1))
    return Squared.apply(y.sum(0) * 2) + x.repeat(4, 1).sum()


@program
def a_number_of_data(x, w):
    scale = x.repeat(8, 1).abs().max().item()
    return x.repeat(8, 1).sum() * scale


@program
def results_are_written_to(x, w):
    out = torch.empty_like(x)
    torch.mm(x.detach(), w.detach(), out=out)
    out.copy_((out * 2)[:, :1].expand_as(out))
    return out.resize_(32, 16)


@program
def the_input_is_returned(x, w):
    y = x.repeat(8, 1).sum()
    return x, x.view(-1), x.contiguous(), y
