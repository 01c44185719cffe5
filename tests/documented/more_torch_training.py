"""More programs from the pages of torch.optim, schedulers, amp and checkpoint."""

import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from documented import Between, documented, x


def _weights(n=2):
    return nn.Parameter(x(n))


def _optimizers(kind, **options):
    w = _weights()
    return w, kind([w], **options)


def _steps(kind, **options):
    """Four steps, between which an option changes and one has no gradient."""
    w, o = _optimizers(kind, **options)
    return [
        (w, o, 1.0),
        (w, o, 2.0),
        Between(lambda: o.param_groups[0].update(lr=0.5)),
        (w, o, None),
        (w, o, 3.0),
        Between(lambda: o.state.clear()),
        (w, o, 1.0),
    ]


def _stepped(w, o, scale):
    w.grad = None if scale is None else torch.full_like(w, scale)
    result = o.step()
    o.zero_grad()
    state = {k: (v.clone() if isinstance(v, torch.Tensor) else v) for k, v in o.state[w].items()}
    return result, w.detach().clone(), state, w._version, o.param_groups[0]["lr"]


@documented(
    "torch.optim.RMSprop: centered, momentum; parameters without gradient are left",
    calls=lambda: _steps(optim.RMSprop, lr=0.1, centered=True, momentum=0.5),
)
def rmsprop(w, o, scale):
    return _stepped(w, o, scale)


@documented(
    "torch.optim.AdamW: decoupled weight decay; state begins at the first gradient",
    calls=lambda: _steps(optim.AdamW, lr=0.1, foreach=False),
)
def adamw(w, o, scale):
    return _stepped(w, o, scale)


@documented(
    "torch.optim.Adagrad: state is there from the beginning",
    calls=lambda: _steps(optim.Adagrad, lr=0.1, lr_decay=0.5)[:5],
)
def adagrad(w, o, scale):
    return _stepped(w, o, scale)


@documented(
    "torch.optim.NAdam, capturable False: momentum decay; mu_product",
    calls=lambda: _steps(optim.NAdam, lr=0.1, foreach=True),
)
def nadam(w, o, scale):
    return _stepped(w, o, scale)


@documented("torch.optim.Rprop: step sizes by signs", calls=lambda: _steps(optim.Rprop, lr=0.1))
def rprop(w, o, scale):
    return _stepped(w, o, scale)


