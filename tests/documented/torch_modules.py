"""Programs from torch.nn's pages: layers, buffers, containers, hooks, parametrizations, state dicts."""

import copy

import torch
from torch import nn

from documented import Between, documented


def _hooks_from_zero():
    """Hooks' numbers are keys of the dicts that hold them: each run starts from the same."""
    torch.utils.hooks.RemovableHandle.next_id = 0


def _set(object, **attributes):
    return Between(lambda: [setattr(object, k, v) for k, v in attributes.items()])


@documented(
    "torch.nn.BatchNorm1d: running estimates are kept during training with momentum; None means cumulative average",
    calls=lambda: (
        lambda m: [
            (m, torch.randn(4, 2)),
            (m, torch.randn(3, 2)),
            Between(m.eval),
            (m, torch.randn(3, 2)),
            Between(m.train),
            _set(m, momentum=None),
            (m, torch.randn(3, 2)),
            (m, torch.randn(5, 2)),
        ]
    )(nn.BatchNorm1d(2)),
)
def batch_norm(module, x):
    y = module(x)
    return y, module.running_mean.clone(), module.num_batches_tracked.item(), module.training


@documented(
    "torch.nn.BatchNorm1d: ValueError for one value per channel in training; wrong feature count raises",
    calls=lambda: (
        lambda m: [
            (m, torch.randn(4, 2)),
            (m, torch.randn(1, 2)),
            (m, torch.randn(4, 3)),
            (m, torch.randn(2, 2)),
            Between(m.eval),
            (m, torch.randn(1, 2)),
        ]
    )(nn.BatchNorm1d(2)),
)
def batch_norm_of_one(module, x):
    y = module(x)
    z = module(y * 2)
    return z, module.num_batches_tracked.clone(), module.running_var.clone()


@documented(
    "torch.nn.Dropout: zeroes with probability p only in training; p outside [0, 1] raises; identity in eval",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(6)),
            (m, torch.ones(6)),
            Between(m.eval),
            (m, torch.ones(6)),
            Between(m.train),
            _set(m, p=0.9),
            (m, torch.ones(6)),
            _set(m, p=0.0),
            (m, torch.ones(4)),
            _set(m, p=1.5),
            (m, torch.ones(4)),
        ]
    )(nn.Dropout(0.5)),
)
def dropout(module, x):
    y = module(x)
    return y, y is x, nn.functional.dropout(x, 0.5, training=module.training)


@documented(
    "torch.nn.LayerNorm, GroupNorm: normalized_shape must be the trailing sizes; channels divisible by groups",
    calls=lambda: (
        lambda l, g: [
            (l, torch.randn(2, 4)),
            (l, torch.randn(3, 1, 4)),
            (l, torch.randn(4, 3)),
            (g, torch.randn(2, 4)),
            (g, torch.randn(1, 4, 3)),
            (g, torch.randn(2, 3)),
            _set(l, eps=1.0),
            (l, torch.randn(2, 4)),
        ]
    )(nn.LayerNorm(4), nn.GroupNorm(2, 4)),
)
def normalised(module, x):
    x.add_(1)
    return module(x), x.mean()


@documented(
    "torch.nn.Embedding: padding_idx does not contribute to the gradient; max_norm renormalises the weight in place",
    calls=lambda: (
        lambda e: [
            (e, torch.tensor([0, 1])),
            (e, torch.tensor([2, 2, 1])),
            _set(e, max_norm=0.5),
            (e, torch.tensor([1])),
            (e, torch.tensor([5])),
            (e, torch.tensor([], dtype=torch.long)),
            (e, torch.tensor([3, 0])),
        ]
    )(nn.Embedding(4, 3, padding_idx=0)),
)
def embedding_norms(module, ids):
    rows = module(ids)
    rows.sum().backward()
    return rows, module.weight.detach().norm(dim=1), module.weight.grad.clone()


