"""Classes as a program sees them (src/trace/classes.h), without a capture."""

from typing import Any

import pytest
from graph.binding import testing


@pytest.fixture
def classes() -> Any:
    return testing.TestClasses()


def test_lookups_are_guarded_once(classes: Any) -> None:
    base = type("Base", (), {"x": 1})
    derived = type("Derived", (base,), {})
    assert classes.lookup(derived, "x") == 1
    assert classes.lookup(derived, "y") is None
    assert classes.facts() == 2
    assert classes.lookup(derived, "x") == 1
    assert classes.facts() == 2
    assert classes.lookup(int, "real") is vars(int)["real"]
    assert classes.facts() == 2


def test_the_mro_is_guarded_where_it_was_asked(classes: Any) -> None:
    base = type("Base", (), {})
    derived = type("Derived", (base,), {})
    assert classes.is_subtype(base, base)
    assert classes.facts() == 0
    assert classes.is_subtype(derived, base)
    assert not classes.is_subtype(base, derived)
    assert classes.facts() == 2


def test_a_write_is_seen_by_later_lookups_alone(classes: Any) -> None:
    base = type("Base", (), {"x": 1})
    derived = type("Derived", (base,), {})
    assert not classes.any_written()
    assert not classes.store(base, "x", 2)
    assert classes.any_written()
    assert classes.lookup(derived, "x") == 2
    assert vars(base)["x"] == 1
    classes.store(derived, "x", 3)
    assert classes.lookup(derived, "x") == 3
    assert classes.lookup(base, "x") == 2


def test_behind_a_deleted_member_is_that_of_the_base(classes: Any) -> None:
    base = type("Base", (), {"x": 1})
    derived = type("Derived", (base,), {"x": 2})
    classes.store(derived, "x", None)
    assert classes.lookup(derived, "x") == 1
    classes.store(base, "x", None)
    assert classes.lookup(derived, "x") is None
    assert classes.store(base, "x", 4)  # deleted and set again
    assert classes.lookup(derived, "x") == 4


def test_a_class_that_the_program_makes_is_not_guarded(classes: Any) -> None:
    made = type("Made", (), {})
    classes.add(made, "x", 1)
    assert classes.is_made(made)
    assert classes.lookup(made, "x") == 1
    assert classes.lookup(made, "y") is None
    assert classes.facts() == 0
