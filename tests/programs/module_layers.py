"""Layers of torch.nn in training and evaluation: norms, dropout, convolution, recurrence, attention, lazy ones."""

import copy
import functools

import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.utils.hooks import RemovableHandle

from programs import program


def start():
    """Hooks have the same numbers in each run."""
    RemovableHandle.next_id = 0


@functools.cache
def _made(make, n):
    with torch.random.fork_rng():
        torch.manual_seed(n)
        return make(n)


def copied(t, make):
    """A copy of one module: all copies share the class that was made for it."""
    return copy.deepcopy(_made(make, t.n))


def both(net, *inputs):
    """The layer in training, then in evaluation."""
    net.train()
    trained = net(*inputs)
    net.eval()
    return trained, net(*inputs)


@program("module_layers", lambda t: (nn.BatchNorm1d(t.n), t(5, t.n)), backward=True)
def batch_norm(net, x):
    return both(net, x), both(net, x + 1), net.num_batches_tracked + 1


@program("module_layers", lambda t: (nn.BatchNorm1d(t.n, momentum=None), t(5, t.n)), one_graph=False)
def batch_norm_with_cumulative_average(net, x):
    return both(net, x), both(net, x + 1)


@program("module_layers", lambda t: (nn.BatchNorm2d(t.n, track_running_stats=False), t(2, t.n, 3, 3)), backward=True)
def batch_norm_without_statistics(net, x):
    return both(net, x)


@program("module_layers", lambda t: (nn.LayerNorm(t.n), nn.GroupNorm(2, t.n), nn.RMSNorm(t.n), t(3, t.n)))
def norms(layer, group, rms, x):
    return both(layer, x), both(group, x), both(rms, x)


@program("module_layers", lambda t: (nn.InstanceNorm1d(t.n, track_running_stats=True), t(2, t.n, 5)))
def instance_norm(net, x):
    return both(net, x)


@program("module_layers", lambda t: (nn.Dropout(0.5), nn.Dropout1d(0.3), t(2, t.n, 3)))
def dropout(net, channels, x):
    return both(net, x), both(channels, x)


@program("module_layers", lambda t: (t.module(lambda: nn.Embedding(10, t.n, padding_idx=0)), t.ints(3)), backward=True)
def embedding(net, ids):
    return net(ids)


@program("module_layers", lambda t: (t.module(lambda: nn.EmbeddingBag(10, t.n, mode="sum")), t.ints(2, 3)))
def embedding_bag(net, ids):
    return net(ids)


