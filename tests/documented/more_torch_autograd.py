"""More programs from torch's pages on autograd: leaves, hooks, graph nodes, modes, functional derivatives."""

import torch
from torch.autograd import graph

from documented import Between, documented, x


def _leaf(*values):
    return torch.tensor(values, requires_grad=True)


@documented(
    "notes/autograd, leaves: requires_grad and is_leaf of results, of views, of detached and of integer tensors",
    calls=lambda: [
        (x(3), False),
        (x(3).requires_grad_(), False),
        (x(3).requires_grad_(), True),
        (x(3).requires_grad_() * 2, True),
        (x(3).long(), False),
        (torch.nn.Parameter(x(3), requires_grad=False), True),
    ],
)
def kinds_of_leaves(t, detach):
    y = t.detach() if detach else t
    z = y.view(-1)
    w = z[1:] * 2
    top = w.argmax()
    return (
        [(v.requires_grad, v.is_leaf, v.grad_fn is None, v.output_nr) for v in (t, y, z, w, top)],
        y is t,
        z._base is t,
    )


@documented(
    "torch.Tensor.detach_: a view cannot be detached in place; a non-leaf becomes a leaf",
    calls=lambda: [
        (_leaf(1.0, 2.0), False),
        (_leaf(1.0, 2.0), True),
        (x(2), True),
        (x(2), False),
        (_leaf(3.0), False),
    ],
)
def detached_in_place(w, view):
    y = w * 2
    z = y[:1] if view else y
    z.detach_()
    return y.requires_grad, y.is_leaf, z.grad_fn is None, z


@documented(
    "torch.Tensor.grad: assigning needs a tensor of the same shape, dtype and device; None removes",
    calls=lambda: (
        lambda w: [
            (w, torch.ones(2)),
            (w, None),
            (w, torch.ones(3)),
            (w, torch.ones(2).double()),
            (w, 3.0),
            (w, w),
            (w, torch.zeros(2)),
        ]
    )(_leaf(1.0, 2.0)),
)
def assigned_gradient(w, grad):
    w.grad = grad
    first = w.grad
    (w * 3).sum().backward()
    return w.grad is grad, first is w.grad, w.grad.clone()


@documented(
    "torch.Tensor.grad of a non-leaf: a UserWarning tells it will not be populated, unless retain_grad was called",
    calls=lambda: (lambda w: [(w, False), (w, True), (w, False), (x(2), False), (w, True)])(_leaf(1.0, 2.0)),
)
def gradient_of_a_result(w, retain):
    y = w * 2
    if retain:
        y.retain_grad()
    if y.requires_grad:
        y.sum().backward()
    return y.grad, w.grad


@documented(
    "torch.Tensor.backward(gradient, inputs): a vector needs a gradient; only the inputs accumulate",
    calls=lambda: (
        lambda a, b: [
            (a, b, None, None),
            (a, b, torch.ones(2), None),
            (a, b, torch.ones(2), [a]),
            (a, b, torch.ones(3), [a]),
            (a, b, torch.ones(2), []),
            (a.detach(), b.detach(), torch.ones(2), None),
            (a, b.detach(), torch.full((2,), 2.0), (a,)),
        ]
    )(_leaf(1.0, 2.0), _leaf(3.0, 4.0)),
)
def directed_backward(a, b, gradient, inputs):
    y = a * b
    y.backward(gradient, inputs=inputs)
    return (None if a.grad is None else a.grad.clone()), (None if b.grad is None else b.grad.clone())


@documented(
    "torch.autograd.graph.Node: name, next_functions, metadata; a leaf's edge is its accumulator with .variable",
    calls=lambda: [(_leaf(1.0), 1), (_leaf(1.0), 2), (x(1), 1), (_leaf(2.0, 3.0), 3)],
)
def walked_graph(w, depth):
    y = w
    for _ in range(depth):
        y = y.mul(2)
    names, node = [], y.grad_fn
    while node is not None:
        names.append(node.name())
        last, node = node, node.next_functions[0][0] if node.next_functions else None
    return names, last.variable is w if names else None


@documented(
    "torch.autograd.graph.Node.register_hook, register_prehook: see and replace gradients of a node; handles remove",
    calls=lambda: (lambda w, log: [(w, log, 1.0), (w, log, 2.0), (w.detach(), log, 2.0), (_leaf(5.0), log, 0.5)])(
        _leaf(1.0, 2.0), []
    ),
)
def hooked_node(w, log, factor):
    y = w * 3
    if y.grad_fn is None:
        log.append("none")
        return y
    pre = y.grad_fn.register_prehook(lambda grads: (grads[0] * factor,))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append((len(inputs), outputs[0].clone())))
    y.sum().backward()
    pre.remove()
    return w.grad.clone(), len(log)


@documented(
    "torch.Tensor.register_post_accumulate_grad_hook: runs after .grad was accumulated; leaves only",
    calls=lambda: (
        lambda w, log: [(w, log, False), (w, log, False), (w, log, True), (w, log, False), (w.detach(), log, False)]
    )(_leaf(1.0, 2.0), []),
)
def hook_after_accumulation(w, log, result):
    t = w * 2 if result else w

    def step(p):
        log.append(p.grad.sum().item())
        p.grad = None

    handle = t.register_post_accumulate_grad_hook(step)
    (t * t).sum().backward()
    handle.remove()
    return w.grad is None, list(log)


