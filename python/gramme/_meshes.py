"""Device meshes in graphs: attributes in gramme's graphs, inputs in those that compilers get.

So PyTorch's front end gives them. Inductor keeps no graph in its cache that has a mesh as an attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._conventions import add_input
from ._torch import names

if TYPE_CHECKING:
    from ._graph_module import LazyGraphModule

__all__ = ["has_meshes", "keeps_meshes", "with_meshes"]

_FIRST = "device_mesh"  # the attribute for a graph's first mesh (src/trace/arguments.cpp); others have a number behind


def keeps_meshes(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a compiler that gets meshes as attributes."""
    vars(compiler)["keeps_meshes"] = True
    return compiler


def has_meshes(graph_module: LazyGraphModule, compiler: Callable[..., Any]) -> bool:
    """Whether the graph has a mesh that becomes an input. Most have none, so it is asked for one name."""
    return _FIRST in vars(graph_module) and not getattr(compiler, "keeps_meshes", False)


def with_meshes(compiler: Callable[..., Any], graph_module: LazyGraphModule, inputs: list[Any]) -> Any:
    """Compiles the graph with its meshes as the last inputs. What it returns is called without them."""
    meshes = {name: value for name, value in vars(graph_module).items() if name.startswith(_FIRST)}
    graph = graph_module.graph
    for target, mesh in meshes.items():
        made = add_input(graph, f"L_{target}_", names.maybe_to_fake_obj(None, mesh), type(mesh))
        for node in list(graph.find_nodes(op="get_attr", target=target)):
            node.replace_all_uses_with(made)
            graph.erase_node(node)
        delattr(graph_module, target)
    graph_module.recompile()
    given = list(meshes.values())
    run = compiler(graph_module, [*inputs, *given])

    def call(*inputs: Any) -> Any:
        return run(*inputs, *given)

    return call if callable(run) else run
