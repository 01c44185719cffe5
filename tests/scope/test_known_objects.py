"""The real objects that a capture knows (src/trace/known_objects.h), without a capture."""

from typing import Any

import pytest
from graph.binding import testing


class Holder:
    pass


@pytest.fixture
def objects() -> Any:
    return testing.TestObjects()


def test_an_object_has_one_value(objects: Any) -> None:
    known, other = object(), object()
    objects.add(known)
    assert objects.knows(known)
    assert not objects.knows(other)
    assert objects.pins(known)
    assert not objects.pins(other)
    assert objects.count() == 1


def test_variables_of_a_module_are_one_value(objects: Any) -> None:
    names: dict[str, int] = {}
    assert not objects.has_variables(names)
    assert objects.has_variables(names)
    assert not objects.has_variables({})
    assert objects.count() == 2


def test_attributes_are_no_dict_of_their_own(objects: Any) -> None:
    holder = Holder()
    holder.x = 1  # type: ignore[attr-defined]
    names = vars(holder)
    objects.refuse_as_dict(names)
    objects.note_dict_of(holder)
    with pytest.raises(RuntimeError):
        objects.refuse_as_dict(names)


def test_a_dict_is_not_attributes_or_variables_later(objects: Any) -> None:
    holder = Holder()
    names = vars(holder)
    objects.add(names)
    with pytest.raises(RuntimeError):
        objects.note_dict_of(holder)
    with pytest.raises(RuntimeError):
        objects.has_variables(names)


def test_variables_are_no_dict_later(objects: Any) -> None:
    names: dict[str, int] = {}
    objects.has_variables(names)
    with pytest.raises(RuntimeError):
        objects.refuse_as_dict(names)
