"""Programs with breaks: equal to eager, segments bounded however often a loop runs, as many operations captured as by
Dynamo."""

from typing import Any

import pytest
from programs import Program, programs
from torch.overrides import TorchFunctionMode

from e2e import front
from e2e.harness import GRAMME, Compiled, assert_same, check, check_references, golden_breaks, observe

BROKEN = programs("breaks")
each_program = pytest.mark.parametrize("program", BROKEN, ids=lambda p: p.name)


class CallCounter(TorchFunctionMode):
    """Counts operations; Dynamo runs some twice, once for nothing, and counts arithmetic of numbers."""

    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += not getattr(func, "__name__", "").startswith(("__get__", "__bool__"))
        return func(*args, **(kwargs or {}))


@each_program
def test_same_as_eager(program: Program) -> None:
    check(program, fullgraph=False)


@pytest.mark.skipif(not GRAMME, reason="Dynamo unrolls such loops or leaves them alone")
@pytest.mark.parametrize("program", [p for p in BROKEN if p.name.startswith("data_")], ids=lambda p: p.name)
def test_segments_do_not_grow_with_iterations_over_data(program: Program) -> None:
    counts = []
    for steps in (12, 48):
        front.reset()
        compiled = Compiled(program.function)
        eager = observe(program.function, program, steps=steps)
        assert_same(eager, observe(compiled, program, steps=steps), f"{program.name}, {steps} steps")
        counts.append(compiled.segments)
    assert counts[1] <= counts[0], f"{counts[0]} segments for 12 iterations, {counts[1]} for 48"


@each_program
def test_more_iterations_than_the_recompile_limit(program: Program) -> None:
    """Loop counters may be captured as constants: beyond the limit the rest runs plainly and stays right."""
    compiled = Compiled(program.function)
    for steps in (12, 3, 12):
        eager = observe(program.function, program, steps=steps)
        assert_same(eager, observe(compiled, program, steps=steps, plain=True), f"{program.name}, {steps} steps")


@each_program
def test_operations_captured(program: Program) -> None:
    """Of the operations of one warm call at least as many run inside graphs as under Dynamo, or all there are."""
    compiled = Compiled(program.function)
    for _ in range(3):
        observe(compiled, program)
    before = compiled.recorder.ops_run
    observe(compiled, program)
    ran, dynamo = compiled.recorder.ops_run - before, golden_breaks()[program.name]
    eager = CallCounter()

    def counted(*args: Any) -> Any:
        with eager:
            return program.function(*args)

    observe(counted, program)
    print(f"{program.name}: {ran} operations in graphs, under Dynamo {dynamo}, eagerly about {eager.calls}")
    assert ran >= min(dynamo, eager.calls)


@each_program
def test_references(program: Program) -> None:
    compiled = Compiled(program.function)
    observe(compiled, program)
    check_references(program, compiled)


def test_more_operations_than_dynamo_in_all() -> None:
    total = 0
    for program in BROKEN:
        front.reset()
        compiled = Compiled(program.function)
        for _ in range(3):
            observe(compiled, program)
        before = compiled.recorder.ops_run
        observe(compiled, program)
        total += compiled.recorder.ops_run - before
    dynamo = sum(golden_breaks().values())
    print(f"{total} operations in graphs, under Dynamo {dynamo}")
    if GRAMME:
        assert total > dynamo
