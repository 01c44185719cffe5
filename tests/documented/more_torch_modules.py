"""More programs from torch.nn's pages: state dicts, registration, hooks, lazy modules."""

import torch
from torch import nn

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
    "torch.nn.Module.state_dict: detached tensors over the parameters' memory, keep_vars gives the parameters; prefix",
    calls=lambda: (lambda m: [(m, False, ""), (m, True, ""), (m, False, "a."), Between(m.double), (m, False, "")])(
        nn.Sequential(_linear(), nn.BatchNorm1d(2))
    ),
)
def state_over_parameters(m, keep, prefix):
    state = m.state_dict(prefix=prefix, keep_vars=keep)
    first = state[prefix + "0.weight"]
    with torch.no_grad():
        first.add_(1)
    return (
        list(state),
        first is m[0].weight,
        first.requires_grad,
        m[0].weight.sum(),
        {k: v.get("version") for k, v in state._metadata.items()},
    )


@documented(
    "torch.nn.Module.load_state_dict: assign=True takes the tensors themselves; sizes that differ raise in any case",
    calls=lambda: (
        lambda m, s: [
            (m, s, True, False),
            (m, s, True, True),
            (m, {**s, "more": torch.ones(1)}, False, False),
            (m, {**s, "more": torch.ones(1)}, True, False),
            (m, {"weight": torch.ones(3, 3)}, False, False),
            (m, {"weight": s["weight"].double()}, False, True),
            (m, {}, False, False),
        ]
    )(_linear(), {"weight": torch.eye(2), "bias": torch.ones(2)}),
)
def loaded(m, state, strict, assign):
    weight = m.weight
    result = m.load_state_dict(state, strict=strict, assign=assign)
    kept = m.weight is weight
    return (
        result.missing_keys,
        result.unexpected_keys,
        kept,
        m.weight.dtype,
        m.weight.requires_grad,
        m(torch.ones_like(m.bias)),
    )


@documented(
    "torch.nn.Module.register_state_dict_pre_hook, register_load_state_dict_post_hook: called around; handles remove",
    calls=lambda: (lambda m, log: [(m, log, 1), (m, log, 2), (m[0], log, 3), (m, log, 4)])(
        nn.Sequential(_linear(), nn.ReLU()), []
    ),
    setup=_hooks_from_zero,
)
def hooks_around_states(m, log, number):
    before = m.register_state_dict_pre_hook(lambda module, prefix, keep: log.append(("pre", prefix, number)))
    after = m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.append(f"told {number}"))
    state = m.state_dict()
    before.remove()
    result = m.load_state_dict(state, strict=False)
    after.remove()
    return len(state), result.missing_keys, list(log)


@documented(
    "torch.nn.Module.register_parameter, register_module, register_buffer: refuse dots, empty and taken names",
    calls=lambda: (
        lambda m: [
            (m, "scale", nn.Parameter(torch.ones(2))),
            (m, "scale", torch.ones(2)),
            (m, "a.b", nn.Parameter(torch.ones(2))),
            (m, "", nn.Parameter(torch.ones(2))),
            (m, "forward", nn.Parameter(torch.ones(2))),
            (m, "scale", nn.Parameter(torch.zeros(2))),
            (m, "none", None),
            (m, "graph", nn.Parameter(torch.ones(2)) * 2),
        ]
    )(_linear()),
)
def registered(m, name, parameter):
    m.register_parameter(name, parameter)
    y = m(torch.ones(2))
    if getattr(m, name) is not None:
        y = y * getattr(m, name)
    return y, [n for n, _ in m.named_parameters()]


@documented(
    "torch.nn.Module.__delattr__, del of parameters, buffers and children; afterwards AttributeError",
    calls=lambda: [
        (nn.BatchNorm1d(2), "running_mean"),
        (nn.Sequential(_linear(), nn.ReLU()), "1"),
        (_linear(), "bias"),
        (_linear(), "nothing"),
        (nn.Sequential(_linear()), "0"),
    ],
)
def deleted(m, name):
    before = len(m.state_dict())
    delattr(m, name)
    return before, list(m.state_dict()), hasattr(m, name), m(torch.ones(1, 2))


