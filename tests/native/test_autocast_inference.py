"""Calls without gradients under autocast: a tape below autograd that makes autocast's casts itself."""

import contextlib
import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from e2e.test_leaks import reads_memory, resident
from sampling import SEED, SOAK
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from native import random_training
from native.operator_training import chains, infers, modules, operators, reset_between
from native.same import graphs
from native.test_op_db import EXCEPTIONS
from native.test_recorded_autocast import DTYPES, MODULES, used_outside
from native.test_recorded_backward import bits

pytestmark = pytest.mark.usefixtures("fresh")
Context = Callable[[], contextlib.AbstractContextManager[Any]]


def compiled_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return gramme.compile(function, backend="native")


def tapes() -> list[str]:
    return [gramme._C.native.tape(graph) for graph in graphs()]


def reasons() -> list[str]:
    return [line for tape in tapes() for line in tape.splitlines() if line.startswith("under autocast: ")]


def told(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    outputs = out if isinstance(out, tuple) else (out,)
    return [(o.dtype, o.requires_grad, o._version, *bits([o.float()])) for o in outputs]


def once(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=dtype):
        return told(f, x)


def twice_in_one_region(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=dtype):
        return told(f, x), told(f, x)


def written_in_the_region(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    """Autocast's casts are those of before, also of a parameter that was written since."""
    with torch.autocast("cpu", dtype=dtype):
        before = told(f, x)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.25)
        return before, told(f, x)


def written_between(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.75)
    return once(f, module, x, dtype, step)


def used_before(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=dtype):
        return float(used_outside(module)), told(f, x)


def used_before_later(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    return (used_before if step > 1 else once)(f, module, x, dtype, step)


def trained_in_the_region(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    """A cast made without gradients has them for later uses in the region."""
    with torch.autocast("cpu", dtype=dtype):
        before = told(f, x)
        with torch.enable_grad(), torch.inference_mode(False):
            loss = used_outside(module)
    if loss.requires_grad:
        loss.backward()
    return before, bits([p.grad for p in module.parameters()])


def without_a_cache(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=dtype, cache_enabled=False):
        return told(f, x), told(f, x)


def changing_dtypes(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=DTYPES[step % 2], enabled=step % 3 != 2):
        return told(f, x)


def nested(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    with torch.autocast("cpu", dtype=dtype):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inner = told(f, x)
        return inner, told(f, x)


def frozen(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    for i, parameter in enumerate(module.parameters()):
        parameter.requires_grad_(i % 2 == 0)
    return once(f, module, x, dtype, step)


def with_a_profiler(f: Any, module: nn.Module, x: torch.Tensor, dtype: torch.dtype, step: int) -> Any:
    if step != 3:
        return once(f, module, x, dtype, step)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return once(f, module, x, dtype, step)


PLANS = (
    *(once, twice_in_one_region, written_in_the_region, written_between, used_before, used_before_later),
    *(trained_in_the_region, without_a_cache, changing_dtypes, nested, frozen, with_a_profiler),
)
CONTEXTS: tuple[Context, ...] = (torch.no_grad, torch.inference_mode)


def outcomes(name: str, plan: Any, dtype: torch.dtype, context: Context, compiles: bool) -> list[Any]:
    make, inputs = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    function = compiled_of(module) if compiles else module
    steps: list[Any] = []
    for step in range(5):
        torch.manual_seed(step)
        x = inputs()
        try:
            with context():
                steps.append(plan(function, module, x, dtype, step))
        except RuntimeError as error:
            steps.append(str(error).split("\n")[0][:60])
    return steps


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODULES)
def test_bits_are_eagers(name: str, plan: Any, context: Context) -> None:
    for dtype in DTYPES:
        assert outcomes(name, plan, dtype, context, True) == outcomes(name, plan, dtype, context, False)
        gramme.reset()


@pytest.mark.parametrize("name", ["linear", "convolution", "lstm", "tied", "mixed", "inside", "routed"])
def test_kernels_are_called_below_autocast(name: str) -> None:
    outcomes(name, once, torch.bfloat16, torch.no_grad, True)
    (tape,) = tapes()
    assert "aten::linear" not in tape
    assert "autocast" not in tape
    assert "python" not in tape


def test_a_parameter_is_cast_once() -> None:
    linear = nn.Linear(4, 4)

    def function(x: torch.Tensor) -> torch.Tensor:
        return linear(linear(x))

    compiled = compiled_of(function)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 4)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert torch.equal(compiled(x), function(x))
    (tape,) = tapes()
    assert tape.count("_to_copy") == 1  # of x
    assert "inputs %0 to %4" in tape  # x, weight, bias, and two casts


def test_casts_of_before_are_not_kept() -> None:
    """A cast that autocast had when the tape was recorded is another one in the next region."""
    linear = nn.Linear(4, 4)
    compiled = compiled_of(linear)
    x = torch.randn(2, 4)
    for _ in range(4):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            used_outside(linear)
            want, found = linear(x), compiled(x)
        assert torch.equal(want, found)
        with torch.no_grad():
            linear.weight.add_(1)


def test_steps_that_need_autocast_are_named() -> None:
    """bilinear's kernel multiplies matrices by operators, and autocast casts those."""
    weight = torch.randn(5, 4, 3)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.bilinear(x, y, weight)

    compiled = compiled_of(function)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            x, y = torch.randn(2, 4), torch.randn(2, 3)
            assert torch.equal(compiled(x, y), function(x, y))
    assert reasons() == ["under autocast: aten::_trilinear"]


def test_python_in_the_graph_runs_under_autocast() -> None:
    @torch.library.custom_op("gramme_tests::told_autocast", mutates_args=())
    def told_autocast(x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, float(torch.is_autocast_enabled("cpu"))) + torch.mm(x, x).float()

    @told_autocast.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    linear = nn.Linear(4, 4)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = told_autocast(linear(x).float())
        return told_autocast(y)

    compiled = compiled_of(function)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(4, 4)
            assert torch.equal(compiled(x), function(x))


def test_an_error_leaves_autocast_as_it_was() -> None:
    linear = nn.Linear(4, 4)

    def function(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return linear(x).index_select(0, at)

    compiled = compiled_of(function)
    with torch.no_grad():
        for at in ([0, 1], [1, 1], [0, 7], [1, 0]):
            x, where = torch.randn(2, 4), torch.tensor(at)
            if 7 in at:
                with pytest.raises((IndexError, RuntimeError), match="out of range"):
                    compiled(x, where)
            else:
                assert torch.equal(compiled(x, where), function(x, where))
            assert not torch.is_autocast_enabled("cpu")
            assert torch.mm(x.t(), x).dtype == torch.float32


def test_sizes_that_vary() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4)).eval()
    compiled = gramme.compile(module, backend="native", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 2, 7, 1, 4):
            x = torch.randn(rows, 8)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert torch.equal(compiled(x), module(x))


def difference(seed: int, dtype: torch.dtype) -> str | None:
    program = random_training.Program(seed)
    compiled = compiled_of(program.run)
    for step in range(4):
        inputs, found = program.inputs(), []
        for call in (program.run, compiled):
            torch.manual_seed(step)
            try:
                with torch.no_grad(), torch.autocast("cpu", dtype=dtype, cache_enabled=seed % 7 != 0):
                    outputs = [*call(*inputs), *(call(*inputs) if seed % 3 == 0 else ())]
                found.append([random_training._bits(o) for o in outputs])
            except RuntimeError as error:
                found.append([str(error).split("\n")[0]])
        if found[0] != found[1]:
            return f"step {step} of {program!r}"
    return None


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_programs(dtype: torch.dtype) -> None:
    for seed in range(60):
        assert difference(seed, dtype) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_random_programs(dtype: torch.dtype) -> None:
    for seed in range(1_000, 21_000 if SOAK else 1_800):
        assert difference(seed, dtype) is None
        if seed % 50 == 0:
            gramme.reset()


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_operators(dtype: torch.dtype | None, context: Context) -> None:
    """PyTorch's own tables, and programs of three operators."""
    drawn = random.Random(int(SEED))
    entries = [e for e in (*op_db, *module_db) if e.name not in EXCEPTIONS]
    chosen = entries if SOAK else drawn.sample(entries, 60)
    single = (operators(e, 4) if hasattr(e, "op") else modules(e) for e in chosen)
    programs = [*itertools.chain.from_iterable(single), *chains(op_db, 3000 if SOAK else 100, int(SEED))]
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [
            (program.name, inputs.__name__)
            for program in reset_between(programs)
            for inputs in (contextlib.nullcontext, torch.inference_mode)
            if not infers(program._replace(dtype=dtype), context, inputs)
        ]
    assert not wrong


@reads_memory
def test_nothing_is_kept() -> None:
    """Casts are dropped with the call, and the frame with the region."""
    module = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).eval()
    compiled = compiled_of(module)
    x = torch.randn(4, 512)

    def call() -> None:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            compiled(x)

    for _ in range(20):
        call()
    before = resident()
    for _ in range(300):
        call()
    assert resident() - before < 16 << 20  # the casts of a call are 1 MB
