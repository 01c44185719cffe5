"""Warnings of an operation whose output is inferred: said when it runs, as often as eagerly, and never before."""

import contextlib
import itertools
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.front import Compiled


@pytest.fixture(autouse=True)
def fresh_registries() -> None:
    """What was shown once is shown again."""
    for module in list(sys.modules.values()):
        vars(module).get("__warningregistry__", {}).clear()


def mismatched(x: torch.Tensor) -> Any:
    return torch.nn.functional.mse_loss(x, torch.ones(2, 1))


def implicit_dim(x: torch.Tensor) -> Any:
    return torch.nn.functional.softmax(x) + 1


def failing(x: torch.Tensor) -> Any:
    try:
        return torch.nn.functional.mse_loss(x.view(1, 2), torch.ones(3, 1, 4))
    except RuntimeError:
        return x + 1


def resized(x: torch.Tensor) -> Any:
    return torch.add(x, 1, out=torch.zeros(7))


PROGRAMS = (mismatched, implicit_dim, failing, resized)


def heard(call: Callable[..., Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(torch.ones(2))
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_often_as_eagerly(function: Callable[..., Any]) -> None:
    eager, compiled = heard(function), Compiled(function)
    assert eager
    for _ in range(3):  # the first captures
        assert heard(compiled.call) == eager
    gramme.reset()  # what was inferred stays known
    assert heard(compiled.call) == eager


def real_part(x: torch.Tensor) -> Any:
    x.mul_(2)
    return (x * 1j).to(torch.float32), x + 1


def copied(x: torch.Tensor) -> Any:
    x.copy_(x + 1j)
    return x + 1


def one_number(x: torch.Tensor) -> Any:
    return (x + 1).reshape(2, 1).std(1)


def reduced(x: torch.Tensor) -> Any:
    return x.index_reduce(0, torch.tensor([0, 1]), x, "amax") + 1


def caught_later(x: torch.Tensor) -> Any:
    y = x.std(correction=2)
    try:
        return y, x[x.long() + 5]
    except IndexError:
        return y + 1


def raised_later(x: torch.Tensor) -> Any:
    torch.nn.functional.mse_loss(x, torch.ones(2, 1))
    return x[x.long() + 5]


def in_a_loop(x: torch.Tensor) -> Any:
    for _ in range(3):
        x = x + x.std(correction=2).nan_to_num()
    return x


def inside(x: torch.Tensor) -> Any:
    return [one_number(x), real_part(x)]


def places(call: Callable[..., Any], shown: str) -> list[tuple[Any, ...]]:
    """What the program's own file is told, and where."""
    vars(sys.modules[__name__]).get("__warningregistry__", {}).clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(shown)  # type: ignore[arg-type]
        for _ in range(2):
            with contextlib.suppress(IndexError):
                call(torch.ones(2))
    return [(w.category, str(w.message), w.lineno) for w in caught if w.filename == __file__]


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize(
    "function",
    [mismatched, implicit_dim, real_part, copied, one_number, reduced, caught_later, raised_later, in_a_loop, inside],
    ids=lambda f: f.__name__,
)
def test_where_the_program_is(function: Callable[..., Any], backend: str) -> None:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else some come once in a process
    try:
        # AOTAutograd sets filters while it compiles: what was shown once is shown again.
        for shown in ("always",) if backend == "aot_eager" else ("always", "default"):
            expected = places(function, shown)
            assert expected
            compiled = gramme.compile(function, backend=backend)
            for _ in range(2):
                assert places(compiled, shown) == expected
    finally:
        torch.set_warn_always(always)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_operator_names_the_graph(soak: bool) -> None:
    """Those that only kernels of real tensors warn about are listed by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    found = set()
    try:
        for entry in op_db if soak else random.Random(3).sample(op_db, 150):
            dtypes = entry.supported_dtypes("cpu") & {torch.float32, torch.complex64, torch.int64}
            for dtype in sorted(dtypes, key=str):
                found |= {f"{entry.name} {dtype}: {text}" for text in named_graphs(entry, dtype)}
    finally:
        torch.set_warn_always(always)
    assert not found


def named_graphs(entry: Any, dtype: torch.dtype) -> set[str]:
    torch.manual_seed(1)
    texts = set()
    for sample in itertools.islice(entry.sample_inputs("cpu", dtype), 4):
        compiled = gramme.compile(lambda *args, op=entry.op, **kwargs: op(*args, **kwargs), backend="eager")
        with warnings.catch_warnings(record=True) as caught, contextlib.suppress(Exception):
            warnings.simplefilter("always")
            compiled(sample.input, *sample.args, **sample.kwargs)
        texts |= {str(w.message) for w in caught if w.filename.startswith("<eval_with_key>")}
    gramme.reset()
    return texts


def test_filters_and_registries_are_left_alone() -> None:
    own = globals().setdefault("__warningregistry__", {})
    before, filters = dict(own), warnings.filters
    content, shown = list(filters), warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside, inside_content = warnings.filters, list(warnings.filters)
        Compiled(mismatched).call(torch.ones(5, 2).t()[:, :2].t()[0])
        assert warnings.filters is inside
        assert warnings.filters == inside_content
    assert warnings.filters is filters
    assert warnings.filters == content
    assert warnings.showwarning is shown
    assert {k: v for k, v in own.items() if k != "version"} == {k: v for k, v in before.items() if k != "version"}


def test_once_in_a_process_is_not_used_up() -> None:
    """What PyTorch says once is still to be said when the operation runs."""
    program = (
        "import warnings, torch, gramme\n"
        "def f(x): return torch.meshgrid(x, x)[0] + 1\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    gramme.compile(f, backend='eager')(torch.ones(2))\n"
        "print(sum('indexing' in str(w.message) for w in caught))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_a_warning_made_an_error_is_raised_where_eager_raises_it() -> None:
    """The input that was written before is put back, and the frame runs plainly."""

    def f(x: torch.Tensor, log: list[Any]) -> Any:
        x.add_(1)
        try:
            return torch.nn.functional.mse_loss(x, torch.ones(2, 1))
        except UserWarning as error:
            log.append(type(error).__name__)
            return x * 2

    compiled = Compiled(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (f, compiled.call, compiled.call):
            x, log = torch.ones(2), []
            assert function(x, log).tolist() == [4.0, 4.0]
            assert x.tolist() == [2.0, 2.0]
            assert log == ["UserWarning"]
