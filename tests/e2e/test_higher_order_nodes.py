"""Operators around a body or with none: the graph of PyTorch's own front end, eager's results."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._higher_order_ops import InvokeQuant
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._higher_order_ops.base_hop import BaseHOP
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import (
    dynamo_bypassing_wrapper,
    wrap,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)
from torch._prims.rng_prims import run_with_rng_state

from e2e.nested_text import Shown, assert_alike

BACKENDS = ["eager", "native", "aot_eager"]
state = torch.get_rng_state()


class Own(BaseHOP):
    def __init__(self) -> None:
        super().__init__("gramme_own")

    def __call__(self, function: Any, *operands: Any, **options: Any) -> Any:
        return super().__call__(function, *operands, **options)


own = Own()


@torch.library.custom_op("gramme_nodes::grow", mutates_args={"x"})
def grow(x: torch.Tensor, by: float) -> None:
    x.add_(by)


def keep(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def grad_mode(x: torch.Tensor) -> Any:
    return wrap_with_set_grad_enabled(False, lambda a: (a * 2,), x)


def autocast(x: torch.Tensor) -> Any:
    y, z = x.view(3, 1), (x * 2).view(1, 3)
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, lambda a, b: (a @ b,), y, z)[0].float()


def hinted(x: torch.Tensor) -> Any:
    return hints_wrapper(lambda a, b: a + b * 2, (x, x + 1), {}, hints={"level": 2, "name": "add"})


def strict(x: torch.Tensor) -> Any:
    y = x.exp()
    return strict_mode(lambda a, b: a + b * y, (x, x * 2))


def bypassing(x: torch.Tensor) -> Any:
    y = x.exp()
    return dynamo_bypassing_wrapper(functools.partial(keep), lambda a: a.sin() + y, x)


def mapped(x: torch.Tensor) -> Any:
    return foreach_map(lambda a, b: a * b + 1, [x, x * 2], [x, x])


def own_operator(x: torch.Tensor) -> Any:
    y = x * 3
    return own(lambda a, b: a + b * y, x, y, level=1)


def own_operator_nested(x: torch.Tensor) -> Any:
    return own(lambda a: own(lambda b: b.sin() * x, a + 1) * 2, x)


def quantized(x: torch.Tensor) -> Any:
    y, z = x.view(3, 1), (x * 2).view(1, 3)
    return InvokeQuant(codegen_low_precision=True)(lambda a, b: a @ b, y, z, scheme="nf4")


def other_dtype(x: torch.Tensor) -> Any:
    y = x.to(torch.int8).view(1, 3)
    return out_dtype(torch.ops.aten.mm.default, torch.int32, y, y.t())


def tracepoint(x: torch.Tensor) -> Any:
    from torch._export.wrappers import _export_tracepoint

    (a,) = _export_tracepoint(x.sin(), kind="module_call_inputs", path="m")
    return a + 1


def printed(x: torch.Tensor) -> Any:
    torch.ops.higher_order.print("n {n}", n=3)
    return x + 1


def functionalized(x: torch.Tensor) -> Any:
    return auto_functionalized(torch.ops.gramme_nodes.grow.default, x=x, by=2.0)


def functionalized_v2(x: torch.Tensor) -> Any:
    return auto_functionalized_v2(torch.ops.gramme_nodes.grow.default, by=2.0, _x_base_index=0, _all_bases=[x])


def with_rng_state(x: torch.Tensor) -> Any:
    return run_with_rng_state(state, torch.ops.aten.rand_like.default, x) + x


def words_and_objects(x: torch.Tensor) -> Any:
    result = wrap(lambda a: {"t": a.sin(), "word": "w", "n": 3, "list": [a.cos(), None]}, x)
    return result["t"] + result["list"][0], result["word"], result["n"], result["list"][1]


EQUAL = [
    grad_mode,
    hinted,
    strict,
    bypassing,
    mapped,
    own_operator,
    own_operator_nested,
    quantized,
    other_dtype,
    tracepoint,
    printed,
    functionalized,
    functionalized_v2,
    with_rng_state,
    words_and_objects,
]
PROGRAMS = [*EQUAL, autocast]
INPUT = torch.linspace(-1, 2, 3)
WITHOUT_EAGER: dict[Callable[..., Any], Callable[[torch.Tensor], Any]] = {
    mapped: lambda x: [x * x + 1, x * 2 * x + 1],
    own_operator: lambda x: x + (x * 3) * (x * 3),
    own_operator_nested: lambda x: (x + 1).sin() * x * 2,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_eagers(program: Callable[..., Any], backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    eager = WITHOUT_EAGER.get(program, program)
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        with torch.no_grad():
            assert_alike(compiled(INPUT.clone()), eager(INPUT.clone()))


WITHOUT_GRADIENTS = (
    with_rng_state,
    hinted,
    strict,
    other_dtype,
    tracepoint,
    printed,
    functionalized,
    functionalized_v2,
)
WITH_GRADIENTS = [program for program in PROGRAMS if program not in WITHOUT_GRADIENTS]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WITH_GRADIENTS)
def test_gradients_are_eagers(program: Callable[..., Any], backend: str) -> None:
    def gradient(called: Callable[..., Any]) -> Any:
        x = INPUT.clone().requires_grad_()
        result = called(x)
        tensors = [item for item in (result if isinstance(result, tuple | list) else [result]) if torch.is_tensor(item)]
        tracked = [item for item in tensors if item.requires_grad]
        sum((item.sum() for item in tracked), torch.zeros(())).backward() if tracked else None
        return len(tracked), x.grad

    if (program, backend) == (quantized, "aot_eager"):
        pytest.skip("AOTAutograd's partitioner cannot keep the options for backward")
    got = gradient(gramme.compile(program, backend=backend, fullgraph=True))
    want = gradient(WITHOUT_EAGER.get(program, program))
    assert got[0] == want[0]
    torch.testing.assert_close(got[1], want[1])


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not with_rng_state])
def test_graph_is_pytorchs(program: Callable[..., Any]) -> None:
    shown = Shown()
    for front in (gramme.compile, torch.compile):
        torch._dynamo.reset()
        front(program, backend=shown, fullgraph=True)(INPUT.clone())
    assert shown.graphs[0] == shown.graphs[1]


def test_printing_happens_where_the_graph_runs(capfd: pytest.CaptureFixture[str]) -> None:
    gramme.compile(printed, backend="eager", fullgraph=True)(INPUT)
    assert capfd.readouterr().out == "n 3\n"


def test_inline_assembly_is_refused_on_the_cpu() -> None:
    from torch._higher_order_ops.inline_asm_elementwise import inline_asm_elementwise

    def program(x: torch.Tensor) -> Any:
        return inline_asm_elementwise(x, asm_str="mov.b32 $0, $1;", constraints="=f,f", dtype=torch.float32)

    with pytest.raises(RuntimeError, match="CUDA"):
        gramme.compile(program, backend="eager")(INPUT)


@torch._dynamo.nonstrict_trace
def untraced(x: torch.Tensor, parts: dict[str, torch.Tensor]) -> torch.Tensor:
    return x * parts["k"] + len(parts)


@torch._dynamo.allow_in_graph
def inside(x: torch.Tensor, by: float) -> torch.Tensor:
    return x.sin() * by


@torch._dynamo.assume_constant_result
def constant() -> int:
    return 3


def replaced(items: list[Any]) -> Any:
    return functools.reduce(lambda a, b: a + b, items)


@torch._dynamo.substitute_in_graph(replaced)
def replacement(items: list[Any]) -> Any:
    total = items[0]
    for item in items[1:]:
        total = total + item
    return total


MARKED: dict[str, Callable[[torch.Tensor], Any]] = {
    "nonstrict_trace": lambda x: untraced(x, {"k": x, "j": x * 2}),
    "allow_in_graph": lambda x: inside(x, 3),
    "assume_constant_result": lambda x: x * constant(),
    "substitute_in_graph": lambda x: replaced([x, x * 2, x * 3]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MARKED)
def test_functions_that_the_program_marked(name: str, backend: str) -> None:
    program = MARKED[name]
    x, y = INPUT.clone().requires_grad_(), INPUT.clone().requires_grad_()
    got, want = gramme.compile(program, backend=backend, fullgraph=True)(x), program(y)
    got.sum().backward()
    want.sum().backward()
    torch.testing.assert_close((got, x.grad), (want, y.grad))


def test_disallowed_functions_are_run_for_real() -> None:
    torch._dynamo.disallow_in_graph(torch.logaddexp2)
    try:
        shown = Shown()
        x = torch.ones(3)
        compiled = gramme.compile(lambda x: torch.logaddexp2(x * 2, x) + 1, backend=shown)
        torch.testing.assert_close(compiled(x), torch.logaddexp2(x * 2, x) + 1)
        assert not any("logaddexp2" in line for text in shown.graphs for line in text)
        assert len(shown.graphs) == 2
    finally:
        torch._dynamo.trace_rules._disallowed_callable_ids.remove(id(torch.logaddexp2))
