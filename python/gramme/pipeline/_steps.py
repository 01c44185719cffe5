"""Estimates a step's length for given cuts with the simulator of schedules, and chooses cuts by it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ..torchgpipe.balance import blockpartition
from ._schedule import Schedule
from ._simulate import simulate


@dataclass(frozen=True)
class Costs:
    """The costs of operations, of which stages consist.

    Attributes:
        cost: of each operation.
        moving: what it costs to hand its result over once.
        users: by operation, those that take its result.

    """

    cost: Sequence[int]
    moving: Sequence[int]
    users: Sequence[Sequence[int]]

    def direct(self, cuts: Sequence[int]) -> list[int]:
        """The costs of each stage if values go directly to each stage that uses them."""
        stages = [sum(self.cost[a:b]) for a, b in pairwise([0, *cuts, len(self.cost)])]
        for i, users in enumerate(self.users):
            source = bisect_right(cuts, i)
            for target in {bisect_right(cuts, user) for user in users} - {source}:
                stages[source] += self.moving[i]
                stages[target] += self.moving[i]
        return stages

    def relayed(self, cuts: Sequence[int]) -> list[int]:
        """The same if values go from stage to stage."""
        stages = [sum(self.cost[a:b]) for a, b in pairwise([0, *cuts, len(self.cost)])]
        for i, users in enumerate(self.users):
            source = bisect_right(cuts, i)
            for stage in range(source, bisect_right(cuts, max(users, default=i))):
                stages[stage] += self.moving[i]
                stages[stage + 1] += self.moving[i]
        return stages

    def steps(self, cuts: Sequence[int], micro_batches: int) -> tuple[float, ...]:
        """A step's length with 1F1B and with GPipe, values handed over directly, then relayed."""
        found = []
        for forward in (self.direct(cuts), self.relayed(cuts)):
            for make in (Schedule.one_f_one_b, Schedule.gpipe):
                schedule = make(len(forward), micro_batches)
                found.append(simulate(schedule, forward=forward, backward=[2 * cost for cost in forward]).time)
        return tuple(found)


def blocks(cost: Sequence[int], may_cut: Sequence[bool], stages: int) -> list[int] | None:
    """The cuts of torchgpipe's block partition, moved to allowed places; None if too few remain."""
    free = [i for i in range(1, len(cost)) if may_cut[i]]
    cuts = set()
    for first in list(accumulate(map(len, blockpartition.solve(list(cost), stages))))[:-1]:
        place = bisect_left(free, first)
        if place < len(free):
            cuts.add(free[place])
    return sorted(cuts) if len(cuts) == stages - 1 else None


def shortest(steps: Sequence[tuple[float, ...]], bound: tuple[float, ...] | None) -> int:
    """The cuts with the shortest step among those not longer than the bound in any respect, including the bound."""
    fitting = [
        i for i, step in enumerate(steps) if bound is None or all(a <= b for a, b in zip(step, bound, strict=True))
    ]
    return min(fitting, key=steps.__getitem__)
