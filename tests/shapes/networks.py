"""Matrix products, attention, reductions, normalisation, convolutions, pooling and padding at varying sizes."""

import torch
import torch.nn.functional as F
from torch import nn

from shapes import program

BATCH = "a convolution takes another kernel for a batch under 16"


@program(lambda t, n, m: (t(n, m, 8), t(4, 8, grad=True), t(4, grad=True)), backward=True)
def linear(x, weight, bias):
    return F.linear(x, weight, bias).relu()


@program(lambda t, n, m, k: (t(n, m), t(m, k)))
def products(x, y):
    z = x @ y
    return z, z.t() @ x, torch.mm(x, y).shape == (x.shape[0], y.shape[1]), x @ y[:, 0]


@program(lambda t, n, m: (t(n, m), t(m if n % 4 else m + 1, 3)), limit=4, why="factors that fit, and an exception")
def product_that_may_not_fit(x, y):
    return (x @ y).relu()


@program(lambda t, n, m: (t(2, n, 6), t(2, m, 6)), backward=True)
def scores(x, y):
    s = torch.einsum("bid,bjd->bij", x, y)
    return s / x.shape[1] ** 0.5 if x.shape[1] else s, torch.baddbmm(s, x, y.transpose(1, 2))


@program(lambda t, n, m: (t(n, m, 8),), high=64, backward=True)
def causal_attention(x):
    t = x.shape[1]
    mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
    s = (x @ x.transpose(1, 2)) * x.shape[-1] ** -0.5
    return s.masked_fill(~mask, float("-inf")).softmax(-1) @ x


@program(lambda t, n: (t(2, 2, n, 4),))
def band_of_attention(x):
    i = torch.arange(x.shape[2])
    band = (i[None] - i[:, None]).abs() < 4
    return F.scaled_dot_product_attention(x, x, x, attn_mask=band), band.sum()


@program(lambda t, n, m: (t(2, 2, n, 4), t(2, 2, m, 4)), high=64)
def attention_to_another(x, y):
    causal = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    return F.scaled_dot_product_attention(causal, y, y).transpose(1, 2).flatten(2)


@program(lambda t, n, m: (t(n, m, 6), t.ints(m, n) + 1), high=64)
def padded_attention(x, lengths):
    mask = torch.arange(x.shape[1])[None] < lengths[:, None]
    s = (x @ x.mT).masked_fill(~mask[:, None], -1e9)
    return s.softmax(-1) @ x, mask.sum(1, keepdim=True)


@program(lambda t, n, m: (t(n, m, 8),), backward=True)
def rotated(x):
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[1]).float(), 100.0 ** -(torch.arange(half) / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(60, 6)
        self.words = nn.Embedding(20, 6)

    def forward(self, ids):
        if ids.shape[1] > self.positions.num_embeddings:
            raise ValueError(f"{ids.shape[1]} positions, at most {self.positions.num_embeddings}")
        return self.words(ids) + self.positions(torch.arange(ids.shape[1]))


@program(
    lambda t, n, m: (t.ints(20, n, m),),
    limit=6,
    why="the exception tells the length: one for each of 64, 127",
    fresh=True,
    backward=True,
)
def table_of_positions():
    return Table()


@program(
    lambda t, n, m: (t(n, m),), limit=4, why="a deviation of one row warns, with none there is none", backward=True
)
def standardised(x):
    return (x - x.mean(0)) / (x.std(0, correction=0) + 1e-5), x.var(1, correction=0)


@program(lambda t, n: (t(n, 3),), backward=True)
def mean_by_hand(x):
    return x.sum() / max(x.numel(), 1), x.sum(0) / (len(x) + 1), x.mean() * x.shape[0]


@program(lambda t, n, m: (t(n, m),), limit=4, why="an empty maximum raises")
def reduced(x):
    return x.softmax(1), x.logsumexp(0), x.cumsum(0), x.argmax(1), x.amax(0), x.flatten().norm(), x.any(), x.prod(0)


@program(lambda t, n, m: (t(n, m),), limit=5, why="a row of none cannot be normalised", backward=True)
def normalised(x):
    y = F.layer_norm(x, x.shape[-1:])
    return y, F.rms_norm(x, (x.shape[-1],)), F.normalize(x, dim=0)


@program(
    lambda t, n, m: (t(n, 4, m), torch.zeros(4), torch.ones(4)),
    limit=4,
    why="one value a channel raises",
)
def batch_normalised(x, mean, variance):
    return F.batch_norm(x, mean, variance, training=True), mean * 2


@program(lambda t, n, m: (t(n, 6, m),), limit=4, why="one value a group raises", backward=True)
def group_normalised(x):
    return F.group_norm(x, 3), F.instance_norm(x)


@program(lambda t, n, m: (t(n, 3, m + 8), t(5, 3, 3, grad=True)), limit=5, why=f"{BATCH}; none in it", backward=True)
def convolved(x, weight):
    return F.conv1d(x, weight, stride=2, padding=1, dilation=2)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, stride=2)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.first(x)).relu(), 2)
        return self.head(F.adaptive_avg_pool2d(self.second(x), 1).flatten(1))


