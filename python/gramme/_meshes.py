"""Device meshes in graphs: attributes in gramme's graphs, inputs in those that compilers get.

AOTAutograd knows a mesh as an input. It takes one that is an attribute for a tensor where backward needs it, and
Inductor keeps no such graph in its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._torch import names

if TYPE_CHECKING:
    from ._graph_module import LazyGraphModule

__all__ = ["has_meshes", "with_meshes"]

_FIRST = "device_mesh"  # the attribute for a graph's first mesh (src/trace/arguments.cpp); others have a number behind


def has_meshes(graph_module: LazyGraphModule) -> bool:
    """Whether the graph uses a mesh. Most do not, so it is asked for one name."""
    return _FIRST in vars(graph_module)


def with_meshes(compiler: Callable[..., Any], graph_module: LazyGraphModule, inputs: list[Any]) -> Any:
    """Compiles the graph with its meshes as the last inputs. What it returns is called without them."""
    meshes = {name: value for name, value in vars(graph_module).items() if name.startswith(_FIRST)}
    graph = graph_module.graph
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for target, mesh in meshes.items():
        with graph.inserting_before(first):
            made = graph.placeholder(f"L_{target}_", type(mesh))
        made.meta["example_value"] = names.maybe_to_fake_obj(None, mesh)
        made._dynamo_source = None  # AOTAutograd reads it of each input
        for node in [n for n in graph.nodes if n.op == "get_attr" and n.target == target]:
            node.replace_all_uses_with(made)
            graph.erase_node(node)
        delattr(graph_module, target)
    graph_module.recompile()
    given = list(meshes.values())
    run = compiler(graph_module, [*inputs, *given])

    def call(*inputs: Any) -> Any:
        return run(*inputs, *given)

    return call if callable(run) else run
