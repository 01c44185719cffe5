"""What the tests of the native executor share."""

from collections.abc import Iterator

import gramme
import pytest
import torch


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing compiled before; operators run in one thread."""
    gramme.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    gramme.reset()
