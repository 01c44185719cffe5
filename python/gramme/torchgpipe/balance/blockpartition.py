"""Finds the best partition of a sequence into blocks."""

from __future__ import annotations

from itertools import accumulate, pairwise

__all__ = ["solve"]


def solve(sequence: list[int], partitions: int = 1) -> list[list[int]]:
    """Cuts a sequence into blocks whose largest sum is least; among those, whose sums differ least.

    Args:
        sequence: numbers that are not negative.
        partitions: how many blocks there shall be, none empty.

    Returns:
        The blocks.

    Raises:
        ValueError: partitions is not positive, or greater than the length of the sequence.

    Example:
        >>> solve([1, 2, 3, 4, 5, 6], partitions=2)
        [[1, 2, 3, 4], [5, 6]]

    """
    n = len(sequence)
    if partitions < 1:
        raise ValueError(f"partitions must be a positive integer ({partitions} < 1)")
    if n < partitions:
        raise ValueError(f"sequence is shorter than intended partitions ({n} < {partitions})")
    sums = list(accumulate(sequence, initial=0))
    # cost[end]: (largest sum, sum of squares) of the first `end` numbers in so many blocks; starts: of the last block
    cost = [(total, total * total) for total in sums]
    starts: list[list[int]] = []
    for blocks in range(2, partitions + 1):
        before, cost, start = cost, list(cost), [0] * (n + 1)
        for end in range(blocks, n + 1):
            cost[end], start[end] = min(
                ((max(before[at][0], last), before[at][1] + last * last), at)
                for at in range(blocks - 1, end)
                for last in (sums[end] - sums[at],)
            )
        starts.append(start)
    ends = [n]
    for start in reversed(starts):
        ends.append(start[ends[-1]])
    cuts = [0, *reversed(ends)] if partitions > 1 else [0, n]
    return [sequence[a:b] for a, b in pairwise(cuts)]