@program(
    lambda t, n, m: (t(n, 3, m + 8, m + 12),),
    limit=5,
    why=BATCH + "; the step count of the normalisation is an int",
    high=40,
    fresh=True,
    backward=True,
)
def convolutional_net():
    return Convolutions()


@program(lambda t, n: (t(2, 3, n), t(3, 4, 3)), limit=4, why="a size that is too small raises")
def transposed_convolution(x, weight):
    return F.conv_transpose1d(x, weight, stride=2)[..., : x.shape[-1]]


@program(lambda t, n, m: (t(2, n, m + 1),), limit=4, why="the last window may begin in the padding")
def pooled(x):
    y = F.avg_pool1d(x, 3, stride=2, padding=1, ceil_mode=True)
    return y, F.max_pool1d(x, 2, stride=1, padding=1), F.adaptive_avg_pool1d(x, 3)


@program(lambda t, n, m: (t(2, 3, n, m),), limit=5, why="nothing to resize raises", high=64, backward=True)
def resized(x):
    twice = F.interpolate(x, scale_factor=2.0, mode="bilinear")
    return twice, F.interpolate(x, size=(x.shape[2] * 3 // 2 + 1, x.shape[3] // 2 + 1), mode="nearest")


@program(lambda t, n, m: (t(n, m),), backward=True)
def padded_to_eight(x):
    y = F.pad(x, (0, 0, 0, -x.shape[0] % 8))
    return y.reshape(-1, 8, x.shape[1]) if x.shape[1] else y


@program(lambda t, n, m: (t(2, n, m),), limit=4, why="no rows to reflect raise")
def reflected(x):
    y = F.pad(x, (x.shape[2] // 3, x.shape[2] // 4), mode="reflect")
    return y, x.roll(x.shape[1] // 2, 1), F.pad(x, (0, x.shape[1]), value=1.0)


@program(lambda t, n, m: (t(n, m),), limit=4, why="fewer rows than a window raise")
def unfolded(x):
    y = x.unfold(0, 4, 2)
    return y.sum(-1), y.shape, y.stride()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x, state=None):
        if state is None:
            state = x.new_zeros(x.shape[1], 5)
        for i in range(3):
            state = self.cell(x[i], state)
        return state, state[: x.shape[1] // 2]


@program(
    lambda t, n, m: (t(3, n, 3), t(n, 5) if m % 2 else None),
    limit=5,
    why="with a state or without",
    fresh=True,
    backward=True,
)
def recurrent_cell():
    return Recurrent()


@program(lambda t, n, m: (t(n, m),), limit=4, why="the int 1 or an even size", backward=True)
def gated(x):
    y = torch.cat([x, x.flip(1)], 1)
    return F.glu(y, 1), F.gelu(x) * F.silu(x), F.cosine_similarity(x, x + 1, dim=1)
