"""The small programs of tests/programs behind AOTAutograd: all that can be seen is as in eager, numbers close to it."""

import re

import gramme
import pytest
from e2e.harness import MISS_N, observe
from programs import Program, programs

from backends.support import FLOAT

QUICK = {"inplace", "contexts"}

DIFFERENT = {
    "unused_draws_advance_the_stream": "AOTAutograd drops random operations whose result nobody uses",
    "lazy_module_materialised": "the same",
    "views_written_in_turn": "reads what it writes in the same operation: the order is not defined",
    "while_on_data": "Python numbers are constants of a graph, so the recompile limit is reached",
    "hooks_made_in_a_loop": "a compiled graph gives all gradients at once, in the order of its inputs",
    "hooks_on_all_parameters_of_a_module": "the same",
    "module_watches_its_own_gradients": "the same",
    "non_full_backward_hooks": "hooks of the old kind hang on a node, and a compiled graph has one for all",
    "global_backward_hook_of_the_old_kind": "the same",
    "gradient_asked_for_inside": "AOTAutograd has no double backward",
    "weak_reference_to_a_submodule_removed": "AOTAutograd leaves cycles, which hold inputs until they are collected",
    "weak_reference_to_a_temporary": "the same",
}

# A compiled graph counts writes otherwise, has one node for its gradient and no views of its own results.
NOT_COMPARED = re.compile(
    r" version \d+|, \w+Backward\w*| view\b|, (?:torch::autograd::)?CopySlices|_torchdynamo_wrapper_id: \d+|\[\d+\]: "
)


def case(program: Program) -> object:
    marks = [] if program.category in QUICK else [pytest.mark.slow]
    if program.name in DIFFERENT:
        marks.append(pytest.mark.skip(reason=DIFFERENT[program.name]))
    return pytest.param(program, id=f"{program.category}-{program.name}", marks=marks)


def shape_and_numbers(text: str) -> tuple[str, list[float]]:
    text = NOT_COMPARED.sub("", text.partition("\nwarned:")[0])
    return FLOAT.sub("#", text), [float(number) for number in FLOAT.findall(text)]


@pytest.mark.sampled(450)
@pytest.mark.parametrize("program", [case(program) for program in programs()])
def test_as_eager(program: Program) -> None:
    compiled = gramme.compile(program.function, backend="aot_eager")
    plain = program.category == "module_hooks"  # AOTAutograd makes handles, and so ids, of its own while it compiles
    for seed, n in (0, 4), (0, 4), (2, MISS_N):
        eager, captured = (str(observe(f, program, seed, n, plain=plain)) for f in (program.function, compiled))
        (text, numbers), (expected_text, expected) = shape_and_numbers(captured), shape_and_numbers(eager)
        assert text == expected_text
        assert numbers == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)
