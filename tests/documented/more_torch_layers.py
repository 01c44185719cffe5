"""More programs from the pages of torch.nn.functional, recurrent layers, embeddings, fusion and clipping."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, fusion, rnn

from documented import Between, documented, x


@documented(
    "torch.nn.utils.rnn.pack_padded_sequence: lengths on the CPU, sorted if enforced, larger than zero",
    calls=lambda: [
        (x(2, 3, 1), [3, 2], True),
        (x(2, 3, 1), [2, 3], True),
        (x(2, 3, 1), [1, 3], False),
        (x(2, 3, 1), torch.tensor([3, 0]), True),
        (x(3, 3, 1), torch.tensor([2, 2, 1]), True),
        (x(2, 3, 1), [4, 1], True),
    ],
)
def packed(t, lengths, enforce):
    p = rnn.pack_padded_sequence(t, lengths, batch_first=True, enforce_sorted=enforce)
    back, sizes = rnn.pad_packed_sequence(p, batch_first=True, padding_value=-1.0)
    return p.data, p.batch_sizes, p.sorted_indices, p.unsorted_indices, back, sizes, type(p).__name__


@documented(
    "torch.nn.utils.rnn: pack_sequence, unpad_sequence, unpack_sequence: lists of tensors of different lengths",
    calls=lambda: [([x(3), x(2)],), ([x(1), x(4)],), ([x(2, 2), x(1, 2)],), ([x(0)],), ([],)],
)
def unpacked_rows(rows):
    lengths = torch.as_tensor([len(r) for r in rows])
    wide = rnn.pad_sequence(rows, batch_first=True, padding_side="left")
    right = rnn.pad_sequence(rows)
    back = rnn.unpad_sequence(right, lengths)
    p = rnn.pack_sequence(rows, enforce_sorted=False)
    return wide, [b.shape for b in back], rnn.unpack_sequence(p)[0], p.batch_sizes


@documented(
    "torch.nn.LSTM: proj_size, bidirectional, unbatched input; the state's shapes; wrong input size raises",
    calls=lambda: (
        lambda m: [
            (m, x(2, 1, 3), None),
            (m, x(2, 3), None),
            (m, x(3, 1, 3), (torch.zeros(2, 1, 1), torch.zeros(2, 1, 2))),
            (m, x(2, 1, 4), None),
            (m, x(2, 1, 3), (torch.zeros(1, 1, 1), torch.zeros(2, 1, 2))),
            (m, x(2, 1, 3).double(), None),
            Between(m.double),
            (m, x(2, 1, 3).double(), None),
        ]
    )(nn.LSTM(3, 2, proj_size=1, bidirectional=True)),
)
def projected(m, t, state):
    t.mul_(0.5)
    y, (h, c) = m(t, state)
    return y, h.shape, c.shape, y.requires_grad


@documented(
    "torch.nn.RNNCell, LSTMCell in a Python loop over time: the caller passes the state; unbatched too",
    calls=lambda: (
        lambda m: [
            (m, x(2, 1, 2)),
            (m, x(3, 1, 2)),
            (m, x(2, 2)),
            (m, x(2, 3)),
            Between(m.half),
            (m, x(1, 1, 2).half()),
        ]
    )(nn.LSTMCell(2, 2)),
)
def cells_in_a_loop(m, t):
    state, outputs = None, []
    for step in t:
        state = m(step, state)
        outputs.append(state[0])
    return torch.stack(outputs), state[1]


@documented(
    "torch.nn.EmbeddingBag: offsets start at 0; modes; per_sample_weights only for sum; bags may be empty",
    calls=lambda: [
        (torch.tensor([0, 1, 2]), torch.tensor([0, 2]), "sum", None),
        (torch.tensor([0, 1, 2]), torch.tensor([0, 0]), "mean", None),
        (torch.tensor([0, 1, 2]), torch.tensor([0, 1]), "sum", torch.tensor([1.0, 2.0, 3.0])),
        (torch.tensor([0, 1, 2]), torch.tensor([0, 1]), "max", torch.tensor([1.0, 2.0, 3.0])),
        (torch.tensor([0, 1, 2]), torch.tensor([1, 2]), "sum", None),
        (torch.tensor([[0, 1], [2, 2]]), None, "max", None),
        (torch.tensor([0, 3]), torch.tensor([0]), "sum", None),
    ],
)
def bags(indices, offsets, mode, weights):
    table = x(3, 2).requires_grad_()
    y = functional.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=weights)
    y.sum().backward()
    return y, table.grad, table.grad.is_sparse


@documented(
    "torch.nn.functional.embedding with sparse=True: gradients are sparse, they accumulate and coalesce",
    calls=lambda: (
        lambda w: [
            (w, torch.tensor([0, 1, 1])),
            (w, torch.tensor([1])),
            Between(lambda: setattr(w, "grad", None)),
            (w, torch.tensor([2, 2])),
            (w, torch.tensor([3])),
        ]
    )(x(3, 2).requires_grad_()),
)
def sparse_gradients(w, indices):
    y = functional.embedding(indices, w, sparse=True)
    y.sum().backward()
    dense = w.grad.to_dense() if w.grad.is_sparse else w.grad
    layout = str(w.grad.layout)
    count, kept = (w.grad._nnz(), w.grad.is_coalesced()) if w.grad.is_sparse else (0, None)
    first = w.grad.coalesce().indices() if w.grad.is_sparse else None
    w.grad = dense  # a sparse gradient adds into a dense one
    return layout, count, kept, first, w.grad is dense


@documented(
    "torch.nn.functional in place: relu(inplace=True) writes its input; on a leaf that requires grad it is refused",
    calls=lambda: [
        (-x(3), "relu"),
        (-x(3), "leaky_relu"),
        (-x(3).requires_grad_(), "elu"),
        ((-x(3)).requires_grad_(), "relu"),
        (-x(3), "dropout"),
        ((-x(3)).expand(2, 3), "relu"),
    ],
)
def activated_in_place(t, name):
    before = t._version
    y = getattr(functional, name)(t, inplace=True)
    return y is t, t._version - before, t.clone(), y.grad_fn is None


@documented(
    "torch.nn.functional.softmax, log_softmax, gumbel_softmax: dtype casts before; dim=None warns",
    calls=lambda: [
        (x(2, 2), 0, None),
        (x(2, 2), 1, torch.float64),
        (x(2, 2), None, None),
        (x(2, 2).long(), 0, torch.float32),
        (x(2, 2).long(), 0, None),
        (x(2), 1, None),
        (x(2).half(), -1, torch.float32),
    ],
)
def distributions_over(t, dim, dtype):
    t += 1
    y = functional.softmax(t, dim=dim, dtype=dtype)
    z = functional.log_softmax(t, dim=-1 if dim is None else dim, dtype=dtype)
    hard = functional.gumbel_softmax(y, hard=True, dim=0)
    return y, z, y.dtype, hard.sum(0), hard.requires_grad


@documented(
    "torch.nn.functional.normalize, cosine_similarity, pairwise_distance: eps guards zero; out=; broadcasting",
    calls=lambda: [
        (x(2, 2), x(2), 1),
        (torch.zeros(2, 2), x(2), 0),
        (x(2, 2), x(3), 1),
        (x(2), x(2), 0),
        (x(2, 2).long(), x(2), 1),
        (x(1, 2, 2), x(2, 2), -1),
    ],
)
def similar(a, b, dim):
    n = functional.normalize(a.float(), dim=dim, eps=1e-3)
    out = torch.empty_like(n)
    same = functional.normalize(a.float(), dim=dim, out=out)
    return n, same is out, functional.cosine_similarity(a, b, dim=dim), functional.pairwise_distance(n, b.float())


@documented(
    "torch.nn.functional.grid_sample, affine_grid: align_corners unset warns; modes; the grid's last size is 2",
    calls=lambda: [
        (x(1, 1, 2, 2), (1, 1, 2, 2), False, "bilinear"),
        (x(1, 1, 2, 2), (1, 1, 3, 3), True, "nearest"),
        (x(1, 1, 2, 2), (1, 1, 3, 3), None, "bilinear"),
        (x(1, 1, 2, 2), (1, 1, 3, 3), True, "other"),
        (x(1, 1, 2, 2), (2, 1, 3, 3), True, "bilinear"),
    ],
)
def resampled(t, size, align, mode):
    theta = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = functional.affine_grid(theta, list(size), align_corners=align)
    y = functional.grid_sample(t, grid, mode=mode, align_corners=align)
    return grid.shape, y.round(decimals=4)


@documented(
    "torch.nn.functional.fold, unfold, pixel_shuffle: sizes must multiply up; fold sums what overlaps",
    calls=lambda: [
        (x(1, 1, 3, 3), 2, 1),
        (x(1, 1, 4, 4), 2, 2),
        (x(2, 1, 4, 4), 3, 1),
        (x(1, 1, 3, 3), 4, 1),
        (x(1, 4, 2, 2), 2, 1),
    ],
)
def columns(t, kernel, stride):
    t.add_(1)
    c = functional.unfold(t, kernel, stride=stride)
    back = functional.fold(c, t.shape[-2:], kernel, stride=stride)
    wide = functional.pixel_shuffle(t, 2) if t.shape[1] == 4 else functional.pixel_unshuffle(t[..., :2, :2], 2)
    return c.shape, back, wide.shape, c[0, 0]


@documented(
    "torch.nn.ConvTranspose1d: output_size within range chooses among sizes; output_padding less than stride",
    calls=lambda: (
        lambda m: [
            (m, x(1, 1, 3), None),
            (m, x(1, 1, 3), [7]),
            (m, x(1, 1, 3), [9]),
            (m, x(1, 1, 4), [10]),
            (m, x(1, 3), None),
        ]
    )(nn.ConvTranspose1d(1, 1, 3, stride=2)),
)
def transposed(m, t, size):
    y = m(t, output_size=size)
    return y.shape, y.requires_grad, m.output_padding


@documented(
    "torch.nn.utils.fusion: a fused layer in eval mode; training mode is refused; the originals stay",
    calls=lambda: (
        lambda m: [
            (m, x(1, 1, 3, 3)),
            Between(m.eval),
            (m, x(1, 1, 3, 3)),
            (m, x(2, 1, 4, 4)),
            Between(lambda: m[1].running_mean.fill_(2)),
            (m, x(2, 1, 4, 4)),
        ]
    )(nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.BatchNorm2d(2))),
)
def fused(m, t):
    conv = fusion.fuse_conv_bn_eval(m[0], m[1])
    y = conv(t)
    return conv is m[0], m[0].bias, conv.bias.shape, conv.weight is m[0].weight, torch.allclose(y, m(t), atol=1e-4)


@documented(
    "torch.nn.utils.clip_grad_value_, get_total_norm, clip_grad_norm_: in place, norms of given type; no gradients",
    calls=lambda: (
        lambda p, q: [
            ([p, q], 1.0, 2.0),
            ([p], 1.0, float("inf")),
            ([p, q], 0.5, 1.0),
            ([], 0.5, 1.0),
            (p, 0.1, 2.0),
            ([p, q.double()], 10.0, 0.5),
        ]
    )(x(2).requires_grad_(), x(3).requires_grad_()),
)
def limited(parameters, most, kind):
    some = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    for p in some:
        if p.is_leaf:
            p.grad = p.detach() * 3
    before = [p.grad for p in some if p.is_leaf]
    norm = clip_grad_norm_([p for p in some if p.is_leaf], most, norm_type=kind)
    clip_grad_value_([p for p in some if p.is_leaf], most / 2)
    return norm, before, [p.grad is g for p, g in zip(some, before)], norm.dtype


@documented(
    "torch.nn.init: functions write under no_grad and return the tensor; fan in needs two dimensions",
    calls=lambda: [
        (nn.Parameter(torch.empty(2, 3)), "xavier_uniform_"),
        (nn.Parameter(torch.empty(3, 2)), "kaiming_normal_"),
        (nn.Parameter(torch.zeros(3)), "kaiming_normal_"),
        (nn.Parameter(torch.empty(3, 3)), "eye_"),
        (torch.empty(2, 2) * 0, "orthogonal_"),
        (nn.Parameter(torch.empty(3)), "ones_"),
    ],
)
def initialised(p, name):
    torch.manual_seed(3)
    y = getattr(nn.init, name)(p)
    return y is p, p.requires_grad, p.is_leaf, p._version > 0, nn.init.calculate_gain("relu"), p * 1


@documented(
    "torch.nn.TransformerEncoderLayer: norm_first, masks, batch_first; eval and training agree without dropout",
    calls=lambda: (
        lambda m: [
            (m, x(1, 3, 4), None),
            (m, x(2, 2, 4), torch.tensor([[False, True], [False, False]])),
            Between(m.eval),
            (m, x(2, 2, 4), torch.tensor([[False, True], [False, False]])),
            (m, x(3, 4), None),
            (m, x(1, 3, 5), None),
        ]
    )(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)),
)
def encoded(m, t, padding):
    y = m(t / 10, src_key_padding_mask=padding)
    with torch.no_grad():
        z = m(t / 10, src_key_padding_mask=padding)
    return y.shape, torch.allclose(y.detach(), z, atol=1e-5), y.requires_grad, z.requires_grad


@documented(
    "torch.nn.functional.batch_norm, instance_norm: statistics given are updated in training only; None needs training",
    calls=lambda: (
        lambda m, v: [
            (x(4, 2), m, v, True, 0.1),
            (x(4, 2), m, v, False, 0.1),
            (x(4, 2), None, None, False, 0.1),
            (x(4, 2), None, None, True, 0.1),
            (x(1, 2), m, v, True, 0.1),
            (x(4, 3), m, v, True, 0.1),
            (x(4, 2), m, v, True, 1.0),
        ]
    )(torch.zeros(2), torch.ones(2)),
)
def normalised_by(t, mean, var, training, momentum):
    t.sub_(1)
    y = functional.batch_norm(t, mean, var, training=training, momentum=momentum)
    return y, mean is not None and mean._version, mean


@documented(
    "torch.nn.functional losses: reduction names, weights, label_smoothing, deprecated size_average; targets by kind",
    calls=lambda: [
        (x(2, 3), torch.tensor([0, 2]), "mean", 0.0),
        (x(2, 3), torch.tensor([0, 2]), "none", 0.1),
        (x(2, 3), torch.full((2, 3), 1 / 3), "sum", 0.1),
        (x(2, 3), torch.tensor([0, -100]), "mean", 0.0),
        (x(2, 3), torch.tensor([-100, -100]), "mean", 0.0),
        (x(2, 3), torch.tensor([0, 2]), "max", 0.0),
        (x(2, 3), torch.tensor([0.0, 2.0]), "mean", 0.0),
        (x(3), torch.tensor(1), "sum", 0.5),
    ],
)
def losses(t, target, reduction, smoothing):
    t.requires_grad_()
    loss = functional.cross_entropy(t, target, reduction=reduction, label_smoothing=smoothing)
    loss.sum().backward()
    return loss, t.grad
