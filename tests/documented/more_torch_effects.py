"""More programs from torch's pages on hooks that act, global settings, control flow operators and module state."""

import copy
import warnings

import torch
from torch import nn, optim
from torch.autograd import forward_ad
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from documented import Between, documented, x


def _hooks_from_zero():
    """Hooks' numbers are keys of the dicts that hold them: each run starts from the same."""
    torch.utils.hooks.RemovableHandle.next_id = 0


def _linear(n=2, m=2):
    layer = nn.Linear(n, m)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.zero_()
    return layer


@documented(
    "torch.Tensor.register_hook: order of registration; a hook may remove itself, raise, or return a wrong shape",
    calls=lambda: (
        lambda w, log: [(w, log, "none"), (w, log, "remove"), (w, log, "shape"), (w, log, "raise"), (w, log, "none")]
    )(x(2).requires_grad_(), []),
)
def acting_hooks(w, log, what):
    y = w * 2

    def first(g):
        log.append("first")
        if what == "remove":
            handle.remove()
        if what == "raise":
            raise KeyError(what)
        return g.repeat(2) if what == "shape" else g * 2

    handle = y.register_hook(first)
    y.register_hook(lambda g: log.append(g.sum().item()))
    z = y.sum()
    z.backward(retain_graph=True)
    z.backward()
    return w.grad.clone(), list(log)


@documented(
    "torch.Tensor.register_hook on a tensor written in place later: the hook sees the gradient before or after the write",
    calls=lambda: [
        (x(2).requires_grad_(), True),
        (x(2).requires_grad_(), False),
        (x(3).requires_grad_(), True),
        (x(2), True),
    ],
)
def hook_and_write(w, early):
    seen = []
    y = w * 1
    if early and y.requires_grad:
        y.register_hook(lambda g: seen.append(("early", g)))
    y.retain_grad() if y.requires_grad else None
    y.mul_(3)
    if not early:
        y.register_hook(lambda g: seen.append(("late", g)))
    if y.requires_grad:
        y.sum().backward()
    return seen, y.grad if y.retains_grad else None, w.grad


@documented(
    "torch.autograd.Function: jvp and vmap static methods; forward-mode values through it",
    calls=lambda: [(x(2), 2.0), (x(3), 3.0), (x(2).requires_grad_(), 2.0), (x(2).double(), -1.0)],
)
def forward_values(t, factor):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t, torch.full_like(t, factor))
        y = dual.exp() * dual
        value, tangent = forward_ad.unpack_dual(y)
        return value.detach().clone(), tangent.detach().clone(), type(y).__name__


class _Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(t):
        return t**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * 3 * t**2


@documented(
    "torch.autograd.Function with generate_vmap_rule: under vmap, under grad of torch.func, and twice",
    calls=lambda: [(x(2), 1), (x(3), 1), (x(2), 2), (x(2).requires_grad_(), 1), (x(2, 2), 1)],
)
def cubes(t, order):
    f = lambda v: _Cube.apply(v).sum()
    for _ in range(order):
        g = torch.func.grad(f)
        f = lambda v, g=g: g(v).sum()
    y = vmap(_Cube.apply)(t)
    return g(t), y, y.requires_grad, vmap(g)(t) if t.ndim > 1 else None


@documented(
    "torch.cond: one of two functions by a predicate; both give the same structure",
    calls=lambda: [(x(2), True), (x(2), False), (-x(2), None), (x(3), None), (x(2).requires_grad_(), None)],
)
def conditional(t, flag):
    predicate = flag if flag is not None else t.sum() > 0
    y = torch.cond(predicate, lambda v: v.sin() * 2, lambda v: v.cos(), (t,))
    return y, y.requires_grad


@documented(
    "torch.optim.Optimizer hooks: step pre hooks may change the arguments; add_param_group refuses parameters it has",
    calls=lambda: (lambda w, v, o, log: [(w, o, log, None), (w, o, log, v), (w, o, log, v), (w, o, log, None)])(
        *(lambda w, v: (w, v, optim.SGD([w], lr=0.5), []))(nn.Parameter(x(2)), nn.Parameter(x(1)))
    ),
)
def hooked_steps(w, o, log, more):
    handle = o.register_step_pre_hook(lambda opt, args, kwargs: log.append(len(opt.param_groups)))
    w.grad = torch.ones(2)
    o.step()
    handle.remove()
    if more is not None:
        o.add_param_group({"params": more, "lr": 0.1})
    return w.detach().clone(), [g["lr"] for g in o.param_groups], list(log)


@documented(
    "torch.nn.attention.sdpa_kernel: only the named kernels inside; the setting is restored",
    calls=lambda: [
        (x(1, 2, 2), SDPBackend.MATH),
        (x(1, 3, 2), SDPBackend.MATH),
        (x(1, 2, 2), SDPBackend.FLASH_ATTENTION),
        (x(1, 2, 2), [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]),
    ],
    state=lambda: (torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()),
)
def chosen_kernel(t, kernels):
    with sdpa_kernel(kernels):
        inside = torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()
        y = nn.functional.scaled_dot_product_attention(t, t, t)
    return inside, torch.backends.cuda.flash_sdp_enabled(), y.shape


@documented(
    "torch.set_float32_matmul_precision, set_flush_denormal, deterministic debug mode: read back, stay after the call",
    calls=lambda: [
        (x(2), "high", 0),
        (x(2), "highest", 1),
        (x(3), "medium", 0),
        (x(2), "low", 0),
        (x(2), "highest", 0),
    ],
    state=lambda: (torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()),
    setup=lambda: (torch.set_float32_matmul_precision("highest"), torch.set_deterministic_debug_mode(0)),
)
def precision(t, name, mode):
    torch.set_deterministic_debug_mode(mode)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    return before, torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled(), t @ t


