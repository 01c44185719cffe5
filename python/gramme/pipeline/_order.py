"""Reorders the operations of a graph with bitwise equal results."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from torch import fx

from ._observe import Operation


def orders(operations: Sequence[Operation]) -> list[list[int]]:
    """Three orders: the program's, each operation as late as its first use, and few bytes alive at any time."""
    before = _constraints(operations)
    made = [list(range(len(operations))), _late(before), _lean(operations, before)]
    return [order for i, order in enumerate(made) if order not in made[:i]]


def _constraints(operations: Sequence[Operation]) -> list[set[int]]:
    """The operations that must run before each operation.

    Gradients of a value are added in the opposite order of its uses, so these stay in order; so do random numbers and
    the uses of memory that is written to.
    """
    place = {operation.node: i for i, operation in enumerate(operations)}
    before: list[set[int]] = [{place[node] for node in op.node.all_input_nodes if node in place} for op in operations]
    written: set[int] = set().union(*(operation.written for operation in operations))
    last: dict[object, int] = {}
    part = -1
    for i, operation in enumerate(operations):
        chains: list[object] = [storage for storage in operation.storages if storage in written]
        if operation.stays:
            chains.append("stays")
        if operation.has_gradient:
            chains += operation.node.all_input_nodes
        for chain in chains:
            if chain in last:
                before[i].add(last[chain])
            last[chain] = i
        if operation.part != part:
            part, begin = operation.part, i
        if begin > 0:
            before[i].add(begin - 1 if i == begin else begin)
            if i == begin:
                before[i].update(range(i))
    return before


def _late(before: Sequence[set[int]]) -> list[int]:
    """Places each operation right before its first user."""
    needed = set().union(*before) if before else set()
    order: list[int] = []
    done: set[int] = set()
    for end in (i for i in range(len(before)) if i not in needed):
        todo = [end]
        while todo:
            i = todo[-1]
            missing = sorted((j for j in before[i] if j not in done), reverse=True)
            if missing:
                todo += missing
                continue
            todo.pop()
            if i not in done:
                done.add(i)
                order.append(i)
    return order


def _lean(operations: Sequence[Operation], before: Sequence[set[int]]) -> list[int]:
    """Always runs the possible operation that adds the fewest live bytes."""
    place = {operation.node: i for i, operation in enumerate(operations)}
    users: dict[int, set[int]] = defaultdict(set)
    followers: dict[int, set[int]] = defaultdict(set)
    for i, operation in enumerate(operations):
        for node in operation.node.all_input_nodes:
            if node in place:
                users[place[node]].add(i)
        for j in before[i]:
            followers[j].add(i)
    left = {i: len(own) for i, own in users.items()}
    waits = [len(own) for own in before]

    def more(i: int) -> int:
        freed = sum(operations[j].bytes for j in _inputs(operations[i].node, place) if left[j] == 1)
        return operations[i].bytes - freed

    ready = [(more(i), i) for i, count in enumerate(waits) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for j in _inputs(operations[i].node, place):
            left[j] -= 1
        for follower in followers[i]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, (more(follower), follower))
    return order


def _inputs(node: fx.Node, place: dict[fx.Node, int]) -> list[int]:
    return [place[each] for each in node.all_input_nodes if each in place]
