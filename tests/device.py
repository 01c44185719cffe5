"""The device that tests' tensors are on: the CPU, or what GRAMME_DEVICE names (`cuda`), for the suites that ask here.

These do: tests/e2e/test_programs.py, tests/graph/test_op_db.py, tests/native/test_op_db.py, test_programs.py,
test_models.py, test_operator_training.py. Tests of a device's own are in tests/e2e/test_cuda.py.
"""

import os
from typing import Any

import torch

DEVICE = os.environ.get("GRAMME_DEVICE", "cpu")


def placed(value: Any) -> Any:
    """The tensor or module, moved to the device. A leaf stays a leaf."""
    if DEVICE == "cpu":
        return value
    if isinstance(value, torch.nn.Module):
        return value.to(DEVICE)
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_leaf:
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    return value.to(DEVICE)


def streams() -> list[torch.Tensor]:
    """Where the random streams of the CPU and of the device stand."""
    on_device = [] if DEVICE == "cpu" else [torch.get_device_module(DEVICE).get_rng_state()]
    return [torch.get_rng_state(), *on_device]
