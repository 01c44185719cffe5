"""The inputs of a graph and the numbers computed from them (src/trace/graph_inputs.h), without a capture."""

from typing import Any

import pytest
import torch
from graph.binding import testing


@pytest.fixture
def inputs() -> Any:
    return testing.TestInputs()


def test_placeholders_know_the_real_objects(inputs: Any) -> None:
    real = torch.ones(3)
    x, size = inputs.tensor(real), inputs.symbol(0, 3)
    assert inputs.placeholders() == [x, size]
    assert inputs.object(x) is real
    assert inputs.object(size) == 3


def test_a_symbol_has_one_node(inputs: Any) -> None:
    assert inputs.find_symbol(0) is None
    size = inputs.symbol(0, 3)
    out_of_data = inputs.bind(1)
    assert inputs.find_symbol(0) == size
    assert inputs.find_symbol(1) == out_of_data
    assert inputs.placeholders() == [size]


def test_each_graph_computes_an_expression_once(inputs: Any) -> None:
    first = inputs.compute(0, in_body=False)
    assert not inputs.is_computed(0, in_body=True)
    inside = inputs.compute(0, in_body=True)
    assert inside != first
    assert inputs.compute(0, in_body=False) == first
    assert inputs.compute(0, in_body=True) == inside
    assert not inputs.is_computed(1, in_body=False)
