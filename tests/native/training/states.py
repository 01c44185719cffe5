"""Modes, threads, random numbers, types of numbers, and what a program prints."""

import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from native.training.scenario import ROUNDS, Log, Wrap, data, leaf, scenario


@scenario
def modes_in_turn(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).tanh())
    w = leaf(4, 4)
    for i in range(2 * ROUNDS):
        x = data(3, 4)
        if i % 4 == 1:
            with torch.no_grad():
                y = f(x, w)
        elif i % 4 == 2:
            with torch.inference_mode():
                y = f(x, w)
            log.raised(lambda x=x, y=y: f(y[:, :4], w).sum().backward())
        else:
            y = f(x, w)
        log(y.requires_grad, y.is_inference())
        log.raised(lambda y=y: y.sum().backward())
        log(w.grad)


@scenario
def grad_mode_inside(wrap: Wrap, log: Log) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, on: bool) -> torch.Tensor:
        with torch.set_grad_enabled(on):
            h = x @ w
        with torch.no_grad():
            k = w.exp()
            with torch.enable_grad():
                m = (x @ w).sin()
        return h.sum() + (k * w).sum() + m.sum()

    f = wrap(function)
    w = leaf(4, 4)
    for i in range(2 * ROUNDS):
        f(data(3, 4), w, i % 3 != 0).backward()
        log(w.grad)


@scenario
def anomaly_mode(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w) * 0).sqrt().sum())
    w = leaf(4, 4)
    for i in range(2 * ROUNDS):
        x = data(3, 4)
        if i % 3 == 0:
            f(x, w).backward()
        elif i % 3 == 1:
            with torch.autograd.detect_anomaly():
                log.raised(lambda x=x: f(x, w).backward())
        else:
            loss = f(x, w)
            with torch.autograd.set_detect_anomaly(True, check_nan=i % 2 == 0):
                log.raised(lambda loss=loss: loss.backward())
        log(w.grad)


