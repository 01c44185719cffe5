"""Programs from torch's pages on autograd: modes, backward, hooks, Function, checkpoint, forward mode, torch.func."""

import warnings

import torch
from torch.utils.checkpoint import checkpoint

from documented import Between, documented


@documented(
    "torch.no_grad, enable_grad, set_grad_enabled: nest, and restore on leaving, also by an exception",
    calls=lambda: (lambda w: [(w, True, 1.0), (w, False, 2.0), (w, True, -1.0), (w, False, -1.0), (w, True, 3.0)])(
        torch.ones(2, requires_grad=True)
    ),
    state=lambda: torch.is_grad_enabled(),
)
def nested_grad_modes(w, flag, value):
    with torch.no_grad():
        a = w * value
        with torch.enable_grad():
            b = w * 2
            with torch.set_grad_enabled(flag):
                c = w * 3
                if value < 0:
                    raise ValueError(value)
    return a.requires_grad, b.requires_grad, c.requires_grad, torch.is_grad_enabled(), a + b + c


@documented(
    "torch.no_grad: also functions as a decorator; gradients mode of the caller decides elsewhere",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), 2),
        (torch.ones(2), 3),
        Between(lambda: torch.set_grad_enabled(False)),
        (torch.ones(2, requires_grad=True), 2),
        Between(lambda: torch.set_grad_enabled(True)),
        (torch.ones(2, requires_grad=True), 4),
    ],
    setup=lambda: torch.set_grad_enabled(True),
)
def decorated_evaluation(x, n):
    @torch.no_grad()
    def evaluate(y):
        return y * n, torch.is_grad_enabled()

    y, enabled = evaluate(x)
    z = x * n
    return y.requires_grad, enabled, z.requires_grad, z.grad_fn is None, y


@documented(
    "torch.inference_mode: tensors made inside are inference tensors; saving them for backward raises",
    calls=lambda: [
        (torch.ones(2), 2),
        (torch.ones(2, requires_grad=True), 2),
        (torch.ones(3), 3),
        (torch.ones(3, requires_grad=True), 3),
    ],
)
def inference(x, n):
    with torch.inference_mode():
        y = x * n
        y.add_(1)
    inferred = y.is_inference()
    if x.requires_grad:
        return inferred, (x * y)
    return inferred, x.is_inference(), y + 1, (y + 1).is_inference()


@documented(
    "torch.inference_mode around the call: normal tensors may be written, inference tensors count no versions",
    calls=lambda: (lambda x: [(x, False), (x, True), (x, False), (torch.ones(3), True), (x, True)])(torch.zeros(2)),
)
def inference_or_not(x, mode):
    with torch.inference_mode(mode):
        y = x + 1
        x.add_(y)
        z = y.view(-1)
        z.mul_(2)
    return x.clone(), y.is_inference(), torch.is_inference_mode_enabled()


@documented(
    "torch.Tensor.requires_grad_: changes if autograd records; only floating point tensors can require gradients",
    calls=lambda: [
        (torch.ones(2), True),
        (torch.ones(2), False),
        (torch.ones(2, dtype=torch.long), True),
        (torch.ones(3), True),
        (torch.ones(2, requires_grad=True) * 2, False),
    ],
)
def starts_recording(x, flag):
    y = x * 2
    x.requires_grad_(flag)
    z = (x * 3).sum()
    if z.requires_grad:
        z.backward()
    return y.requires_grad, x.grad, x.is_leaf, z


@documented(
    "torch.Tensor.backward: accumulates into .grad; a second backward without retain_graph raises",
    calls=lambda: (lambda w: [(w, 1.0, False), (w, 2.0, True), (w, 3.0, False), (w, 4.0, True)])(
        torch.ones(2, requires_grad=True)
    ),
)
def accumulated(w, scale, twice):
    loss = (w.exp() * scale).sum()
    loss.backward(retain_graph=False)
    if twice:
        try:
            loss.backward()
        except RuntimeError as error:
            return w.grad.clone(), str(error)[:40]
    return w.grad.clone()


