"""Operations warn under the filters that the program has set by then."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

from e2e import front

X = torch.ones(2, 2)


def recorded(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = F.softmax(x)
    return y, [str(w.message)[:18] for w in caught]


def ignored(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return F.softmax(x)


def an_error(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return F.softmax(x)
        except UserWarning as error:
            return str(error)[:18]


def shown_after_it(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Implicit dimension")
        y = F.softmax(x)
    return F.log_softmax(y)


@pytest.mark.parametrize("program", [recorded, ignored, an_error, shown_after_it])
def test_filters_set_by_the_program(program: Callable[..., Any]) -> None:
    def observe(function: Callable[..., Any]) -> tuple[Any, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(X)
        return result, [str(w.message)[:18] for w in caught]

    expected = observe(program)
    compiled = front.compile(program, backend="eager")
    for _ in range(3):
        assert repr(observe(compiled)) == repr(expected)


@pytest.mark.skipif(not front.GRAMME, reason="torch.compile warns while it compiles")
def test_one_graph_is_kept_whole() -> None:
    compiled = front.compile(ignored, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(compiled(X), ignored(X))


# ---- operations while the filters are as before, and while they are not


def plain(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        y = x.sin()
        with warnings.catch_warnings():
            y = y + 1
    return y * 2


def set_and_put_back(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    return y * 2


def reset(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        before = warnings.filters[:]
        warnings.resetwarnings()
        warnings.filters[:] = before
        return x.sin() * 2


def set_inside(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        y = x.sin()
        warnings.simplefilter("ignore")
        y = y + 1
    return y * 2


def recording(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings(record=True) as caught:
        y = x.sin()
    return y * len(caught)


def shown_otherwise(x: torch.Tensor) -> torch.Tensor:
    def show(*_: Any) -> None:
        raise AssertionError

    with warnings.catch_warnings():
        warnings.showwarning = show
        y = x.sin()
    return y * 2


def left_changed(x: torch.Tensor) -> torch.Tensor:
    warnings.filterwarnings("ignore", message="nothing at all")
    y = x.sin()
    del warnings.filters[0]
    return y * 2


WHOLE = [plain, set_and_put_back, reset]


@pytest.mark.skipif(not front.GRAMME, reason="torch.compile warns while it compiles")
@pytest.mark.parametrize("program", [*WHOLE, set_inside, recording, shown_otherwise, left_changed])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_operations_where_filters_may_have_changed(program: Callable[..., Any], backend: str) -> None:
    before = list(warnings.filters)
    compiled = front.compile(program, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(X), program(X))
        assert list(warnings.filters) == before
    counts = gramme.explain(program)(X)
    assert (counts.graph_count, counts.graph_break_count == 0) == (1, True) or program not in WHOLE
    assert counts.graph_break_count > 0 or program in WHOLE


@torch.library.custom_op("gramme_tests::warning", mutates_args=())
def warning_op(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("it runs", UserWarning, stacklevel=1)
    return x * 2


@warning_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def silent(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return warning_op(x)


def once_around(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        y = warning_op(x)
    return warning_op(y)


@pytest.mark.parametrize("action", ["always", "default", "once", "ignore"])
@pytest.mark.parametrize("program", [silent, once_around])
def test_what_an_operation_shows_when_it_runs(program: Callable[..., Any], action: Any) -> None:
    def observe(function: Callable[..., Any]) -> list[str]:
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            for _ in range(3):
                function(X)
        return [str(w.message) for w in caught]

    compiled = front.compile(program, backend="eager")
    compiled(X)  # PyTorch warns in its first compile
    assert observe(compiled) == observe(program)


@torch.library.custom_op("gramme_tests::deterministic", mutates_args=())
def asking_op(x: torch.Tensor) -> torch.Tensor:
    return x + torch.are_deterministic_algorithms_enabled()


@asking_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def set_before(x: torch.Tensor) -> torch.Tensor:
    torch.use_deterministic_algorithms(True)
    with warnings.catch_warnings():
        y = asking_op(x)
    torch.use_deterministic_algorithms(False)
    return asking_op(y)


def set_inside_the_scope(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        torch.use_deterministic_algorithms(True)
        y = asking_op(x)
        torch.use_deterministic_algorithms(False)
    return asking_op(y)


@pytest.mark.parametrize("program", [set_before, set_inside_the_scope])
def test_another_state_stays_late(program: Callable[..., Any]) -> None:
    before = torch.are_deterministic_algorithms_enabled()
    compiled = front.compile(program, backend="eager")
    try:
        for _ in range(3):
            assert torch.equal(compiled(X), program(X))
    finally:
        torch.use_deterministic_algorithms(before)