@documented(
    "torch.nn.GRU: output and h_n; the hidden state is passed on by the caller; wrong hidden sizes raise",
    calls=lambda: (
        lambda m, s: [
            (m, s, torch.randn(3, 2, 2)),
            (m, s, torch.randn(1, 2, 2)),
            (m, s, torch.randn(4, 3, 2)),
            (m, {}, torch.randn(4, 3, 2)),
            (m, s, torch.randn(2, 2, 2)),
            (m, s, torch.randn(2, 2, 5)),
        ]
    )(nn.GRU(2, 3), {}),
)
def recurrent_state(module, state, x):
    out, state["h"] = module(x, state.get("h"))
    state["steps"] = state.get("steps", 0) + len(x)
    return out[-1], state["steps"]


@documented(
    "torch.nn.LSTM with PackedSequence: lengths sorted unless enforce_sorted=False; pad_packed_sequence inverts",
    calls=lambda: (
        lambda m: [
            (m, torch.randn(2, 4, 2), [4, 2]),
            (m, torch.randn(2, 4, 2), [3, 3]),
            (m, torch.randn(2, 4, 2), [1, 4]),
            (m, torch.randn(2, 4, 2), [4, 0]),
            (m, torch.randn(3, 5, 2), [5, 1, 1]),
        ]
    )(nn.LSTM(2, 3, batch_first=True)),
)
def packed_sequences(module, x, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(x.relu(), lengths, batch_first=True, enforce_sorted=lengths != [1, 4])
    out, (h, c) = module(packed)
    padded, sizes = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    return padded, sizes, h, packed.batch_sizes


@documented(
    "torch.nn.utils.rnn.pad_sequence: pads to the longest of the sequences with padding_value",
    calls=lambda: [
        ([torch.ones(2), torch.ones(3)], 0.0),
        ([torch.ones(2), torch.ones(3), torch.ones(1)], -1.0),
        ([torch.ones(1)], 5.0),
        ([], 0.0),
        ([torch.ones(2, 2), torch.ones(1, 2)], 9),
    ],
)
def padded_sequences(rows, value):
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)
    lengths = torch.tensor([len(r) for r in rows])
    return padded, padded.shape[1] - lengths, nn.utils.rnn.unpad_sequence(padded, lengths, batch_first=True)[-1]


@documented(
    "torch.nn.MultiheadAttention: key_padding_mask True is ignored; attn_mask; need_weights",
    calls=lambda: (
        lambda m: [
            (m, torch.randn(1, 3, 4), None, None),
            (m, torch.randn(1, 3, 4), torch.tensor([[False, False, True]]), None),
            (m, torch.randn(1, 4, 4), None, torch.ones(4, 4).triu(1).bool()),
            (m, torch.randn(1, 4, 4), None, torch.ones(3, 3).bool()),
            Between(m.eval),
            (m, torch.randn(1, 2, 4), None, None),
            (m, torch.randn(2, 2, 4), torch.tensor([[False, True], [False, False]]), None),
        ]
    )(nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1)),
)
def attention_masks(module, x, padding, mask):
    out, weights = module(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=mask is None)
    return out, weights


@documented(
    "torch.nn.functional.scaled_dot_product_attention: is_causal and attn_mask cannot both be set; scale",
    calls=lambda: [
        (torch.randn(1, 2, 3, 4), False, None, None),
        (torch.randn(1, 2, 3, 4), True, None, 0.5),
        (torch.randn(1, 2, 2, 4), True, torch.ones(2, 2).bool(), None),
        (torch.randn(1, 2, 2, 4), False, torch.tensor([[0.0, -9.0]]), 2),
        (torch.randn(1, 1, 5, 4), True, None, None),
    ],
)
def scaled_attention(q, causal, mask, scale):
    q.mul_(2)
    out = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=causal, scale=scale)
    return out, q.shape[-2]


@documented(
    "torch.nn.ModuleList, Sequential: can be indexed, appended to and iterated like a list",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            Between(lambda: m.append(nn.Linear(2, 2))),
            (m, torch.ones(2)),
            Between(lambda: m.insert(0, nn.ReLU())),
            (m, torch.ones(2)),
            Between(lambda: m.__delitem__(1)),
            (m, torch.ones(2)),
            Between(lambda: m.__setitem__(0, nn.Tanh())),
            (m, torch.ones(2)),
        ]
    )(nn.ModuleList([nn.Linear(2, 2), nn.Sigmoid()])),
)
def list_of_layers(layers, x):
    for i, layer in enumerate(layers):
        x = layer(x) + i
    return x, len(layers), [type(l).__name__ for l in layers[:2]], sum(p.numel() for p in layers.parameters())


