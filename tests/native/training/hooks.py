"""Hooks of tensors, parameters, nodes, modules and saved tensors."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from native.training.scenario import ROUNDS, Log, Wrap, data, leaf, scenario


@scenario
def hooks_that_change_gradients(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w).sin(), x * w.sum()))
    w = leaf(4, 4)
    for i in range(ROUNDS):
        x = data(3, 4).requires_grad_() * 2
        y, z = f(x, w)
        x.register_hook(lambda g: log("x", g))
        y.register_hook(lambda g: log("y", g) or g * 2)
        z.register_hook(lambda g, i=i: log("z", g) or (g + 1 if i % 2 else None))
        (y.sum() + z.square().sum()).backward()
        log(w.grad)


@scenario
def hooks_of_a_parameter_for_some_steps(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).tanh().sum())
    w = leaf(4, 4)
    handle: Any = None
    for i in range(2 * ROUNDS):
        if i in (3, 8):
            handle = w.register_hook(lambda g: log("hook", g) or g.clamp(-0.1, 0.1))
        if i in (5, 10):
            handle.remove()
        f(data(3, 4), w).backward()
        log(w.grad)


@scenario
def hook_between_forward_and_backward(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).tanh().sum())
    w = leaf(4, 4)
    for i in range(ROUNDS):
        loss = f(data(3, 4), w)
        handle = w.register_hook(lambda g: log("hook", g) or -g) if i % 2 else None
        loss.backward()
        log(w.grad)
        if handle:
            handle.remove()


@scenario
def optimizer_in_the_backward(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    f = wrap(model)
    steps = {p: torch.optim.SGD([p], 0.1, momentum=0.9) for p in model.parameters()}

    def step(p: torch.Tensor) -> None:
        steps[p].step()
        steps[p].zero_grad()
        log([q is p for q in model.parameters()], p)

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    for _ in range(ROUNDS):
        f(data(3, 4)).square().mean().backward()
        log([p.grad is None for p in model.parameters()])


@scenario
def retain_grad_of_results_and_arguments(wrap: Wrap, log: Log) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        h = x @ w
        return h, h.relu().sum()

    f = wrap(function)
    w = leaf(4, 4)
    for i in range(ROUNDS):
        x = leaf(3, 4) + 1
        h, loss = f(x, w)
        x.retain_grad()
        if i % 3 != 2:
            h.retain_grad()
        (loss + (h.mean() if i % 2 else 0)).backward()
        log(x.grad, h.grad, w.grad)


@scenario
def hook_that_raises(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, v: ((x @ w).exp(), (x @ v).sin()))
    w, v = leaf(4, 4), leaf(4, 4)

    def refuse(g: torch.Tensor) -> None:
        raise ValueError("no")

    for i in range(2 * ROUNDS):
        y, z = f(data(3, 4), w, v)
        if i in (1, 4, 7):
            (y if i != 4 else w).register_hook(refuse) if i != 4 else y.register_hook(refuse)
        log.raised(lambda y=y, z=z: (y.sum() + z.sum()).backward())
        log(w.grad, v.grad)
        log.raised(lambda y=y: y.sum().backward())


@scenario
def hooks_that_hear_of_several_gradients(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w).sin(), (x * 2).cos(), x.sum() * w.sum()))
    w = leaf(4, 4)
    for i in range(ROUNDS):
        x = leaf(3, 4)
        results = f(x, w)
        torch.autograd.graph.register_multi_grad_hook((*results, x, w), lambda grads: log("all", grads))
        torch.autograd.graph.register_multi_grad_hook(results, lambda g: log("any", g), mode="any")
        sum(r.sum() for r in results[: 1 + i % 3]).backward()
        log(x.grad, w.grad)


@scenario
def hooks_before_a_node(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w).sin().mean(), (x + w[:3]).exp()))
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        loss, other = f(data(3, 4), w)
        loss.grad_fn.register_prehook(lambda grads: log("before", grads) or (grads[0] * 3,))
        (loss + other.sum()).backward()
        log(w.grad)


@scenario
def hooks_of_modules(wrap: Wrap, log: Log) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    model.register_full_backward_hook(lambda m, gi, go: log("outer", gi, go))
    model[1].register_full_backward_pre_hook(lambda m, go: log("before tanh", go) or (go[0] * 2,))
    model[2].register_full_backward_hook(lambda m, gi, go: log("last", gi, go))
    f = wrap(model)
    for _ in range(ROUNDS):
        x = leaf(3, 4)
        f(x).sum().backward()
        log(x.grad, [p.grad for p in model.parameters()])


@scenario
def hooks_of_saved_tensors(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid().sum())
    w = leaf(4, 4)
    for i in range(2 * ROUNDS):
        packed: list[Any] = []
        if i in (0, 3, 4, 9):
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t, packed=packed: packed.append(t) or len(packed) - 1, lambda n, packed=packed: packed[n] * 2
            ):
                loss = f(data(3, 4), w)
        else:
            loss = f(data(3, 4), w)
        log([p.detach() for p in packed])
        loss.backward()
        log(w.grad)


@scenario
def saved_on_the_cpu_and_refused(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid().sum())
    w = leaf(4, 4)
    for i in range(ROUNDS):
        if i % 2:
            with torch.autograd.graph.save_on_cpu():
                f(data(3, 4), w).backward()
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            f(data(3, 4), w).backward()
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            x = data(3, 4)
            loss = f(x, w)
            x.zero_()
            loss.backward()
        log(w.grad)


@scenario
def hooks_of_saved_tensors_around_a_backward(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid().sum())
    w = leaf(4, 4)
    for i in range(ROUNDS):
        loss = f(data(3, 4), w)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: log("pack", t), lambda n: log("unpack")):
            (g,) = torch.autograd.grad(loss, w, create_graph=i == 4)
        log(g)


@scenario
def checkpoints_around_and_inside(wrap: Wrap, log: Log) -> None:
    w, v = leaf(4, 4), leaf(4, 4)
    block = wrap(lambda x: F.dropout((x @ w).tanh(), 0.3))
    inside = wrap(lambda x: checkpoint(lambda x: (x @ v).tanh(), x, use_reentrant=False).sin())
    for i in range(ROUNDS):
        torch.manual_seed(i)
        x = leaf(3, 4)
        checkpoint(block, x, use_reentrant=bool(i % 2)).sum().backward()
        checkpoint(inside, x, use_reentrant=False).sum().backward()
        log(x.grad, w.grad, v.grad, torch.random.get_rng_state().sum().item())


@scenario
def hooks_added_to_a_kept_graph(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).softmax(-1))
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        y = f(data(3, 4), w)
        y[0].sum().backward(retain_graph=True)
        y.register_hook(lambda g: log("late", g) or g * 5)
        y.prod().backward(retain_graph=True)
        y.retain_grad()
        y.square().sum().backward()
        log(w.grad, y.grad)


@scenario
def hook_that_deletes_and_replaces_grad(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, v: (x @ w).sin() @ v)
    w, v = leaf(4, 4), leaf(4, 4)
    for i in range(ROUNDS):
        y = f(data(3, 4), w, v)

        def act(g: torch.Tensor, i: int = i) -> None:
            w.grad = None if i % 2 else torch.ones(4, 4)

        y.register_hook(act)
        y.sum().backward()
        log(w.grad, v.grad)
