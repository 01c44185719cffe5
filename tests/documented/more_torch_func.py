"""More programs from torch's pages on torch.func and pytrees."""

from collections import OrderedDict, namedtuple

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap
from torch.utils import _pytree as pytree

from documented import Between, documented, x


@documented(
    "torch.func.vmap: in_dims and out_dims per argument, None is not mapped; no common size raises ValueError",
    calls=lambda: [
        (x(2, 3), x(3), (0, None), 0),
        (x(2, 3), x(2, 3), (0, 0), 1),
        (x(2, 3), x(3), (1, 0), 0),
        (x(2, 3), x(3), (None, None), 0),
        (x(2, 3), x(3), (0, 0), 0),
        (x(2, 3), x(2), 0, -1),
        (x(2, 3), 2.0, (0, None), 0),
    ],
)
def mapped(a, b, dims, out):
    y = vmap(lambda u, v: (u * v).sum(-1, keepdim=True), in_dims=dims, out_dims=out)(a, b)
    return y, y.stride(), y._is_view()


@documented(
    "torch.func.vmap: .item() and data-dependent branches raise; in-place writes to what is not mapped raise",
    calls=lambda: [(x(2, 2), "item"), (x(2, 2), "write"), (x(2, 2), "own"), (x(3, 2), "branch"), (x(3, 2), "own")],
)
def refused_by_vmap(t, what):
    shared = torch.zeros(2)

    def f(row):
        if what == "item":
            return row.sum().item()
        if what == "write":
            return shared.add_(row)
        if what == "branch":
            return row if row.sum() > 0 else -row
        return row.clone().add_(shared)

    return vmap(f)(t), shared


@documented(
    "torch.func.vmap: randomness 'error' raises, 'same' draws once, 'different' for each; chunk_size divides the work",
    calls=lambda: [
        (x(4, 2), "same", None),
        (x(4, 2), "different", None),
        (x(4, 2), "error", None),
        (x(3, 2), "same", 2),
        (x(3, 2), "different", 2),
        (x(3, 2), "other", None),
    ],
)
def random_rows(t, randomness, chunk):
    y = vmap(lambda row: row + torch.rand(2), randomness=randomness, chunk_size=chunk)(t)
    return y - t, torch.rand(1)


@documented(
    "torch.func.grad: argnums, has_aux; the output must be a scalar tensor; nests with vmap",
    calls=lambda: [
        (x(2), x(2), 0, True),
        (x(2), x(2), (0, 1), True),
        (x(2), x(2), 1, False),
        (x(2), x(2), 2, True),
        (x(3).requires_grad_(), x(3), (1,), True),
        (x(2).long(), x(2), 0, True),
    ],
)
def gradients_by_position(a, b, argnums, scalar):
    def f(u, v):
        y = u.sin() * v
        return (y.sum() if scalar else y), y.detach()

    g, aux = grad(f, argnums=argnums, has_aux=True)(a, b)
    return g, aux, a.grad, torch.is_grad_enabled()


@documented(
    "torch.func.jvp, vjp, linearize: primals and tangents are tuples of equal structure",
    calls=lambda: [
        (x(2), (x(2),)),
        (x(3), (torch.zeros(3),)),
        (x(2), (torch.ones(3),)),
        (x(2), x(2)),
        (x(2).double(), (x(2).double(),)),
    ],
)
def pushed_forward(t, tangents):
    value, tangent = jvp(lambda v: v * v.sum(), (t,), tangents)
    out, pull = vjp(lambda v: {"a": v.exp(), "b": v[0]}, t)
    (g,) = pull({"a": torch.ones_like(t), "b": torch.ones_like(t[0])})
    primal, push = linearize(torch.sin, t)
    return value, tangent, out["b"], g, push(t)


@documented(
    "torch.func.jacrev, jacfwd, hessian: agree; dictionaries as inputs give dictionaries; chunk_size",
    calls=lambda: [(x(2), 1), (x(3), 2), (x(3), None), (x(2).double(), 3), (x(2), 0)],
)
def jacobians_of_dictionaries(t, chunk):
    f = lambda p: p["w"] * p["b"].sum()
    j = jacrev(f, chunk_size=chunk)({"w": t, "b": t + 1})
    k = jacfwd(lambda v: v * v.sum())(t)
    return j["w"], j["b"], k, hessian(lambda v: (v**3).sum())(t)


@documented(
    "torch.func.stack_module_state: stacks parameters and buffers of models of one kind; functional_call with vmap",
    calls=lambda: (
        lambda m: [
            (m[:2], x(1, 2)),
            (m, x(1, 2)),
            (m, x(3, 2)),
            Between(lambda: m[0].eval()),
            (m, x(3, 2)),
            ([], x(1, 2)),
            ([m[1], nn.Linear(2, 3)], x(1, 2)),
        ]
    )([nn.Linear(2, 1) for _ in range(3)]),
)
def ensemble(models, t):
    params, buffers = stack_module_state(models)
    y = vmap(lambda p, b: functional_call(models[0], (p, b), (t,)))(params, buffers)
    return y, {k: (v.shape, v.requires_grad, v.is_leaf) for k, v in params.items()}, len(buffers)


class _Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.tied = self.weight
        self.register_buffer("count", torch.zeros(()))

    def forward(self, t):
        self.count += 1
        return t * self.weight + self.tied


@documented(
    "torch.func.functional_call: in-place updates of given buffers are seen by the caller; tie_weights; strict",
    calls=lambda: (
        lambda m: [
            (m, {"weight": torch.zeros(2)}, True, False),
            (m, {"weight": torch.zeros(2), "count": torch.tensor(5.0)}, True, False),
            (m, {"weight": torch.zeros(2)}, False, False),
            (m, {"weight": torch.zeros(2), "tied": torch.ones(2)}, True, False),
            (m, {"weight": torch.zeros(2)}, True, True),
            (m, {"other": torch.zeros(2)}, True, True),
            (m, {}, True, False),
        ]
    )(_Counted()),
)
def with_tied_parameters(m, given, tie, strict):
    y = functional_call(m, given, (x(2),), tie_weights=tie, strict=strict)
    return y, m.count.clone(), m.weight.sum(), "weight" in m._parameters


_Pair = namedtuple("_Pair", "a b")


@documented(
    "torch.utils._pytree: tree_flatten, tree_map, tree_map_only, unflatten with a spec; leaves in order of keys",
    calls=lambda: [
        ({"b": x(2), "a": [x(1), 3]}, 2),
        (_Pair(x(2), (x(2), None)), 3),
        (OrderedDict(z=x(1), y=2), 1),
        ([], 2),
        (x(3), 2),
        (({"k": {1: x(2)}}, "text"), 5),
    ],
)
def trees(tree, factor):
    leaves, spec = pytree.tree_flatten(tree)
    mapped_tree = pytree.tree_map_only(torch.Tensor, lambda t: t * factor, tree)
    back = pytree.tree_unflatten([type(v).__name__ for v in leaves], spec)
    keys = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    return mapped_tree, back, spec.num_leaves, keys, spec == pytree.tree_structure(mapped_tree)