@documented(
    "torch.Tensor.grad: None until backward; set to None by the user, a new tensor comes next",
    calls=lambda: (
        lambda w: [
            (w, 1.0),
            (w, 2.0),
            Between(lambda: setattr(w, "grad", None)),
            (w, 3.0),
            Between(lambda: w.grad.zero_()),
            (w, 4.0),
            Between(lambda: setattr(w, "grad", torch.full((2,), 5.0))),
            (w, 1.0),
        ]
    )(torch.ones(2, requires_grad=True)),
)
def gradient_accumulation(w, scale):
    first = w.grad is None
    before = w.grad
    (w * w * scale).sum().backward()
    return first, w.grad.clone(), before is w.grad, w.grad.norm()


@documented(
    "torch.autograd.grad: returns the gradients, does not accumulate; an unused input raises unless allow_unused",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), True, False),
        (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), False, True),
        (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), False, False),
        (torch.ones(3, requires_grad=True), torch.ones(3), True, False),
        (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), True, True),
    ],
)
def partial_gradients(x, y, use, allow):
    x.detach().add_(1)
    z = (x * x * (y if use else 1)).sum()
    gx, gy = torch.autograd.grad(z, (x, y), allow_unused=allow)
    return gx, gy, x.grad


@documented(
    "torch.autograd.grad with create_graph: higher order derivatives",
    calls=lambda: [
        (torch.tensor(2.0, requires_grad=True), 3),
        (torch.tensor(2.0, requires_grad=True), 2),
        (torch.tensor(3.0, requires_grad=True), 4),
        (torch.tensor(3.0, requires_grad=True), 1),
    ],
)
def nth_derivative(x, n):
    y = x**4
    for _ in range(n):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    return y, y.requires_grad, x.grad


@documented(
    "torch.Tensor.register_hook: may return a replacement gradient; the handle removes it",
    calls=lambda: (
        lambda w, log: [(w, log, 2.0, True), (w, log, 3.0, False), (w, log, 4.0, True), (w, log, 5.0, False)]
    )(torch.ones(2, requires_grad=True), []),
)
def hooked_gradient(w, log, factor, keep):
    y = w * 2
    handle = y.register_hook(lambda g: log.append(g.sum().item()) or g * factor)
    if not keep:
        handle.remove()
    y.sum().backward()
    return w.grad.clone(), list(log)


@documented(
    "torch.Tensor.register_hook on a parameter between calls: called whenever its gradient is computed",
    calls=lambda: (
        lambda w, h: [
            (w, torch.ones(2)),
            Between(lambda: h.append(w.register_hook(lambda g: g * 10))),
            (w, torch.ones(2)),
            Between(lambda: h.pop().remove()),
            (w, torch.ones(2) * 2),
            Between(
                lambda: h.append(
                    w.register_post_accumulate_grad_hook(lambda p: p.grad.copy_(p.grad.clamp(max=1)) is None or None)
                )
            ),
            (w, torch.ones(2) * 3),
            (w, torch.ones(2) * 4),
        ]
    )(torch.ones(2, requires_grad=True), []),
)
def parameter_with_hooks(w, x):
    w.grad = None
    (w * x).sum().backward()
    return w.grad.clone()


@documented(
    "torch.Tensor.retain_grad: non-leaf tensors get .grad during backward; retains_grad tells",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), True),
        (torch.ones(2, requires_grad=True), False),
        (torch.ones(3), True),
        (torch.ones(3, requires_grad=True), True),
    ],
)
def intermediate_gradient(x, retain):
    y = x * 3
    if retain:
        y.retain_grad()
    (y * y).sum().backward()
    return y.retains_grad, y.grad if y.retains_grad else None, x.grad


