"""The facts of a capture (src/guards/fact_list.h), without one."""

from typing import Any

import pytest
from graph.binding import testing


@pytest.fixture
def facts() -> Any:
    return testing.TestFacts()


def test_each_fact_is_noted_once(facts: Any) -> None:
    facts.length(0, 3)
    facts.length(0, 3)
    facts.length(1, 3)
    facts.absent(0, "name")
    assert len(facts.all()) == 3
    facts.absent(0, "other")
    assert len(facts.all()) == 4


def test_an_object_differs_from_each_of_several(facts: Any) -> None:
    facts.is_(0, float, same=False)
    facts.is_(0, int, same=False)
    facts.is_(0, int, same=False)
    assert len(facts.all()) == 2


def test_a_pinned_object_is_what_it_is(facts: Any) -> None:
    facts.pinned_is(float)
    assert facts.all() == []
    facts.absent_of(float, "name")
    assert len(facts.all()) == 1


def test_bounds_of_one_number_are_one_interval(facts: Any) -> None:
    facts.between(0, 0.0, 8.0)
    facts.between(1, 0.0, 8.0)
    facts.between(0, 2.0, 16.0)
    first, second = facts.all()
    assert "2" in first
    assert "8" in first
    assert "16" not in first
    assert "0" in second
    assert "8" in second


def test_what_the_capture_made_is_not_guarded(facts: Any) -> None:
    made = type("Made", (), {})
    assert not facts.is_exempt(made)
    facts.exempt(made)
    assert facts.is_exempt(made)
    assert facts.is_exempt(made())
    assert not facts.is_exempt(float)
    assert not facts.is_exempt(1.5)
    facts.absent_of(made, "name")
    facts.absent_of(made(), "name")
    assert facts.all() == []
    facts.type(0, made)
    assert len(facts.all()) == 1


def test_sources_are_not_nested_without_end(facts: Any) -> None:
    with pytest.raises(RuntimeError):
        facts.nest(20_000)
