"""Calls of operators, at least one for each kind of argument and result that compiled calls know."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

f32, f64, i64, bf16 = torch.float32, torch.float64, torch.int64, torch.bfloat16


class OperatorCall(NamedTuple):
    name: str
    arguments: Callable[[], tuple[Any, ...]]
    keywords: dict[str, Any] = {}

    @property
    def operator(self) -> Any:
        namespace, _, name = self.name.partition("::")
        packet, _, overload = name.partition(".")
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")

    def __str__(self) -> str:
        return self.name


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def mask() -> torch.Tensor:
    return torch.tensor([[True, False, True], [False, True, False]])


def images() -> torch.Tensor:
    return r(2, 3, 8, 8)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def call(name: str, arguments: Callable[[], tuple[Any, ...]], **keywords: Any) -> OperatorCall:
    return OperatorCall("aten::" + name, arguments, keywords)


CALLS = [
    # tensors and scalars
    call("relu", lambda: (r(2, 3),)),
    call("neg", lambda: (r(2, 3).t(),)),
    call("add.Tensor", lambda: (r(2, 3), r(3)), alpha=2),
    call("add.Scalar", lambda: (r(2, 3), 2.5)),
    call("sub.Tensor", lambda: (ints(4, 5), ints(1, 2))),
    call("mul.Tensor", lambda: (r(2, 3), r(2, 1))),
    call("mul.Scalar", lambda: (r(2, 3), 3)),
    call("div.Tensor", lambda: (r(2, 3), r(2, 3))),
    call("div.Tensor_mode", lambda: (r(2, 3), r(2, 3)), rounding_mode="floor"),
    call("div.Tensor_mode", lambda: (r(2, 3), r(2, 3)), rounding_mode=None),
    call("rsub.Scalar", lambda: (r(2, 3), 1)),
    call("pow.Tensor_Scalar", lambda: (r(2, 3), 2)),
    call("pow.Scalar", lambda: (2.0, r(2, 3))),
    call("eq.Scalar", lambda: (ints(1, 2), True)),
    call("mul.Scalar", lambda: (r(2), 1j)),
    call("clamp", lambda: (r(2, 3), None, 0.5)),
    call("clamp", lambda: (r(2, 3), -0.5, 0.5)),
    call("clamp.Tensor", lambda: (r(2, 3), r(3), None)),
    call("where.self", lambda: (mask(), r(2, 3), r(3))),
    call("where.ScalarOther", lambda: (mask(), r(2, 3), float("-inf"))),
    call("masked_fill.Scalar", lambda: (r(2, 3), mask(), -1e9)),
    call("addcmul", lambda: (r(3), r(3), r(3)), value=0.5),
    call("lerp.Tensor", lambda: (r(3), r(3), r(3))),
    call("gelu", lambda: (r(2, 3),), approximate="tanh"),
    call("silu", lambda: (r(2, 3),)),
    call("hardtanh", lambda: (r(2, 3), -0.5, 0.5)),
    call("nan_to_num", lambda: (torch.tensor([float("nan"), float("inf")]), 1.0, None, 7.0)),
    # written arguments
    call("add_.Tensor", lambda: (r(2, 3), r(3))),
    call("mul_.Scalar", lambda: (r(2, 3), 2)),
    call("relu_", lambda: (r(2, 3),)),
    call("clamp_", lambda: (r(2, 3), 0.0, None)),
    call("zero_", lambda: (r(2, 3),)),
    call("fill_.Scalar", lambda: (r(2, 3), 4)),
    call("copy_", lambda: (r(2, 3), torch.ones(3, dtype=f64))),
    call("masked_fill_.Scalar", lambda: (r(2, 3), mask(), 0)),
    call("scatter_.value", lambda: (r(2, 3), 1, torch.tensor([[0], [2]]), 9.0)),
    call("index_put_", lambda: (r(3, 4), [None, ints(0, 2)], r(3, 2), True)),
    call("mul.out", lambda: (r(3), r(3)), out=torch.zeros(3)),
    # numbers, lists of them, and optional ones
    call("sum", lambda: (r(2, 3),)),
    call("sum", lambda: (r(2, 3),), dtype=f64),
    call("sum.dim_IntList", lambda: (r(2, 3, 4), [0, -1], True)),
    call("sum.dim_IntList", lambda: (r(2, 3), None)),
    call("mean.dim", lambda: (r(2, 3), [1], True), dtype=f64),
    call("amax", lambda: (r(2, 3), [0])),
    call("argmax", lambda: (r(2, 3),)),
    call("argmax", lambda: (r(2, 3), 1, True)),
    call("var.correction", lambda: (r(2, 3), [1]), correction=0),
    call("linalg_vector_norm", lambda: (r(2, 3), 2, [1])),
    call("cumsum", lambda: (r(2, 3), -1)),
    call("_softmax", lambda: (r(2, 3), 1, False)),
    call("softmax.int", lambda: (r(2, 3).bfloat16(), 1, f32)),
    call("view", lambda: (r(2, 3), [3, -1])),
    call("reshape", lambda: (r(2, 3).t(), [6])),
    call("view.dtype", lambda: (r(2, 3), torch.int32)),
    call("permute", lambda: (r(2, 3, 4), [2, 0, 1])),
    call("expand", lambda: (r(3, 1), [-1, 4])),
    call("transpose.int", lambda: (r(2, 3), 0, 1)),
    call("select.int", lambda: (r(2, 3), 1, -1)),
    call("slice.Tensor", lambda: (r(5, 3), 0, 1, None, 2)),
    call("slice.Tensor", lambda: (r(5, 3), 0, None, 9223372036854775807)),
    call("as_strided", lambda: (r(6), [2, 2], [1, 2], None)),
    call("as_strided", lambda: (r(6), [2, 2], [1, 2], 1)),
    call("squeeze.dim", lambda: (r(2, 1, 3), 1)),
    call("tril", lambda: (r(3, 3), -1)),
    call("roll", lambda: (r(2, 3), [1], [0])),
    call("repeat", lambda: (r(2, 3), [2, 1, 1])),
    call("constant_pad_nd", lambda: (r(2, 3), [1, 2], 0.5)),
    call("pad", lambda: (images(), [1, 1, 2, 0], "reflect")),
    call("topk", lambda: (r(2, 5), 2)),
    call("sort.stable", lambda: (r(2, 5),), stable=True, dim=0),
    call("max.dim", lambda: (r(2, 3), 1)),
    # factories and casts
    call("arange", lambda: (5,), dtype=i64),
    call("arange.start_step", lambda: (0, 1, 0.25)),
    call("zeros", lambda: ([2, 0, 3],), device=torch.device("cpu")),
    call("full", lambda: ([2, 2], 7), dtype=bf16, layout=torch.strided, pin_memory=False),
    call("full_like", lambda: (r(2, 3), 2.5), memory_format=torch.preserve_format),
    call("new_ones", lambda: (r(2), [3]), dtype=torch.bool),
    call("scalar_tensor", lambda: (3.5,), dtype=f64),
    call("clone", lambda: (images(),), memory_format=torch.channels_last),
    call("contiguous", lambda: (r(2, 3).t(),)),
    call("to.dtype", lambda: (r(2, 3), f64)),
    call("to.device", lambda: (r(2, 3), torch.device("cpu"), bf16, False, True)),
    call("_to_copy", lambda: (r(2, 3),), dtype=f64),
    # optional tensors, structured results
    call("linear", lambda: (r(2, 3), r(4, 3), r(4))),
    call("linear", lambda: (r(2, 3), r(4, 3), None)),
    call("addmm", lambda: (r(4), r(2, 3), r(3, 4)), beta=0.5, alpha=2),
    call("bmm", lambda: (r(2, 3, 4), r(2, 4, 3))),
    call("layer_norm", lambda: (r(2, 3), [3], r(3), None)),
    call("native_layer_norm", lambda: (r(2, 3), [3], r(3), r(3), 1e-5)),
    call("rms_norm", lambda: (r(2, 3), [3], r(3), 1e-6)),
    call("rms_norm", lambda: (r(2, 3), [3])),
    call("batch_norm", lambda: (images(), r(3), r(3), torch.zeros(3), torch.ones(3), True, 0.1, 1e-5, False)),
    call("batch_norm", lambda: (images(), None, None, torch.zeros(3), torch.ones(3), False, 0.1, 1e-5, False)),
    call("group_norm", lambda: (images(), 3, r(3), r(3))),
    call("conv2d", lambda: (images(), r(4, 3, 3, 3), r(4), [2, 2], [1, 1])),
    call("conv2d.padding", lambda: (images(), r(4, 3, 3, 3), None, [1, 1], "same")),
    call("convolution", lambda: (images(), r(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    call(
        "convolution_backward",
        lambda: (
            r(2, 4, 6, 6),
            images(),
            r(4, 3, 3, 3),
            [4],
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            [True, False, True],
        ),
    ),  # fmt: skip
    call("max_pool2d", lambda: (images(), [2, 2])),
    call("max_pool2d_with_indices", lambda: (images(), [2, 2], [2, 2])),
    call("avg_pool2d", lambda: (images(), [2, 2], [], [0, 0], False, True, 3)),
    call("adaptive_avg_pool2d", lambda: (images(), [2, 2])),
    call("upsample_bilinear2d.vec", lambda: (images(), None, False, [2.0, 2.0])),
    call("upsample_nearest2d", lambda: (images(), [4, 4], 0.5, None)),
    call("embedding", lambda: (r(5, 3), ints(0, 4, 4))),
    call("index.Tensor", lambda: (r(3, 4), [ints(0, 2), ints(1, 1)])),
    call("index.Tensor", lambda: (r(3, 4), [None, ints(1, 0, 3)])),
    call("index_select", lambda: (r(3, 4), 0, ints(2, 0))),
    call("gather", lambda: (r(2, 3), 1, torch.tensor([[0, 2], [1, 1]]))),
    call("scatter_add", lambda: (r(2, 3), 1, torch.tensor([[0, 2], [1, 1]]), r(2, 2))),
    call("scatter_reduce.two", lambda: (r(3), 0, ints(0, 0, 1), r(3), "amax"), include_self=False),
    call(
        "scaled_dot_product_attention",
        lambda: (r(1, 2, 4, 8), r(1, 2, 4, 8), r(1, 2, 4, 8), None),
        is_causal=True,
        scale=0.5,
    ),
    call("cross_entropy_loss", lambda: (r(4, 3), ints(0, 2, 1, 1), None, 1, -100, 0.1)),
    call("binary_cross_entropy_with_logits", lambda: (r(4), torch.rand(4), None, r(4))),
    # lists of tensors
    call("cat", lambda: ([r(2, 3), r(1, 3), r(0, 3)],)),
    call("stack", lambda: ([r(2, 3), r(2, 3)], -1)),
    call("einsum", lambda: ("ij,jk->ik", [r(2, 3), r(3, 4)])),
    call("split.Tensor", lambda: (r(5, 3), 2)),
    call("split_with_sizes", lambda: (r(5, 3), [4, 1])),
    call("chunk", lambda: (r(6, 3), 3, 0)),
    call("unbind.int", lambda: (r(3, 2),)),
    call("broadcast_tensors", lambda: ([r(3, 1), r(2)],)),
    call("_foreach_add.Scalar", lambda: ([r(3), r(2, 2)], 1.5)),
    call("_foreach_add.ScalarList", lambda: ([r(3), r(2, 2)], [1.5, 2])),
    call("_foreach_mul_.List", lambda: ([r(3), r(2, 2)], [r(3), r(2, 2)])),
    call("_foreach_sqrt", lambda: ([torch.rand(2) for _ in range(12)],)),
    call(
        "lstm.input",
        lambda: (
            r(3, 2, 4),
            [r(1, 2, 5), r(1, 2, 5)],
            [r(20, 4), r(20, 5), r(20), r(20)],
            True,
            1,
            0.0,
            False,
            False,
            False,
        ),
    ),  # fmt: skip
    # random numbers
    call("rand", lambda: ([2, 3],)),
    call("bernoulli", lambda: (torch.rand(4, 4),)),
    call("bernoulli", lambda: (torch.rand(4, 4),), generator=generator),
    call("normal_", lambda: (r(8), 1.0, 2.0), generator=generator),
    call("randint.low", lambda: (3, 9, [5])),
    call("dropout", lambda: (r(4, 4), 0.5, True)),
    call("native_dropout", lambda: (r(4, 4), 0.5, True)),
]
