"""Tapes in text, as people read them; what is counted; tapes that are refused."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

native: Any = gramme._C.native
testing: Any = gramme._C.testing  # type: ignore[attr-defined]


class Passing(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def recorded(function: Callable[..., Any], *arguments: Any, grad: bool = False) -> Any:
    graph = native.from_graph_module(torch.fx.symbolic_trace(function))
    with torch.set_grad_enabled(grad):
        graph(*arguments)
    return graph


def layer(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, w, b).relu() + 2


def heads(x: Any, w: Any) -> Any:
    return F.linear(x, w).view(2, 2, 2).transpose(1, 2).softmax(-1)


def writes(x: Any) -> Any:
    return x.t().add_(1)


def image(x: Any, w: Any) -> Any:
    return F.conv1d(x, w).relu()


def selected(x: Any) -> Any:
    return x[x > 0].reshape(-1, 1) * 2


def pieces(x: Any) -> Any:
    a, b = x.split(1)
    return torch.cat([b, a]), x


def number(x: Any) -> Any:
    return x.sum().item() * x


def random(x: Any) -> Any:
    return F.dropout(x, 0.5, True), F.dropout(x, 0.5, False)


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


# function, sizes of its inputs, grad mode, its tape
GOLDEN: list[tuple[Callable[..., Any], list[tuple[int, ...]], bool, str]] = [
    (
        layer,
        [(2, 3), (4, 3), (4,)],
        False,
        """
inputs %0 to %2, 1 constants, 4 temporaries
%4 = view(%1, [3, 4], [1, 3], 0)
%5 = aten::addmm(%2, %0, %4, 1, 1) direct; frees %4
%6 = aten::relu(%5) direct; frees %5
%7 = as one; frees %6
  %7 = aten::add.Tensor(%6, %3, 1) direct
return %7
""",
    ),
    (
        layer,
        [(2, 3), (4, 3), (4,)],
        True,
        """
inputs %0 to %2, 1 constants, 3 temporaries
%4 = aten::linear(%0, %1, %2) as one node
%5 = aten::relu(%4); frees %4
%6 = aten::add.Tensor(%5, %3, 1); frees %5
return %6
""",
    ),
    (
        heads,
        [(2, 3), (4, 3)],
        False,
        """
inputs %0 to %1, 0 constants, 4 temporaries
%2 = view(%1, [3, 4], [1, 3], 0)
%3 = aten::mm(%0, %2) direct; frees %2
%4 = view(%3, [2, 2, 2], [4, 1, 2], 0); frees %3
%5 = aten::_softmax(%4, -1, False) direct; frees %4
return %5
""",
    ),
    (
        writes,
        [(2, 3)],
        False,
        """
inputs %0 to %0, 1 constants, 1 temporaries
%2 = aten::t(%0) direct
aten::add_.Tensor(%2, %1, 1) direct
return %2
""",
    ),
    (
        image,
        [(1, 2, 5), (3, 2, 2)],
        False,
        """
inputs %0 to %1, 0 constants, 2 temporaries
%2 = aten::convolution(%0, %1, None, [1], [0], [1], False, [0], 1) direct
%3 = aten::relu(%2) direct; frees %2
return %3
""",
    ),
    (
        selected,
        [(2, 3)],
        False,
        """
inputs %0 to %0, 1 constants, 4 temporaries
%2 = as one
  %2 = aten::gt.Scalar(%0, 0) direct
%3 = aten::index.Tensor(%0, [%2]) direct; frees %2
%4 = view(%3, reshape [-1, 1]); frees %3
%5 = aten::mul.Tensor(%4, %1) direct; frees %4
return %5
""",
    ),
    (
        pieces,
        [(2, 3)],
        False,
        """
inputs %0 to %0, 0 constants, 3 temporaries
%3 = as one; frees %1, %2
  %1 = view(%0, [1, 3], [3, 1], 0)
  %2 = view(%0, [1, 3], [3, 1], 3)
  %3 = aten::cat([%2, %1], 0) direct
return %3, %0
""",
    ),
    (
        number,
        [(2,)],
        True,
        """