@documented(
    "torch.nn.ModuleDict: an ordered dictionary; choices by name; KeyError for a missing one",
    calls=lambda: (
        lambda m, log: [
            (m, "relu", torch.tensor([-1.0, 1.0]), log),
            (m, "tanh", torch.tensor([-1.0, 1.0]), log),
            (m, "gelu", torch.tensor([-1.0, 1.0]), log),
            Between(lambda: m.update({"gelu": nn.GELU()})),
            (m, "gelu", torch.tensor([-1.0, 1.0]), log),
            Between(lambda: m.pop("relu")),
            (m, "relu", torch.tensor([-1.0, 1.0]), log),
            (m, "tanh", torch.ones(3), log),
        ]
    )(nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()}), []),
)
def choice_by_name(modules, name, x, log):
    log.append(name)
    x.add_(0.5)
    return modules[name](x), list(modules.keys()), "gelu" in modules


@documented(
    "torch.nn.ParameterList, ParameterDict: parameters are registered and visible to all Module methods",
    calls=lambda: (
        lambda p: [
            (p, 1.0),
            (p, 2.0),
            Between(lambda: p.append(nn.Parameter(torch.ones(2)))),
            (p, 2.0),
            Between(lambda: p.__setitem__(0, torch.zeros(2))),
            (p, 3.0),
        ]
    )(nn.ParameterList([torch.ones(2), nn.Parameter(torch.arange(2.0))])),
)
def parameter_list(params, scale):
    total = sum((p * scale).sum() for p in params)
    return total, [n for n, _ in params.named_parameters()], [p.requires_grad for p in params], len(params)


