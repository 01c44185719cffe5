"""Numbers that come out of data (src/trace/data_numbers.h), without a capture."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def numbers() -> Any:
    return testing.TestDataNumbers()


def test_sizes_that_data_decides_are_new_numbers(numbers: Any) -> None:
    assert not numbers.any()
    assert numbers.infer(torch.nonzero, torch.ones(3)) == 1
    assert numbers.infer(torch.neg, torch.ones(3)) == 0
    assert numbers.any()


def test_conditions_on_results_wait_for_the_call(numbers: Any) -> None:
    numbers.wait(0)
    numbers.wait(1)
    assert numbers.take_waiting() == 2
    assert numbers.take_waiting() == 0


def test_an_item_is_its_tensor_until_something_is_written(numbers: Any) -> None:
    numbers.note_item(0, 1, writes=2)
    assert numbers.item_of(0, writes=2) == 1
    assert numbers.item_of(0, writes=3) is None
    assert numbers.item_of(1, writes=2) is None
    numbers.note_item(0, 2, writes=3)
    assert numbers.item_of(0, writes=3) == 2


def test_a_number_has_one_tensor(numbers: Any) -> None:
    assert numbers.tensor_of(0) is None
    numbers.note_tensor(0, 1)
    assert numbers.tensor_of(0) == 1
