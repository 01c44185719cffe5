"""How far a capture has come (src/trace/progress.h), without a capture."""

import pytest
from graph.binding import testing


def test_work_has_a_budget() -> None:
    progress = testing.TestProgress(budget=2, depth=1)
    progress.tick()
    progress.tick()
    with pytest.raises(RuntimeError):
        progress.tick()


def test_calls_are_counted_and_limited() -> None:
    progress = testing.TestProgress(budget=1, depth=2)
    progress.enter_call()
    assert not progress.is_deepest()
    progress.enter_call()
    assert progress.is_deepest()
    progress.leave_call()
    progress.leave_call()
    progress.enter_call()
    assert progress.deepest() == 2
    assert not progress.is_deepest()


def test_a_step_to_end_before_is_noted() -> None:
    progress = testing.TestProgress(budget=1, depth=1)
    assert progress.stops_at() is None
    with pytest.raises(RuntimeError):
        progress.stop_at(7)
    assert progress.stops_at() == 7
