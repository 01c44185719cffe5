"""Modules as they are in use whose layers are functions with gradients of their own, or are run again in backward."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Make = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
FUNCTIONS: dict[str, Make] = {}
CHECKPOINTS: dict[str, Make] = {}


class Lambda(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def batch(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1))


def in_a_network(function: type[Function], *rest: Any) -> Make:
    """The function between two layers."""

    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        between = Lambda(lambda x: function.apply(x, *rest))
        return nn.Sequential(nn.Linear(6, 8), between, nn.Linear(8, 4)), (batch(5, 6),)

    return make


def activation(*rest: Any) -> Callable[[type[Function]], type[Function]]:
    def add(function: type[Function]) -> type[Function]:
        FUNCTIONS[function.__name__] = in_a_network(function, *rest)
        return function

    return add


@activation()
class Swish(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        x = ctx.saved_tensors[0]
        s = torch.sigmoid(x)
        return g * (s * (1 + x * (1 - s)))


@activation()
class Mish(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.mul(torch.tanh(F.softplus(x)))

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        t = F.softplus(x).tanh()
        return g * (t + x * torch.sigmoid(x) * (1 - t * t))


@activation(0.5)
class ReverseGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return -ctx.scale * g, None


@activation()
class StraightThrough(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(g)


@activation(-0.5, 0.5)
class ClampThatPassesGradients(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        ctx.save_for_backward((x < low) | (x > high))
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (outside,) = ctx.saved_tensors
        return g.masked_fill(outside, 0.1), None, None


@activation(4)
class Quantize(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bits: int) -> torch.Tensor:
        steps = 2**bits - 1
        low, high = x.min(), x.max()
        scale = (high - low).clamp(min=1e-8) / steps
        return torch.round((x - low) / scale) * scale + low

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g, None


@activation(10.0)
class Surrogate(Function):
    """The spike of a spiking network, with the slope of a sigmoid."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.slope = slope
        ctx.save_for_backward(x)
        return (x >= 0).float()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g / (ctx.slope * x.abs() + 1.0) ** 2, None


@activation(0.3)
class ClipGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, most: float) -> torch.Tensor:
        ctx.most = most
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g.clamp(-ctx.most, ctx.most), None


@activation()
class TruncatedExp(Function):
    """As radiance fields have it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        x = ctx.saved_tensors[0]
        return g * torch.exp(x.clamp(-15, 15))


@activation()
class GeluOfBloom(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        x = x[0] if isinstance(x, tuple) else x
        t = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
        return g * (0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + t))


@activation(-1)
class Softmax(Function):
    @staticmethod
    def forward(x: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.softmax(x, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.dim = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None


class LinearWithItsGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        ctx.save_for_backward(x, weight, bias)
        y = x @ weight.t()
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, weight, bias = ctx.saved_tensors
        of_x = g @ weight if ctx.needs_input_grad[0] else None
        of_weight = g.t() @ x if ctx.needs_input_grad[1] else None
        of_bias = g.sum(0) if bias is not None and ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias


class OwnLinear(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))
        self.bias = nn.Parameter(torch.zeros(4)) if bias else None

    def forward(self, x: torch.Tensor) -> Any:
        return LinearWithItsGradient.apply(x, self.weight, self.bias)


class NormWithItsGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        scale = (x.var(-1, keepdim=True, unbiased=False) + eps).rsqrt()
        y = (x - mean) * scale
        ctx.save_for_backward(y, scale, weight)
        return y * weight + bias

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        y, scale, weight = ctx.saved_tensors
        h = g * weight
        of_x = (h - h.mean(-1, keepdim=True) - y * (h * y).mean(-1, keepdim=True)) * scale
        return of_x, (g * y).sum(0), g.sum(0), None


class OwnNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(6)), nn.Parameter(torch.zeros(6))

    def forward(self, x: torch.Tensor) -> Any:
        return NormWithItsGradient.apply(x, self.weight, self.bias, 1e-5)


class Codebook(Function):
    """Nearest entries of a table, with two results of which one has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, table: torch.Tensor) -> Any:
        nearest = torch.cdist(x, table).argmin(1)
        ctx.mark_non_differentiable(nearest)
        ctx.save_for_backward(nearest, table)
        return table[nearest], nearest

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, _: Any) -> Any:
        nearest, table = ctx.saved_tensors
        return g, torch.zeros_like(table).index_add_(0, nearest, g)


