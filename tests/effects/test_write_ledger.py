"""What is written in place, told by the ledger alone (src/effects/write_ledger.h): no capture, no scope."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def ledger() -> Any:
    return testing.TestLedger()


def test_what_was_written_before_an_operation_that_may_raise_is_restored(ledger: Any) -> None:
    x, y = ledger.input(torch.ones(2)), ledger.input(torch.ones(2))
    ledger.write(x, ledger.node())
    ledger.expect_raise()
    assert ledger.restored() == [(x, True)]
    assert ledger.lasting() is None
    last = ledger.node()
    ledger.write(y, last)
    assert ledger.restored() == [(x, True)]
    assert ledger.lasting() == last  # nothing after it is to run twice


def test_a_write_that_cannot_be_put_back_lasts(ledger: Any) -> None:
    x = ledger.input(torch.ones(2))
    first = ledger.node()
    ledger.write(x, first, restorable=False)
    ledger.expect_raise()  # the exception leaves the frame
    assert not ledger.restored()
    assert ledger.lasting() == first
    with pytest.raises(RuntimeError):  # a handler of the program would be skipped
        ledger.expect_raise(handled=True)


def test_a_written_view_counts_for_its_root(ledger: Any) -> None:
    real = torch.ones(2, 2)
    x, other = ledger.input(real), ledger.input(torch.ones(2))
    row = ledger.made(real[0], of=x)
    column = ledger.made(real[:, 0], of=x)
    ledger.write(row, ledger.node())
    assert ledger.written() == [x]
    assert ledger.is_written_around(x)
    assert ledger.is_written_around(column)
    assert not ledger.is_written_around(other)


def test_what_the_graph_made_is_no_input(ledger: Any) -> None:
    x, made = ledger.input(torch.ones(2)), ledger.made(torch.ones(2))
    ledger.write(made, ledger.node())
    assert ledger.written() == []
    assert ledger.is_written_around(made)
    assert not ledger.is_written_around(x)


def test_a_bodys_writes_settle_on_the_node_that_runs_it(ledger: Any) -> None:
    x = ledger.input(torch.ones(2))
    ledger.enter_body()
    inside = ledger.node()
    ledger.write(x, inside)
    assert ledger.lasting() == inside
    caller = ledger.node()  # of the inner body, which an outer one runs
    assert ledger.leave_body(caller)
    assert ledger.lasting() == caller


def test_a_body_that_writes_its_own_tensors_writes_nothing_around(ledger: Any) -> None:
    ledger.input(torch.ones(2))
    ledger.enter_body()
    own = ledger.made(torch.ones(2))
    ledger.write(own, ledger.node())
    assert not ledger.leave_body(ledger.node())


def test_parameters_are_saved_only_where_the_segment_would_end(ledger: Any) -> None:
    x = ledger.input(torch.ones(2, requires_grad=True))
    ledger.write(x, ledger.node())
    ledger.expect_raise()
    assert not ledger.restored()
    ledger.expect_raise(handled=True)
    assert ledger.restored() == [(x, True)]
    assert ledger.lasting() is None


def test_what_is_overwritten_unread_needs_no_copy(ledger: Any) -> None:
    real = torch.ones(4)
    x = ledger.input(real)
    ledger.write(x, ledger.node(), overwritten=True)
    assert ledger.lasting() is None
    ledger.expect_raise()
    assert ledger.restored() == [(x, False)]
    ledger.input(real[:2])  # the same memory may be read through this one
    assert ledger.restored() == [(x, True)]


def test_nothing_is_written_that_replay_changes_later(ledger: Any) -> None:
    real = torch.ones(2)
    x = ledger.input(real)
    view = ledger.made(real[:1], of=x)
    ledger.keep_unwritten(view)
    with pytest.raises(RuntimeError):
        ledger.write(x, ledger.node())
    ledger.close(view)
    ledger.keep_unwritten(view)
    assert ledger.is_closed(view)


def test_views_require_a_gradient_with_what_was_written(ledger: Any) -> None:
    real = torch.ones(2)
    x = ledger.input(real)
    view = ledger.made(real[:1], of=x)
    ledger.write(x, ledger.node(), after=torch.ones(2, requires_grad=True) * 1)
    assert ledger.gained() == [x]
    assert ledger.requires_grad(view)


def test_an_operator_in_python_runs_twice_only_for_handlers(ledger: Any) -> None:
    node = ledger.node()
    ledger.python(node)
    assert ledger.lasting() == node
    with pytest.raises(RuntimeError):
        ledger.python(ledger.node(), handled=True)
    ledger.python(ledger.node(), handled=True, breaks=False)  # fullgraph=True
    assert ledger.lasting() is None