class Scaled(torch.autograd.Function):
    """As the page 'Extending PyTorch' writes it: ctx keeps tensors and numbers, backward returns None for numbers."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if ctx.factor > 2:
            return grad * x * 2 * ctx.factor, None
        return grad * 0, None


@documented(
    "torch.autograd.Function: forward and backward with ctx; non-tensor arguments get None gradients",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), 1),
        (torch.ones(2, requires_grad=True), 3),
        (torch.ones(2), 3),
        (torch.ones(3, requires_grad=True), 4.5),
        (torch.ones(3, requires_grad=True), 2),
    ],
)
def own_function(x, factor):
    y = Scaled.apply(x, factor)
    if y.requires_grad:
        y.sum().backward()
    return y, x.grad, type(y.grad_fn).__name__


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        ctx.mark_dirty(x)
        log.append(x.shape[0])
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5, None


@documented(
    "ctx.mark_dirty: tensors modified in an in-place forward",
    calls=lambda: (
        lambda log: [
            (torch.ones(2, requires_grad=True), log),
            (torch.ones(2, requires_grad=True), log),
            (torch.ones(3, requires_grad=True), log),
            (torch.ones(3), log),
        ]
    )([]),
)
def dirty_function(x, log):
    y = x * 1
    z = InPlace.apply(y, log)
    if z.requires_grad:
        z.sum().backward()
    return z is y, z, x.grad, list(log)


@documented(
    "torch.utils.checkpoint: recomputes in backward, with the random state of the forward",
    calls=lambda: [
        (torch.ones(4, requires_grad=True), 0.5),
        (torch.ones(4, requires_grad=True), 0.25),
        (torch.ones(6, requires_grad=True), 0.5),
        (torch.ones(6), 0.5),
        (torch.ones(6, requires_grad=True), 0.0),
    ],
)
def checkpointed(x, p):
    def block(y):
        return torch.nn.functional.dropout(y * 2, p).sin()

    out = checkpoint(block, x, use_reentrant=False)
    if out.requires_grad:
        out.sum().backward()
    return out, x.grad, torch.rand(2)


@documented(
    "torch.autograd.detect_anomaly: nan computed in backward raises RuntimeError",
    calls=lambda: [
        (torch.tensor([1.0], requires_grad=True), 1.0),
        (torch.tensor([4.0], requires_grad=True), 1.0),
        (torch.tensor([-1.0], requires_grad=True), 0.0),
        (torch.tensor([2.0, 1.0], requires_grad=True), 1.0),
    ],
)
def anomalous(x, value):
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = (x.sqrt() * value).sum()
        y.backward()
    return x.grad, torch.is_anomaly_enabled()


@documented(
    "torch.autograd.forward_ad: dual tensors carry tangents; unpack_dual gives them",
    calls=lambda: [
        (torch.ones(2), torch.ones(2)),
        (torch.ones(2), torch.arange(2.0)),
        (torch.ones(3), torch.ones(3)),
        (torch.ones(3), torch.ones(2)),
    ],
)
def forward_mode(x, tangent):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        y = dual.sin() * 2
        primal, jvp = torch.autograd.forward_ad.unpack_dual(y)
    return primal, jvp


@documented(
    "torch.func.grad, vmap: per-sample gradients; in_dims out of range or of other sizes raise ValueError",
    calls=lambda: [
        (torch.ones(3), torch.arange(6.0).view(2, 3), 0),
        (torch.ones(3), torch.arange(12.0).view(4, 3), 0),
        (torch.ones(3), torch.arange(6.0).view(3, 2), 1),
        (torch.ones(3), torch.arange(6.0).view(3, 2), 2),
        (torch.ones(2), torch.arange(2.0).view(1, 2), 0),
    ],
)
def per_sample_gradients(w, rows, dim):
    def loss(weight, row):
        return (weight * row).sin().sum()

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, dim))(w, rows)


@documented(
    "torch.func.jvp, vjp, jacrev: derivatives of functions of tensors whose sizes change",
    calls=lambda: [
        (torch.ones(2), 1.0),
        (torch.arange(3.0), 2.0),
        (torch.arange(3.0), 3.0),
        (torch.ones(()), 1.0),
        (torch.ones(1), 0.5),
    ],
)
def jacobians(x, scale):
    def f(y):
        return y * y * scale

    out, tangent = torch.func.jvp(f, (x,), (torch.ones_like(x),))
    _, pull = torch.func.vjp(f, x)
    return out, tangent, pull(torch.ones_like(x))[0], torch.func.jacrev(f)(x)


@documented(
    "torch.func.functional_call: replaces parameters and buffers for the call, restores the module's afterwards",
    calls=lambda: (
        lambda m: [
            (m, 1.0, torch.ones(2)),
            (m, 2.0, torch.ones(2)),
            (m, 0.0, torch.ones(3, 2)),
            (m, None, torch.ones(2)),
            (m, 3.0, torch.ones(5)),
        ]
    )(torch.nn.Linear(2, 2)),
)
def with_other_parameters(module, value, x):
    params = {} if value is None else {"weight": torch.full((2, 2), value)}
    out = torch.func.functional_call(module, params, (x,))
    return out, module.weight.detach().sum(), isinstance(module.weight, torch.nn.Parameter)


@documented(
    "torch.func.stack_module_state-like ensembles: vmap over stacked parameters; randomness='different'",
    calls=lambda: [
        (torch.ones(2, 3), "different"),
        (torch.ones(3, 3), "same"),
        (torch.ones(3, 3), "error"),
        (torch.ones(2, 3), "same"),
    ],
)
def random_under_vmap(x, randomness):
    def noisy(row):
        return row + torch.rand(3)

    return torch.func.vmap(noisy, randomness=randomness)(x), torch.rand(1)


@documented(
    "torch.autograd.graph.saved_tensors_hooks: pack on saving, unpack in backward",
    calls=lambda: (
        lambda log: [
            (torch.ones(2, requires_grad=True), log),
            (torch.ones(2, requires_grad=True), log),
            (torch.ones(3, requires_grad=True), log),
            (torch.ones(3), log),
        ]
    )([]),
)
def packed_saved_tensors(x, log):
    def pack(t):
        log.append(("pack", t.shape[0]))
        return t * 2

    def unpack(t):
        log.append(("unpack", t.shape[0]))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).sum()
    if y.requires_grad:
        y.backward()
    return y, x.grad, list(log)


@documented(
    "torch.Tensor.detach: shares storage; an in-place write through it is seen, also by autograd's check",
    calls=lambda: [
        (torch.ones(2, requires_grad=True), 0.0),
        (torch.ones(2, requires_grad=True), 3.0),
        (torch.ones(2), 2.0),
        (torch.ones(4, requires_grad=True), 5.0),
    ],
)
def detached_write(x, value):
    y = x * 1
    z = y * y
    d = y.detach()
    if value:
        d.fill_(value)
    if z.requires_grad:
        z.sum().backward()
    return y, z, x.grad


@documented(
    "torch.nn.utils.clip_grad_norm_: total norm over all gradients, modified in place; error_if_nonfinite raises",
    calls=lambda: (
        lambda a, b: [
            ([a, b], 1.0, 1.0),
            ([a, b], 0.1, 5.0),
            ([a], 10.0, 2.0),
            ([a, b], 1.0, float("inf")),
            ([], 1.0, 1.0),
        ]
    )(torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)),
)
def clipped(params, limit, scale):
    for p in params:
        p.grad = torch.full_like(p, scale)
    total = torch.nn.utils.clip_grad_norm_(params, limit, error_if_nonfinite=True)
    torch.nn.utils.clip_grad_value_(params, 0.3)
    return total, [p.grad.clone() for p in params]
