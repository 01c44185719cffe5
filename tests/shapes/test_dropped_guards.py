"""Guards of one sort are left out: the comparison of programs with eager tells."""

from collections.abc import Iterator

import pytest
from graph.binding import testing

from shapes.harness import fuzz
from shapes.programs import BY_NAME

pytestmark = pytest.mark.slow
CALLS = 10

# By sort: a program that is wrong without, and whether all sizes vary from the start.
NEEDED: dict[str, tuple[str, bool | None]] = {
    "SizeOfAnother": ("guarded.as_many_rows", True),
    "StrideOfSizes": ("guarded.rows_apart", None),
    "Stride": ("guarded.columns_apart", None),
    "Offset": ("guarded.begun_further_on", None),
    "Int": ("guarded.more_than_four", None),
    "Remainder": ("guarded.multiples", None),
    "Either": ("layouts.transposed_input", None),
    "EqualSizes": ("guarded.as_many_rows", None),
    "NotOne": ("branching.matched", None),
    "OtherValue": ("branching.ranges_chained", None),
    "UnequalSizes": ("guarded.as_many_rows", None),
    "NotEmpty": ("arithmetic.truth_of_sizes", None),
    "Least": ("branching.between_bounds", None),
    "Most": ("branching.between_bounds", None),
    "Order": ("branching.sorted_sizes", None),
    "Float": ("guarded.fraction_of_a_size", None),
}


@pytest.fixture
def dropped(kind: str) -> Iterator[None]:
    assert testing.drop_guards(kind)
    yield
    testing.drop_guards("")


def found(kind: str) -> str:
    name, dynamic = NEEDED[kind]
    return fuzz(BY_NAME[name], "eager", BY_NAME[name].calls(CALLS), dynamic).failure


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", testing.shape_kinds())
def test_something_is_wrong_without(kind: str, dropped: None) -> None:
    assert found(kind)


@pytest.mark.parametrize("kind", testing.shape_kinds())
def test_nothing_is_wrong_with_all(kind: str) -> None:
    assert not found(kind)


def test_names_of_sorts() -> None:
    assert not testing.drop_guards("no such sort")
    assert testing.drop_guards("")
