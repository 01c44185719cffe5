"""Which numbers vary (src/trace/varying.h), without a capture."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def numbers() -> Any:
    return testing.TestNumbers()


@pytest.mark.parametrize("number", [3, 2.5])
def test_a_number_varies_once_it_has_changed(numbers: Any, number: float) -> None:
    assert numbers.at(0, number) == "Constant"
    numbers.saw(1, number)
    assert numbers.at(1, number) == "Constant"
    numbers.saw(2, number + 1)
    assert numbers.at(2, number) == "Number"
    assert len(numbers.varying()) == 1
    assert len(numbers.facts()) == 3


def test_a_number_that_was_needed_stays_a_constant(numbers: Any) -> None:
    numbers.saw(0, 4)
    numbers.needed(0)
    assert numbers.at(0, 3) == "Constant"
    assert numbers.varying() == []


def test_a_number_of_another_type_is_another_constant(numbers: Any) -> None:
    numbers.saw(0, 4.0)
    assert numbers.at(0, 3) == "Constant"


def test_large_ints_are_constants(numbers: Any) -> None:
    numbers.saw(0, 4)
    assert numbers.at(0, 1 << 40) == "Constant"


def test_a_specialised_number_is_guarded(numbers: Any) -> None:
    for place, now in ((0, 2.5), (1, 0.0)):
        numbers.saw(place, 7.5)
        assert numbers.at(place, now) == "Number"
        numbers.specialize()
        assert numbers.at(place, now) == "Constant"
    assert numbers.specialized() == numbers.varying()
    assert numbers.zeros() == numbers.specialized()[1:]


def test_sizes_vary_that_have_changed(numbers: Any) -> None:
    assert numbers.sizes(0, torch.ones(3, 4)) == []
    numbers.saw_tensor(1, torch.ones(2, 4))
    assert numbers.sizes(1, torch.ones(3, 4)) == [True, False]
    numbers.saw_tensor(2, torch.ones(4))
    assert numbers.sizes(2, torch.ones(3, 4)) == [True, True]
    numbers.saw_tensor(3, torch.ones(3, 4))
    assert numbers.sizes(3, torch.ones(0, 4)) == []
