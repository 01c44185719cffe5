"""Fixtures that several files of this folder use."""

import pytest
import torch
from gramme.pipeline import split

from pipeline.failing import MayFail


@pytest.fixture(scope="module")
def may_fail():
    torch.manual_seed(0)
    model = MayFail()
    cut = split(model, (torch.randn(2, 4), torch.zeros(2)), stages=3)
    return model, cut
