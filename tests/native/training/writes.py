"""Tensors that are written, swapped, frozen or gone between forward and backward, and results that share memory."""

import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from native.training.scenario import ROUNDS, Log, Wrap, data, leaf, scenario


@scenario
def write_to_what_was_saved(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, h: (x @ w).exp() * h.t())
    w = leaf(4, 3)

    def attempt(which: str) -> None:
        x, h = data(2, 4), leaf(3, 2) * 1
        y = f(x, w, h)
        with torch.no_grad():
            {"x": x, "w": w, "h": h, "y": y, "none": torch.ones(2)}[which].mul_(2)
        log.raised(lambda: y.sum().backward())
        log(which, w.grad, [t._version for t in (x, h, y)])

    for which in ("none", "x", "w", "h", "y") * 3:
        attempt(which)


@scenario
def write_to_what_views_saved(wrap: Wrap, log: Log) -> None:
    """The error names the shape, the version, and what made the view that was saved."""
    functions = [
        lambda x, w: x.t() @ w[:, 1:],
        lambda x, w: x.unsqueeze(0).transpose(1, 2) * w.view(4, 3)[:, :1],
        lambda x, w: (x.expand(2, 3, 4) * w[None]).permute(2, 0, 1),
        lambda x, w: torch.nn.functional.linear(x, w),
        lambda x, w: x.reshape(4, 3) @ w.flatten()[:6].view(3, 2),
        lambda x, w: x.diagonal() * w.select(0, 1)[:3],
        lambda x, w: torch.einsum("ij,kj->ik", x, w),
        lambda x, w: sum(a * b for a, b in zip(x.unbind(), w.split(1), strict=True)),
    ]
    for function in functions:
        f = wrap(function)
        for i in range(ROUNDS):
            for of_leaf in (False, True):
                x = leaf(3, 4) if of_leaf else leaf(3, 4) * 1
                w = leaf(3, 4)
                y = f(x, w)
                if i % 2:
                    with torch.no_grad():
                        (x if i % 4 == 1 else w).add_(1)
                log.raised(lambda y=y: y.sum().backward())
                log(w.grad)


@scenario
def write_to_results(wrap: Wrap, log: Log) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        h = x @ w
        return h.tanh(), h.exp(), h * 2, h.detach(), h.sin()[1:]

    f = wrap(function)
    w = leaf(4, 4)
    for i in range(2 * ROUNDS):
        results = f(data(3, 4), w)
        target = results[i % 5]
        if i % 3:
            target.mul_(2)
        else:
            target[0].add_(1)
        log(results, target.grad_fn is None, [r._version for r in results])
        log.raised(lambda results=results: sum(r.sum() for r in results).backward())
        log(w.grad)


@scenario
def detached_results_that_are_written(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid())
    w = leaf(4, 4)
    for i in range(ROUNDS):
        y = f(data(3, 4), w)
        shared = [y.detach(), y.data, y.detach().view(-1)][i % 3]
        if i >= 2:
            shared.zero_()
        log(y, shared, y._version, shared._version)
        log.raised(lambda y=y: y.sum().backward())
        log(w.grad)


@scenario
def views_of_results(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w).sin(), (x @ w).exp().t()))
    w = leaf(4, 4)
    for i in range(ROUNDS):
        y, z = f(data(3, 4), w)
        part, turned = y[1:], z.t().view(-1)
        part.mul_(2)
        if i % 2:
            y.add_(1)
        log(part, y, turned, part._base is y, z._base is None, [t._version for t in (part, y, z)])
        log.raised(lambda: (part.sum() + y.square().sum() + turned.sum()).backward())  # noqa: B023
        log(w.grad)


@scenario
def data_swapped_before_the_backward(wrap: Wrap, log: Log) -> None:
    """By `.data`, past all counters, and then a backward of a kind that was not seen before."""
    f = wrap(lambda x, w, v: ((x @ w).sin() @ v).exp())
    w, v = leaf(4, 4), leaf(4, 4)
    for i in range(2 * ROUNDS):
        x = leaf(3, 4)
        y = f(x, w, v)
        if i % 2:
            w.data = data(4, 4)
        if i in (3, 7):
            log(torch.autograd.grad(y.sum(), v))
        elif i == 9:
            log(torch.autograd.grad(y.sum(), x, create_graph=True))
        else:
            y.sum().backward()
        log(x.grad, w.grad, v.grad)


@scenario
def hidden_writes_before_a_backward_of_another_kind(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, v: ((x @ w).sin() @ v).exp())
    w, v = leaf(4, 4), leaf(4, 4)
    kinds = [
        lambda y, x: y.sum().backward(),
        lambda y, x: log(torch.autograd.grad(y.sum(), x)),
        lambda y, x: y.backward(data(4, 3).t()),
        lambda y, x: log(torch.autograd.grad(y.sum(), [w, x], create_graph=True)),
    ]
    for i in range(3 * ROUNDS):
        array = data(3, 4).numpy()
        x = torch.from_numpy(array).requires_grad_()
        y = f(x, w, v)
        if i >= 3:
            array[:] = 7
            w.data.mul_(2)
        kind = kinds[0] if i < 4 else kinds[i % 4]
        log.raised(lambda kind=kind, y=y, x=x: kind(y, x))
        log(x.grad, w.grad, v.grad)


