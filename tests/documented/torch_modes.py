"""Programs from torch's pages on subclasses, __torch_function__, modes, settings of the process, small algorithms."""

import collections
import dataclasses
import functools
import warnings

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from documented import Between, documented


class Metadata(torch.Tensor):
    """As 'Extending torch' has it: operations are logged, results stay subclass instances."""

    log: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


@documented(
    "Extending torch, subclassing torch.Tensor: __torch_function__ is called for functions, methods and attributes",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            (torch.ones(2), m),
            (m, m),
            (torch.ones(2), torch.ones(2)),
            (torch.ones(3).as_subclass(Metadata), torch.ones(3)),
        ]
    )(torch.ones(2).as_subclass(Metadata)),
    state=lambda: list(Metadata.log),
    setup=Metadata.log.clear,
)
def subclass_operations(x, y):
    z = torch.add(x, y) * x.shape[0]
    if z.ndim == 1 and isinstance(z, Metadata):
        z = z.view(-1, 1)
    return type(z).__name__, z.sum(), z.requires_grad


class Doubling(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


@documented(
    "torch.overrides.TorchFunctionMode: active in its with block, sees every torch function",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2), True),
            (m, torch.ones(2), False),
            (m, torch.ones(3), True),
            (m, torch.ones(3).double(), True),
        ]
    )(Doubling()),
)
def own_function_mode(mode, x, use):
    if use:
        with mode:
            y = torch.sin(x) + x.shape[0]
    else:
        y = torch.sin(x) + x.shape[0]
    return y, torch.sin(x), mode.calls


@documented(
    "torch.overrides.TorchFunctionMode around the call, entered between calls",
    calls=lambda: (
        lambda m: [
            (torch.ones(2),),
            Between(m.__enter__),
            (torch.ones(2),),
            (torch.ones(3),),
            Between(lambda: m.__exit__(None, None, None)),
            (torch.ones(2),),
            (torch.ones(3),),
        ]
    )(Doubling()),
)
def under_a_function_mode(x):
    return torch.sin(x), x.sin() + 1


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@documented(
    "Extending torch, TorchDispatchMode: sees the operators below autograd, in order",
    calls=lambda: (
        lambda m: [
            (m, torch.ones(2)),
            (m, torch.ones(2)),
            (m, torch.ones(3, requires_grad=True)),
            (m, torch.ones(2, 2)),
        ]
    )(Counting()),
)
def own_dispatch_mode(mode, x):
    with mode:
        y = (x * 2).sum()
        if y.requires_grad:
            y.backward()
    return y, x.grad, list(mode.seen)


@documented(
    "TorchDispatchMode around the call, entered between calls",
    calls=lambda: (
        lambda m, l: [
            (l, torch.ones(2)),
            Between(m.__enter__),
            (l, torch.ones(2)),
            (l, torch.ones(3, 2)),
            Between(lambda: m.__exit__(None, None, None)),
            (l, torch.ones(2)),
            Between(lambda: l.bias.data.copy_(torch.tensor([float(len(m.seen))]))),
            (l, torch.ones(2)),
        ]
    )(Counting(), torch.nn.Linear(2, 1)),
)
def under_a_dispatch_mode(layer, x):
    y = layer(x)
    y = y.relu() + 1
    return y, x.add_(1)


@documented(
    "torch.use_deterministic_algorithms, torch.set_num_threads, is_anomaly_enabled: settings read in the program",
    calls=lambda: [
        (torch.ones(2),),
        (torch.ones(3),),
        Between(lambda: torch.use_deterministic_algorithms(True)),
        (torch.ones(2),),
        (torch.ones(4),),
        Between(lambda: torch.use_deterministic_algorithms(False)),
        (torch.ones(2),),
    ],
    setup=lambda: torch.use_deterministic_algorithms(False),
)
def settings(x):
    y = torch.zeros(2).put_(torch.tensor([0, 0]), x[:2], accumulate=True)
    if torch.are_deterministic_algorithms_enabled():
        return y, "deterministic"
    return y, x + 1


