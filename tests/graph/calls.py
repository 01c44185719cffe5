"""Calls whose inferred metadata must be what running them for real gives: (name, target, make arguments)."""

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F


class Case(NamedTuple):
    name: str
    target: Any  # a callable, or a method's name
    make: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


CASES: list[Case] = []


def case(name: str, target: Any, make: Callable[[], Any], **kwargs: Callable[[], Any]) -> None:
    def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = make()
        return args if isinstance(args, tuple) else (args,), {k: v() for k, v in kwargs.items()}

    CASES.append(Case(name, target, arguments))


def x() -> torch.Tensor:
    return torch.linspace(0.1, 0.9, 12).reshape(3, 4).clone()  # a view's requires_grad is its base's in no_grad


def g() -> torch.Tensor:
    return x().requires_grad_()


def inner() -> torch.Tensor:
    return g() * 2


def ints() -> torch.Tensor:
    return torch.arange(12).reshape(3, 4)


def index() -> torch.Tensor:
    return torch.tensor([0, 2])


def image() -> torch.Tensor:
    return torch.rand(2, 3, 8, 8)


def twice(make: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    t = make()
    return t, t


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.rand(4, 4))


# ---- arithmetic, promotion
case("add", operator.add, lambda: (x(), x()))
case("add broadcast", operator.add, lambda: (x(), torch.ones(5, 1, 1)))
case("add int float scalar", operator.add, lambda: (ints(), 1.5))
case("add int int scalar", operator.add, lambda: (ints(), 2))
case("add bool scalar", operator.add, lambda: (ints() > 3, True))
case("add half double scalar tensor", operator.add, lambda: (x().half(), torch.tensor(2.0, dtype=torch.float64)))
case("add complex scalar", operator.add, lambda: (x(), 1j))
case("radd", "__radd__", lambda: (x(), 3))
case("true division of ints", operator.truediv, lambda: (ints(), 2))
case("division with rounding", torch.div, lambda: (x(), 0.3), rounding_mode=lambda: "floor")
case("floor division", operator.floordiv, lambda: (ints(), 2))
case("pow", operator.pow, lambda: (x(), 2))
case("pow float of int", torch.pow, lambda: (ints(), 0.5))
case("matmul", operator.matmul, lambda: (x(), torch.ones(4, 2)))
case("compare", operator.lt, lambda: (x(), 0.5))
case("same tensor twice", operator.mul, lambda: twice(g))
case("neg", operator.neg, x)
case("where", torch.where, lambda: (x() > 0.5, x(), 0.0))
case("clamp", "clamp", x, min=lambda: 0.2)
case("lerp", torch.lerp, lambda: (x(), x(), 0.5))
case("float64 default", torch.arange, lambda: (0.0, 1.0, 0.25))
# ---- reductions
case("sum", torch.sum, x)
case("sum of bools", "sum", lambda: x() > 0.5)
case("sum dim keepdim dtype", "sum", lambda: (x(), 0), keepdim=lambda: True, dtype=lambda: torch.float64)
case("mean", "mean", lambda: (x(), (0, 1)))
case("max", torch.max, x)
case("max dim", torch.max, lambda: (x(), 1))
case("topk", torch.topk, lambda: (x(), 2))
case("sort", "sort", x, descending=lambda: True)
case("argmax", "argmax", lambda: (x(), -1))
case("norm", torch.linalg.norm, x)
case("var_mean", torch.var_mean, lambda: (x(), 0))
case("cumsum", "cumsum", lambda: (ints(), 0))
case("logsumexp", torch.logsumexp, lambda: (g(), 1))
case("std of a leaf", "std", g)
# ---- views
case("view", "view", lambda: (x(), 4, 3))
case("view of inner", "view", lambda: (inner(), -1))
case("view as dtype", "view", lambda: (x(), torch.int32))
case("reshape of transposed copies", "reshape", lambda: (x().t(), 12))
case("reshape views", "reshape", lambda: (x(), 12))
case("transpose", "transpose", lambda: (g(), 0, 1))
case("permute", "permute", lambda: (image(), 0, 2, 3, 1))
case("T", getattr, lambda: (x(), "T"))
case("expand", "expand", lambda: (torch.ones(3, 1), 3, 5))
case("unsqueeze", "unsqueeze", lambda: (x(), -1))
case("split", torch.split, lambda: (x(), 2))
case("chunk", "chunk", lambda: (x(), 2, 1))
case("unbind", torch.unbind, g)
case("getitem", operator.getitem, lambda: (x(), 1))
case("getitem slices", operator.getitem, lambda: (x(), (slice(1, None), None, slice(None, None, 2))))
case("getitem ellipsis", operator.getitem, lambda: (image(), (..., 0)))
case("getitem tensor", operator.getitem, lambda: (x(), index()))
case("as_strided", torch.as_strided, lambda: (x(), (2, 2), (1, 2), 3))
case("view of a slice", "flatten", lambda: x()[1:])
case("diagonal", "diagonal", x)
case("narrow", "narrow", lambda: (g(), 1, 1, 2))
case("conj", torch.conj, lambda: torch.ones(3, dtype=torch.complex64))
case("imag", getattr, lambda: (torch.ones(3, dtype=torch.complex64).conj(), "imag"))
case("detach", "detach", g)
case("contiguous of contiguous", "contiguous", g)
case("contiguous of transposed", "contiguous", lambda: x().t())
case("to same", "to", lambda: (x(), torch.float32))
case("to half", "to", lambda: (g(), torch.float16))
case("channels last", "to", lambda: image(), memory_format=lambda: torch.channels_last)
case("clone of channels last", "clone", lambda: image().to(memory_format=torch.channels_last))
case("float of float", "float", x)
# ---- in-place
case("add_", "add_", lambda: (x(), 1))
case("add_ of a tensor that requires grad", "add_", lambda: (x(), g()))
case("iadd", operator.iadd, lambda: (x(), x()))
case("iadd with itself", operator.iadd, lambda: twice(x))
case("setitem", operator.setitem, lambda: (x(), 0, 1.0))
case("setitem mask", operator.setitem, lambda: (x(), x() > 0.5, 0.0))
case("setitem tensor that requires grad", operator.setitem, lambda: (x(), slice(1, None), g()[1:]))
case("t_", "t_", x)
case("unsqueeze_", "unsqueeze_", lambda: (x(), 0))
case("detach_", "detach_", inner)
case("requires_grad_", "requires_grad_", x)
case("zero_ of a view", "zero_", lambda: x()[1])
case("copy_", "copy_", lambda: (x(), ints()))
case("leaf in place fails", "mul_", lambda: (g(), 2))
case("relu in place", F.relu, x, inplace=lambda: True)
case("index_add_", "index_add_", lambda: (x(), 0, index(), torch.ones(2, 4)))
case("masked_fill", "masked_fill", lambda: (x(), x() > 0.5, -1e9))
case("foreach add_", torch._foreach_add_, lambda: ([x(), x()], 1.0))
case("resize_", "resize_", lambda: (x(), 2, 2))
case("fill_", "fill_", lambda: (x(), 3))
# ---- out=
case("out", torch.add, lambda: (x(), x()), out=lambda: torch.empty(3, 4))
case("out of another dtype", torch.add, lambda: (x(), x()), out=lambda: torch.empty(3, 4, dtype=torch.float64))
case("out of the wrong dtype", torch.add, lambda: (x(), x()), out=lambda: torch.empty(3, 4, dtype=torch.int32))
case("two outs", torch.max, lambda: (x(), 0), out=lambda: (torch.empty(4), torch.empty(4, dtype=torch.int64)))
# ---- shapes
case("cat", torch.cat, lambda: ([x(), x()],), dim=lambda: 1)
case("cat of one twice", torch.cat, lambda: (list(twice(x)),))
case("stack", torch.stack, lambda: ((x(), g()), -1))
case("pad", F.pad, lambda: (x(), (1, 1)))
case("repeat", "repeat", lambda: (x(), 2, 1))
case("gather", torch.gather, lambda: (x(), 1, torch.zeros(3, 2, dtype=torch.int64)))
case("index_select", "index_select", lambda: (x(), 0, index()))
case("einsum", torch.einsum, lambda: ("ij,kj->ik", x(), x()))
case("one_hot", F.one_hot, lambda: (index(), 3))
case("interpolate", F.interpolate, image, scale_factor=lambda: 2.0)
case("triu", torch.triu, x)
case("meshgrid", torch.meshgrid, lambda: (torch.arange(2), torch.arange(3)), indexing=lambda: "ij")
case("tensordot", torch.tensordot, lambda: (x(), x()), dims=lambda: ([1], [1]))
# ---- networks
case("linear", F.linear, lambda: (x(), parameter(), torch.zeros(4)))
case("conv2d", F.conv2d, lambda: (image(), torch.rand(5, 3, 3, 3)), padding=lambda: 1)
case("conv2d channels last", F.conv2d, lambda: (image().to(memory_format=torch.channels_last), torch.rand(5, 3, 3, 3)))
case("max_pool2d", F.max_pool2d, lambda: (image(), 2))
case("adaptive pool", F.adaptive_avg_pool2d, lambda: (image(), 1))
case("batch_norm training", F.batch_norm, lambda: (image(), torch.zeros(3), torch.ones(3)), training=lambda: True)
case("batch_norm eval", F.batch_norm, lambda: (image(), torch.zeros(3), torch.ones(3)))
case("layer_norm", F.layer_norm, lambda: (x(), (4,), torch.nn.Parameter(torch.ones(4))))
case("gelu", F.gelu, g)
case("softmax", F.softmax, x, dim=lambda: -1)
case("attention", F.scaled_dot_product_attention, lambda: tuple(torch.rand(1, 2, 4, 8) for _ in range(3)))
case("embedding", F.embedding, lambda: (index(), parameter()))
case("cross_entropy", F.cross_entropy, lambda: (g(), torch.tensor([0, 1, 2])))
case("mse_loss", F.mse_loss, lambda: (g(), x()))
case("dropout", F.dropout, x)
case("dropout eval", F.dropout, lambda: (x(), 0.5, False))
case("dropout of inner", torch.dropout, lambda: (inner(), 0.5, True))
case("glu", F.glu, x)
case("parameter stays", "contiguous", parameter)
case("normalize", F.normalize, g)
case("group_norm", F.group_norm, lambda: (image(), 3))
# ---- factories
case("ones", torch.ones, lambda: (2, 3))
case("ones size", torch.ones, lambda: torch.Size([2, 3]))
case("zeros that require grad", torch.zeros, lambda: 3, requires_grad=lambda: True)
case("arange", torch.arange, lambda: (0, 10, 3))
case("full", torch.full, lambda: ((2,), 3), dtype=lambda: torch.float16)
case("randn", torch.randn, lambda: (2, 2))
case("rand_like", torch.rand_like, x)
case("empty_like", torch.empty_like, lambda: x().t())
case("new_zeros", "new_zeros", lambda: (x().half(), (2, 2)))
case("tensor", torch.tensor, lambda: ([1.0, 2.0],))
case("scalar tensor", torch.tensor, lambda: 3)
case("randint", torch.randint, lambda: (0, 5, (3,)))
case("bernoulli", torch.bernoulli, x)
case("eye", torch.eye, lambda: 3)
# ---- no tensors
case("size", "size", x)
case("size of a dim", "size", lambda: (x(), -1))
case("shape", getattr, lambda: (x(), "shape"))
case("stride", "stride", lambda: x().t())
case("dim", "dim", image)
case("numel", "numel", image)
case("is_contiguous", "is_contiguous", lambda: x().t())
case("dtype", getattr, lambda: (x(), "dtype"))
case("device", getattr, lambda: (x(), "device"))
case("requires_grad", getattr, lambda: (inner(), "requires_grad"))
case("is_floating_point", torch.is_floating_point, ints)
case("result_type", torch.result_type, lambda: (x(), 1))
case("len", len, image)
# ---- errors
case("shapes do not fit", operator.add, lambda: (x(), torch.ones(5)))
case("no such dim", "sum", lambda: (x(), 7))
case("wrong dtype", torch.nn.functional.embedding, lambda: (x(), parameter()))
case("no such method", "no_such_method", x)
case("wrong argument", torch.relu, lambda: "text")
case("invalid view", "view", lambda: (x().t(), 12))
case("inner in place", "mul_", lambda: (inner(), 2))
# ---- linear algebra
case("cholesky", torch.linalg.cholesky, lambda: torch.eye(3))
case("svd", torch.linalg.svd, lambda: torch.rand(3, 4))
case("solve", torch.linalg.solve, lambda: (torch.eye(3), torch.rand(3, 2)))
case("fft", torch.fft.rfft, x)
case("bmm", torch.bmm, lambda: (torch.rand(2, 3, 4), torch.rand(2, 4, 5)))
case("isclose to nan", torch.isclose, lambda: (x(), torch.full((4,), math.nan)))
