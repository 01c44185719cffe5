"""Custom operators whose Python names nothing but its arguments stand in a graph behind effects."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from gramme._operators import is_self_contained

from e2e import front
from e2e.harness import Compiled

SCALES = {"k": 2.0}
helper = torch.add


def alone(x: torch.Tensor, k: int) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i, row in enumerate(x):
        out[i] = torch.mul(row, k) if i % 2 else row.sum()
    return out


def reads_a_global(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * SCALES["k"]


def calls_by_a_global_name(x: torch.Tensor, k: int) -> torch.Tensor:
    return helper(x, k)


def imports(x: torch.Tensor, k: int) -> torch.Tensor:
    import math

    return x * math.pi


def makes_functions(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.stack(list(map(lambda row: row * k, x)))  # noqa: C417


def seeds(x: torch.Tensor, k: int) -> torch.Tensor:
    torch.manual_seed(k)
    return x * k


def draws(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.rand_like(x) * 0 + x * k


def asks_for_the_mode(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * (k if torch.is_grad_enabled() else k)


def writes_an_attribute(x: torch.Tensor, k: int) -> torch.Tensor:
    x.seen = k  # type: ignore[attr-defined]
    return x * k


def prints(x: torch.Tensor, k: int) -> torch.Tensor:
    print(k)
    return x * k


def closure() -> Callable[..., torch.Tensor]:
    scale = 3.0

    def closes_over(x: torch.Tensor, k: int) -> torch.Tensor:
        return x * scale

    return closes_over


OTHERS = [
    reads_a_global,
    calls_by_a_global_name,
    imports,
    makes_functions,
    writes_an_attribute,
    seeds,
    draws,
    asks_for_the_mode,
    prints,
    closure(),
]


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    for function in (alone, *OTHERS):
        made = torch.library.custom_op(f"gramme_alone::{function.__name__}", function, mutates_args=())
        made.register_fake(lambda x, k: torch.empty_like(x))
    differentiable = torch.library.custom_op("gramme_alone::differentiable", alone, mutates_args=())
    differentiable.register_fake(lambda x, k: torch.empty_like(x))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    differentiable.register_autograd(lambda ctx, grad: (grad * ctx.k, None), setup_context=setup)
    yield
    for name in list(torch._library.custom_ops.OPDEFS):
        if name.startswith("gramme_alone::"):
            torch._library.custom_ops.OPDEFS.pop(name)._lib._destroy()


def test_which_are() -> None:
    assert is_self_contained("gramme_alone::alone")
    assert is_self_contained("gramme_alone::differentiable")
    assert [f.__name__ for f in OTHERS if is_self_contained(f"gramme_alone::{f.__name__}")] == []
    assert not is_self_contained("aten::add")
    assert not is_self_contained("gramme_alone::unknown")


def test_a_kernel_registered_besides() -> None:
    assert is_self_contained("gramme_alone::alone")
    with torch.library._scoped_library("gramme_alone", "FRAGMENT") as library:
        library.impl("alone", lambda x, k: x * SCALES["k"], "CPU")
        assert not is_self_contained("gramme_alone::alone")
    assert is_self_contained("gramme_alone::alone")


@pytest.mark.skipif(not front.GRAMME, reason="counts gramme's graphs")
def test_one_graph_behind_an_effect() -> None:
    def program(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        log.append(x.shape)
        y = torch.ops.gramme_alone.alone(x.detach(), 3) * x
        log.append(len(log))
        return torch.ops.gramme_alone.differentiable(y, 2) + 1

    compiled = Compiled(program)
    for grad in (False, True, False):
        x, log, expected_log = torch.arange(6.0).reshape(3, 2).requires_grad_(grad), [], []
        y, expected = compiled(x, log), program(x, expected_log)
        assert torch.equal(y, expected)
        assert log == expected_log
        if grad:
            assert torch.equal(*(torch.autograd.grad(r.sum(), x)[0] for r in (y, expected)))
    assert compiled.segments == len(compiled.recorder.graphs) == 2
