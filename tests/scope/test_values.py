"""What makes the values of a capture (src/trace/values.h), without a capture."""

from typing import Any

import pytest
from graph.binding import testing


@pytest.fixture
def values() -> Any:
    return testing.TestValues()


def test_none_and_bools_are_one_value_each(values: Any) -> None:
    for single in (None, True, False):
        assert values.constant(single) == values.constant(single)
    assert values.constant(1.5) != values.constant(1.5)


def test_real_objects_are_held(values: Any) -> None:
    held = object()
    assert values.held(held) == 0
    values.constant(held)
    values.lazy(held)
    assert values.held(held) == 2


def test_a_lazy_value_is_looked_into_once(values: Any) -> None:
    lazy = values.lazy((1, 2))
    assert values.looks() == 0
    seen = values.see(lazy)
    assert seen != lazy
    assert values.kind(seen) == "Tuple"
    assert values.see(lazy) == seen == values.see(seen)
    assert values.looks() == 1


def test_a_container_among_constants_of_code_is_one_value(values: Any) -> None:
    one, equal = tuple([1, (2, 3)]), tuple([1, (2, 3)])
    assert values.literal(one) == values.literal(one) != values.literal(equal)
    assert values.is_literal(values.literal(one))
    assert values.literal(one[1]) == values.literal(one[1])
    assert not values.is_literal(values.adopt(one))
    assert not values.is_literal(values.literal(7))


@pytest.mark.parametrize(
    ("real", "kind"),
    [
        ((1, 2), "Tuple"),
        ([1, "x"], "List"),
        ({"x": 1}, "Dict"),
        ({1, 2}, "Set"),
        (slice(1), "Slice"),
        (2.5, "Constant"),
    ],
)
def test_what_a_pure_function_returned_becomes_a_value(values: Any, real: object, kind: str) -> None:
    assert values.kind(values.adopt(real)) == kind


def test_recursion_ends_at_a_limit(values: Any) -> None:
    values.nest(400)
    values.nest(400)  # each level was left
    with pytest.raises(RuntimeError):
        values.nest(600)
    values.nest(400)


def test_what_is_made_can_be_collected(values: Any) -> None:
    assert values.collect(lambda: values.adopt((1, 2))) == 3
    assert values.collect(lambda: values.constant(None)) == 0
    assert values.collect(lambda: values.collect(lambda: values.constant(1.5))) == 0


def test_a_set_keeps_the_order_of_the_real_one(values: Any) -> None:
    members = [f"name{i}" for i in range(40)]
    made, real = values.adopt(set()), set[str]()
    for member in members:
        values.add(made, member)
        real.add(member)
    for member in members[::3]:
        assert values.discard(made, member)
        real.discard(member)
    assert not values.discard(made, "other")
    assert values.members(made) == list(real)
    assert values.pop(made) == real.pop()
    assert values.members(made) == list(real)
    assert values.real(made) == real
