"""Which skip tensors go from which partition to which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import nn

from .namespace import Namespace
from .skippable import Key, Skippable

__all__ = ["SkipLayout", "inspect_skip_layout"]


class SkipLayout:
    """The routes of skip tensors.

    Args:
        num_partitions: how many partitions there are.
        skip_routes: for (namespace, name) the partitions where it is stashed and popped.

    Example:
        >>> layout = SkipLayout(3, {(None, "x"): (0, 2)})
        >>> layout.requires_copy(None, "x"), list(layout.copy_policy(2))
        (True, [(0, None, 'x')])

    """

    def __init__(self, num_partitions: int, skip_routes: Mapping[Key, tuple[int, int]]) -> None:
        self.by_ns_name = dict(skip_routes)
        arriving: list[list[tuple[int, Namespace | None, str]]] = [[] for _ in range(num_partitions)]
        for (namespace, name), (source, target) in skip_routes.items():
            arriving[target].append((source, namespace, name))
        self.by_partition = [sorted(rows, key=lambda row: row[0]) for rows in arriving]

    def copy_policy(self, next_j: int) -> Iterator[tuple[int, Namespace | None, str]]:
        """Gives what arrives at a partition from others.

        Returns:
            (partition where it was stashed, namespace, name), by that partition.

        """
        return (row for row in self.by_partition[next_j] if row[0] != next_j)

    def requires_copy(self, ns: Namespace | None, name: str) -> bool:
        """Tells whether it goes from one partition to another; names that are not known stay where they are."""
        source, target = self.by_ns_name.get((ns, name), (-1, -1))
        return source != target


def inspect_skip_layout(partitions: Sequence[nn.Module]) -> SkipLayout:
    """Finds the routes: of the layers of the partitions, not of what is nested in them.

    Args:
        partitions: each an nn.Sequential.

    Returns:
        The layout. What is stashed and never popped has no route.

    """
    stashed: dict[Key, int] = {}
    routes: dict[Key, tuple[int, int]] = {}
    for j, partition in enumerate(partitions):
        for layer in partition.children():
            if not isinstance(layer, Skippable):
                continue
            for key in layer.stashable():
                stashed[key] = j
            for key in layer.poppable():
                if key in stashed:
                    routes[key] = (stashed.pop(key), j)
    return SkipLayout(len(partitions), routes)
