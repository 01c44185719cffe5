"""The class of graph modules for backends, and a way to find the node that raised."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch.fx

from ._node_meta import NodeMeta
from ._torch.names import _LazyGraphModule

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["LazyGraphModule", "locate", "make"]

# FX stores names in a graph's nodes while it prints them, so two threads that print one graph mix up names. One lock
# for all graphs, since a finalizer that runs meanwhile may print another graph.
_generating = threading.RLock()

# Attributes beside `meta` that the context of a hand-over sets on the module at the first look (_context.py).
_LATE = {"compile_subgraph_reason", "_param_name_to_source", "_source_to_user_stacks"}


_set_graph = torch.fx.GraphModule.graph.fset  # type: ignore[attr-defined]


class LazyGraphModule(_LazyGraphModule):
    """A graph module whose Python is generated at the first call of `forward`.

    Calls do not go through Module.__call__: hooks registered for all modules are meant for the program's, and nothing
    is printed where a graph raises.
    """

    def _real_recompile(self) -> Any:
        if type(self) is _common_class:
            self.__class__ = type(torch.fx.GraphModule.__new__(LazyGraphModule))
            type(self).__name__ = _common_class.__name__
        return super()._real_recompile()

    def real_recompile(self) -> None:
        with _generating:
            super().real_recompile()
            type(self).__call__ = LazyGraphModule.__call__  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph; taking it counts as a look at the nodes' `meta`."""
        if show := self.__dict__.pop("_show_nodes", None):
            show()
        return self._graph

    @graph.setter
    def graph(self, graph: torch.fx.Graph) -> None:
        _set_graph(self, graph)

    def show_nodes(self, show: Callable[[], None]) -> None:
        """Registers a function to be called before the first look at a node."""
        self.__dict__["_show_nodes"] = show

    def _look(self) -> None:
        if isinstance(meta := self.__dict__.get("meta"), NodeMeta):
            meta.look()

    def __getattr__(self, name: str) -> Any:
        if name in _LATE:
            self._look()
            if name in self.__dict__:
                return self.__dict__[name]
        return super().__getattr__(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        _ = self.graph
        self._look()  # it writes to what is about to be copied
        return super().__deepcopy__(memo)

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return type(self).forward(self, *args, **kwargs)

    forward = _lazy_forward


# What torch.fx's constructor makes of a graph without attributes: each module has the same but for the graph. A module
# has a class of its own only from the moment when Python is generated into it.
_pattern = LazyGraphModule({}, torch.fx.Graph())
_common_class = type(_pattern)
_state = {name: value for name, value in vars(_pattern).items() if name != "_graph"}
_containers = [(name, type(value)) for name, value in _state.items() if hasattr(value, "__len__")]
assert not any(_state[name] for name, _ in _containers)


def make(attributes: dict[str, Any], graph: torch.fx.Graph) -> LazyGraphModule:
    """The module of a new graph, whose nodes name attributes. Called from C++."""
    if attributes:
        return LazyGraphModule(attributes, graph)
    module: LazyGraphModule = object.__new__(_common_class)
    state = module.__dict__
    state.update(_state)
    for name, kind in _containers:
        state[name] = kind()
    state["_graph"] = graph
    graph.owning_module = module
    return module


def locate(module: LazyGraphModule, error: BaseException) -> int | None:
    """The call in `module` that raised, counted from 0; `error` loses the traceback down to the generated code."""
    if type(module).forward is LazyGraphModule._lazy_forward:
        return None
    code = type(module).forward.__code__
    entry: TracebackType | None = error.__traceback__
    while entry is not None and entry.tb_frame.f_code is not code:
        entry = entry.tb_next
    if entry is None:
        return None
    line_map: dict[int, int | None] = module._lineno_map or {}
    index = line_map.get(entry.tb_lineno - module._prologue_start)
    if index is None:
        return None
    error.__traceback__ = entry.tb_next
    inputs: int = sum(node.op == "placeholder" for node in module.graph.nodes)
    return index - inputs
