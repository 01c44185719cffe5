"""The meter: what of a program runs in graphs, on programs whose operations are known."""

import contextlib
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e.front import GRAMME

if not GRAMME:
    pytest.skip("counts of gramme's own", allow_module_level=True)

import gramme
from gramme._meter import as_graph

BACKENDS = ["eager", "native", "aot_eager"]

Numbers = dict[str, int]


def x(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.ones(shape or (4,)).requires_grad_(grad)


def measured(call: Callable[..., Any], *args: Any) -> gramme.Measurement:
    with gramme.meter() as m:
        call(*args)
    return m.read()


def warm(function: Callable[..., Any], *args: Any, backend: str = "eager", calls: int = 3) -> gramme.Measurement:
    """What a call does when all of it is captured."""
    compiled = gramme.compile(function, backend=backend)
    for _ in range(calls):
        compiled(*args)
    return measured(compiled, *args)


def numbers(of: gramme.Measurement, *names: str) -> tuple[int, ...]:
    return tuple(getattr(of, name) for name in names)


# ---- operations


def three(a: torch.Tensor) -> torch.Tensor:
    return (a + 1).sin() * 2


def composites(a: torch.Tensor) -> torch.Tensor:
    """One each, though some are made of others."""
    b = torch.nn.functional.linear(a, a.new_ones(4, 4))
    return torch.nn.functional.layer_norm(b, (4,)).flatten().matmul(a)


def several(a: torch.Tensor) -> torch.Tensor:
    """An index of two numbers is two operators, a shape is none."""
    return a.view(2, 2)[0, 1] + a.shape[0]


def modes(a: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        b = a + 1
    return b * 2


def in_place(a: torch.Tensor) -> torch.Tensor:
    b = a.clone()
    b[0] = 3.0
    return b.add_(1)


def split(a: torch.Tensor) -> torch.Tensor:
    b, c = a.chunk(2)
    return torch.cat([c, b])


PROGRAMS: dict[Callable[..., Any], int] = {three: 3, composites: 5, several: 4, modes: 2, in_place: 5, split: 2}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_eager_counts_what_python_asks_for(program: Callable[..., Any]) -> None:
    found = measured(program, x())
    assert numbers(found, "inside", "outside", "graphs") == (0, PROGRAMS[program], 0)
    assert found.share == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_inside_counts_what_eager_does(program: Callable[..., Any], backend: str) -> None:
    for calls in (0, 1, 3):
        found = warm(program, x(), backend=backend, calls=calls)
        assert numbers(found, "inside", "outside", "graphs", "captures") == (PROGRAMS[program], 0, 1, int(not calls))
        assert numbers(found, "steps", "handovers", "plain", "graph_errors", "backward") == (0,) * 5
        assert found.share == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward(backend: str) -> None:
    def train(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a: call(a).sum().backward()

    eager = measured(train(three), x(grad=True))
    assert eager.outside == 5  # and the sum, and the gradient that backward begins with
    assert eager.backward > 0
    compiled = gramme.compile(three, backend=backend)
    for _ in range(2):
        found = measured(train(compiled), x(grad=True))
    assert numbers(found, "inside", "outside") == (3, 2)
    if backend == "aot_eager":
        assert found.backward > 0
    else:
        assert found.backward == eager.backward


def test_nothing() -> None:
    found = measured(lambda: None)
    assert set(vars(found).values()) == {0}
    assert found.share == 1


# ---- what happens besides operations


def breaks(a: torch.Tensor) -> torch.Tensor:
    a = a + 1
    gramme.graph_break()
    return a * 2 - 1


def reads_data(a: torch.Tensor) -> torch.Tensor:
    if a.sum() > 0:
        a = a + 1
    return a


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps(backend: str) -> None:
    found = warm(breaks, x(), backend=backend)
    assert numbers(found, "inside", "outside", "graphs", "captures", "plain") == (3, 0, 2, 0, 0)
    assert found.steps > 0


def test_operations_between_segments_are_outside() -> None:
    found = warm(reads_data, x())
    eager = measured(reads_data, x())
    assert found.inside + found.outside == eager.outside == 4  # a condition is an operation: is_nonzero
    assert found.outside == 1
    assert found.steps > 0


def test_as_many_steps_as_statistics() -> None:
    compiled = gramme.compile(breaks, backend="eager")
    with gramme.meter() as m:
        for _ in range(4):
            compiled(x())
    counted = gramme.statistics(compiled)
    assert (m.steps, m.captures, m.plain, m.handovers) == (counted.steps, counted.captures, 0, 0)
    assert counted.hits == 3


def test_an_asynchronous_generator_is_a_plain_call() -> None:
    async def rows(a: torch.Tensor) -> Any:
        yield a + 1
        yield a * 2

    async def collect() -> Any:
        return [row async for row in compiled(a)]

    def run() -> None:
        with contextlib.suppress(StopIteration):
            collect().send(None)

    compiled = gramme.compile(rows, backend="eager")
    a = x()
    found = measured(run)
    assert numbers(found, "inside", "outside", "plain", "captures") == (0, 2, 1, 0)


def test_the_values_of_a_generator_are_made_in_graphs() -> None:
    def rows(a: torch.Tensor) -> Any:
        yield a + 1
        yield a * 2

    compiled = gramme.compile(rows, backend="eager")
    a = x()
    found = measured(lambda: list(compiled(a)))
    assert numbers(found, "inside", "outside", "plain", "captures") == (2, 0, 0, 3)


def test_the_recompile_limit_makes_plain_calls() -> None:
    def scaled(a: torch.Tensor, name: str) -> torch.Tensor:
        return a * len(name) + 1

    compiled = gramme.compile(scaled, backend="eager", recompile_limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in ("a", "bb", "ccc"):
            compiled(x(), name)
    before = gramme.statistics(compiled)
    assert (before.captures, before.plain_runs, before.hits, before.handovers) == (2, 1, 0, 0)
    found = measured(compiled, x(), "dddd")
    assert numbers(found, "inside", "outside", "plain", "handovers") == (0, 2, 1, 0)
    after = gramme.statistics(compiled)
    assert (after.plain_runs, after.hits) == (2, 0)
    compiled(x(), "a")
    assert gramme.statistics(compiled).hits == 1


def test_a_backend_that_gives_up_makes_plain_calls() -> None:
    def refuse(graph: Any, inputs: Any) -> Any:
        raise NotImplementedError

    compiled = gramme.compile(three, backend=refuse)
    with torch._dynamo.config.patch(suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            compiled(x())
    counted = gramme.statistics(compiled)
    assert (counted.plain_runs, counted.hits, counted.handovers) == (4, 0, 0)


def test_a_graph_that_raises() -> None:
    def pick(a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (a + 1)[i]

    compiled = gramme.compile(pick, backend="eager")
    a, right, wrong = x(), torch.tensor([0]), torch.tensor([9])
    compiled(a, right)
    with gramme.meter() as m, pytest.raises(IndexError):
        compiled(a, wrong)
    assert (m.inside, m.graphs, m.graph_errors, m.plain) == (0, 0, 1, 1)
    assert m.outside == 2  # the frame runs plainly up to the operation that raises, which is counted
    assert gramme.statistics(compiled).hits == 0


# ---- the meter itself


def test_all_entries_count_those_that_died_too() -> None:
    def once() -> None:
        gramme.compile(lambda a: a + 1, backend="eager", isolate_recompiles=True)(x())

    found = measured(lambda: (once(), once(), gramme.compile(three, backend="eager")(x())))
    assert numbers(found, "captures", "graphs", "inside", "outside") == (3, 3, 5, 3)  # three calls of torch.ones


def test_meters_nest() -> None:
    a = x()
    with gramme.meter() as outer:
        three(a)
        with gramme.meter() as inner:
            three(a)
        three(a)
        assert (inner.outside, outer.outside) == (3, 9)
    three(a)
    assert (inner.outside, outer.outside) == (3, 9)


def test_each_thread_has_its_own() -> None:
    a, compiled = x(), gramme.compile(three, backend="eager")
    compiled(a)
    seen: list[tuple[int, ...]] = []

    def work(times: int) -> None:
        with gramme.meter() as m:
            for _ in range(times):
                compiled(a).cos()
        seen.append((m.inside, m.outside, m.graphs))

    with gramme.meter() as mine:
        threads = [threading.Thread(target=work, args=(times,)) for times in (5, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        compiled(a)
    assert sorted(seen) == [(15, 5, 5), (21, 7, 7)]
    assert (mine.inside, mine.outside, mine.graphs) == (3, 0, 1)


def test_a_meter_changes_no_capture() -> None:
    compiled = gramme.compile(three, backend="eager")
    compiled(x())
    found = measured(compiled, x())
    assert found.captures == 0
    captured = gramme.compile(three, backend="eager", isolate_recompiles=True)
    measured(captured, x())
    captured(x())
    assert gramme.statistics(captured).captures == 1


def test_it_is_opened_and_closed_once() -> None:
    m = gramme.meter()
    with m:
        with pytest.raises(ValueError, match="open already"):
            m.__enter__()
    with pytest.raises(ValueError, match="not open"):
        m.__exit__(None, None, None)
    with pytest.raises(AttributeError):
        _ = m.outsides


def test_fakes_do_not_count() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with gramme.meter() as m, FakeTensorMode():
        three(torch.ones(2))
    assert m.outside == 0


def test_text() -> None:
    found = gramme.Measurement(3, 1, 2, 1, 0, 4, 0, 0, 0)
    assert str(found) == (
        "3 operations in 1 graphs, 1 outside (75.0% inside), 2 in backward passes; "
        "0 captures, 4 steps, 0 hand-overs, 0 plain calls, 0 graph errors"
    )


def run_as_it_is(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return graph.forward


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_torch_compile_counts_alike(program: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(program, backend=as_graph(run_as_it_is))
    for _ in range(2):
        found = measured(compiled, x())
    assert numbers(found, "inside", "outside", "graphs") == (PROGRAMS[program], 0, 1)
