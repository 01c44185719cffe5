"""The options with which a function or module is compiled."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _C
from ._terms import may_share, number_of

Backend = Callable[..., Any]


@dataclass(frozen=True)
class Options:
    """The options of a compiled function; makes its entries.

    Attributes:
        backend: takes (graph module, example inputs), gives the callable that runs the graph.
        fullgraph, recompile_limit: as given to compile.
        keep_graphs: keep the graph modules for explain.
        dynamic: as given to compile.
        guard_filter: the option guard_filter_fn.
        compiles_backward: backward passes within a call are compiled, too.
        isolated: nothing is shared with other entries of equal code.

    """

    backend: Backend
    fullgraph: bool
    recompile_limit: int | None
    keep_graphs: bool = False
    dynamic: bool | None = None
    guard_filter: Callable[..., Any] | None = None
    compiles_backward: bool = False
    isolated: bool = False

    def entry(self, function: types.FunctionType) -> _C.Entry:
        """A Python function's compiled form."""
        made = _C.make_entry(
            function,
            backend=self.backend,
            fullgraph=self.fullgraph,
            recompile_limit=self.recompile_limit,
            keep_graphs=self.keep_graphs,
            contract=getattr(self.backend, "contract", ""),
            dynamic=self.dynamic,
            guard_filter=self.guard_filter,
            terms=number_of(self),
            shares=may_share(self) and not self.compiles_backward,
            exact_numpy=getattr(self.backend, "exact_numpy", False),
        )
        if self.compiles_backward:
            _C.compile_backward(made)
        made._torchdynamo_orig_callable = function
        made._gramme_options = self
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = self.compiler_config
        made.aot_compile = aot_compile
        made.__prepare_scriptable__ = lambda: function  # read by torch.jit.script
        # The marks by which PyTorch's front end, in strict export, continues with another function.
        made.__dict__["__script_if_tracing_wrapper"] = True
        made.__dict__["__original_fn"] = function
        return made

    def __call__(self, callable_: Any) -> Any:
        """Compiles a callable with these options, like the `dynamo_ctx` of a compiled module in PyTorch."""
        from ._compile import compiled_form

        return compiled_form(callable_, self)

    def compiler_config(self) -> Any:
        """The backend's settings, as Inductor gives them; None if it has none."""
        compiler = getattr(self.backend, "compiler", self.backend)
        ask = getattr(compiler, "get_compiler_config", None)
        return None if ask is None else ask()


def aot_compile(*args: Any, **kwargs: Any) -> Any:
    """Unsupported: PyTorch's compilation ahead of the first call; gramme keeps nothing beyond the process.

    Raises:
        NotImplementedError: always.

    """
    raise NotImplementedError(
        "aot_compile is not supported by gramme, which compiles at the first call; "
        "torch.export, or torch.compile without gramme.install(), compiles ahead of it"
    )
