"""Captures PyTorch programs as graphs: TorchDynamo's job, done in C++.

>>> import torch, gramme
>>> f = gramme.compile(lambda x: x + 1, backend="eager")
>>> f(torch.zeros(2))
tensor([1., 1.])
"""

import importlib
import sys
from typing import Any

if sys.version_info[:2] not in ((3, 11), (3, 14)) or sys.implementation.name != "cpython":
    raise ImportError(f"gramme needs CPython 3.11 or 3.14, this is {sys.implementation.name} {sys.version.split()[0]}")

try:
    import torch
except ImportError as error:
    raise ImportError("gramme needs torch: pip install torch==2.13.0") from error

# After torch, which loads the libraries that the extension module is linked against. It is bound to the minor version
# that it was built for: others have classes of another layout, and it refuses them.
try:
    from . import _C as _C
except ImportError as error:
    raise ImportError(f"gramme does not work with torch {torch.__version__}: {error}") from error

from ._backends import list_backends
from ._compile import Statistics, compile, disable, graph_break, reset, statistics
from ._dynamo_names import follow_reset
from ._explain import Break, Explanation, Segment, explain
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
