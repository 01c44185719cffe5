"""Programs from torch.optim's, the losses' and the tutorials' pages: steps, schedules, averages, mini-batches."""

import torch
from torch import nn

from documented import Between, documented


def _hooks_from_zero():
    """Hooks' numbers are keys of the dicts that hold them: each run starts from the same."""
    torch.utils.hooks.RemovableHandle.next_id = 0


def _model():
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


def _with(optimizer, **options):
    model = _model()
    return model, optimizer(model.parameters(), **options)


def _step_calls(optimizer, **options):
    model, opt = _with(optimizer, **options)
    return [(model, opt, torch.ones(n, 2) * n) for n in (3, 3, 2, 1, 3)]


@documented(
    "torch.optim.SGD: momentum buffers start as the first gradient",
    calls=lambda: _step_calls(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
)
def sgd_step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item(), [p.detach().clone() for p in model.parameters()], len(optimizer.state)


@documented(
    "torch.optim.Adam: bias correction by the step count; amsgrad",
    calls=lambda: _step_calls(torch.optim.Adam, lr=0.01, amsgrad=True, weight_decay=0.1),
)
def adam_step(model, optimizer, x):
    optimizer.zero_grad(set_to_none=False)
    loss = model(x).abs().sum()
    loss.backward()
    optimizer.step()
    first = next(model.parameters())
    return loss.detach(), first.detach().clone(), optimizer.state[first]["step"].item()


@documented(
    "torch.optim.Optimizer.param_groups: options changed between steps count from the next step; add_param_group",
    calls=lambda: (
        lambda m, o, extra: [
            (m, o, torch.ones(2, 2)),
            Between(lambda: o.param_groups[0].update(lr=1.0)),
            (m, o, torch.ones(2, 2)),
            Between(lambda: o.add_param_group({"params": [extra], "lr": 0.5})),
            (m, o, torch.ones(2, 2)),
            Between(lambda: o.param_groups[0].update(weight_decay=0.5)),
            (m, o, torch.ones(2, 2)),
            Between(lambda: [p.requires_grad_(False) for p in m[0].parameters()]),
            (m, o, torch.ones(2, 2)),
        ]
    )(*_with(torch.optim.AdamW, lr=0.1), nn.Parameter(torch.ones(1))),
)
def step_with_groups(model, optimizer, x):
    optimizer.zero_grad()
    loss = sum(p.sum() for g in optimizer.param_groups for p in g["params"]) * model(x).mean()
    loss.backward()
    optimizer.step()
    return (
        loss,
        [g["lr"] for g in optimizer.param_groups],
        [p.detach().sum() for g in optimizer.param_groups for p in g["params"]],
    )


@documented(
    "torch.optim.lr_scheduler.StepLR: decays the learning rate by gamma every step_size steps; get_last_lr",
    calls=lambda: (
        lambda m, o: (lambda s: [(m, o, s, torch.ones(2, 2))] * 5)(torch.optim.lr_scheduler.StepLR(o, 2, 0.5))
    )(*_with(torch.optim.SGD, lr=0.4)),
)
def scheduled_step(model, optimizer, schedule, x):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss, schedule.get_last_lr(), optimizer.param_groups[0]["lr"], schedule.last_epoch


@documented(
    "torch.optim.lr_scheduler.ReduceLROnPlateau: reduces when a metric stops improving for patience epochs",
    calls=lambda: (
        lambda m, o: (lambda s: [(m, s, v) for v in (1.0, 0.5, 0.6, 0.7, 0.8, 0.1)])(
            torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1)
        )
    )(*_with(torch.optim.SGD, lr=0.4)),
)
def plateau(model, schedule, metric):
    loss = model(torch.ones(1, 2)).mean() * metric
    schedule.step(metric)
    return loss, schedule.num_bad_epochs, schedule.optimizer.param_groups[0]["lr"], schedule.best


@documented(
    "torch.optim.LBFGS: step takes a closure which is called several times",
    calls=lambda: (lambda w, o, log: [(w, o, log, 1.0), (w, o, log, 2.0), (w, o, log, 2.0), (w, o, log, -1.0)])(
        *(lambda w: (w, torch.optim.LBFGS([w], max_iter=3), []))(torch.zeros(2, requires_grad=True))
    ),
)
def closure_step(w, optimizer, log, target):
    def closure():
        optimizer.zero_grad()
        loss = (w - target).pow(2).sum()
        loss.backward()
        log.append(round(loss.item(), 4))
        return loss

    return optimizer.step(closure), w.detach().clone(), list(log)


