"""Parts of a program that may change only what they make (src/trace/confined.h), without a capture."""

from typing import Any

import pytest
from graph.binding import testing


@pytest.fixture
def confinement() -> Any:
    return testing.TestConfinement()


def test_outside_of_such_a_part_anything_may_change(confinement: Any) -> None:
    value = confinement.make()
    confinement.change(value)
    confinement.enter()
    assert confinement.any()
    with pytest.raises(RuntimeError):
        confinement.change(value)
    confinement.leave()
    assert not confinement.any()
    confinement.change(value)


def test_what_is_made_inside_may_change(confinement: Any) -> None:
    confinement.enter()
    value = confinement.make()
    confinement.change(value)
    confinement.enter()
    inner = confinement.make()
    with pytest.raises(RuntimeError):
        confinement.change(value)
    confinement.leave()
    confinement.change(inner)
    confinement.change(confinement.make())


def test_what_is_put_back_may_change(confinement: Any) -> None:
    value = confinement.make()
    confinement.enter()
    confinement.put(value, before=1, now=2)
    with pytest.raises(RuntimeError):
        confinement.check()
    confinement.put(value, before=1, now=1)
    confinement.check()
