"""Older constructs are captured whole: Variable, tensor types called, Tensor.new, record_function, bound C methods."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import Variable

PROGRAMS: list[Callable[[torch.Tensor], Any]] = []
upper = "abc".upper
joined = ", ".join
place = (5, 6, 7).index
inside = frozenset([1, 2]).__contains__


def whole(program: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    PROGRAMS.append(program)
    return program


@whole
def variable_shares_memory(x: torch.Tensor) -> Any:
    y = x * 1
    v = Variable(y)
    v.add_(1)
    return y, v, v.requires_grad, isinstance(v, Variable)


@whole
def variable_of_what_needs_a_gradient(x: torch.Tensor) -> Any:
    y = x.clone()
    return Variable(y, requires_grad=False) * 2, Variable(data=y) + 1


@whole
def sizes(x: torch.Tensor) -> Any:
    return (
        torch.FloatTensor(2, 3).fill_(1) + x,
        torch.LongTensor(2).zero_(),
        torch.DoubleTensor(torch.Size([2])).zero_(),
    )


@whole
def nothing(x: torch.Tensor) -> Any:
    return torch.FloatTensor(), torch.BoolTensor().dtype, x + 1


@whole
def data(x: torch.Tensor) -> Any:
    made = torch.FloatTensor([[1, 2, 3.5], [4, 5, 6]]), torch.LongTensor([1, 2]), torch.BoolTensor([0, 1, 2])
    return made, made[0] * x, made[0].is_leaf


@whole
def data_in_tuples(x: torch.Tensor) -> Any:
    made = torch.FloatTensor((1, 2.5)), torch.LongTensor(((1, 2), (3, 4))), torch.BoolTensor([(0, 1)])
    return made, x.new((1,)).fill_(3), x.new(()), x.new([(1, 2), (3, 4)]), x.new(x.size()).zero_()


@whole
def under_another_default(x: torch.Tensor) -> Any:
    return x.double().new([1.5, 2]), x.new([[1.0, 2.0]]), x.long().new([3]), x.new(2, 1).zero_()


@whole
def ranges(x: torch.Tensor) -> Any:
    with torch.profiler.record_function("outer"), torch.autograd.profiler.record_function("inner", "args") as r:
        return x * 2, r.name


@whole
def decorated_range(x: torch.Tensor) -> Any:
    @torch.autograd.profiler.record_function("named")
    def inner(a: torch.Tensor) -> torch.Tensor:
        return a + 1

    return inner(x)


@whole
def bound_methods(x: torch.Tensor) -> Any:
    return x * len(upper()), joined(["a", "b"]), place(6), inside(2), inside(3)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_whole(program: Callable[[torch.Tensor], Any], backend: str) -> None:
    x = torch.linspace(-1, 2, 6).view(2, 3)
    want = program(x)
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        assert str(compiled(x)) == str(want)


def test_variable_that_requires_a_gradient() -> None:
    def program(x: torch.Tensor) -> Any:
        v = Variable(x * 2, requires_grad=True)
        (v * v).sum().backward()
        return v.grad

    x = torch.ones(3)
    compiled = gramme.compile(program, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), program(x))


def test_ranges_under_a_profiler() -> None:
    compiled = gramme.compile(ranges, backend="eager")
    x = torch.ones(2)
    with torch.profiler.profile() as profile:
        compiled(x)
    assert {"outer", "inner"} <= {event.name for event in profile.events()}


def test_ranges_that_end_for_real() -> None:
    """A range that a segment opened, and the program itself ends."""

    def program(x: torch.Tensor, log: list[str]) -> Any:
        with torch.profiler.record_function("outer"):
            y = x * 2
            gramme.graph_break()
            with torch.profiler.record_function("inner") as inner:
                log.append(inner.name)
                y = y + 1
                if y.dim() == 1:
                    raise ValueError("of one dimension")
                y = y * 3
            log.append(str(inner.run_callbacks_on_exit))
        return y

    compiled = gramme.compile(program, backend="eager")
    for x in (torch.ones(3), torch.ones(2, 2), torch.ones(3), torch.ones(2, 2)):
        logs: list[list[str]] = [[], []]
        if x.dim() == 1:
            for function, log in zip((program, compiled), logs, strict=True):
                with pytest.raises(ValueError, match="of one dimension"):
                    function(x, log)
        else:
            torch.testing.assert_close(compiled(x, logs[1]), program(x, logs[0]))
        assert logs[0] == logs[1]


def test_another_bound_method() -> None:
    def program(x: torch.Tensor, method: Callable[[], str]) -> Any:
        return x + 1, method()

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for text in ("a", "b", "a"):
        assert compiled(x, text.upper)[1] == text.upper()


def test_data_of_another_type_is_left_to_torch() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.LongTensor([1.5]) + x.long(), torch.FloatTensor((1.0, 2.0))

    x = torch.ones(1)
    assert str(gramme.compile(program, backend="eager")(x)) == str(program(x))