@documented(
    "torch.optim.SGD: maximize, nesterov needs momentum without dampening; differentiable; invalid values raise",
    calls=lambda: [
        (_weights(), {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        (_weights(), {"lr": 0.1, "nesterov": True}),
        (_weights(3), {"lr": 0.1, "maximize": True, "weight_decay": 0.1}),
        (_weights(), {"lr": -1.0}),
        (x(2), {"lr": 0.1}),
        (_weights() * 2, {"lr": 0.1}),
        (_weights(), {"lr": torch.tensor(0.5)}),
    ],
)
def made_and_stepped(w, options):
    o = optim.SGD([w], **options)
    for _ in range(2):
        w.grad = None
        (w * w).sum().backward()
        o.step()
    return w.detach().clone(), len(o.state), sorted(o.state[w])


@documented(
    "torch.optim.Optimizer.load_state_dict: casts floating state to the parameter; groups must match in length",
    calls=lambda: (
        lambda s: [
            (_weights(), s, 0),
            (nn.Parameter(x(2).double()), s, 0),
            (_weights(), {**s, "param_groups": []}, 0),
            (_weights(), s, 1),
            (_weights(), {"state": {}, "param_groups": s["param_groups"]}, 0),
        ]
    )(
        (lambda w, o: [setattr(w, "grad", torch.ones(2)), o.step(), o.state_dict()][-1])(
            *_optimizers(optim.Adam, lr=0.1)
        )
    ),
)
def optimizer_state(w, state, extra):
    o = optim.Adam([w, *(_weights() for _ in range(extra))], lr=0.5)
    o.load_state_dict(state)
    w.grad = torch.ones_like(w)
    o.step()
    return {k: (v.dtype, v) for k, v in o.state[w].items()}, o.param_groups[0]["lr"], w.detach().clone()


@documented(
    "torch.optim.lr_scheduler: ExponentialLR, CosineAnnealingLR, LambdaLR; step before optimizer.step warns",
    calls=lambda: (
        lambda w, o: (
            lambda s: [
                (w, o, s[0], True),
                (w, o, s[1], True),
                (w, o, s[0], False),
                (w, o, s[2], True),
                (w, o, s[2], True),
            ]
        )(
            [
                lr_scheduler.ExponentialLR(o, 0.5),
                lr_scheduler.CosineAnnealingLR(o, 4),
                lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
            ]
        )
    )(*_optimizers(optim.SGD, lr=1.0)),
)
def scheduled(w, o, scheduler, step):
    w.grad = torch.ones(2)
    if step:
        o.step()
    scheduler.step()
    return scheduler.get_last_lr(), scheduler.last_epoch, o.param_groups[0]["lr"], w.detach().clone()


@documented(
    "torch.optim.lr_scheduler: SequentialLR, ChainedScheduler, OneCycleLR; more steps than planned raise",
    calls=lambda: (
        lambda w, o: (lambda s: [(w, o, s), (w, o, s), (w, o, s), (w, o, s), (w, o, s)])(
            lr_scheduler.OneCycleLR(o, 1.0, total_steps=4)
        )
    )(*_optimizers(optim.SGD, lr=1.0, momentum=0.9)),
)
def one_cycle(w, o, scheduler):
    w.grad = torch.ones(2)
    o.step()
    w.add_(1) if w.requires_grad is False else w.data.add_(1)
    scheduler.step()
    group = o.param_groups[0]
    return group["lr"], group["momentum"], scheduler.get_last_lr(), w.detach().clone()


@documented(
    "torch.optim.lr_scheduler.SequentialLR, LinearLR, MultiStepLR: milestones; state_dict round trip",
    calls=lambda: (
        lambda w, o: (
            lambda s: [(o, s), (o, s), (o, s), Between(lambda: s.load_state_dict(s.state_dict())), (o, s), (o, s)]
        )(
            lr_scheduler.SequentialLR(
                o, [lr_scheduler.LinearLR(o, 0.1, total_iters=2), lr_scheduler.MultiStepLR(o, [1, 2])], [2]
            )
        )
    )(*_optimizers(optim.SGD, lr=1.0)),
)
def sequential_schedule(o, scheduler):
    o.step()
    scheduler.step()
    return scheduler.get_last_lr(), scheduler.last_epoch, torch.tensor(o.param_groups[0]["lr"]) * x(2)


_scalers: list = []


def _new_scaler():
    _scalers[:] = [torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)]


@documented(
    "torch.amp.GradScaler on the CPU: scale, unscale_ once per step, skipped steps for infinities, growth and backoff",
    calls=lambda: (
        lambda w, o: [
            (w, o, 1.0, False),
            (w, o, 1.0, True),
            (w, o, float("inf"), False),
            (w, o, 2.0, False),
            (w, o, 2.0, None),
        ]
    )(*_optimizers(optim.SGD, lr=0.5)),
    setup=_new_scaler,
)
def scaled_steps(w, o, factor, unscale):
    scaler = _scalers[0]
    o.zero_grad()
    scaler.scale((w * factor).sum()).backward()
    if unscale is not False:
        scaler.unscale_(o)
    if unscale is None:
        scaler.unscale_(o)
    scaler.step(o)
    scaler.update()
    return w.detach().clone(), scaler.get_scale(), scaler.state_dict(), w.grad.clone()


@documented(
    "torch.amp.autocast: lists of operations; softmax and losses stay in float32, in-place keeps the dtype; dtype refused warns",
    calls=lambda: [
        (x(2, 2), torch.bfloat16, True),
        (x(2, 2), torch.float16, True),
        (x(2, 2), torch.bfloat16, False),
        (x(2, 2).double(), torch.bfloat16, True),
        (x(2, 2), torch.float64, True),
        (x(2, 2).requires_grad_(), torch.bfloat16, True),
    ],
)
def under_autocast(t, dtype, enabled):
    with torch.autocast("cpu", dtype=dtype, enabled=enabled):
        y = t @ t
        z = torch.softmax(y, 0)
        w = torch.addmm(y, t, t.T)
        s = y + t
        c = torch.cat([y, t.to(y.dtype)])
    return y.dtype, z.dtype, w.dtype, s.dtype, c.dtype, torch.is_autocast_enabled("cpu"), y.float()


@torch.amp.autocast("cpu", dtype=torch.bfloat16)
def _cast(a, b):
    return torch.mm(a, b)


class _Casting(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a):
        ctx.inside = torch.is_autocast_enabled("cpu")
        return a * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g * (3 if ctx.inside else 5)


@documented(
    "torch.amp: autocast as a decorator, custom_fwd and custom_bwd: cast_inputs runs with autocast off",
    calls=lambda: [
        (x(2, 2), True),
        (x(2, 2), False),
        (x(2, 2).requires_grad_(), True),
        (x(3, 3).requires_grad_(), False),
    ],
)
def casting_function(t, cast):
    y = _cast(t, t)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
        z = _Casting.apply(y)
    if t.requires_grad:
        z.sum().backward()
    return y.dtype, z.dtype, z, t.grad


@documented(
    "torch.utils.checkpoint: use_reentrant False; preserve_rng_state; the function runs again in backward",
    calls=lambda: (
        lambda log: [
            (x(2).requires_grad_(), log, True),
            (x(2).requires_grad_(), log, False),
            (x(2), log, True),
            (x(3).requires_grad_(), log, True),
        ]
    )([]),
)
def recomputed(t, log, preserve):
    def block(u):
        log.append(len(log))
        return nn.functional.dropout(u * u, 0.5)

    y = checkpoint(block, t, use_reentrant=False, preserve_rng_state=preserve)
    if y.requires_grad:
        y.sum().backward()
        return len(log), torch.equal(t.grad * t / 2, y.detach()) if preserve else None, torch.rand(1)
    return len(log), y


@documented(
    "torch.utils.checkpoint.checkpoint_sequential: segments; reentrant needs an input that requires grad, warns else",
    calls=lambda: (
        lambda m: [
            (m, x(1, 2), 2, False),
            (m, x(1, 2).requires_grad_(), 2, True),
            (m, x(1, 2), 2, True),
            (m, x(1, 2), 9, False),
        ]
    )(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))),
)
def in_segments(m, t, segments, reentrant):
    m.zero_grad()
    y = checkpoint_sequential(m, segments, t, use_reentrant=reentrant)
    if y.requires_grad:
        y.sum().backward()
    return y, [p.grad for p in m.parameters()], t.grad
