"""Warnings of an operation whose output is inferred: said when it runs, as often as eagerly, and never before."""

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
