"""The modes of a capture (src/trace/mode_stack.h), without a capture: the thread's state here is the one it finds."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def modes() -> Any:
    return testing.TestModes()


def test_the_first_mode_still_open_is_known_by_its_step(modes: Any) -> None:
    assert modes.first_open() is None
    for step in (3, 5, 5):
        modes.enter(step)
    modes.enter_level(4)
    assert modes.first_open() == 3
    modes.leave(3)
    assert modes.first_open() == 4
    modes.leave_level()
    modes.leave(5)
    assert modes.first_open() == 5  # entered twice
    modes.leave(5)
    assert modes.first_open() is None


def test_the_last_action_is_put_back_first(modes: Any) -> None:
    done = []
    for name in "abc":
        modes.when_put_back(lambda name=name: done.append(name))
    modes.put_back()
    assert done == ["c", "b", "a"]
    modes.put_back()
    assert done == ["c", "b", "a"]


def test_the_thread_is_put_back_at_the_end() -> None:
    modes = testing.TestModes()
    with torch.enable_grad():
        torch.set_grad_enabled(False)
        del modes
        assert torch.is_grad_enabled()


def test_function_modes_leave_in_the_order_of_a_stack(modes: Any) -> None:
    modes.push(1)
    modes.push(2)
    assert [modes.pop(), modes.pop()] == [2, 1]


@pytest.mark.parametrize("change", ["grad", "level", "function mode", "handlers"])
def test_a_body_must_leave_what_it_enters(modes: Any, change: str) -> None:
    modes.enter_body()
    assert modes.leave_body()
    modes.enter_body()
    if change == "grad":
        torch.set_grad_enabled(not torch.is_grad_enabled())
    elif change == "level":
        modes.enter_level(1)
    elif change == "function mode":
        modes.push(1)
    else:
        modes.switch_handlers(1)
        assert not modes.handlers_on()
    assert not modes.leave_body()
    modes.put_back()


def test_a_body_inside_a_transform_is_not_outside_of_it(modes: Any) -> None:
    modes.enter_body()
    modes.enter_level(1)
    assert not modes.is_body_in_level()
    modes.enter_body()
    assert modes.is_body_in_level()


def test_calls_run_under_the_first_default_dtype(modes: Any) -> None:
    assert not modes.has_other_dtype()
    modes.default_dtype(torch.float32, torch.float64)
    modes.default_dtype(torch.float64, torch.float16)
    assert modes.has_other_dtype()
    modes.default_dtype(torch.float16, torch.float32)
    assert not modes.has_other_dtype()