@documented(
    "torch.use_deterministic_algorithms: an operation without a deterministic form raises; filling of empty memory",
    calls=lambda: [(2, True), (3, True), (2, False), (2, True)],
    setup=lambda: torch.use_deterministic_algorithms(False),
)
def filled_memory(n, mode):
    torch.use_deterministic_algorithms(mode)
    y = torch.empty(n)
    z = y.isnan().all().item() if mode else None
    w = torch.empty(n, dtype=torch.int32)
    torch.use_deterministic_algorithms(False)
    return z, (w == torch.iinfo(torch.int32).max).all().item() if mode else None


@documented(
    "torch.autograd.profiler.record_function, torch.profiler off: labels do not change what is computed",
    calls=lambda: [(x(2), "a"), (x(3), "b"), (x(2).requires_grad_(), "a"), (x(2), "")],
)
def labelled(t, label):
    with torch.autograd.profiler.record_function(label) as r:
        y = t * 2
    with torch.profiler.record_function(f"outer {label}"):
        z = y + 1
    return z, type(r).__name__, z.requires_grad


@documented(
    "copy.copy of a module: shares parameters and children dictionaries' contents; deepcopy does not",
    calls=lambda: (lambda m: [(m, 1.0), (m, 2.0), Between(m.eval), (m, 3.0), (nn.Sequential(m), 4.0)])(_linear()),
)
def shallow_module(m, value):
    c = copy.copy(m)
    c.note = value
    d = copy.deepcopy(m)
    with torch.no_grad():
        next(d.parameters()).fill_(value)
        next(c.parameters()).add_(1)
    return (
        hasattr(m, "note"),
        c.training,
        next(c.parameters()) is next(m.parameters()),
        m(torch.ones(2)),
        d(torch.ones(2)),
    )


@documented(
    "torch.nn.Module.__repr__, extra_repr, _get_name: indented by children; equal ones are folded",
    calls=lambda: [
        (_linear(),),
        (nn.Sequential(_linear(), nn.ReLU()),),
        (nn.ModuleList([_linear(), _linear()]),),
        (nn.BatchNorm1d(2),),
    ],
)
def shown_module(m):
    text = repr(m)
    y = torch.ones(len(text.splitlines()))
    return text, y.sum(), m.extra_repr(), m._get_name()


class _Scheduled(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.history = []
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, t, *, record=False, **options):
        self.steps += 1
        if record:
            self.history.append(t.detach().mean())
        if options.get("stop"):
            raise StopIteration(self.steps)
        return {"out": t * self.gain * self.steps, **options}


@documented(
    "torch.nn.Module.__call__: keyword arguments, results of any kind; attributes written in forward are kept",
    calls=lambda: (
        lambda m: [
            (m, x(2), {}),
            (m, x(2), {"record": True}),
            (m, x(2), {"scale": 2}),
            (m, x(2), {"stop": True, "record": True}),
            (m, x(3), {"record": True, "name": "b"}),
        ]
    )(_Scheduled()),
)
def called_with_options(m, t, options):
    out = m(t, **options)
    return out["out"], sorted(out), m.steps, len(m.history)


@documented(
    "torch.nn.Module.register_forward_hook on a container, entered by the caller between calls; returns replace the output",
    calls=lambda: (
        lambda m, log: (
            lambda handles: [
                (m, x(1, 2)),
                Between(lambda: handles.append(m.register_forward_hook(lambda mod, a, out: log.append(out.shape)))),
                (m, x(1, 2)),
                Between(lambda: handles.append(m[0].register_forward_hook(lambda mod, a, out: out * 10))),
                (m, x(1, 2)),
                Between(lambda: handles.pop().remove()),
                (m, x(2, 2)),
                Between(lambda: handles.pop().remove()),
                (m, x(2, 2)),
            ]
        )([])
    )(nn.Sequential(_linear(), nn.Tanh()), []),
    setup=_hooks_from_zero,
)
def watched_container(m, t):
    y = m(t)
    return y, len(m._forward_hooks), len(m[0]._forward_hooks)


@documented(
    "warnings of torch as errors: a filter of the program turns the warning into an exception at that operation",
    calls=lambda: [(x(3), x(2), "ignore"), (x(3), x(2), "error"), (x(3), x(3), "error"), (x(4), x(2), "error")],
)
def warning_as_error(t, out, action):
    t.add_(1)
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        try:
            y = torch.mul(t, 2, out=out)
        except UserWarning as warning:
            return str(warning)[:30], out.shape, t
    return y, y is out, t


@documented(
    "torch.distributions.Distribution.set_default_validate_args; transforms with a cache keep the last pair",
    calls=lambda: [
        (x(2), True, 0),
        (-x(2), True, 0),
        (-x(2), False, 0),
        (x(2), False, 1),
        (x(3), True, 1),
    ],
    setup=lambda: torch.distributions.Distribution.set_default_validate_args(True),
)
def validated(scale, check, cache):
    torch.distributions.Distribution.set_default_validate_args(check)
    d = torch.distributions.Exponential(scale)
    t = torch.distributions.transforms.ExpTransform(cache_size=cache)
    y = t(scale)
    return d.mean, t.inv(y) is scale, d.cdf(torch.ones(()))
