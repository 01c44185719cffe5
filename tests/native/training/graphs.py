"""Which gradients are wanted, of what, how often, and gradients of gradients."""

from typing import Any

import torch
from torch import nn

from native.training.scenario import ROUNDS, Log, Wrap, data, leaf, scenario


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.Sigmoid())


@scenario
def gradients_of_what_is_no_leaf(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sin() * x.sum())
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        x = leaf(3, 4).exp()
        y = f(x, w)
        log(torch.autograd.grad(y.sum(), [x, w], retain_graph=True))
        log(torch.autograd.grad(y.sum(), x))


@scenario
def backward_for_some_inputs(wrap: Wrap, log: Log) -> None:
    model = mlp()
    f = wrap(model)
    parameters = list(model.parameters())
    for i in range(2 * ROUNDS):
        x = leaf(3, 4)
        chosen = [None, parameters[:1], [*parameters[2:], x], [x]][i % 4]
        f(x).sum().backward(inputs=chosen)
        log(x.grad, [p.grad for p in parameters])


@scenario
def penalty_from_the_first_step_on(wrap: Wrap, log: Log) -> None:
    model = mlp()
    f = wrap(model)
    for _ in range(ROUNDS):
        x = leaf(3, 4)
        loss = f(x).sum()
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        model.zero_grad()
        (loss + (g.norm(dim=1) - 1).square().mean()).backward()
        log(g, x.grad, [p.grad for p in model.parameters()])


