"""torch._dynamo.export with gramme as front end: torch's calls as a graph with the function's signature."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .._torch.names import ExportResult, GuardsSet, pytree
from ._front import captured_graph, marks_put_back

__all__ = ["dynamo_export"]

_TAKEN = {"dynamic_shapes", "assume_static_by_default", "prefer_deferred_runtime_asserts_over_guards"}


class _Function(torch.nn.Module):
    """A module around a function, which has its signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


def _all_dimensions(args: Any, kwargs: Any) -> Any:
    """The default for varying sizes: every dimension that can vary."""

    def of(leaf: Any) -> Any:
        return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, torch.Tensor) else None

    args, kwargs = pytree.tree_map(of, (args, kwargs))
    return (*args, *kwargs.values())


def dynamo_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch._dynamo.export; with arguments besides those of the captured graph it is PyTorch's."""

    @functools.wraps(original)
    def export(f: Any, *extra_args: Any, **given: Any) -> Any:
        if given.keys() - _TAKEN or extra_args:
            return original(f, *extra_args, **given)
        shapes, static = given.get("dynamic_shapes"), given.get("assume_static_by_default", False)
        deferred = given.get("prefer_deferred_runtime_asserts_over_guards", False)
        module = f if isinstance(f, torch.nn.Module) else _Function(f)

        def inner(*args: Any, **kwargs: Any) -> Any:
            dynamic = shapes if shapes is not None or static else _all_dimensions(args, kwargs)
            with marks_put_back((args, kwargs)):
                graph = captured_graph(module, args, kwargs, dynamic, (), deferred)
            return ExportResult(graph, GuardsSet())

        return inner

    return export