class Counter(nn.Module):
    """Keeps a persistent and a transient buffer, and a plain counter."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", None, persistent=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        y = self.linear(x)
        if self.last is not None and self.last.shape == y.shape:
            y = y + self.last
        self.last = y.detach()
        return y / self.calls


@documented(
    "torch.nn.Module.register_buffer: in state_dict unless persistent=False; may be None and set later",
    calls=lambda: (
        lambda m, saved: [
            (m, torch.ones(2)),
            (m, torch.ones(2)),
            Between(lambda: saved.update(copy.deepcopy(m.state_dict()))),
            (m, torch.ones(3, 2)),
            Between(lambda: m.load_state_dict(saved)),
            (m, torch.ones(3, 2)),
            _set(m, calls=10, last=None),
            (m, torch.ones(3, 2)),
        ]
    )(Counter(), {}),
)
def counting_module(module, x):
    return (
        module(x),
        module.steps.clone(),
        module.calls,
        sorted(module.state_dict()),
        [n for n, _ in module.named_buffers()],
    )


@documented(
    "torch.nn.Module.state_dict, load_state_dict: copies into the module's parameters; strict raises for missing keys",
    calls=lambda: (
        lambda m: [
            (m, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, True),
            (m, {"weight": torch.ones(1, 2) * 2}, False),
            (m, {"weight": torch.ones(1, 2) * 3}, True),
            (m, {"weight": torch.ones(2, 2)}, False),
            (m, {"weight": torch.ones(1, 2), "bias": torch.ones(1), "more": torch.ones(1)}, True),
        ]
    )(nn.Linear(2, 1)),
)
def loads_state(module, state, strict):
    before = module.weight
    module.load_state_dict(state, strict=strict)
    return module(torch.ones(2)), before is module.weight, list(module.state_dict())


@documented(
    "torch.nn.Module.register_forward_hook and pre hook: may change input and output; on a child, between calls",
    calls=lambda: (
        lambda m, h, log: [
            (m, torch.ones(2)),
            Between(
                lambda: h.append(m[0].register_forward_hook(lambda mod, i, o: log.append(o.sum().item()) or o * 2))
            ),
            (m, torch.ones(2)),
            Between(lambda: h.append(m[1].register_forward_pre_hook(lambda mod, i: (i[0] + 100,)))),
            (m, torch.ones(2)),
            Between(lambda: h.pop().remove()),
            (m, torch.ones(2)),
            Between(lambda: h.pop().remove()),
            (m, torch.ones(2)),
            (m, torch.ones(3, 2)),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [], []),
    setup=_hooks_from_zero,
)
def hooks_on_children(module, x):
    return module(x), len(module[0]._forward_hooks)


@documented(
    "torch.nn.Module.register_full_backward_hook: called each time gradients are computed",
    calls=lambda: (
        lambda m, h, log: [
            (m, torch.ones(2), log),
            Between(
                lambda: h.append(m.register_full_backward_hook(lambda mod, gi, go: log.append(go[0].sum().item())))
            ),
            (m, torch.ones(2), log),
            (m, torch.ones(3, 2), log),
            Between(lambda: h.pop().remove()),
            (m, torch.ones(2), log),
        ]
    )(nn.Linear(2, 2), [], []),
    setup=_hooks_from_zero,
)
def backward_hooks(module, x, log):
    module.zero_grad()
    module(x).sum().backward()
    return module.weight.grad, list(log)


@documented(
    "torch.nn.modules.module.register_module_forward_hook: global, called for every module",
    calls=lambda: (
        lambda m, h, log: [
            (m, torch.ones(2), log),
            Between(
                lambda: h.append(
                    nn.modules.module.register_module_forward_hook(lambda mod, i, o: log.append(type(mod).__name__))
                )
            ),
            (m, torch.ones(2), log),
            (m, torch.ones(1, 2), log),
            Between(lambda: h.pop().remove()),
            (m, torch.ones(2), log),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), [], []),
    setup=_hooks_from_zero,
)
def global_hook(module, x, log):
    return module(x), list(log)


@documented(
    "torch.nn.utils.parametrize: the parameter is recomputed by the parametrization at each access; cached() caches",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            Between(lambda: nn.utils.parametrize.register_parametrization(m, "weight", Symmetric())),
            (m, torch.ones(2)),
            Between(lambda: setattr(m, "weight", torch.arange(4.0).view(2, 2))),
            (m, torch.ones(2)),
            Between(lambda: nn.utils.parametrize.remove_parametrizations(m, "weight")),
            (m, torch.ones(2)),
        ]
    )(nn.Linear(2, 2)),
)
def parametrized(module, x):
    with nn.utils.parametrize.cached():
        y = module(x) + module.weight.sum()
    return (
        y,
        nn.utils.parametrize.is_parametrized(module),
        [n for n, _ in module.named_parameters()],
        type(module).__name__,
    )


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


@documented(
    "torch.nn.utils.parametrizations.weight_norm, spectral_norm: power iterations only in training",
    calls=lambda: (
        lambda a, b: [
            (a, torch.ones(2)),
            (a, torch.ones(3, 2)),
            (b, torch.ones(2)),
            (b, torch.ones(2)),
            Between(b.eval),
            (b, torch.ones(2)),
            (b, torch.ones(2)),
        ]
    )(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))),
    setup=_hooks_from_zero,
)
def normed_weights(module, x):
    out = module(x)
    out.sum().backward()
    return out, [(n, p.grad) for n, p in module.named_parameters()], [b.clone() for b in module.buffers()]


@documented(
    "torch.nn.LazyLinear: in_features inferred at the first call, then it becomes a Linear",
    calls=lambda: (
        lambda a, b: [
            (a, torch.ones(3)),
            (a, torch.ones(2, 3)),
            (a, torch.ones(4)),
            (b, torch.ones(4)),
            (b, torch.ones(1, 4)),
        ]
    )(nn.LazyLinear(2), nn.LazyLinear(2)),
)
def lazy_layer(module, x):
    out = module(x)
    return out.shape, module.in_features, type(module).__name__, module.weight.shape


@documented(
    "torch.nn.Module.apply, requires_grad_: recursively applied; freezing parameters between calls",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            Between(lambda: m[0].requires_grad_(False)),
            (m, torch.ones(2)),
            Between(lambda: m.apply(lambda l: nn.init.constant_(l.weight, 0.5) if hasattr(l, "weight") else None)),
            (m, torch.ones(2)),
            Between(lambda: m.requires_grad_(True)),
            (m, torch.ones(1, 2)),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))),
)
def frozen_layers(module, x):
    module.zero_grad(set_to_none=True)
    module(x).sum().backward()
    return [(n, p.requires_grad, p.grad) for n, p in module.named_parameters()], sum(
        1 for p in module.parameters() if p.requires_grad
    )


@documented(
    "torch.nn.Module.to, double, half: parameters are cast in place; the inputs' dtype must match",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            Between(m.double),
            (m, torch.ones(2).double()),
            (m, torch.ones(2)),
            Between(m.bfloat16),
            (m, torch.ones(2).bfloat16()),
            Between(m.float),
            (m, torch.ones(2)),
        ]
    )(nn.Linear(2, 2)),
)
def cast_module(module, x):
    x.mul_(3)
    y = module(x)
    return y, module.weight.dtype, next(module.parameters()) is module.weight


@documented(
    "torch.nn.Module.__setattr__: assigning a Parameter registers it, a tensor to a parameter's name raises TypeError",
    calls=lambda: (
        lambda m: [
            (m, "weight", nn.Parameter(torch.ones(1, 2))),
            (m, "extra", nn.Parameter(torch.ones(1))),
            (m, "weight", torch.ones(1, 2)),
            (m, "extra", None),
            (m, "scale", torch.ones(1)),
            (m, "act", nn.ReLU()),
            (m, "act", None),
        ]
    )(nn.Linear(2, 1)),
)
def assigned_attributes(module, name, value):
    setattr(module, name, value)
    total = module(torch.ones(2)).sum()
    return (
        total,
        [n for n, _ in module.named_parameters()],
        [n for n, _ in module.named_children()],
        name in module.__dict__,
    )


@documented(
    "torch.nn.Module.named_parameters, named_modules: order of registration, shared ones once or each time",
    calls=lambda: (
        lambda m: [
            (m, 2.0),
            Between(lambda: setattr(m[2], "weight", m[0].weight)),
            (m, 3.0),
            (m, 0.0),
            Between(lambda: m.add_module("again", m[0])),
            (m, 1.0),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))),
)
def tied_weights(module, scale):
    names = [n for n, _ in module.named_parameters()]
    every = [n for n, _ in module.named_parameters(remove_duplicate=False)]
    total = sum(p.detach().sum() * scale for p in module.parameters())
    return names, every, total, [n for n, _ in module.named_modules()], module(torch.ones(2))


@documented(
    "copy.deepcopy of a module: its parameters are new tensors, tied ones stay tied, hooks are copied",
    calls=lambda: (
        lambda m: [
            (m, 1.0),
            (m, 2.0),
            Between(lambda: setattr(m[1], "weight", m[0].weight)),
            (m, 2.0),
            Between(lambda: m.add_module("2", nn.Tanh())),
            (m, 3.0),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))),
)
def copied_module(module, value):
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin[0].weight.fill_(value)
    return twin(torch.ones(2)), module(torch.ones(2)), twin[0].weight is twin[1].weight, len(twin)


@documented(
    "torch.nn.Module.__getattr__: missing attributes raise AttributeError with class and name; getattr with default",
    calls=lambda: (
        lambda m: [
            (m, "weight"),
            (m, "missing"),
            (m, "bias"),
            Between(lambda: m.register_parameter("bias", None)),
            (m, "bias"),
            Between(lambda: delattr(m, "bias")),
            (m, "bias"),
            (m, "in_features"),
        ]
    )(nn.Linear(2, 1)),
)
def attribute_by_name(module, name):
    value = getattr(module, name, None)
    if value is None and hasattr(module, name):
        return "registered as None", module(torch.ones(2))
    return value * 2 if value is not None else getattr(module, name)
