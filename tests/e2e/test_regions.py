"""torch.compiler.nested_compile_region: each call is traced, equal bodies are one, none is one of another call."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.nested_text import Shown, assert_alike

region = torch.compiler.nested_compile_region
BACKENDS = ["eager", "native", "aot_eager"]
settings = {"factor": 2.0}
factors = [2.0]
kept: list[torch.Tensor] = []
factor = 2.0
weight = nn.Parameter(torch.full((3, 3), 0.5))


class Holder:
    value: Any = None


holder = Holder()


@region
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b) + 1


@region
def by_setting(x: torch.Tensor) -> torch.Tensor:
    return x * settings["factor"]


@region
def by_item(x: torch.Tensor) -> torch.Tensor:
    return x * factors[0]


@region
def by_global(x: torch.Tensor) -> torch.Tensor:
    return x * factor


@region
def by_parameter(x: torch.Tensor) -> torch.Tensor:
    return x * weight


@region
def by_holder(x: torch.Tensor) -> torch.Tensor:
    return x + holder.value


@region
def inner(flag: bool, x: torch.Tensor) -> torch.Tensor:
    return x.sin() if flag else x.cos()


@region
def outer(flag: bool, x: torch.Tensor) -> torch.Tensor:
    return inner(flag, x) + 1


@region
def several(x: torch.Tensor) -> Any:
    return {"sum": x.sum(0), "parts": [x.exp(), (x, "text", 3)]}


@region
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@region
def breaking(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    gramme.graph_break()
    return y * 2


def again(x: torch.Tensor, y: torch.Tensor) -> Any:
    return product(product(x, y), y)


def same_argument_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    return product(x, y) + product(y, y)


def changed_dict(x: torch.Tensor, y: torch.Tensor) -> Any:
    settings["factor"] = 2.0
    a = by_setting(x)
    settings["factor"] = 5.0
    return a, by_setting(x)


def changed_list(x: torch.Tensor, y: torch.Tensor) -> Any:
    factors[0] = 2.0
    a = by_item(x)
    factors[0] = 5.0
    return a, by_item(x)


def rebound_global(x: torch.Tensor, y: torch.Tensor) -> Any:
    global factor
    factor = 2.0
    a = by_global(x)
    factor = 5.0
    return a, by_global(x)


def autocast_then_plain(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        a = product(x, y)
    b = product(x, y)
    return a.float(), b, a.dtype is torch.bfloat16, b.dtype is torch.float32


def no_grad_then_grad(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.no_grad():
        a = by_parameter(x)
    b = by_parameter(x)
    return a, b, a.requires_grad, b.requires_grad


def new_attribute(x: torch.Tensor, y: torch.Tensor) -> Any:
    holder.value = x.sin()
    a = by_holder(y)
    holder.value = y
    return a, by_holder(y)


def region_in_region(x: torch.Tensor, y: torch.Tensor) -> Any:
    return outer(True, x), outer(False, x), outer(True, y)


def structured_result(x: torch.Tensor, y: torch.Tensor) -> Any:
    first, second = several(x), several(y)
    return first["sum"] + second["parts"][0], second["parts"][1][0] is y, first["parts"][1][1:]


def constants(x: torch.Tensor, y: torch.Tensor) -> Any:
    return scaled(x, 2), scaled(x, 2.0), scaled(x, 3.0), scaled(y, True), scaled(y, 1), scaled(x, -0.0), scaled(x, 0.0)


def first_used_last(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = product(x, y), product(y, x)
    return b * 2, a * 3


def loop(x: torch.Tensor, y: torch.Tensor) -> Any:
    for _ in range(4):
        x = product(x, y) * 0.1
    return x


@region
def leaking(a: torch.Tensor) -> torch.Tensor:
    kept.append(a.sin())
    return kept[-1] * 2


def leaked(x: torch.Tensor, y: torch.Tensor) -> Any:
    kept.clear()
    return leaking(x), leaking(y), kept[0] - kept[1]


PROGRAMS = [
    again,
    same_argument_twice,
    changed_dict,
    changed_list,
    rebound_global,
    autocast_then_plain,
    no_grad_then_grad,
    new_attribute,
    region_in_region,
    structured_result,
    constants,
    first_used_last,
    loop,
    leaked,
]


def outcome(program: Callable[..., Any], calls: int = 2) -> Any:
    results = []
    for _ in range(calls):
        weight.grad = None
        x = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
        y = torch.linspace(0, 1, 9).view(3, 3)
        result = program(x, y)
        tensors = [item for item in (result if isinstance(result, tuple) else (result,)) if torch.is_tensor(item)]
        sum((item.sum() for item in tensors if item.requires_grad), torch.zeros(())).backward()
        plain = [item.detach() if torch.is_tensor(item) else item for item in tensors]
        results.append((plain, x.grad, weight.grad, [item.requires_grad for item in tensors]))
    return results


@pytest.mark.sampled(20)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_regions_are_plain_calls(program: Callable[..., Any], backend: str) -> None:
    want = outcome(program)
    got = outcome(gramme.compile(program, backend=backend, fullgraph=True))
    assert_alike(got, want)


def test_equal_bodies_share_a_name() -> None:
    shown = Shown()
    for front in (gramme.compile, torch.compile):
        front(again, backend=shown, fullgraph=True)(torch.ones(3, 3), torch.ones(3, 3))
    assert shown.graphs[0] == shown.graphs[1]
    used = [line for line in shown.graphs[0] if "self.subgraph" in line]
    assert used == ["subgraph_0 = self.subgraph_0", "subgraph_1 = self.subgraph_0"]


def bodies(program: Callable[..., Any]) -> int:
    shown = Shown()
    gramme.compile(program, backend=shown, fullgraph=True)(torch.ones(3, 3), torch.ones(3, 3))
    return len({line.split(" = ")[1] for line in shown.graphs[0] if "self.subgraph" in line})


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (same_argument_twice, 2),
        (loop, 1),
        (first_used_last, 1),
        (constants, 7),
        (region_in_region, 4),
        (changed_dict, 2),
    ],
)
def test_other_bodies_have_names_of_their_own(program: Callable[..., Any], count: int) -> None:
    assert bodies(program) == count


def test_layers_that_differ_in_parameters_only_share_a_body() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        @region
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu()

    layers = nn.Sequential(Layer(), Layer(), Layer(), Layer())
    x = torch.ones(2, 3)
    shown = Shown()
    gramme.compile(layers, backend=shown, fullgraph=True)(x)
    (text,) = shown.graphs
    assert sum("HOP invoke_subgraph" in line for line in text) == 4
    # The first input needs no gradient.
    assert len({line.split(" = ")[1] for line in text if "self.subgraph" in line}) == 2
    for backend in BACKENDS:
        torch.testing.assert_close(gramme.compile(layers, backend=backend, fullgraph=True)(x), layers(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_what_is_outside(backend: str) -> None:
    @region
    def write(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * 2

    def program(x: torch.Tensor) -> Any:
        y = x * 3
        return write(y), y

    x = torch.ones(3)
    torch.testing.assert_close(gramme.compile(program, backend=backend)(x), program(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_region_that_breaks_is_called_for_real(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return breaking(x * 2) + 1

    want = outcome(program)
    assert_alike(outcome(gramme.compile(program, backend=backend)), want)