inputs %0 to %0, 0 constants, 2 temporaries
%1 = aten::sum(%0, None)
python item: its target is not PyTorch's; frees %1
%2 = aten::mul.Tensor(%0, float 0) boxed
return %2
""",
    ),
    (
        random,
        [(3,)],
        False,
        """
inputs %0 to %0, 0 constants, 2 temporaries
%1 = aten::empty_like(%0, None, None, None, None, None) direct
aten::bernoulli_.float(%1, 0.5, None) direct
aten::div_.Scalar(%1, 0.5) direct
%2 = as one; frees %1
  %2 = aten::mul.Tensor(%0, %1) direct
return %2, %0
""",
    ),
]


@pytest.mark.parametrize(("function", "sizes", "grad", "tape"), GOLDEN)
def test_text(function: Callable[..., Any], sizes: list[tuple[int, ...]], grad: bool, tape: str) -> None:
    assert "\n" + native.tape(recorded(function, *[r(*size) for size in sizes], grad=grad)) == tape


def test_modes_in_text() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    region = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    y = graph.call_function(torch.mm, (x, x))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (region,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(y)
    compiled = native.from_graph_module(torch.fx.GraphModule({}, graph))
    assert compiled(r(2, 2)).dtype == torch.bfloat16
    assert native.tape(compiled).splitlines()[1:] == [
        "set_grad(False)",
        "enter_autocast #0 (cpu, BFloat16, True)",
        "%1 = aten::mm(%0, %0)",
        "leave #0",
        "set_grad(True)",
        "return %1",
    ]
    assert native.counters(compiled)["modes"] == 4


def test_counters() -> None:
    def f(x: Any) -> Any:
        return torch.linalg.eigh(x @ x.t()), x.sum().item(), x.t().neg()

    compiled = native.from_graph_module(torch.fx.symbolic_trace(f))
    with torch.no_grad():
        for _ in range(3):
            compiled(r(2, 2))
    assert native.counters(compiled) == {
        "calls": 3,
        "recorded": 1,
        "stepwise": 0,
        "backwards": 0,
        "typed": 3,
        "boxed": 1,
        "views": 2,
        "modes": 0,
        "python": 1,
    }
    with torch.no_grad(), Passing():
        compiled(r(2, 2))
    compiled(r(2, 2))
    counted = native.counters(compiled)
    assert (counted["calls"], counted["recorded"], counted["stepwise"]) == (5, 2, 1)


def test_at_most_eight_tapes() -> None:
    compiled = native.from_graph_module(torch.fx.symbolic_trace(lambda x: x + 1))
    for size in range(1, 12):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 2.0))
    counted = native.counters(compiled)
    assert (counted["recorded"], counted["stepwise"]) == (8, 3)


@pytest.mark.parametrize("inputs", [(), (1, 2)])
def test_number_of_inputs(inputs: tuple[Any, ...]) -> None:
    compiled = native.from_graph_module(torch.fx.symbolic_trace(lambda x: x + 1))
    with pytest.raises(TypeError, match=f"1 inputs was called with {len(inputs)}"):
        compiled(*inputs)


class TestVerifier:
    """Instructions are (registers read, written, freed)."""

    def test_right_one(self) -> None:
        testing.verify_tape(1, [([0], [1], []), ([0, 1], [2], [1])], [2, 0])

    @pytest.mark.parametrize(
        ("instructions", "returned", "wrong"),
        [
            ([([1], [2], [])], [2], "instruction 0: reads what is not there \\(%1\\)"),
            ([([0], [1], [1]), ([1], [2], [])], [2], "instruction 1: reads what is not there \\(%1\\)"),
            ([([0], [1], []), ([1], [2], [1, 1])], [2], "instruction 1: frees what is not there \\(%1\\)"),
            ([([0], [1], []), ([0], [2], [])], [2], "a register is never freed \\(%1\\)"),
            ([([0], [1], [1])], [1], "the output is not there \\(%1\\)"),
            ([([0], [0], [])], [0], "instruction 0: writes an input or constant \\(%0\\)"),
            ([([0], [1], []), ([9], [2], [1])], [2], "instruction 1: no such register \\(%9\\)"),
        ],
    )
    def test_wrong_one(self, instructions: Any, returned: list[int], wrong: str) -> None:
        with pytest.raises(Exception, match=wrong):
            testing.verify_tape(1, instructions, returned)
