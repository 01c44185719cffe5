"""More programs from torch's pages on overrides, custom operators and other kinds of tensors."""

import torch
from torch import nn
from torch.masked import masked_tensor
from torch.overrides import handle_torch_function, has_torch_function, is_tensor_like

from documented import Between, documented, x


class _Diagonal:
    handled: list = []

    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        cls.handled.append((function.__name__, [k.__name__ for k in kinds]))
        if function is torch.mean:
            return args[0].value / args[0].n
        if function in (torch.add, torch.Tensor.add):
            return cls(args[0].n, args[0].value + 1)
        return NotImplemented


@documented(
    "Extending torch, duck types with __torch_function__: dispatched by torch functions; NotImplemented gives TypeError",
    calls=lambda: [
        (_Diagonal(2, 4.0), "mean"),
        (_Diagonal(4, 4.0), "mean"),
        (_Diagonal(2, 4.0), "add"),
        (_Diagonal(2, 4.0), "sum"),
        (x(4), "mean"),
        (_Diagonal(2, 4.0), "linear"),
    ],
    state=lambda: _Diagonal.handled,
    setup=lambda: _Diagonal.handled.clear(),
)
def duck_typed(t, what):
    like = is_tensor_like(t)
    if what == "mean":
        return torch.mean(t), like
    if what == "add":
        return torch.add(t, torch.ones(2)).value, like
    if what == "linear":
        return nn.functional.linear(x(1, 2), t), like
    return torch.sum(t), like


class _Logged(torch.Tensor):
    pass


def _public(t, *, scale=1.0):
    if has_torch_function((t,)):
        return handle_torch_function(_public, (t,), t, scale=scale)
    return t * scale


@documented(
    "torch.overrides: has_torch_function, handle_torch_function; results of a subclass keep it; DisableTorchFunctionSubclass",
    calls=lambda: [
        (x(2), 2.0, False),
        (x(2).as_subclass(_Logged), 2.0, False),
        (x(2).as_subclass(_Logged), 3.0, True),
        (nn.Parameter(x(2)), 3.0, False),
        (x(3).as_subclass(_Logged), 1.0, True),
    ],
)
def overridable(t, scale, disabled):
    if disabled:
        with torch._C.DisableTorchFunctionSubclass():
            y = t * scale
    else:
        y = _public(t, scale=scale)
    u, v = torch.broadcast_tensors(t, torch.ones(1))
    return type(y).__name__, type(t[0]).__name__, type(v).__name__, type(t.sum().item()).__name__, y, t.shape


_calls: list = []


@torch.library.custom_op("more_torch::halve", mutates_args=("t",))
def _halve(t: torch.Tensor, times: int = 1, note: str | None = None) -> int:
    _calls.append((tuple(t.shape), times, note))
    if times < 0:
        raise ValueError(f"times {times}")
    t.div_(2**times)
    return times


@documented(
    "torch.library.custom_op: defaults, optional strings and int results; a mutated argument's version goes up",
    calls=lambda: (
        lambda t: [
            (t, 1, None),
            (t, 2, "two"),
            (t[1:], 1, None),
            (t, -1, None),
            (x(3), 0, ""),
            Between(t.requires_grad_),
            (t, 1, None),
        ]
    )(x(4)),
    state=lambda: list(_calls),
    setup=_calls.clear,
)
def halved(t, times, note):
    before = t._version
    y = t + 1
    n = torch.ops.more_torch.halve(t, times) if note is None else _halve(t, times, note)
    return n, y, t._version - before, t + y


@torch.library.custom_op("more_torch::evens", mutates_args=())
def _evens(t: torch.Tensor, most: float = 1e9) -> list[torch.Tensor]:
    return [t[t % 2 == 0].clone(), t[t < most].clone()]


@_evens.register_fake
def _(t, most=1e9):
    size = torch.library.get_ctx().new_dynamic_size()
    return [t.new_empty(size), t.new_empty(size)]


@documented(
    "torch.library.register_fake with new_dynamic_size: sizes of results depend on the data",
    calls=lambda: [(x(4), 2.0), (x(5), 3.0), (x(6) * 2, 5.0), (x(1), 0.0), (x(4).long(), 10.0)],
)
def even_values(t, most):
    evens, small = _evens(t, most)
    pad = torch.zeros(6)
    pad[: len(evens)] = evens.float()
    return evens, small.shape, pad, evens.sum() * len(small)


@documented(
    "torch.masked: masked tensors reduce over what the mask keeps; to_tensor fills; masks must match",
    calls=lambda: [
        (x(4), torch.tensor([True, False, True, True]), 0.0),
        (x(4), torch.tensor([False] * 4), -1.0),
        (x(2, 2), torch.tensor([[True, False], [True, True]]), 9.0),
        (x(4), torch.tensor([True]), 0.0),
        (x(4).long(), torch.tensor([True, False, True, True]), 0),
    ],
)
def masked(t, mask, fill):
    m = masked_tensor(t, mask)
    return (m + m).to_tensor(fill), m.sum().to_tensor(fill), torch.masked.amax(t, 0, mask=mask), m.get_mask() is mask


@documented(
    "torch.quantize_per_tensor: int_repr, q_scale, dequantize; quantised tensors refuse ordinary arithmetic",
    calls=lambda: [
        (x(3), 0.1, 0, torch.quint8),
        (x(3), 0.5, 1, torch.qint8),
        (-x(3), 0.5, 0, torch.quint8),
        (x(3).long(), 0.5, 0, torch.quint8),
        (x(2, 2), 0.1, 300, torch.quint8),
        (x(2, 2), 0.1, 3, torch.qint32),
    ],
)
def quantised(t, scale, zero, dtype):
    q = torch.quantize_per_tensor(t, scale, zero, dtype)
    back = q.dequantize()
    return q.int_repr(), q.q_scale(), q.q_zero_point(), q.is_quantized, back, q.view(-1)[0].dequantize()


@documented(
    "torch.sparse: coalesce, indices and values of uncoalesced tensors raise; sparse mm; sum over sparse dimensions",
    calls=lambda: [
        (torch.tensor([[0, 1], [1, 0]]), x(2), (2, 2)),
        (torch.tensor([[0, 0], [1, 1]]), x(2), (2, 3)),
        (torch.tensor([[0], [0]]), x(1, 2), (1, 1, 2)),
        (torch.tensor([[0, 3]]), x(2), (2,)),
        (torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), (2, 2)),
    ],
)
def sparse_parts(indices, values, size):
    s = torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
    c = s.coalesce()
    dense = (c * 2).to_dense()
    return s._nnz(), s.is_coalesced(), c.indices(), c.values(), dense, s.sparse_dim(), torch.sparse.sum(c), s.layout
