"""What the tests of the native executor share."""

from collections.abc import Iterator

import gramme
import pytest
import torch

from native import same


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing compiled before; operators run in one thread."""
    gramme.reset()
    same.older[:] = same.all_graphs()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    same.older.clear()
    gramme.reset()