@documented(
    "warnings from torch: a warning is given at each call that deserves it, under the filters of the user",
    calls=lambda: [
        (torch.ones(2, 2),),
        (torch.ones(2, 3),),
        (torch.ones(2),),
        (torch.ones(1, 2, 3),),
        (torch.ones(()),),
    ],
)
def warned(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = torch.nn.functional.softmax(x) if x.dim() else x + 1
        if x.shape[0:1] == (2,):
            warnings.warn(f"two rows of {x.shape[-1]}", stacklevel=1)
    return y, [str(w.message)[:30] for w in caught]


@documented(
    "torch.utils.hooks / closures: a function kept by an object is replaced between calls",
    calls=lambda: (
        lambda h: [
            (h, torch.ones(2)),
            Between(lambda: setattr(h, "fn", torch.cos)),
            (h, torch.ones(2)),
            Between(lambda: setattr(h, "fn", functools.partial(torch.mul, other=3))),
            (h, torch.ones(2)),
            Between(lambda: h.options.update(scale=5)),
            (h, torch.ones(2)),
        ]
    )(Holder()),
)
def replaced_function(holder, x):
    return holder.fn(x) * holder.options.get("scale", 1)


class Holder:
    def __init__(self):
        self.fn = torch.sin
        self.options = {}


@dataclasses.dataclass
class Beam:
    tokens: list
    score: torch.Tensor


@documented(
    "beam search: torch.topk over scores, hypotheses kept as Python objects",
    calls=lambda: (
        lambda b: [
            (b, torch.tensor([0.1, 0.7, 0.2]), 2),
            (b, torch.tensor([0.5, 0.3, 0.2]), 2),
            (b, torch.tensor([0.1, 0.1, 0.8]), 3),
            (b, torch.tensor([0.1, 0.9]), 3),
            (b, torch.tensor([0.6, 0.4]), 1),
        ]
    )([Beam([], torch.zeros(()))]),
)
def beam_step(beams, p, k):
    scores = torch.stack([b.score for b in beams])[:, None] + p.log()
    best, where = scores.view(-1).topk(min(k, scores.numel()))
    chosen = [Beam([*beams[w // len(p)].tokens, w % len(p)], s) for s, w in zip(best.unbind(), where.tolist())]
    beams[:] = chosen
    return [b.tokens for b in beams], best


@documented(
    "generate until an end token: torch.argmax().item() compared in a loop; torch.cat grows the sequence",
    calls=lambda: (
        lambda t: [
            (t, torch.tensor([0]), 6),
            (t, torch.tensor([2]), 6),
            (t, torch.tensor([1, 0]), 3),
            (t, torch.tensor([4]), 9),
            (t, torch.tensor([5]), 2),
        ]
    )(torch.eye(5).roll(1, 1)),
)
def generated(table, ids, limit):
    while len(ids) < limit:
        following = table[ids[-1]].argmax()
        ids = torch.cat([ids, following[None]])
        if following.item() == 4:
            break
    return ids, len(ids), ids.tolist()


@documented(
    "replay memory: a deque with maxlen of tensors; torch.stack of a random sample",
    calls=lambda: (lambda d: [(d, torch.full((2,), float(i)), 2) for i in range(5)] + [(d, torch.ones(3), 3)])(
        collections.deque(maxlen=3)
    ),
)
def replay_memory(memory, x, n):
    memory.append(x)
    if len(memory) < n:
        return "too few", len(memory)
    picks = torch.randint(len(memory), (n,)).tolist()
    return torch.stack([memory[i] for i in picks]), picks, len(memory)


@documented(
    "running statistics (Welford): tensors and counts on an object; a batch that is empty is skipped",
    calls=lambda: (
        lambda s: [
            (s, torch.tensor([1.0, 2.0])),
            (s, torch.tensor([5.0])),
            (s, torch.tensor([])),
            (s, torch.arange(4.0)),
            (s, torch.tensor([float("nan")])),
        ]
    )(Holder()),
)
def running_statistics(s, batch):
    n = s.options.setdefault("n", 0)
    if batch.numel() == 0:
        return "skipped", n
    mean = s.options.get("mean", torch.zeros(()))
    s.options["n"] = n + batch.numel()
    delta = batch.mean() - mean
    s.options["mean"] = mean + delta * batch.numel() / s.options["n"]
    return s.options["mean"], s.options["n"], batch.std(unbiased=len(batch) > 1)


@documented(
    "top-p sampling: sorted cumulative probabilities, a cut found from data, multinomial with a generator",
    calls=lambda: (
        lambda g: [
            (g, torch.tensor([2.0, 1.0, 0.0]), 0.5, 1.0),
            (g, torch.tensor([2.0, 1.0, 0.0]), 0.9, 1.0),
            (g, torch.tensor([2.0, 1.0, 0.0, 3.0]), 0.9, 0.5),
            (g, torch.tensor([2.0, 1.0]), 0.0, 2.0),
            (g, torch.tensor([2.0, 1.0]), 0.5, 0.0),
        ]
    )(torch.Generator().manual_seed(1)),
)
def top_p(generator, logits, p, temperature):
    probs = torch.softmax(logits / temperature, -1)
    ordered, where = probs.sort(descending=True)
    keep = int((ordered.cumsum(0) < p).sum()) + 1
    token = where[:keep][torch.multinomial(ordered[:keep], 1, generator=generator)]
    return token.item(), keep, ordered[:keep] / ordered[:keep].sum()


@documented(
    "rotary embedding: tables cached by length on the module, rebuilt when a longer sequence or another dtype comes",
    calls=lambda: (
        lambda r: [
            (r, torch.ones(2, 4)),
            (r, torch.ones(3, 4)),
            (r, torch.ones(2, 4)),
            (r, torch.ones(2, 4).double()),
            (r, torch.ones(5, 4)),
            (r, torch.ones(5, 6)),
        ]
    )(Rotary(4)),
)
def rotary(module, x):
    return module(x), module.built, None if module.cos is None else module.cos.shape


class Rotary(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", 1.0 / (10 ** (torch.arange(0, dim, 2) / dim)), persistent=False)
        self.cos = None
        self.built = 0

    def forward(self, x):
        n = x.shape[-2]
        if self.cos is None or self.cos.shape[0] < n or self.cos.dtype != x.dtype:
            angles = torch.outer(torch.arange(n), self.freq)
            self.cos, self.sin = (torch.cat([f(angles)] * 2, -1).to(x.dtype) for f in (torch.cos, torch.sin))
            self.built += 1
        a, b = x.chunk(2, -1)
        return x * self.cos[:n] + torch.cat([-b, a], -1) * self.sin[:n]


@documented(
    "relative positions, sliding windows: masks of shape (n, n) from torch.arange with n and window changing",
    calls=lambda: [
        (torch.randn(3, 2), 1),
        (torch.randn(3, 2), 2),
        (torch.randn(5, 2), 2),
        (torch.randn(4, 2), 0),
        (torch.randn(1, 2), 7),
    ],
)
def sliding_attention(x, window):
    n = len(x)
    i = torch.arange(n)
    distance = i[:, None] - i[None, :]
    mask = (distance < 0) | (distance > window)
    scores = (x @ x.mT / x.shape[-1] ** 0.5).masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ x, (~mask).sum().item() / n**2


@documented(
    "torch.chunk with sizes from Python arithmetic: gradient of a padded, folded sequence",
    calls=lambda: [
        (torch.arange(5.0, requires_grad=True), 2),
        (torch.arange(6.0, requires_grad=True), 4),
        (torch.arange(7.0, requires_grad=True), 3),
        (torch.arange(8.0), 8),
        (torch.arange(3.0, requires_grad=True), 5),
    ],
)
def folded(x, width):
    missing = -len(x) % width
    rows = torch.nn.functional.pad(x, (0, missing)).view(-1, width)
    out = rows.cumsum(0).mean(1)
    if out.requires_grad:
        out[-1].backward()
    return out, missing, x.grad, rows.shape


@documented(
    "torch.Tensor.apply_, map_: a Python function applied to each element; its exceptions come through",
    calls=lambda: (lambda log, x: [(log, x, 1), (log, x, 2), (log, x, 0), (log, x, 4), (log, x, 5)])(
        [], torch.tensor([4.0, 8.0])
    ),
)
def applied(log, x, n):
    x.add_(1)

    def each(v):
        log.append(v)
        return v // n

    x.apply_(each)
    return x.clone(), list(log)


@documented(
    "torch.utils.dlpack / torch.Tensor.__array__: conversions share memory; numpy functions on tensors",
    calls=lambda: (lambda x: [(x, 1.0), (x, 2.0), (torch.arange(3), 3), (x.double(), 4.0)])(torch.arange(4.0)),
)
def exchanged(x, value):
    y = torch.from_dlpack(x)
    y[0] = value
    import numpy as np

    return x.clone(), np.asarray(x).tolist(), np.add(x.numpy(), 1).sum().item(), x.__array__().dtype.name


@documented(
    "torch.testing.assert_close, torch._assert: raise AssertionError with a message; state before stays",
    calls=lambda: (
        lambda n: [
            (n, torch.ones(2), torch.ones(2)),
            (n, torch.ones(2), torch.ones(2) + 1e-3),
            (n, torch.ones(2), torch.ones(3)),
            (n, torch.zeros(2), torch.zeros(2)),
            (n, torch.zeros(2), torch.zeros(2).double()),
        ]
    )(torch.zeros(1)),
)
def asserted(count, x, y):
    count += 1
    torch._assert(x.dtype == y.dtype, "dtypes differ")
    assert x.shape == y.shape, f"{tuple(x.shape)} and {tuple(y.shape)}"
    torch.testing.assert_close(x, y)
    count += 10
    return count.item(), x - y