def conv(t):
    return t.module(
        lambda: nn.Sequential(
            nn.Conv2d(3, t.n, 3, padding=1),
            nn.BatchNorm2d(t.n),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(t.n, 2, 2, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
    )


@program("module_layers", lambda t: (conv(t), t(2, 3, 4, 4)), backward=True)
def convolutions(net, x):
    return both(net, x)


@program(
    "module_layers",
    lambda t: (t.module(lambda: nn.Conv1d(2, t.n, 3, padding="same", padding_mode="circular")), t(2, 2, 5)),
)
def convolution_padded(net, x):
    return net(x)


@program("module_layers", lambda t: (t.module(lambda: nn.RNN(t.n, 3)), t(5, 2, t.n)))
def rnn(net, x):
    return net(x)


@program(
    "module_layers",
    lambda t: (t.module(lambda: nn.LSTM(t.n, 3, num_layers=2, batch_first=True, dropout=0.2)), t(2, 5, t.n)),
)
def lstm(net, x):
    output, state = net(x)
    return output, state, net(x, state)


@program("module_layers", lambda t: (t.module(lambda: nn.GRU(t.n, 3, bidirectional=True)), t(5, 2, t.n)))
def gru(net, x):
    return net(x)


@program(
    "module_layers",
    lambda t: (
        t.module(lambda: nn.ModuleList([nn.RNNCell(t.n, 3), nn.LSTMCell(t.n, 3), nn.GRUCell(t.n, 3)])),
        t(2, t.n),
    ),
    backward=True,
)
def cells(nets, x):
    h = nets[0](x)
    h, c = nets[1](x, (h, h))
    return nets[2](x, h) + c


@program("module_layers", lambda t: (t.module(lambda: nn.MultiheadAttention(t.n, 2, batch_first=True)), t(2, 3, t.n)))
def attention_layer(net, x):
    return both(SelfAttention(net), x)


class SelfAttention(nn.Module):
    """Self-attention as a module of one input."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x, x, x, need_weights=True)


@program(
    "module_layers",
    lambda t: (t.module(lambda: nn.MultiheadAttention(t.n, 2, dropout=0.1)), t(3, 2, t.n), t.bools(2, 3)),
)
def attention_with_masks(net, x, padding):
    mask = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    return net(x, x, x, key_padding_mask=padding & False, attn_mask=mask, need_weights=False)


def encoder(t):
    return t.module(lambda: nn.TransformerEncoderLayer(t.n, 2, 8, batch_first=True))


@program("module_layers", lambda t: (encoder(t), t(2, 3, t.n)), backward=True)
def encoder_layer(net, x):
    return net(x)


@program("module_layers", lambda t: (encoder(t).eval(), t(2, 3, t.n)))
def encoder_layer_evaluated(net, x):
    return net(x)


@program(
    "module_layers",
    lambda t: (t.module(lambda: nn.TransformerDecoderLayer(t.n, 2, 8)), t(3, 2, t.n), t(3, 2, t.n)),
)
def decoder_layer(net, x, memory):
    return net(x, memory, tgt_is_causal=True, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3))


@program("module_layers", lambda t: (t.module(lambda: nn.TransformerEncoder(encoder(t), 2)), t(2, 3, t.n)))
def encoder_stack(net, x):
    return net(x)


@program(
    "module_layers",
    lambda t: (nn.CrossEntropyLoss(), nn.MSELoss(), t(3, t.n, grad=True), t.ints(3, below=4)),
    backward=True,
)
def losses(entropy, squares, x, target):
    return entropy(x, target), squares(x, x.detach() + 1), nn.functional.nll_loss(x.log_softmax(-1), target)


@program(
    "module_layers",
    lambda t: (
        nn.ModuleList(
            [nn.Softmax(-1), nn.SiLU(), nn.LeakyReLU(0.2), nn.Softplus(), nn.Hardtanh(), nn.PReLU(), nn.GLU()]
        ),
        t(2, t.n),
    ),
)
def activations(nets, x):
    return [net(x) for net in nets]


@program(
    "module_layers",
    lambda t: (
        nn.Upsample(scale_factor=2),
        nn.PixelShuffle(2),
        nn.Unflatten(1, (2, 2)),
        nn.ZeroPad2d(1),
        t(1, 4, t.n, 2),
    ),
)
def shapes(upsample, shuffle, unflatten, pad, x):
    return upsample(x), shuffle(x), unflatten(x), pad(x)


@program(
    "module_layers", lambda t: (t.module(lambda: nn.Bilinear(t.n, 3, 2)), nn.CosineSimilarity(), t(2, t.n), t(2, 3))
)
def two_inputs(net, similarity, x, y):
    return net(x, y), similarity(x, x + 1)


# Lazy modules, weights computed from others.


def lazy(t):
    return t.module(lambda: nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()))


def materialised(t):
    def make():
        net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
        net(torch.ones(2, t.n))
        return net

    return t.module(make)


@program("module_layers", lambda t: (materialised(t), t(3, t.n)))
def lazy_module_materialised(net, x):
    return net(x)


@program(
    "module_layers",
    lambda t: (lazy(t), t(3, t.n)),
    one_graph=False,
    hits=False,
)
def lazy_module(net, x):
    return net(x), net(x * 2)


@program(
    "module_layers", lambda t: (t.module(lambda: weight_norm(nn.Linear(t.n, 2))), t(3, t.n)), backward=True, setup=start
)
def weight_norm_by_hook(net, x):
    return net(x), net.weight.shape


def normed(n):
    return parametrizations.weight_norm(nn.Linear(n, 2))


def spectral(n):
    return parametrizations.spectral_norm(nn.Linear(n, 2))


def rotated(n):
    return parametrizations.orthogonal(nn.Linear(n, 2))


@program(
    "module_layers",
    lambda t: (copied(t, normed), t(3, t.n)),
    backward=True,
    setup=start,
)
def weight_norm_by_parametrization(net, x):
    return net(x), net.weight.shape


@program("module_layers", lambda t: (t.module(lambda: spectral_norm(nn.Linear(t.n, 2))), t(3, t.n)), setup=start)
def spectral_norm_by_hook(net, x):
    return both(net, x)


@program("module_layers", lambda t: (copied(t, spectral), t(3, t.n)))
def spectral_norm_by_parametrization(net, x):
    return both(net, x)


@program("module_layers", lambda t: (copied(t, rotated), t(3, t.n)))
def orthogonal(net, x):
    return net(x)