@scenario
def threads(wrap: Wrap, log: Log) -> None:
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
    f = wrap(lambda model, x: model(x).square().mean())
    inputs = [[data(3, 4) for _ in range(ROUNDS)] for _ in models]

    def train(model: nn.Module, inputs: list[torch.Tensor]) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in inputs:
            optimizer.zero_grad()
            f(model, x).backward()
            optimizer.step()

    running = [threading.Thread(target=train, args=each) for each in zip(models, inputs, strict=True)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    log([list(model.parameters()) for model in models])


@scenario
def backward_in_another_thread(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)
    f = wrap(lambda x: (x @ w).exp().sum())
    for i in range(ROUNDS):
        loss = f(data(3, 4))

        def run(loss: torch.Tensor = loss, i: int = i) -> None:
            with torch.autograd.set_multithreading_enabled(i % 2 == 0):
                loss.backward(retain_graph=i % 3 == 0)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if i % 3 == 0:
            loss.backward()
        log(w.grad)


@scenario
def random_numbers(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.RReLU(), nn.Linear(8, 2), nn.Dropout(0.2))
    f = wrap(model)
    for i in range(2 * ROUNDS):
        torch.manual_seed(i)
        model.train(i % 5 != 3)
        x = leaf(3, 4)
        y = f(x)
        log(y, torch.random.get_rng_state().sum().item())
        torch.rand(3)
        if i == 7:
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            log(g)
        elif i == 8:
            log(torch.autograd.grad(y.sum(), x))
        else:
            y.sum().backward()
        log(torch.random.get_rng_state().sum().item(), [p.grad for p in model.parameters()])


@scenario
def running_statistics(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.BatchNorm1d(8, momentum=None))
    f = wrap(model)
    for i in range(2 * ROUNDS):
        model.train(i % 4 != 3)
        x = leaf(6, 4)
        y = f(x)
        if i == 6:
            (g,) = torch.autograd.grad(y.exp().sum(), x, create_graph=True)
            g.sum().backward()
        else:
            y.exp().sum().backward()
        log(y, x.grad, [p.grad for p in model.parameters()], list(model.buffers()))


@scenario
def lower_precision(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    f = wrap(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(2 * ROUNDS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=i % 3 != 2):
            loss = f(data(3, 4)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        log(loss, nn.utils.clip_grad_norm_(model.parameters(), 0.5), [p.grad for p in model.parameters()])
        scaler.step(optimizer)
        scaler.update()


@scenario
def numbers_of_all_types(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).mul(2).pow(2).sum().abs())
    for dtype in (torch.complex64, torch.float64, torch.bfloat16, torch.complex128, torch.float16):
        w = leaf(4, 4, dtype=dtype)
        for _ in range(ROUNDS):
            f(torch.randn(3, 4, dtype=dtype), w).backward()
            log(w.grad)


@scenario
def sparse_gradients(wrap: Wrap, log: Log) -> None:
    words = nn.Embedding(10, 4, sparse=True)
    f = wrap(lambda i, w: (words(i) @ w).tanh().sum())
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        f(torch.randint(0, 10, (2, 3)), w).backward()
        log(words.weight.grad, w.grad)


@scenario
def empty_and_broadcast(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, b: (x @ w + b).relu() * b.exp())
    w, b = leaf(4, 4), leaf(1)
    for i in range(2 * ROUNDS):
        x = leaf([0, 3, 1][i // 4], 4)
        f(x, w, b).sum().backward()
        log(x.grad, w.grad, b.grad)


@scenario
def what_is_printed(wrap: Wrap, log: Log) -> None:
    w = leaf(2, 2)
    f = wrap(lambda x: ((x @ w).sin(), (x @ w).mean(), (x @ w).view(-1), x.exp() @ w))
    for _ in range(ROUNDS):
        results = f(torch.ones(2, 2))
        log([repr(r) for r in results], [r.grad_fn.name() for r in results])
        sum(r.sum() for r in results).backward()


@scenario
def micro_steps(wrap: Wrap, log: Log) -> None:
    words = nn.Embedding(10, 4)
    head = nn.Linear(4, 10, bias=False)
    head.weight = words.weight
    f = wrap(lambda ids: F.cross_entropy(head(words(ids).tanh()), ids) / 4)
    optimizer = torch.optim.AdamW([words.weight], 0.01)
    for i in range(3 * ROUNDS):
        f(torch.randint(0, 10, (5,))).backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i % 8 == 3)
        log(words.weight, words.weight.grad)


@scenario
def functions_of_the_programs_own(wrap: Wrap, log: Log) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            log("backward", g)
            return g * ctx.saved_tensors[0]

    w = leaf(4, 4)
    inside = wrap(lambda x: Double.apply(x @ w).sin())
    around = wrap(lambda x: (x @ w).sin())
    for _ in range(ROUNDS):
        (inside(data(3, 4)).sum() + Double.apply(around(data(3, 4))).sum()).backward()
        log(w.grad)


@scenario
def passes_inside_passes(wrap: Wrap, log: Log) -> None:
    """A hook runs another backward over the same graph."""
    w = leaf(4, 4)
    f = wrap(lambda x: ((x @ w).sin(), (x @ w).exp()))
    for _ in range(ROUNDS):
        y, z = f(data(3, 4))

        def again(g: torch.Tensor, z: torch.Tensor = z) -> None:
            with torch.enable_grad():
                z.sum().backward(retain_graph=True)
            log("inside", g, w.grad)

        y.register_hook(again)
        y.sum().backward(retain_graph=True)
        log(w.grad)
        z.sum().backward()
        log(w.grad)


@scenario
def failures_in_the_function(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)
    f = wrap(lambda x, i: F.embedding(i, w) @ x.t())
    for i in range(2 * ROUNDS):
        indices = torch.tensor([1, 2, 9 if i % 3 == 2 else 3])
        y = log.raised(lambda indices=indices: f(data(3, 4), indices))
        if y is not None:
            y.sum().backward()
        log(w.grad)
