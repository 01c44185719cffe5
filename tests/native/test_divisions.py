"""Divisions of numbers, and what is made of them, are the tape's own arithmetic: Python's values and exceptions."""

import math
import operator
import traceback
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from native.same import difference, graphs, outcome, twin
from native.test_symbolic import call

native: Any = gramme._C.native
pytestmark = pytest.mark.usefixtures("fresh")

# recorded at the first two
NUMBERS = (6, 4, 7, 1, 2, 0, -1, -7, 2**31, -(2**40) + 1, 2**53 + 1, 2**62, -(2**63))

# where torch.fx does not put others in their place while it traces
KNOWN = {"ceil": math.ceil, "sqrt": math.sqrt}
ROUNDING = (torch.sym_int, math.floor, math.ceil, math.trunc, round)

EXPRESSIONS: list[Callable[[Any, Any], Any]] = [
    lambda n, m: n // m,
    lambda n, m: n % m,
    lambda n, m: -n // m,
    lambda n, m: (n + 1) // (m - 1),
    lambda n, m: n % -m,
    lambda n, m: (n // -3, n % -3),
    lambda n, m: ((n // m) * m + n % m, n // m),
    lambda n, m: n * m // m,
    lambda n, m: (m // m) * n,
    lambda n, m: n / m,
    lambda n, m: (n + m) / 3 - m / 4,
    lambda n, m: -(3 / n) * m,
    lambda n, m: n * 0.1 + m,
    lambda n, m: n * 1e300,
    lambda n, m: (n**2, n**-1),
    lambda n, m: n**0.5,
    lambda n, m: call(n, KNOWN["sqrt"], n * m),
    lambda n, m: [call(n, f, n / m) for f in ROUNDING],
    lambda n, m: (call(n, KNOWN["ceil"], n * 0.75) // m, call(n, torch.sym_float, n), call(n, KNOWN["ceil"], n)),
    lambda n, m: call(n, operator.itruediv, n, m),
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_numbers_among_the_inputs(number: int) -> None:
    module = torch.fx.symbolic_trace(lambda x, n, m: (x.add_(1), EXPRESSIONS[number](n, m)))
    graph = native.from_graph_module(module)
    for n in NUMBERS:
        for m in NUMBERS[1:]:
            x, y = torch.ones(2), torch.ones(2)
            wanted, found = outcome(module.forward, [x, n, m]), outcome(graph, [y, n, m])
            assert difference(wanted, found) is None, f"{n}, {m}: {difference(wanted, found)}"
            assert torch.equal(x, y)
    assert "python" not in native.tape(graph), native.tape(graph)
    assert native.counters(graph)["recorded"] == 1


@pytest.mark.parametrize("function", [operator.floordiv, operator.mod, operator.truediv])
def test_sizes_out_of_data(function: Callable[[Any, Any], Any]) -> None:
    """A divisor of zero raises where the step stands: what came before is done, what comes after is not."""

    def program(x: Any, y: Any, n: Any) -> Any:
        count = x[x > 0].size(0)
        y.add_(1)
        quotient = call(n, function, n, count), call(n, function, count, n)
        y.mul_(3)
        return *quotient, y

    module = torch.fx.symbolic_trace(program)
    graph = native.from_graph_module(module)
    for x in ([1, 2, -1], [1, 1, 1], [-1, -1, -1], [1, -1, -1]):
        for n in (7, 4, 0, -5):
            ours, theirs = torch.zeros(2), torch.zeros(2)
            wanted = outcome(module.forward, [torch.tensor(x), theirs, n])
            found = outcome(graph, [torch.tensor(x), ours, n])
            assert difference(wanted, found) is None, f"{x}, {n}: {difference(wanted, found)}"
            assert torch.equal(ours, theirs)
    assert native.counters(graph)["recorded"] == 1
    if function is not operator.truediv:
        steps = [line for line in native.tape(graph).splitlines() if "python" in line]
        assert not [line for line in steps if "floordiv" in line or "mod" in line], steps


def test_a_float_is_a_number_of_operators() -> None:
    module = torch.fx.symbolic_trace(lambda x, n: (x * (n / 3), torch.add(x, x, alpha=n / 7), x.clamp(max=n * 0.25)))
    graph = native.from_graph_module(module)
    for grad in (False, True):
        for n in (3, 4, 10, 0, -2, 2**53 + 1):
            x = torch.linspace(-1, 1, 5).requires_grad_(grad)
            wanted, found = outcome(module.forward, [twin(x), n]), outcome(graph, [twin(x), n])
            assert difference(wanted, found) is None, f"{n}: {difference(wanted, found)}\n{native.tape(graph)}"
    assert "python" not in native.tape(graph), native.tape(graph)


def halves(x: torch.Tensor, y: torch.Tensor) -> Any:
    n, m = x.shape[0], y.shape[0]
    return x[: n // m] * 2, x[: int(n / 2)].sum(), x[: math.ceil(n * 0.3)] + n % m, n / m


def counts(x: torch.Tensor, y: torch.Tensor) -> Any:
    kept = y[y > 0]
    y.add_(1)
    return x[: x.shape[0] // kept.shape[0]] * 2, kept.shape[0] % x.shape[0]


@pytest.mark.parametrize("program", [halves, counts])
def test_compiled(program: Callable[..., Any]) -> None:
    """Exceptions come from the program's own line."""

    def line_of(error: BaseException) -> int | None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.name == program.__name__]
        return lines[-1] if lines else None

    def run(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> Any:
        try:
            return function(x, y), y
        except ZeroDivisionError as error:
            return str(error), line_of(error), y

    compiled = gramme.compile(program, backend="native", dynamic=True)
    for n, m, sign in ((6, 2, 1), (9, 4, 1), (7, 5, 1), (7, 5, 1), (7, 3, -1), (7, 0, 1), (8, 3, 1), (11, 0, 1)):
        x, y = torch.arange(float(n)), sign * torch.arange(1.0, m + 1)
        wanted, found = run(program, twin(x), twin(y)), run(compiled, twin(x), twin(y))
        assert str(wanted) == str(found), (n, m, sign)


def test_a_float_is_a_number_of_operators_where_guards_leave_sizes_open() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        n, m = x.shape[0], y.shape[0]
        return x * (n / m), x[: int(n / 2)] * (n * 0.1)

    compiled = gramme.compile(program, backend="native", dynamic=True)
    with torch.no_grad():
        for n, m in ((6, 2), (9, 4), (7, 5), (7, 3), (8, 3), (12, 11)):
            x, y = torch.linspace(-3, 5, n), torch.ones(m)
            assert difference(outcome(program, [x, y]), outcome(compiled, [x, y])) is None, (n, m)
    made = graphs()
    assert [native.counters(graph)["recorded"] for graph in made] == [1]
    assert "python" not in native.tape(made[0]), native.tape(made[0])
