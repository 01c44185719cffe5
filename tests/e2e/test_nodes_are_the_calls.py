"""Under gramme's own executors a node is the call that the program made: the function, its arguments, its place.

A torch function mode sees what programs call and, under the captured graphs, what their nodes call. Each call of a
graph is one of the program's, in the program's order, or a row of REWRITTEN.
"""

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import gramme
import numpy
import pytest
import torch
from programs import Program, Tensors, programs

from e2e.calls_seen import Seen, Watch, not_the_programs, watched_graphs
from e2e.harness import restored_modes

# What graphs call in the place of what programs call, why, and the test that compares it with eager over arguments.
REWRITTEN: dict[str, tuple[str, str]] = {
    "_set_grad_enabled": ("torch.no_grad() and its kind, which the mode is not shown", "test_programs.py"),
    "_enter_autocast": ("torch.autocast.__enter__, which the mode is not shown", "test_programs.py"),
    "_exit_autocast": ("torch.autocast.__exit__, likewise", "test_programs.py"),
    "_VariableFunctionsClass._assert_async": ("assert, torch._assert: the graph checks it", "test_assertions.py"),
    "torch.device": ("a device among the arguments, made again", "test_op_db_kinds.py"),
    "pad": ("torch.nn.functional.pad: its body", "test_op_db_kinds.py"),
    "torch.rms_norm": ("torch.nn.functional.rms_norm: its body", "test_op_db_kinds.py"),
    "torch.Tensor.uniform_": ("torch.nn.init: its body", "test_programs.py"),
    "torch.Tensor.normal_": ("likewise", "test_programs.py"),
    "torch.Tensor.fill_": ("likewise", "test_programs.py"),
    "torch.Tensor.zero_": ("likewise", "test_programs.py"),
}
# Slices, comparisons with a number on the left and autograd.Function, which a torch function mode sees alike:
# test_syntax_over_kinds.py.
# Programs whose calls or arguments are spelt otherwise though they are the same.
EQUAL = {
    "backward_inside": "its hook calls below the mode",
    "enums": "a member of an IntEnum is its int",
    "hooks_on_returned_intermediates": "a hook is spelt with its address",
    "lazy_module_materialised": "a parameter without a shape has no text yet",
    "spectral_norm_by_parametrization": "a module of a class that is being made has no text yet",
    "orthogonal": "likewise",
    "lazy_module": "the parameters have their class by the time of the graph",
}
# After torch.set_default_dtype in the segment, calls are told the dtype that they would have found.
DTYPES = "default_dtype_"


def run(program: Program, function: Callable[..., object]) -> None:
    tensors = Tensors(0, 4, 3)
    program.setup()
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002  the stream that programs draw from
    torch.manual_seed(0)
    args, kwargs = program.make_args(tensors), program.make_kwargs(tensors)
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(Exception),
    ):
        function(*args, **kwargs)


def test_rows_have_tests() -> None:
    here = Path(__file__).parent
    assert not [proof for _, proof in REWRITTEN.values() if not (here / proof).exists()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    "program",
    [p for p in programs() if not p.plain and p.name not in EQUAL and not p.name.startswith(DTYPES)],
    ids=lambda p: f"{p.category}-{p.name}",
)
def test_nodes_are_calls_of_the_program(program: Program) -> None:
    with restored_modes():
        watch = Watch()
        with watch:
            run(program, program.function)
    with restored_modes(), watched_graphs() as graphs:
        run(program, gramme.compile(program.function, backend="eager"))
    program.setup()
    other: list[tuple[Seen, list[Seen]]] = [
        (call, instead) for call, instead in not_the_programs(graphs, watch.seen) if call[0] not in REWRITTEN
    ]
    assert not other, f"graphs call {other[0][0]}, the program {other[0][1]}"
