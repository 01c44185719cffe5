"""Tensors that are looked at before a capture needs them (src/trace/shown.h), without a capture."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def shown() -> Any:
    return testing.TestShown()


def test_inputs_come_in_the_order_of_first_looks(shown: Any) -> None:
    first, second = torch.ones(1), torch.ones(2)
    assert shown.is_before(first, 0, second, 1)
    shown.look_at(second)
    assert shown.is_before(second, 1, first, 0)
    shown.look_at(first)
    shown.look_at(first)
    assert shown.is_before(second, 1, first, 0)


def test_what_was_an_input_before_a_look_stays_in_front(shown: Any) -> None:
    first, second, third = torch.ones(1), torch.ones(2), torch.ones(3)
    shown.add_input(first)
    shown.look_at(second)
    assert shown.is_before(first, 0, second, 2)
    assert shown.is_before(second, 2, third, 1)


def test_a_look_for_constants_ends_at_the_first_other_object(shown: Any) -> None:
    first, second = torch.ones(1), torch.ones(2)
    assert shown.look_for_constant([1, "x", float])
    assert not shown.look_for_constant([1, second, first])
    assert shown.is_before(second, 1, first, 0)
