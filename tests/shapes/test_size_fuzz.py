"""Every program gives at every size what it gives eagerly, within its limit of captures."""

from collections.abc import Callable

import pytest
import torch
from sampling import SOAK

from shapes import EVERY_SIZE, Program
from shapes.compare import Comparison
from shapes.harness import check, check_late_backward, fuzz
from shapes.open_captures import OPEN, hold
from shapes.programs import BY_NAME, PROGRAMS

CALLS = 10
INDUCTOR = (
    "arithmetic.rounded_sizes",
    "arithmetic.scaled_by_roots",
    "branching.even_or_odd",
    "effects.halves_written",
    "effects.window_written",
    "layouts.heads",
    "layouts.rows_shifted",
    "layouts.windows_of_four",
    "networks.causal_attention",
    "networks.padded_to_eight",
)
everything = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)


def run(program: Program, backend: str, *, counted: bool) -> None:
    calls = program.calls(CALLS)
    captures = check(program, backend, calls)
    if counted:
        hold(program.name, captures, program.allowed(calls))


@everything
def test_ten_sizes(program: Program) -> None:
    run(program, "eager", counted=True)


@pytest.mark.sampled(70)
@pytest.mark.slow
@everything
@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_ten_sizes_of_other_backends(program: Program, backend: str) -> None:
    run(program, backend, counted=backend == "native")


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="all sizes: make soak")
@everything
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_all_sizes(program: Program, backend: str) -> None:
    calls = program.all_calls()
    captures = check(program, backend, calls)
    if program.name not in OPEN and backend == "eager":
        hold(f"{program.name}, all sizes", captures, program.allowed(calls))


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="a C++ compiler runs for each capture: make soak")
@pytest.mark.parametrize("name", INDUCTOR)
def test_some_sizes_of_inductor(name: str) -> None:
    check(BY_NAME[name], "inductor", BY_NAME[name].calls(5))


@pytest.mark.sampled(28)
@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.backward], ids=lambda p: p.name)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_backward_after_forwards_of_other_sizes(program: Program, backend: str) -> None:
    check_late_backward(program, backend, program.calls(6))


def test_the_list_names_programs() -> None:
    own = [name.removesuffix(", all sizes") for name in OPEN if not name.startswith(("models.", "review."))]
    assert not [name for name in own if name not in BY_NAME]
    assert sum(p.limit < EVERY_SIZE for p in PROGRAMS) >= 80


def test_sizes_are_the_same_in_every_process() -> None:
    calls = BY_NAME["layouts.affine"].calls(CALLS)
    assert len(calls) == CALLS
    assert calls == BY_NAME["layouts.affine"].calls(CALLS)
    assert {(0,), (1,)} < set(calls)
    assert max(calls)[0] in (64, 127, 512)


def test_a_failure_tells_sizes_and_guards() -> None:
    factors = iter((1, 2))

    def make() -> Callable[[torch.Tensor], torch.Tensor]:
        factor = next(factors)
        return lambda x: x * factor

    program = Program(make, lambda t, n: (t(n),), 3, "", 0, 40, False, True, "")
    failure = fuzz(program, "eager", [(3,)]).failure
    assert "sizes so far: (3,)" in failure
    assert "Tensor float32[3]" in failure


X = torch.arange(6.0).reshape(2, 3)
BASE = torch.zeros(4)
DIFFERENT = {
    "class": (1, True),
    "int": ([1, 2], [1, 3]),
    "zero": (0.0, -0.0),
    "bits": (X, X + 1e-6),
    "sign of zero": (torch.zeros(2), -torch.zeros(2)),
    "dtype": (X, X.double()),
    "strides": (X, X.t().contiguous().t()),
    "offset": (BASE[1:3], BASE[:2]),
    "gradient asked for": (X, X.clone().requires_grad_()),
    "memory": ((BASE[:2], BASE[:2]), (BASE[:2], torch.zeros(2))),
    "identity": ([X, X], [X, X.view(2, 3)]),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "cell": ((lambda k: lambda: k)(1), (lambda k: lambda: k)(2)),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_comparison_sees(what: str) -> None:
    want, have = DIFFERENT[what]
    assert Comparison().difference(want, have)
    assert Comparison().difference(want, want) is None