class Quantized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.table = nn.Linear(6, 4), nn.Parameter(torch.randn(7, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, _ = Codebook.apply(self.encode(x), self.table)
        return found * 2


class CrossEntropy(Function):
    """A loss that computes its gradient in forward."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(scores, 1)
        hit = F.one_hot(wanted, scores.shape[1]).to(scores.dtype)
        ctx.save_for_backward((p - hit) / scores.shape[0])
        return -(hit * p.log()).sum() / scores.shape[0]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return ctx.saved_tensors[0] * g, None


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> Any:
        return CrossEntropy.apply(self.layer(x), wanted)


FUNCTIONS["linear"] = lambda: (OwnLinear(True), (batch(5, 6),))
FUNCTIONS["linear_without_bias"] = lambda: (OwnLinear(False), (batch(5, 6),))
FUNCTIONS["norm"] = lambda: (nn.Sequential(OwnNorm(), nn.Linear(6, 4)), (batch(5, 6),))
FUNCTIONS["codebook"] = lambda: (Quantized(), (batch(5, 6),))
FUNCTIONS["loss"] = lambda: (WithLoss(), (batch(5, 6), torch.arange(5) % 4))


# ---- run again in backward


class Checkpointed(nn.Module):
    """Layers of which each is a checkpoint."""

    def __init__(self, layers: list[nn.Module], **options: Any) -> None:
        super().__init__()
        self.layers, self.options = nn.ModuleList(layers), {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = checkpoint(layer, x, **self.options)
        return x


def blocks(count: int, width: int, *between: nn.Module) -> list[nn.Module]:
    return [nn.Sequential(nn.Linear(width, width), *between, nn.ReLU()) for _ in range(count)]


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return x + checkpoint(self.inner, x, use_reentrant=False)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of = nn.Linear(8, 24)

    def inner(self, x: torch.Tensor, mask: torch.Tensor, *, scale: float) -> torch.Tensor:
        q, k, v = self.of(x).chunk(3, -1)
        return torch.softmax(q @ k.transpose(-1, -2) * scale + mask, -1) @ v

    def forward(self, x: torch.Tensor) -> Any:
        mask = torch.full((5, 5), float("-inf")).triu(1)
        return checkpoint(self.inner, x, mask, scale=8**-0.5, use_reentrant=False)


class TwoResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        left, right = checkpoint(lambda y: (self.a(y).sin(), self.b(y).cos()), x, use_reentrant=False)
        return left * right


class Dense(nn.Module):
    """As in DenseNet: the arguments are all results so far."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8 * (i + 1), 8) for i in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.layers:
            run = lambda *given, layer=layer: layer(torch.cat(given, 1)).relu()  # noqa: E731
            features.append(checkpoint(run, *features, use_reentrant=False))
        return torch.cat(features, 1)


def keep_products(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    saved = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


CHECKPOINTS["layers"] = lambda: (Checkpointed(blocks(3, 8)), (batch(5, 8),))
CHECKPOINTS["nested"] = lambda: (Checkpointed([Checkpointed(blocks(2, 8)), nn.Linear(8, 8)]), (batch(5, 8),))
CHECKPOINTS["dropout"] = lambda: (Checkpointed(blocks(2, 8, nn.Dropout(0.5))), (batch(5, 8),))
CHECKPOINTS["layer_norm"] = lambda: (Checkpointed(blocks(2, 8, nn.LayerNorm(8))), (batch(5, 8),))
CHECKPOINTS["residual"] = lambda: (nn.Sequential(*[Residual(b) for b in blocks(2, 8)]), (batch(5, 8),))
CHECKPOINTS["attention"] = lambda: (Attention(), (batch(2, 5, 8),))
CHECKPOINTS["two_results"] = lambda: (TwoResults(), (batch(5, 8),))
CHECKPOINTS["dense"] = lambda: (Dense(), (batch(5, 8),))
CHECKPOINTS["convolutions"] = lambda: (
    Checkpointed([nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.GELU()) for _ in range(2)]),
    (batch(2, 2, 6, 6),),
)
CHECKPOINTS["selective"] = lambda: (
    Checkpointed(blocks(2, 8), context_fn=functools.partial(create_selective_checkpoint_contexts, keep_products)),
    (batch(5, 8),),
)
CHECKPOINTS["with_a_function"] = lambda: (
    Checkpointed([nn.Sequential(nn.Linear(8, 8), Lambda(lambda x: Swish.apply(x))) for _ in range(2)]),
    (batch(5, 8),),
)