@documented(
    "torch.optim.Optimizer.register_step_post_hook: called after step; state_dict round trip",
    calls=lambda: (
        lambda m, o, log, h: [
            (m, o, log),
            Between(lambda: h.append(o.register_step_post_hook(lambda opt, a, k: log.append(len(opt.state))))),
            (m, o, log),
            Between(lambda: o.load_state_dict(o.state_dict())),
            (m, o, log),
            Between(lambda: h.pop().remove()),
            (m, o, log),
        ]
    )(*_with(torch.optim.SGD, lr=0.1, momentum=0.5), [], []),
    setup=_hooks_from_zero,
)
def hooked_optimizer(model, optimizer, log):
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    return list(log), model[2].bias.detach().clone(), len(optimizer.state_dict()["state"])


@documented(
    "torch.nn.CrossEntropyLoss: ignore_index does not contribute; targets outside [0, C) raise IndexError",
    calls=lambda: (
        lambda n: [
            (n, torch.randn(2, 3), torch.tensor([0, 2]), "mean"),
            (n, torch.randn(2, 3), torch.tensor([-100, 1]), "mean"),
            (n, torch.randn(2, 3), torch.tensor([1, 3]), "sum"),
            (n, torch.randn(2, 3), torch.tensor([-1, 0]), "mean"),
            (n, torch.randn(3, 4), torch.tensor([1, 3, -100]), "none"),
            (n, torch.randn(1, 3), torch.tensor([-100]), "mean"),
            (n, torch.randn(2, 3), torch.tensor([0]), "mean"),
            (n, torch.randn(2, 3), torch.rand(2, 3), "all"),
        ]
    )(torch.zeros(())),
)
def cross_entropy(seen, logits, target, reduction):
    seen += logits.shape[0]
    loss = nn.functional.cross_entropy(logits, target, reduction=reduction, label_smoothing=0.1)
    return loss, seen.item()


@documented(
    "torch.nn.NLLLoss, BCELoss: inputs outside [0, 1] raise; weights per class",
    calls=lambda: (
        lambda n: [
            (n, torch.tensor([0.2, 0.9]), torch.tensor([0.0, 1.0])),
            (n, torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0])),
            (n, torch.tensor([1.5, 0.5]), torch.tensor([1.0, 1.0])),
            (n, torch.tensor([0.5]), torch.tensor([1.0, 1.0])),
            (n, torch.tensor([0.5, 0.5, 0.5]), torch.ones(3)),
        ]
    )(torch.zeros(1)),
)
def binary_loss(seen, p, target):
    seen.add_(p.sum())
    loss = nn.functional.binary_cross_entropy(p, target, weight=target + 1)
    seen.add_(loss.detach())
    return loss, nn.functional.binary_cross_entropy_with_logits(p, target)


@documented(
    "torch.nn.MSELoss, HuberLoss, KLDivLoss, TripletMarginLoss: reductions; broadcast of targets warns",
    calls=lambda: [
        (torch.ones(2, 2), torch.zeros(2, 2), "mean", 1.0),
        (torch.ones(2, 2), torch.zeros(2, 2), "sum", 0.5),
        (torch.ones(2, 2), torch.zeros(2), "none", 0.1),
        (torch.ones(2), torch.zeros(2), "average", 1.0),
        (torch.ones(2), torch.zeros(2), "mean", -1.0),
    ],
)
def regression_losses(x, y, reduction, delta):
    x.mul_(2)
    square = nn.functional.mse_loss(x, y, reduction=reduction)
    huber = nn.functional.huber_loss(x, y, reduction=reduction, delta=delta)
    return square, huber, nn.functional.kl_div(x.log_softmax(-1), y.expand_as(x).softmax(-1), reduction="batchmean")


@documented(
    "torch.nn.CTCLoss: input_lengths and target_lengths must fit",
    calls=lambda: [
        (torch.randn(5, 1, 3), [5], [2]),
        (torch.randn(5, 1, 3), [4], [1]),
        (torch.randn(5, 1, 3), [6], [1]),
        (torch.randn(6, 1, 3), [1], [2]),
        (torch.randn(6, 1, 3), [6], [3]),
    ],
)
def ctc(logits, inputs, targets):
    labels = torch.tensor([[1, 2, 1]])
    loss = nn.functional.ctc_loss(logits.log_softmax(-1), labels, inputs, targets, zero_infinity=True)
    return loss, logits.shape[0]


