"""Rearranging dimensions by a pattern, in the shape of einops: two cached functions a call, one of which makes an
object that is part of the other's keys."""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["CACHES", "rearrange"]


class Recipe:
    """Where each axis of a pattern lies on both sides."""

    def __init__(self, left: list[list[str]], right: list[list[str]]) -> None:
        self.left, self.right = left, right
        self.axes = [axis for group in left for axis in group]
        self.order = [self.axes.index(axis) for group in right for axis in group]


def _groups(side: str) -> list[list[str]]:
    groups: list[list[str]] = []
    inside = False
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            groups.append([])
            inside = True
        elif word == ")":
            inside = False
        elif inside:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


@functools.lru_cache(256)
def _recipe(pattern: str, names: tuple[str, ...], dims: int) -> Recipe:
    left, right = map(_groups, pattern.split("->"))
    assert len(left) == dims
    assert names == tuple(sorted(names))
    return Recipe(left, right)


@functools.lru_cache(1024)
def _shapes(
    recipe: Recipe, shape: tuple[int, ...], lengths: tuple[tuple[str, int], ...]
) -> tuple[list[int], list[int], list[int]]:
    known: dict[str, int] = dict(lengths)
    for group, size in zip(recipe.left, shape, strict=True):
        product = 1
        for axis in group:
            product *= known.get(axis, 1)
        for axis in group:
            if axis not in known:
                known[axis] = size // product
    final = []
    for group in recipe.right:
        size = 1
        for axis in group:
            size *= known[axis]
        final.append(size)
    return [known[axis] for axis in recipe.axes], recipe.order, final


CACHES: list[Any] = [_recipe, _shapes]


def rearrange(x: torch.Tensor, pattern: str, **lengths: int) -> torch.Tensor:
    """Rearrange the dimensions as the pattern says: `rearrange(x, "b (h d) -> b h d", h=2)`."""
    recipe = _recipe(pattern, tuple(sorted(lengths)), x.ndim)
    first, order, final = _shapes(recipe, tuple(x.shape), tuple(sorted(lengths.items())))
    return x.reshape(first).permute(order).reshape(final)