@documented(
    "torch.nn.Module.register_buffer persistent, torch.nn.Buffer: assignment of a Buffer registers; None allowed",
    calls=lambda: (
        lambda m: [
            (m, nn.Buffer(x(2))),
            (m, x(2) * 2),
            (m, None),
            (m, nn.Buffer(x(2), persistent=False)),
            (m, 3),
            (m, nn.Parameter(x(2))),
        ]
    )(_linear()),
)
def buffer_assigned(m, value):
    m.table = value
    names = [n for n, _ in m.named_buffers()]
    y = m(torch.ones(2))
    return names, "table" in m.state_dict(), y if m.table is None else y + m.table, type(m.table).__name__


@documented(
    "torch.nn.Module.get_submodule, get_parameter, set_submodule: dotted targets; what is not there raises",
    calls=lambda: (
        lambda m: [
            (m, "0.0", "0.0.weight"),
            (m, "", "1.bias"),
            (m, "0.7", "0.0.weight"),
            (m, "0.0.weight", "0.0.weight"),
            (m, "1", "0.0"),
            Between(lambda: m.set_submodule("0.0", _linear(2, 3))),
            (m, "0.0", "0.0.weight"),
        ]
    )(nn.Sequential(nn.Sequential(_linear(), nn.ReLU()), nn.LayerNorm(2))),
)
def by_target(m, module, parameter):
    child = m.get_submodule(module)
    y = child(torch.ones(1, 2))
    return y, m.get_parameter(parameter).shape, child is m


@documented(
    "torch.nn.Module.zero_grad: set_to_none by default; requires_grad_ and train return the module",
    calls=lambda: (lambda m: [(m, True), (m, False), (m, True), Between(lambda: m.requires_grad_(False)), (m, True)])(
        _linear()
    ),
)
def gradients_cleared(m, to_none):
    y = m(torch.ones(2)).sum()
    if y.requires_grad:
        y.backward()
    old = m.weight.grad
    same = m.zero_grad(to_none)
    return m.weight.grad, old, same, m.weight.grad is old, m.train() is m


@documented(
    "torch.nn.Module.register_forward_pre_hook with_kwargs, prepend; register_forward_hook always_call",
    calls=lambda: (lambda m, log: [(m, log, x(2)), (m, log, x(2).double()), (m, log, x(3)), (m, log, x(1, 2))])(
        _linear(), []
    ),
    setup=_hooks_from_zero,
)
def hooks_with_keywords(m, log, t):
    def first(module, args, kwargs):
        log.append("first")
        return args, {"input": kwargs["input"] + 1}

    a = m.register_forward_pre_hook(lambda module, args, kwargs: log.append(sorted(kwargs)), with_kwargs=True)
    b = m.register_forward_pre_hook(first, with_kwargs=True, prepend=True)
    c = m.register_forward_hook(lambda module, args, out: log.append(("out", out is None)), always_call=True)
    try:
        return m(input=t), list(log)
    finally:
        for handle in (a, b, c):
            handle.remove()


@documented(
    "torch.nn.Module.register_full_backward_pre_hook: may replace the gradient of the output",
    calls=lambda: (lambda m, log: [(m, log, 1.0), (m, log, 2.0), (m, log, None), (m, log, 0.0)])(_linear(), []),
    setup=_hooks_from_zero,
)
def backward_pre_hook(m, log, factor):
    def before(module, grads):
        log.append([g.clone() for g in grads])
        return None if factor is None else (grads[0] * factor,)

    handle = m.register_full_backward_pre_hook(before)
    t = torch.ones(1, 2, requires_grad=True)
    y = m(t)
    handle.remove()
    y.sum().backward()
    return t.grad, m.bias.grad.clone(), y


@documented(
    "torch.nn.LazyConv1d, LazyBatchNorm1d: materialised at the first call; before, shape and numel raise",
    calls=lambda: (
        lambda m, n: [(m, x(1, 2, 4)), (m, x(2, 2, 4)), (m, x(1, 3, 4)), (n, x(2, 3, 4)), (n, x(2, 3, 4), True)]
    )(
        nn.Sequential(nn.LazyConv1d(1, 2), nn.LazyBatchNorm1d()),
        nn.Sequential(nn.LazyConv1d(2, 3, bias=False), nn.LazyBatchNorm1d()),
    ),
)
def lazily(m, t, again=False):
    lazy = [nn.parameter.is_lazy(p) for p in m.parameters()]
    if again:
        m[0].weight.data.fill_(1)
    try:
        n = m[1].weight.numel()
    except (RuntimeError, ValueError) as error:
        n = str(error)[:30]
    y = m(t)
    return lazy, n, y.shape, type(m[0]).__name__, m[0].in_channels, sorted(m.state_dict())