@documented(
    "training by gradient accumulation: step every n batches, loss divided by n",
    calls=lambda: (
        lambda m, o: [
            (m, o, torch.ones(6, 2), 3, 2),
            (m, o, torch.ones(7, 2), 3, 2),
            (m, o, torch.ones(5, 2), 2, 3),
            (m, o, torch.ones(1, 2), 4, 1),
            (m, o, torch.ones(0, 2), 4, 1),
        ]
    )(*_with(torch.optim.SGD, lr=0.1)),
)
def accumulated_steps(model, optimizer, data, size, every):
    steps = 0
    losses = []
    optimizer.zero_grad()
    for i, batch in enumerate(data.split(size) if len(data) else ()):
        loss = model(batch).pow(2).mean() / every
        loss.backward()
        losses.append(loss.item())
        if (i + 1) % every == 0 or (i + 1) * size >= len(data):
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    return losses, steps, model[0].bias.detach().clone()


@documented(
    "exponential moving average: torch.Tensor.lerp_ over parameters under no_grad; decay grows with the step count",
    calls=lambda: (lambda m, e: [(m, e, {"n": n}) for n in (0, 1, 2, 10)] + [(m, e, {"n": 0})])(_model(), _model()),
)
@torch.no_grad()
def ema_update(model, average, state):
    state["n"] += 1
    decay = min(0.9, state["n"] / (10 + state["n"]))
    for p, a in zip(model.parameters(), average.parameters()):
        a.lerp_(p, 1 - decay)
        p.mul_(1.5)
    return decay, [a.clone() for a in average.parameters()]


@documented(
    "torch.optim.swa_utils.AveragedModel: n_averaged counts; update_parameters averages",
    calls=lambda: (
        lambda m: (lambda a: [(m, a, 1.0), (m, a, 2.0), (m, a, 5.0), (m, a, -1.0)])(
            torch.optim.swa_utils.AveragedModel(m)
        )
    )(_model()),
)
def averaged_model(model, averaged, value):
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)
    averaged.update_parameters(model)
    return averaged(torch.ones(2)), averaged.n_averaged.item()


@documented(
    "torch.amp.autocast('cpu', bfloat16): matmul in bfloat16; nested enabled=False; restores on leaving",
    calls=lambda: [
        (torch.randn(2, 2), True),
        (torch.randn(2, 2), False),
        (torch.randn(3, 3), True),
        (torch.randn(3, 3).double(), True),
        (torch.randn(3, 2), True),
    ],
    state=lambda: torch.is_autocast_enabled("cpu"),
)
def mixed_precision(x, enabled):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = x + 1
        s = y.softmax(-1)
    return y.dtype, z.dtype, s, x @ x


@documented(
    "torch.amp.autocast around the call: the state of the caller decides; weights are cast once within a block",
    calls=lambda: (
        lambda m, c: [
            (m, torch.ones(1, 2)),
            Between(c.__enter__),
            (m, torch.ones(1, 2)),
            (m, torch.ones(2, 2)),
            Between(lambda: c.__exit__(None, None, None)),
            (m, torch.ones(2, 2)),
            (m, torch.ones(1, 2)),
        ]
    )(_model(), torch.autocast("cpu", dtype=torch.bfloat16)),
)
def under_the_callers_autocast(model, x):
    y = model(x)
    return y, y.dtype, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


@documented(
    "torch.utils.data: TensorDataset, random_split and default_collate in a loop",
    calls=lambda: [
        (torch.arange(10.0).view(5, 2), 2),
        (torch.arange(12.0).view(6, 2), 4),
        (torch.arange(6.0).view(3, 2), 2),
        (torch.arange(2.0).view(1, 2), 3),
    ],
)
def batches_of_a_dataset(data, size):
    dataset = torch.utils.data.TensorDataset(data, torch.arange(len(data)))
    sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(dataset), size, drop_last=True)
    batches = [torch.utils.data.default_collate([dataset[i] for i in indices]) for indices in sampler]
    return [b[0].mean() for b in batches], len(dataset), len(sampler), dataset[-1]


@documented(
    "torch.nn.utils: parameters_to_vector and vector_to_parameters; a slice of the vector for each parameter",
    calls=lambda: (lambda m: [(m, 1.0), (m, 2.0), Between(lambda: m.append(nn.Linear(1, 1))), (m, 3.0), (m, 0.5)])(
        _model()
    ),
)
def perturbed(model, scale):
    vector = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(vector * scale + 1, model.parameters())
    return vector.shape, vector.sum(), model(torch.ones(2))
