"""More programs from torch.nn's pages on pruning, parametrizations and containers."""

import copy

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

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
    "torch.nn.utils.prune: name_orig and name_mask replace the parameter; the pruned one is computed by a pre hook",
    calls=lambda: (
        lambda m: [
            (m, 0.0),
            (m, 0.5),
            (m, 1),
            Between(lambda: prune.remove(m, "weight")),
            (m, 0.25),
            (m, 2.0),
        ]
    )(_linear(4, 1)),
    setup=_hooks_from_zero,
)
def pruned(m, amount):
    prune.l1_unstructured(m, "weight", amount)
    y = m(torch.ones(4))
    y.sum().backward()
    return (
        y,
        prune.is_pruned(m),
        [n for n, _ in m.named_parameters()],
        [n for n, _ in m.named_buffers()],
        m.weight.is_leaf,
        m.weight_orig.grad.clone(),
    )


class _Symmetric(nn.Module):
    def forward(self, t):
        return t.triu() + t.triu(1).T

    def right_inverse(self, t):
        return t.triu()


@documented(
    "torch.nn.utils.parametrize: right_inverse on assignment; is_parametrized; removal leaves what was computed",
    calls=lambda: (
        lambda m: [
            (m, x(2, 2)),
            (m, torch.eye(2)),
            (m, x(3, 3)),
            Between(lambda: parametrize.remove_parametrizations(m, "weight")),
            (m, nn.Parameter(x(2, 2))),
            (m, torch.eye(2)),
        ]
    )(parametrize.register_parametrization(_linear(), "weight", _Symmetric())),
)
def parametrized_assignment(m, value):
    m.weight = value
    w = m.weight
    again = m.weight is w
    return w, again, parametrize.is_parametrized(m, "weight"), m(torch.ones(2)), [n for n, _ in m.named_parameters()]


@documented(
    "torch.nn.ParameterDict and ParameterList: pop, update, non-tensors, slices; keys keep their order",
    calls=lambda: (
        lambda d, p: [
            (d, p, "a", nn.Parameter(x(2))),
            (d, p, "b", x(2)),
            (d, p, "a", nn.Parameter(x(2) * 3)),
            (d, p, "c", 5),
            (d, p, "a", None),
            (d, p, "b", x(2) + 1),
        ]
    )(nn.ParameterDict(), nn.ParameterList([x(1)])),
)
def dictionary_of_parameters(d, p, key, value):
    d[key] = value
    p.append(nn.Parameter(torch.ones(1)) * 1 if value is None else torch.ones(1))
    tail = p[-1:]
    kinds = [(k, type(v).__name__) for k, v in d.items()]
    total = sum(v.sum() for v in d.values() if isinstance(v, torch.Tensor))
    if key == "b":
        d.pop("a")
    return kinds, total, len(tail), type(tail).__name__, "a" in d, [n for n, _ in p.named_parameters()]


@documented(
    "torch.nn.Sequential: slices, insert, pop, addition, in-place repetition; negative positions",
    calls=lambda: (lambda m: [(m, 0), (m, -1), (m, 1), (m, 9), (m, 0)])(nn.Sequential(_linear(), nn.ReLU(), _linear())),
)
def edited_sequence(m, at):
    part = m[:2]
    y = part(torch.ones(1, 2))
    m.insert(at if at >= 0 else len(m) + at, nn.Tanh())
    removed = m.pop(-1)
    both = part + nn.Sequential(removed)
    return y, [type(c).__name__ for c in m], part[0] is m[0], len(both), type(removed).__name__


@documented(
    "torch.nn.Module.named_modules with memo, named_children, modules: duplicates once; remove_duplicate=False",
    calls=lambda: (
        lambda a: [
            (nn.Sequential(a, a), True),
            (nn.Sequential(a, a), False),
            (nn.ModuleDict({"x": a, "y": nn.Sequential(a)}), True),
            (nn.ModuleDict({"x": a, "y": nn.Sequential(a)}), False),
        ]
    )(_linear()),
)
def names_of_modules(m, once):
    names = [n for n, _ in m.named_modules(remove_duplicate=once)]
    total = torch.zeros(())
    for _, p in m.named_parameters(remove_duplicate=once):
        total = total + p.sum()
    return names, [n for n, _ in m.named_children()], total, sum(1 for _ in m.modules())


@documented(
    "torch.nn.Module extra state and __setstate__ by deepcopy: get_extra_state is in the state_dict, set on loading",
    calls=lambda: (lambda m: [(m, 1), (m, 2), (m, None), (m, "text")])(None),
)
def extra_state(_, value):
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = 0

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    m, n = Extra(), Extra()
    m.value = value
    keys = n.load_state_dict(m.state_dict())
    return n.value, list(m.state_dict()), keys.missing_keys, copy.deepcopy(m).value
