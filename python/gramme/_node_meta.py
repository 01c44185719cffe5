"""Fills `meta` of a captured graph's nodes at the first look.

Example values and sources cost more than a capture. PyTorch's own backends always read them. Other backends get nodes
whose `meta` is computed at the first look, during compilation or at any later time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch.fx

if TYPE_CHECKING:
    from collections.abc import ItemsView, KeysView, ValuesView

__all__ = ["NodeMeta", "Tree", "assign_examples", "put_off", "put_off_module", "stamp", "tree_of"]

Tree = list[tuple[torch.fx.Node, "Tree | None"]]
"""The nodes of a graph, each with the nodes of the body that it stands for."""

_LATE = {"creation_timestamp", "example_value", "tensor_dict", "unbacked_bindings"}
_LATE_OF_MODULES = {"dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id"}


def tree_of(module: torch.fx.GraphModule, nodes: Iterable[torch.fx.Node] | None = None) -> Tree:
    """The tree of nodes and bodies of the module's graph, or of these nodes of it."""

    def body(node: torch.fx.Node) -> Tree | None:
        target = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        return tree_of(target) if isinstance(target, torch.fx.GraphModule) else None

    return [(node, body(node)) for node in nodes or module.graph.nodes]


def assign_examples(tree: Tree, examples: list[Any], around: Tree | None = None) -> Iterator[tuple[torch.fx.Node, Any]]:
    """Pairs of nodes and their values by `Examples.fakes`, including nodes of bodies.

    The caller assigns each pair to `meta["example_value"]` before it takes the next: an input of a body has the value
    of the node around it, and what a body returns has the values of its nodes.
    """
    for (node, body), example in zip(tree, examples, strict=True):
        if body is not None:
            yield from assign_examples(body, example, tree)
        elif around is not None and isinstance(example, int):
            outer = around[example][0].meta
            if "tensor_dict" in outer:
                node.meta["tensor_dict"] = dict(outer["tensor_dict"])
            if "creation_timestamp" in outer:
                node.meta["creation_timestamp"] = outer["creation_timestamp"]
            if outer.get("example_value") is not None:
                yield node, outer["example_value"]
        elif node.op == "get_attr":
            yield node, example[0]
        elif example is not None:
            yield node, example
    if around is not None:
        output = tree[-1][0]
        yield output, torch.fx.map_arg(output.args[0], lambda of: of.meta.get("example_value"))


def stamp(tree: Tree, is_body: bool = False) -> None:
    """Adds the stamps that PyTorch's tracer leaves in bodies and at the end of the graph; they have no meaning."""
    for node, body in tree:
        if node.op == "output" or (is_body and node.op != "placeholder"):
            node.meta["creation_timestamp"] = 0
        if body is not None:
            stamp(body, True)


def put_off(tree: Tree, fill: Callable[[], None]) -> None:
    """Calls `fill` at the first look at the nodes' items that it writes."""
    for node, body in tree:
        node.meta = NodeMeta(node.meta, fill, _LATE)
        if body is not None:
            put_off(body, fill)


def put_off_module(module: torch.fx.GraphModule, fill: Callable[[], None]) -> None:
    """The same for the module's `meta`."""
    module.__dict__["meta"] = NodeMeta(module.meta, fill, _LATE_OF_MODULES)  # nn.Module's own way takes longer


class NodeMeta(dict[str, Any]):
    """A dict with items that are computed at the first look at one of them, or at all items.

    A copy is a plain dict.
    """

    __slots__ = ("_fill", "_late")

    def __init__(self, now: dict[str, Any], fill: Callable[[], None], late: set[str]) -> None:
        super().__init__(now)
        self._fill: Callable[[], None] | None = fill
        self._late = late

    def look(self) -> None:
        """Computes the deferred items now."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill()

    def __missing__(self, key: str) -> Any:
        if key not in self._late or self._fill is None:
            raise KeyError(key)
        self.look()
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        if key in self._late:
            self.look()
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        if key in self._late:
            self.look()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.look()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self.look()
        return super().__reversed__()

    def __len__(self) -> int:
        self.look()
        return super().__len__()

    def __repr__(self) -> str:
        self.look()
        return super().__repr__()

    def __eq__(self, other: object) -> bool:
        self.look()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.look()
        return super().keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.look()
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.look()
        return super().items()

    def pop(self, key: str, *default: Any) -> Any:
        self.look()
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        self.look()
        return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        self.look()
        return super().setdefault(key, default)

    def __delitem__(self, key: str) -> None:
        self.look()
        super().__delitem__(key)

    def clear(self) -> None:
        self._fill = None
        super().clear()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        import copy

        return copy.deepcopy(dict(self), memo)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)
