"""More programs from torch's pages on torch.autograd.Function and functional derivatives."""

import torch
from torch.autograd import Function

from documented import documented, x


def _leaf(*values):
    return torch.tensor(values, requires_grad=True)


class _Scaled(Function):
    seen: list = []

    @staticmethod
    def forward(t, scale, out_of_place):
        return t * scale if out_of_place else t.view_as(t)

    @staticmethod
    def setup_context(ctx, inputs, output):
        t, scale, _ = inputs
        ctx.save_for_backward(t)
        ctx.scale = scale
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        _Scaled.seen.append((ctx.needs_input_grad, grad is None))
        (t,) = ctx.saved_tensors
        return (None if grad is None else grad * ctx.scale + 0 * t), None, None


@documented(
    "torch.autograd.Function with setup_context: forward without ctx; needs_input_grad; extra attributes on ctx",
    calls=lambda: [
        (_leaf(1.0, 2.0), 2.0, True),
        (_leaf(1.0, 2.0), 3.0, True),
        (x(2), 3.0, True),
        (_leaf(1.0, 2.0), 3.0, False),
        (_leaf(1.0), torch.tensor(2.0), True),
    ],
    state=lambda: _Scaled.seen,
    setup=lambda: _Scaled.seen.clear(),
)
def separate_context(w, scale, fresh):
    y = _Scaled.apply(w, scale, fresh)
    if y.requires_grad:
        y.sum().backward()
    return y, w.grad, y.grad_fn is None, y._is_view()


class _Parts(Function):
    @staticmethod
    def forward(ctx, t, position):
        ctx.t = t.shape
        high, where = t.max(0)
        ctx.mark_non_differentiable(where)
        ctx.save_for_backward(where)
        ctx.position = position
        return high, where, None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _, none):
        (where,) = ctx.saved_tensors
        if ctx.position < 0:
            raise ValueError(f"position {ctx.position} with {none}")
        result = torch.zeros(ctx.t)
        result[where] = grad
        return result, None


@documented(
    "ctx.mark_non_differentiable, once_differentiable: outputs without gradient; errors in backward reach the caller",
    calls=lambda: [
        (_leaf(1.0, 5.0, 2.0), 0, False),
        (_leaf(1.0, 5.0), 0, True),
        (_leaf(1.0, 5.0), -1, False),
        (x(3), -1, False),
        (_leaf(7.0, 5.0), 2, False),
    ],
)
def partly_differentiable(w, position, twice):
    high, where, none = _Parts.apply(w, position)
    flags = high.requires_grad, where.requires_grad, none
    if not high.requires_grad:
        return flags, high
    (g,) = torch.autograd.grad(high * high, w, create_graph=twice)
    if twice:
        g.sum().backward()
    return flags, g, where


class _Wrong(Function):
    @staticmethod
    def forward(ctx, t, count):
        ctx.count = count
        return t * 2

    @staticmethod
    def backward(ctx, grad):
        return (grad.repeat(3), None) if ctx.count == 0 else (grad, *[None if ctx.count == 1 else grad] * ctx.count)


@documented(
    "torch.autograd.Function: backward must give as many gradients as forward had inputs, in the inputs' shape",
    calls=lambda: [(_leaf(1.0), 2), (_leaf(1.0), 3), (x(1), 1), (_leaf(1.0, 2.0), 0), (_leaf(1.0, 2.0), 1)],
)
def wrong_gradients(w, count):
    y = _Wrong.apply(w * 1, count)
    if y.requires_grad:
        y.sum().backward()
    return y, w.grad


@documented(
    "torch.autograd.functional: jacobian, hessian, vjp, jvp; strict raises for an independent output",
    calls=lambda: [
        (x(2), 2.0, False),
        (x(3), 2.0, False),
        (x(2).requires_grad_(), 0.0, False),
        (x(2), 0.0, True),
        (x(2).double(), 1.0, True),
    ],
)
def functional_derivatives(t, power, strict):
    def f(v):
        return (v**power).sum() if power else torch.ones(())

    j = torch.autograd.functional.jacobian(f, t, strict=strict)
    value, grad = torch.autograd.functional.vjp(f, t)
    return j, j.requires_grad, value, grad, t.grad


@documented(
    "torch.autograd.grad: grad_outputs, is_grads_batched, materialize_grads, allow_unused; the inputs' .grad stays",
    calls=lambda: [
        (_leaf(1.0, 2.0), _leaf(1.0), torch.eye(2), True, True),
        (_leaf(1.0, 2.0), _leaf(1.0), torch.ones(2), False, True),
        (_leaf(1.0, 2.0), _leaf(1.0), torch.ones(2), False, False),
        (_leaf(1.0, 2.0), _leaf(1.0), torch.ones(3), False, True),
        (_leaf(1.0, 2.0), _leaf(1.0), None, False, True),
    ],
)
def batched_gradients(a, b, outputs, batched, materialize):
    y = a.exp() * 2
    ga, gb = torch.autograd.grad(
        y, (a, b), outputs, is_grads_batched=batched, materialize_grads=materialize, allow_unused=materialize or None
    )
    return ga, gb, a.grad, gb.requires_grad
