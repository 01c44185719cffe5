"""Captures PyTorch programs as graphs: TorchDynamo's job, done in C++.

>>> import torch, gramme
>>> f = gramme.compile(lambda x: x + 1, backend="eager")
>>> f(torch.zeros(2))
tensor([1., 1.])
"""

import importlib
from typing import Any

from . import _extension as _extension  # loads _C, which what follows uses

# isort: split
from . import _C as _C
from ._backends import list_backends
from ._compile import Statistics, compile, disable, graph_break, reset, statistics
from ._dynamo_names import follow_reset
from ._explain import Break, Explanation, Segment, captured, explain
from ._export import export
from ._install import Installation, install, uninstall
from ._meter import Measurement, Meter, meter
from ._module import OptimizedModule
from ._native import gramme_native
from ._record import Recording, follow_environment, record
from .errors import BackendError, CaptureError

__all__ = [
    "BackendError",
    "Break",
    "CaptureError",
    "Explanation",
    "Installation",
    "Measurement",
    "Meter",
    "OptimizedModule",
    "Recording",
    "Segment",
    "Statistics",
    "captured",
    "compile",
    "disable",
    "explain",
    "export",
    "gramme_native",
    "graph_break",
    "install",
    "list_backends",
    "meter",
    "record",
    "reset",
    "statistics",
    "uninstall",
]

__version__ = "0.1.0"

follow_reset()
follow_environment()


def __getattr__(name: str) -> Any:
    """`gramme.pipeline`, imported when it is first asked for."""
    if name in ("pipeline", "torchgpipe"):
        return importlib.import_module(f"gramme.{name}")
    raise AttributeError(f"module 'gramme' has no attribute {name!r}")