@scenario
def penalty_at_every_third_step(wrap: Wrap, log: Log) -> None:
    model = mlp()
    f = wrap(model)
    for i in range(2 * ROUNDS):
        x = leaf(3, 4)
        loss = f(x).sum()
        model.zero_grad()
        if i % 3 == 2:
            (g,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + (g.norm(dim=1) - 1).square().mean()
        loss.backward()
        log(x.grad, [p.grad for p in model.parameters()])


@scenario
def penalty_of_a_parameter_used_everywhere(wrap: Wrap, log: Log) -> None:
    """Gradients of gradients that come from inside and outside, in the engine's order."""
    w = leaf(4, 4)
    f = wrap(lambda x: ((x @ w).sin() @ w).tanh() @ w)
    for i in range(2 * ROUNDS):
        w.grad = None
        x = leaf(3, 4)
        before, y = (x @ w).exp(), f(x)
        after = (y @ w).sin()
        loss = (before * after).sum() + y.square().mean()
        if i >= 4:
            found = torch.autograd.grad(loss, [w, x], create_graph=True)
            loss = loss + sum(g.square().sum() for g in found)
        loss.backward()
        log(w.grad, x.grad)


@scenario
def third_derivatives(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x: (x.sin() * x.exp()).sum())
    for i in range(ROUNDS):
        x = leaf(5)
        value = f(x)
        for _ in range(3 if i > 2 else 1):
            (g,) = torch.autograd.grad(value, x, create_graph=i > 2)
            value = g.sum()
            log(g)


@scenario
def a_graph_kept_and_freed(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid().sum())
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        loss = f(data(3, 4), w)
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        loss.backward()
        log.raised(lambda loss=loss: loss.backward())
        log.raised(lambda loss=loss: torch.autograd.grad(loss, w))
        log(w.grad)


@scenario
def several_losses(wrap: Wrap, log: Log) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> Any:
        h = (x @ w).tanh()
        return h.sum(), (h @ v).square().mean(), (x @ v).exp().sum()

    f = wrap(function)
    w, v = leaf(4, 4), leaf(4, 4)
    for i in range(2 * ROUNDS):
        losses = f(data(3, 4), w, v)
        if i % 2:
            for k, loss in enumerate(losses):
                loss.backward(retain_graph=k == 0)
                log(w.grad, v.grad)
        else:
            losses[2].backward()
            losses[0].backward()
            log.raised(lambda losses=losses: losses[1].backward())
            log(w.grad, v.grad)


@scenario
def gradients_of_what_is_not_used(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w, v: ((x @ w).sum(), x * 2, v.detach() + x))
    for _ in range(ROUNDS):
        x, w, v = leaf(3, 4), leaf(4, 4), leaf(3, 4)
        a, b, c = f(x, w, v)
        log.raised(lambda a=a, v=v: torch.autograd.grad(a, v, retain_graph=True))
        log(torch.autograd.grad(a, [x, w, v], allow_unused=True, retain_graph=True))
        log(torch.autograd.grad(a, [x, v], allow_unused=True, materialize_grads=True))
        log(torch.autograd.grad(b.sum(), [x, w], allow_unused=True))
        log.raised(lambda c=c: c.sum().backward())
        log(x.grad)


@scenario
def batched_gradients(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sin() * x)
    w = leaf(4, 4)
    for i in range(ROUNDS):
        x = leaf(4)
        y = f(x, w)
        if i >= 2:
            log(torch.autograd.grad(y, [x, w], torch.eye(4), is_grads_batched=True, retain_graph=True))
        y.sum().backward()
        log(x.grad, w.grad)


@scenario
def jacobians_and_hessians(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)
    f = wrap(lambda x: ((x @ w).sin() * x).sum())
    g = wrap(lambda x: (x @ w).sin())
    for _ in range(3):
        f(leaf(4)).backward()
        g(leaf(4)).sum().backward()
    x = data(4)
    functional = torch.autograd.functional
    log(functional.jacobian(g, x), functional.jacobian(g, x, vectorize=True))
    log(functional.hessian(f, x), functional.hvp(f, x, torch.ones(4)), functional.vhp(f, x, torch.ones(4)))
    log(functional.jvp(g, x, torch.ones(4)), functional.vjp(g, x, torch.ones(4)))


@scenario
def transforms_over_it(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)
    f = wrap(lambda x: ((x @ w).sin() * x).sum())
    for _ in range(4):
        f(leaf(4)).backward()
    x, xs = data(4), data(3, 4)
    log(torch.func.grad(f)(x), torch.func.vmap(torch.func.grad(f))(xs), torch.func.vmap(f)(xs))
    log(torch.func.jacrev(f)(x), torch.func.jvp(f, (x,), (torch.ones(4),)), torch.func.hessian(f)(x))
    f(leaf(4)).backward()
    log(w.grad)


@scenario
def forward_mode(wrap: Wrap, log: Log) -> None:
    forward = torch.autograd.forward_ad
    w = leaf(4, 4)
    f = wrap(lambda x: (x @ w).sin() * x)
    for i in range(ROUNDS):
        x = data(4)
        if i % 2:
            with forward.dual_level():
                y = f(forward.make_dual(x, torch.ones(4)))
                log(*forward.unpack_dual(y))
                y.sum().backward()
        else:
            f(x).sum().backward()
        log(w.grad)


@scenario
def checked_against_differences(wrap: Wrap, log: Log) -> None:
    w = leaf(3, 3, dtype=torch.float64)
    f = wrap(lambda x, w: (x @ w).tanh() * w.sum())
    for _ in range(3):
        x = leaf(2, 3, dtype=torch.float64)
        f(x, w).sum().backward()
    log(torch.autograd.gradcheck(f, (x, w)), torch.autograd.gradgradcheck(f, (x, w)))
    log(torch.autograd.gradcheck(f, (x, w), check_batched_grad=True, check_undefined_grad=True))
    log(torch.autograd.gradcheck(f, (x, w), fast_mode=True, check_forward_ad=True))


@scenario
def edges_for_tensors(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sin())
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        x = leaf(3, 4) * 1
        y = f(x, w)
        edge = torch.autograd.graph.get_gradient_edge(y)
        loss = y.square().sum()
        log(torch.autograd.grad(loss, [edge, torch.autograd.graph.get_gradient_edge(x)], retain_graph=True))
        log(torch.autograd.grad([edge], w, [torch.ones(3, 4)]))


@scenario
def roots_of_all_kinds(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: ((x @ w).sin(), w.exp()))
    w = leaf(4, 4)
    for _ in range(ROUNDS):
        x = leaf(3, 4)
        y, z = f(x, w)
        torch.autograd.backward([y, z, w, y], [torch.ones(3, 4), z.detach(), w.detach(), data(3, 4)])
        log(x.grad, w.grad)
        log.raised(lambda y=y: y.backward())
        log.raised(lambda y=y: y.backward(torch.ones(2, 2)))
        log.raised(lambda y=y: y.backward(torch.ones(3, 4, dtype=torch.complex64)))


@scenario
def odd_gradients_that_come_in(wrap: Wrap, log: Log) -> None:
    f = wrap(lambda x, w: (x @ w).sigmoid())
    w = leaf(4, 4)
    given = [
        lambda: torch.ones(()).expand(3, 4),
        lambda: data(4, 3).t(),
        lambda: data(6, 8)[::2, ::2],
        lambda: torch.zeros(3, 4),
        lambda: data(3, 4).requires_grad_(),
        lambda: torch.full((3, 4), float("nan")),
        lambda: torch._neg_view(data(3, 4)),
        lambda: data(3, 4).to_sparse(),
    ]
    for make in given * 2:
        y = f(data(3, 4), w)
        log.raised(lambda y=y, make=make: y.backward(make()))
        log(w.grad)


@scenario
def compiled_functions_in_a_row(wrap: Wrap, log: Log) -> None:
    w = leaf(4, 4)
    first, second = wrap(lambda x: (x @ w).tanh()), wrap(lambda h, x: (h @ w).sin() + x * w.sum())
    for _ in range(ROUNDS):
        x = leaf(3, 4)
        h = first(x)
        h.register_hook(lambda g: log("between", g))
        (second(h, x).sum() + h.square().sum() + w.norm()).backward()
        log(x.grad, w.grad)


@scenario
def a_step_that_calls_backward_itself(wrap: Wrap, log: Log) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss.detach()

    compiled = wrap(step)
    for _ in range(ROUNDS):
        log(compiled(data(3, 4)), [p for p in model.parameters()], [p.grad for p in model.parameters()])
