"""Each test starts without compiled functions, and torch._dynamo's settings as they were."""

from collections.abc import Iterator

import gramme
import pytest
import torch._dynamo


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    gramme.reset()
    with torch._dynamo.config.patch():
        yield
    gramme.reset()
