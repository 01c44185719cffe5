"""What a function or module is compiled with."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _C

Backend = Callable[..., Any]


@dataclass(frozen=True)
class Options:
    """What a function is compiled with; makes its entries.

    Attributes:
        backend: takes (graph module, example inputs), gives the callable that runs the graph.
        fullgraph, recompile_limit: as given to compile.
        keep_graphs: keep the graph modules for explain.
        dynamic: as given to compile.

    """

    backend: Backend
    fullgraph: bool
    recompile_limit: int
    keep_graphs: bool = False
    dynamic: bool | None = None

    def entry(self, function: types.FunctionType) -> _C.Entry:
        """A Python function's compiled form."""
        made = _C.make_entry(
            function,
            backend=self.backend,
            fullgraph=self.fullgraph,
            recompile_limit=self.recompile_limit,
            keep_graphs=self.keep_graphs,
            symbolic=getattr(self.backend, "takes_symbols", False),
            dynamic=self.dynamic,
        )
        made._torchdynamo_orig_callable = function
        made._torchdynamo_wrapper_id = id(made)
        return made
