"""Every program of tests/programs: equal to eager when captured, hit and missed, in one graph, without leaks."""

import pytest
from programs import Program, programs

from e2e.front import GRAMME, Compiled
from e2e.harness import check, check_references, golden_ops, observe

# Where Dynamo records other operations than the program runs.
EXPLAINED = {
    "grad_mode_left_changed": "the graph leaves the grad mode as it finds it; it is set when the graph ran",
    "weak_reference_refused": "Dynamo makes no error of a weak reference to a list, and runs nothing",
    "gradients": "Dynamo leaves a dead getattr node for .requires_grad of an intermediate; it is a constant here",
    "with_python_values": "Dynamo drops an unused x[True], which could raise; it stays here",
    "nothing_mapped_in_the_output": "Dynamo leaves a dead node for is_batchedtensor; it is a constant here",
    "shapes_and_kinds_inside": "Dynamo leaves a dead getattr node for .is_leaf; it is a constant here",
    "iterate_a_tensor": "Dynamo leaves a dead getattr node for .T where its length alone is asked for",
    "throw_into_generator": "Dynamo drops the addition after generator.throw() and returns the result before it",
}

WHOLE = [p for p in programs() if p.one_graph and p.category != "errors"]
BROKEN = [p for p in programs() if not p.one_graph and p.category not in ("errors", "breaks")]


def dynamo_ops(program: Program) -> list[str] | None:
    ops = None if program.category.startswith("fx_") else golden_ops(program.category)[program.name]
    if not GRAMME and ops is None:
        pytest.skip("Dynamo refuses it")
    return ops


@pytest.mark.sampled(500)
@pytest.mark.parametrize("program", WHOLE, ids=lambda p: f"{p.category}-{p.name}")
def test_one_graph(program: Program) -> None:
    expected = dynamo_ops(program)
    graphs = check(program, fullgraph=True).recorder.graphs
    assert len(graphs) <= 1 + program.misses + (not program.hits), f"{len(graphs)} graphs"
    if GRAMME and expected is not None and program.name not in EXPLAINED:
        assert (graphs[0] if graphs else []) == expected


@pytest.mark.sampled(500)
@pytest.mark.parametrize("program", WHOLE, ids=lambda p: f"{p.category}-{p.name}")
def test_references(program: Program) -> None:
    dynamo_ops(program)
    compiled = Compiled(program.function, fullgraph=True)
    observe(compiled, program)
    check_references(program, compiled)


@pytest.mark.skipif(not GRAMME, reason="Dynamo refuses most of them")
@pytest.mark.parametrize("program", BROKEN, ids=lambda p: f"{p.category}-{p.name}")
def test_with_breaks(program: Program) -> None:
    check(program, fullgraph=False)
