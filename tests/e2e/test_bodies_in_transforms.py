"""autograd.Function and torch.cond inside transforms of torch.func: the rules of the classes are taken, as eagerly."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import Function
from torch.func import grad, grad_and_value, jvp, vmap

from e2e.front import GRAMME
from e2e.nested_text import Shown

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")

BACKENDS = ["eager", "native", "aot_eager"]
OUTSIDE = torch.tensor([0.5, -1.0, 2.0])


class OwnRule(Function):
    """Its gradient is not that of what it computes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, k: float) -> torch.Tensor:
        return x.sin() * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, k = inputs
        ctx.save_for_backward(x)
        ctx.k = k

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * x * ctx.k, None


class Two(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * y, x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
        x, y, e = ctx.saved_tensors
        return g * y + h * e * 3, g * x * 5


CALLS: list[int] = []


class Counts(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        CALLS.append(1)
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class CountsBackward(Counts):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        CALLS.append(1)
        return g


class FromOutside(Counts):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * OUTSIDE


def gradient(x: torch.Tensor) -> Any:
    return grad(lambda a: OwnRule.apply(a, 3.0).sum())(x)


def second_gradient(x: torch.Tensor) -> Any:
    return grad(lambda a: grad(lambda b: OwnRule.apply(b, 2.0).sum())(a).pow(2).sum())(x)


def of_two(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product, power = Two.apply(a, b)
        return product.sum() + (power * b).sum()

    return grad_and_value(loss, argnums=(0, 1))(x, x * 2)


def in_rows(x: torch.Tensor) -> Any:
    return vmap(lambda a: OwnRule.apply(a, 2.0))(torch.stack([x, x + 1]))


def gradients_in_rows(x: torch.Tensor) -> Any:
    return vmap(grad(lambda a: OwnRule.apply(a, 2.0).sum()))(torch.stack([x, x + 1]))


def cond_in_rows(x: torch.Tensor) -> Any:
    rows = torch.stack([x, -x, x * 2, x - 9])
    return vmap(lambda a: torch.cond(a.sum() > 0, lambda b: b.sin() * OUTSIDE, lambda b: b - 1, (a,)))(rows)


def cond_of_all_rows(x: torch.Tensor) -> Any:
    rows = torch.stack([x, -x])
    return vmap(lambda a: torch.cond(x.sum() > 0, lambda b: b + 1, lambda b: b * 2, (a,)))(rows)


def cond_of_one_in_rows(x: torch.Tensor) -> Any:
    rows = torch.stack([x, -x, x * 2])
    y = x * 3
    return vmap(lambda a: torch.cond(a.sum() > 0, lambda b: y * b, lambda b: b * b, (a,)) + a)(rows)


def cond_in_rows_of_rows(x: torch.Tensor) -> Any:
    def choose(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a > 0, lambda b: b.sin(), lambda b: b * 2, (a,))

    return vmap(vmap(choose))(torch.stack([x, -x]))


PROGRAMS = [
    gradient,
    second_gradient,
    of_two,
    in_rows,
    gradients_in_rows,
    cond_in_rows,
    cond_of_all_rows,
    cond_of_one_in_rows,
    cond_in_rows_of_rows,
]


def by_python(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    if torch._C._functorch.is_batchedtensor(pred):
        return torch.where(pred, true_fn(*operands), false_fn(*operands))
    return true_fn(*operands) if pred else false_fn(*operands)


def outcome(program: Callable[[torch.Tensor], Any], sign: float, gradients: bool) -> Any:
    x = (torch.tensor([0.5, -0.25, 1.5]) * sign).requires_grad_(gradients)
    result = program(x)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf.requires_grad]
    total = sum((leaf.sin().sum() for leaf in leaves), torch.zeros(()))
    return result, torch.autograd.grad(total, x) if leaves else None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_eager_gives(program: Callable[..., Any], gradients: bool, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for sign in (1.0, -1.0, 1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "cond", by_python)
            want = outcome(program, sign, gradients)
        torch.testing.assert_close(outcome(compiled, sign, gradients), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("program", [cond_in_rows, cond_of_one_in_rows])
def test_graph_is_that_of_torch_compile(program: Callable[..., Any]) -> None:
    mine, theirs = Shown(), Shown()
    x = torch.tensor([0.5, -0.25, 1.5])
    gramme.compile(program, backend=mine, fullgraph=True)(x)
    torch._dynamo.reset()
    torch.compile(program, backend=theirs, fullgraph=True)(x)
    assert mine.graphs == theirs.graphs


@pytest.mark.parametrize("function", [Counts, CountsBackward, FromOutside])
def test_what_others_could_tell_is_refused(function: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        return grad(lambda a: function.apply(a).sum())(x)

    x = torch.tensor([0.5, -0.25, 1.5])
    CALLS.clear()
    with pytest.raises(gramme.CaptureError):
        gramme.compile(program, backend="eager", fullgraph=True)(x)
    assert not CALLS
    want, calls = program(x), len(CALLS)
    torch.testing.assert_close(gramme.compile(program, backend="eager")(x), want, rtol=0, atol=0)
    assert len(CALLS) == 2 * calls


def test_tangents_are_refused() -> None:
    def program(x: torch.Tensor) -> Any:
        return jvp(lambda a: OwnRule.apply(a, 2.0), (x,), (x,))

    with pytest.raises(gramme.CaptureError, match=r"jvp\(\) of an autograd.Function"):
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


def test_cond_of_two_in_rows_is_refused() -> None:
    def program(x: torch.Tensor) -> Any:
        return vmap(lambda a: torch.cond(a.sum() > 0, lambda b: (b, b + 1), lambda b: (b * 2, b), (a,)))(x)

    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError):
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(2, 3))