@scenario
def frozen_now_and_then(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    f = wrap(model)
    for i in range(2 * ROUNDS):
        model[0].requires_grad_(i % 3 != 1)
        model[2].bias.requires_grad_(i % 4 < 2)
        y = f(data(3, 4))
        if i % 5 == 4:
            model.requires_grad_(False)  # before the backward
        y.sum().backward()
        log([p.grad for p in model.parameters()])
        model.requires_grad_()


@scenario
def parameters_on_one_memory(wrap: Wrap, log: Log) -> None:
    flat = data(32)
    grads = torch.zeros(32)
    w, v = nn.Parameter(flat[:16].view(4, 4)), nn.Parameter(flat[16:].view(4, 4))
    w.grad, v.grad = grads[:16].view(4, 4), grads[16:].view(4, 4)
    f = wrap(lambda x: ((x @ w).tanh() @ v).sum())
    for i in range(ROUNDS):
        f(data(3, 4)).backward()
        log(grads, w.grad.data_ptr() == grads.data_ptr())
        with torch.no_grad():
            flat.sub_(grads, alpha=0.1)
        grads.mul_(i % 2)


@scenario
def gradients_that_were_there(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, v: ((x @ w).tanh() @ v).sum())
    w, v = leaf(4, 4), leaf(4, 4)
    ones = torch.ones(4, 4)
    for make in (
        lambda: None,
        lambda: ones.t(),
        lambda: ones.clone().requires_grad_(),
        lambda: ones.expand(4, 4).clone().t(),
        lambda: torch.zeros(8, 8)[::2, ::2],
        lambda: torch.eye(4).to_sparse(),
    ) * 2:
        w.grad = v.grad = make()
        kept = w.grad
        f(data(3, 4), w, v).backward()
        log(w.grad, v.grad, kept is w.grad, w.grad is v.grad, kept)


@scenario
def who_is_alive(wrap: Wrap, log: Log) -> None:
    """Which tensors a graph keeps, and until when."""
    functions = [
        lambda x, h, w: ((x + h) @ w, h * 2),
        lambda x, h, w: ((x * w.sum()).relu(), h.exp()),
        lambda x, h, w: (x.sin() + w.sum(), h.tanh() * x.detach()),
    ]
    for function in functions:
        f = wrap(function)
        w = leaf(4, 4)
        for i in range(ROUNDS):
            x, h = data(3, 4), leaf(3, 4) * 1
            y, z = f(x, h, w)
            names = ["x", "h", "y", "z"]
            alive = [weakref.ref(t) for t in (x, h, y, z)]
            x.mark = h.mark = 1  # type: ignore[attr-defined]
            loss = y.sum() + z.sum()
            del x, h
            gc.collect()
            log([n for n, r in zip(names, alive, strict=True) if r() is not None])
            del y, z
            log([n for n, r in zip(names, alive, strict=True) if r() is not None])
            if i % 2:
                loss.backward()
                log([n for n, r in zip(names, alive, strict=True) if r() is not None])
            del loss
            log([n for n, r in zip(names, alive, strict=True) if r() is not None])


@scenario
def copies_of_results(wrap: Wrap, log: Log) -> None:
    model = nn.Linear(4, 4)
    f = wrap(lambda x: model(x).tanh())
    for _ in range(ROUNDS):
        y = f(data(3, 4))
        log.raised(lambda y=y: copy.deepcopy(y))
        log.raised(lambda y=y: pickle.dumps(y))
        log(copy.deepcopy(y.detach()), copy.copy(y), y.clone().requires_grad)
        y.sum().backward()
        twin = copy.deepcopy(model)
        log([p.grad for p in twin.parameters()])


@scenario
def results_that_are_one(wrap: Wrap, log: Log) -> None:
    functions = [
        lambda x, w: (lambda y: (y, y))(x @ w),
        lambda x, w: (lambda y: (y, y.view(-1)))(x @ w),
        lambda x, w: (lambda y: (y, y.detach()))(x @ w),
        lambda x, w: (x, (x @ w).sin(), w),
        lambda x, w: (x @ w).chunk(2),
        lambda x, w: (x @ w, x.argmax(), (x > 0), x.detach().sum()),
    ]
    for function in functions:
        f = wrap(function)
        w = leaf(4, 4)
        for _ in range(ROUNDS):
            x = leaf(4, 4)
            results = f(x, w)
            log(results, results[0] is results[1], results[0].data_ptr() == results[1].data_ptr())
            sum(r.square().sum() for r in results if r.requires_grad).backward()
            log(x.grad, w.grad)


@scenario
def generator(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)

    def losses(x: torch.Tensor) -> Iterator[torch.Tensor]:
        h = x
        for _ in range(3):
            h = (h @ w).tanh()
            yield h.sum()

    f = wrap(losses)
    for _ in range(ROUNDS):
        made = f(data(3, 4))
        first = next(made)
        first.backward(retain_graph=True)
        log(w.grad)
        sum(made).backward()
        log(w.grad)


@scenario
def writes_to_arguments_inside(wrap: Wrap, log: Log) -> None:
    def function(x: torch.Tensor, h: torch.Tensor, w: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        seen.add_(x.detach().mean())
        h.mul_(2)
        with torch.no_grad():
            w[0].add_(0.1)
        return (x @ w).sin() * h

    f = wrap(function)
    w, seen = leaf(4, 4), torch.zeros(())
    for i in range(ROUNDS):
        x, h = data(3, 4), (leaf(3, 4) if i % 2 else data(3, 4)) * 1
        y = f(x, h, w, seen)
        log(y, h, w, seen, [t._version for t in (y, h, w, seen)])
        log.raised(lambda y=y: y.sum().backward())
        log(w.grad)
