"""The exceptions of a program (src/trace/exceptions.h), without a capture."""

from typing import Any

import pytest
from graph.binding import testing


@pytest.fixture
def exceptions() -> Any:
    return testing.TestExceptions()


def test_a_raised_exception_has_the_handled_one_as_context(exceptions: Any) -> None:
    first, second, third = (exceptions.make(ValueError, "text") for _ in range(3))
    exceptions.raise_(first)
    assert exceptions.context(first) is None
    exceptions.handle(first)
    exceptions.raise_(second)
    assert exceptions.context(second) == first
    assert exceptions.leads_to(second, first)
    assert not exceptions.leads_to(first, second)
    exceptions.handle(None)
    exceptions.handle_outside(second)
    exceptions.raise_(third)
    assert exceptions.leads_to(third, first)


def test_a_chain_that_leads_back_is_cut(exceptions: Any) -> None:
    first, second = exceptions.make(ValueError, "text"), exceptions.make(ValueError, "text")
    exceptions.handle(first)
    exceptions.raise_(second)
    exceptions.handle(second)
    exceptions.raise_(first)
    assert exceptions.context(first) == second
    assert exceptions.context(second) is None


def test_a_size_in_a_text_is_a_constant_once_the_program_can_read_it(exceptions: Any) -> None:
    failed = exceptions.fail(RuntimeError("size 3"), 3)
    other = exceptions.make(ValueError, "text")
    exceptions.told(other)
    assert not exceptions.is_fixed()
    exceptions.handle(failed)
    exceptions.raise_(other)
    exceptions.told(other)  # its context is the one that failed
    assert exceptions.is_fixed()
