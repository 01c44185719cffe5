"""Cuts arguments into micro-batches, and puts results together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._torch.names import pytree
from ..torchgpipe.pipe import NoChunk


@dataclass
class Scattered:
    """A tree cut into micro-batches.

    Attributes:
        parts: a tree each.
        rows: of each.

    """

    parts: list[Any]
    rows: list[int]
    _leaves: list[tuple[Tensor, Tensor]]  # (the program's tensor, its replacement in a micro-batch)

    def backward(self) -> None:
        """Passes the gradients of the micro-batches to the tensors that were cut."""
        with_grad = [(piece, leaf.grad) for piece, leaf in self._leaves if leaf.grad is not None]
        if with_grad:
            torch.autograd.backward([piece for piece, _ in with_grad], [grad for _, grad in with_grad])


def _rows(leaves: Sequence[Any], parts: int) -> int:
    rows = {len(leaf) for leaf in leaves if _is_cut(leaf)}
    if not rows:
        raise ValueError("there is no tensor to cut into micro-batches")
    if len(rows) > 1:
        raise ValueError(
            f"tensors of {', '.join(map(str, sorted(rows)))} rows cannot be cut alike; NoChunk is for what each "
            "micro-batch gets whole"
        )
    (number,) = rows
    if number < parts:
        raise ValueError(f"a batch of {number} rows cannot be cut into {parts} micro-batches")
    return number


def _is_cut(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def rows_alike(tree: Any) -> list[Tensor]:
    """The tensors of a tree that are cut; none if their rows differ or the program has marked some."""
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if _is_cut(leaf)]
    marked = any(name.startswith("_dynamo_") for leaf in leaves for name in vars(leaf))
    return leaves if len({len(leaf) for leaf in leaves}) == 1 and not marked else []


def scatter(tree: Any, parts: int) -> Scattered:
    """Cuts the tensors of a tree along dimension 0.

    Args:
        tree: tensors without dimensions, other objects and what is in a `NoChunk` are for each micro-batch.
        parts: how many; sizes differ by one at most, the first are the greater ones.

    Returns:
        The micro-batches.

    Raises:
        ValueError: there are fewer rows than parts, or tensors of different numbers of rows.

    Example:
        >>> [part.tolist() for part in scatter(torch.arange(5), 2).parts]
        [[0, 1, 2], [3, 4]]

    """
    leaves, spec = pytree.tree_flatten(tree)
    number = _rows(leaves, parts)
    rows = [number // parts + (i < number % parts) for i in range(parts)]
    columns, stand_ins = [], []
    for leaf in leaves:
        pieces: Sequence[Any] = leaf.split(rows) if _is_cut(leaf) else [leaf] * parts
        if isinstance(leaf, NoChunk):
            pieces = [leaf.tensor] * parts
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            own = [piece.detach().requires_grad_() for piece in pieces]
            stand_ins += list(zip(pieces, own, strict=True))
            pieces = own
        columns.append(pieces)
    trees = [pytree.tree_unflatten(list(row), spec) for row in zip(*columns, strict=True)]
    return Scattered(trees, rows, stand_ins)


def gather(trees: Sequence[Any]) -> Any:
    """Puts the results of micro-batches together.

    Args:
        trees: of one structure.

    Returns:
        The same structure: tensors along dimension 0, those without dimensions stacked; other objects as they are if
        they are equal in all, else a list of them.

    Example:
        >>> gather([{"x": torch.ones(2), "n": 2}, {"x": torch.zeros(1), "n": 1}])
        {'x': tensor([1., 1., 0.]), 'n': [2, 1]}

    """
    flat = [pytree.tree_flatten(tree) for tree in trees]
    return pytree.tree_unflatten(
        [_gathered(column) for column in zip(*(leaves for leaves, _ in flat), strict=True)], flat[0][1]
    )


def _gathered(column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, Tensor):
        whole = [tensor.detach() for tensor in column]
        return torch.cat(whole) if first.dim() else torch.stack(whole)
    return first if all(other == first for other in column) else list(column)