@documented(
    "torch.autograd.graph.register_multi_grad_hook: called when all gradients are there, or at the first of any",
    calls=lambda: (
        lambda a, b, log: [(a, b, log, "all"), (a, b, log, "any"), (a, b.detach(), log, "any"), (a, b, log, "some")]
    )(_leaf(1.0), _leaf(2.0), []),
)
def hook_of_several(a, b, log, mode):
    tensors = [t for t in (a, b) if t.requires_grad]

    def seen(grads):
        log.append([g if g is None else g.clone() for g in grads] if isinstance(grads, list | tuple) else grads.clone())

    handle = graph.register_multi_grad_hook(tensors, seen, mode=mode)
    (a * b).sum().backward()
    handle.remove()
    return len(log), a.grad.clone()


@documented(
    "torch.autograd.graph.save_on_cpu, disable_saved_tensors_hooks: saving under a hook raises with the message",
    calls=lambda: [(_leaf(1.0, 2.0), False), (_leaf(1.0, 2.0), True), (x(2), True), (_leaf(1.0), False)],
)
def saved_on_cpu(w, disable):
    message = f"no hooks for {w.numel()}"
    if disable:
        with graph.disable_saved_tensors_hooks(message), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return w * w
    with graph.save_on_cpu():
        y = (w.exp() * w).sum()
    y.backward()
    return y, w.grad


@documented(
    "torch.autograd.graph.allow_mutation_on_saved_tensors: a saved tensor written in place is cloned before",
    calls=lambda: [(_leaf(1.0, 2.0), True), (_leaf(1.0, 2.0), False), (x(2), True), (_leaf(3.0), True)],
)
def mutation_allowed(w, allow):
    y = w * 1
    if allow:
        with graph.allow_mutation_on_saved_tensors():
            z = y.sin()
            y.mul_(2)
            total = z.sum()
            if total.requires_grad:
                total.backward()
    else:
        z = y.sin()
        y.mul_(2)
        z.sum().backward()
    return w.grad, z


@documented(
    "views and in-place: a write to a view of a non-leaf rebases its history; to a view of a leaf it is refused",
    calls=lambda: [
        (_leaf(1.0, 2.0, 3.0), 1, False),
        (_leaf(1.0, 2.0, 3.0), 2, False),
        (_leaf(1.0, 2.0, 3.0), 1, True),
        (x(3), 1, True),
        (x(3), 0, False),
    ],
)
def history_of_a_view(w, at, leaf):
    y = w if leaf else w * 1
    v = y[at:]
    before = None if v.grad_fn is None else v.grad_fn.name()
    v.mul_(w[0])
    after = None if v.grad_fn is None else v.grad_fn.name()
    if y.requires_grad:
        y.sum().backward()
    return before, after, y, w.grad, v._version, y._version


@documented(
    "views made under no_grad, multi-output views, and unsafe_chunk: a write under grad mode is refused or rebased",
    calls=lambda: [
        (_leaf(1.0, 2.0), "split"),
        (_leaf(1.0, 2.0), "no_grad"),
        (x(2), "split"),
        (_leaf(1.0, 2.0), "unsafe"),
    ],
)
def refused_views(w, how):
    y = w * 1
    if how == "split":
        v = y.split(1)[0]
    elif how == "unsafe":
        v = torch.unsafe_chunk(y, 2)[0]
    else:
        with torch.no_grad():
            v = y[:1]
    v.add_(1)
    return v, y, v.requires_grad, v._is_view()


@documented(
    "torch.set_grad_enabled as a function and torch.is_grad_enabled: what is set remains after the call",
    calls=lambda: (
        lambda w: [
            (w, False),
            (w, False),
            (w, True),
            (w, False),
            Between(lambda: torch.set_grad_enabled(True)),
            (w, True),
        ]
    )(_leaf(1.0, 2.0)),
    setup=lambda: torch.set_grad_enabled(True),
)
def mode_left_behind(w, mode):
    a = w * 2
    torch.set_grad_enabled(mode)
    b = w * 2
    return a.requires_grad, b.requires_grad, torch.is_grad_enabled(), b.is_leaf


@documented(
    "torch.autograd.set_detect_anomaly, profiler-free: anomaly mode read and set; check_nan",
    calls=lambda: [(_leaf(1.0), True), (_leaf(-1.0), False), (_leaf(-1.0), True), (x(1), True)],
    state=lambda: torch.is_anomaly_enabled(),
    setup=lambda: torch.autograd.set_detect_anomaly(False),
)
def anomaly_without_nan(w, mode):
    with torch.autograd.detect_anomaly(check_nan=mode):
        y = w.sqrt().sum()
        inside = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    if w.requires_grad:
        y.backward()
    return inside, w.grad


@documented(
    "torch.Tensor.requires_grad as an attribute: set on leaves only; integer leaves refuse",
    calls=lambda: [
        (x(2), True),
        (x(2), False),
        (_leaf(1.0) * 2, False),
        (_leaf(1.0), False),
        (x(2).long(), True),
        (x(1), True),
    ],
)
def flag_assigned(t, flag):
    t.data.add_(1)
    t.requires_grad = flag
    y = t * 2
    return y.requires_grad, t.is_leaf, y


@documented(
    "torch.inference_mode: an inference tensor outside: in-place on it under grad, view, requires_grad_ raise",
    calls=lambda: (
        lambda t: [(t, "add"), (t, "mul_"), (t, "requires_grad_"), (t, "clone"), (t, "version"), (x(2), "mul_")]
    )(torch.inference_mode()(torch.ones)(2)),
)
def outside_inference(t, what):
    y = torch.ones(2, requires_grad=True) * 2
    if what == "add":
        z = t + 1
    elif what == "mul_":
        z = t.mul_(y.detach())
    elif what == "requires_grad_":
        z = t.requires_grad_()
    elif what == "clone":
        z = t.clone() * y
    else:
        z = t._version
    return z, t.is_inference(), getattr(z, "requires_grad", None)
