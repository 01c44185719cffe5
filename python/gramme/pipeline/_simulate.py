"""Simulates a schedule before it runs: whether it is possible, how long it takes, how much memory it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ._schedule import Action, Schedule, ScheduleError


@dataclass(frozen=True)
class Value:
    """A value that stages hand to stages.

    Attributes:
        name: of the value.
        source: the stage that gives it; None for what is there from the start, as inputs and parameters.
        targets: the stages that take it, ascending.
        bytes: of one micro-batch.
        is_weight: its gradient comes in the second half of a backward that is split.

    """

    name: str
    source: int | None
    targets: tuple[int, ...]
    bytes: int = 0
    is_weight: bool = False

    @property
    def relayed(self) -> Value:
        """The same value handed from stage to stage."""
        first = self.targets[0] - 1 if self.source is None else self.source
        return Value(self.name, self.source, tuple(range(first + 1, self.targets[-1] + 1)), self.bytes, self.is_weight)


@dataclass(frozen=True)
class Span:
    """When a rank does something."""

    rank: int
    action: Action
    start: float
    end: float


@dataclass(frozen=True)
class Simulation:
    """What a schedule comes to.

    Attributes:
        time: from the first action to the last one's end.
        bubble: the part of all ranks' time in which they wait.
        spans: each rank's actions in order.
        peak_bytes: by stage, what it holds at most: values that it took, and what its forwards keep for backward.
        moved_bytes: all that is handed from stage to stage, gradients not counted.

    """

    time: float
    bubble: float
    spans: tuple[Span, ...]
    peak_bytes: tuple[int, ...]
    moved_bytes: int


_WORDS = {"F": "forward", "I": "backward", "W": "weights' backward"}


def _by_stage(costs: float | Sequence[float], stages: int) -> Sequence[float]:
    if isinstance(costs, int | float):
        return [costs] * stages
    if len(costs) != stages:
        raise ValueError(f"{len(costs)} costs for {stages} stages")
    return costs


def _neighbours(stages: int) -> list[Value]:
    return [Value(f"{i} to {i + 1}", i, (i + 1,)) for i in range(stages - 1)]


def _same_place(actions: Sequence[Action], rank: int, owner: dict[int, int], done: set[Action]) -> None:
    """Enters a rank's actions; each is there once, behind what it needs of its own stage."""
    for action in actions:
        stage, kind, i, _ = action
        if owner.setdefault(stage, rank) != rank:
            raise ScheduleError(f"stage {stage} is on rank {owner[stage]} and on rank {rank}")
        if action in done:
            raise ScheduleError(f"rank {rank} does {action} twice")
        needs = {"B": ("F",), "I": ("F",), "W": ("I",)}.get(kind, ())
        for before in needs:
            if Action(stage, before, i) not in done:
                raise ScheduleError(f"rank {rank} does {action} before {stage}{before}{i}")
        if kind in ("B", "I") and {Action(stage, "B", i), Action(stage, "I", i)} & done:
            raise ScheduleError(f"rank {rank} does the backward of stage {stage}, micro-batch {i}, twice")
        done.add(action)


def _is_whole(done: set[Action], stages: int, micro_batches: int) -> None:
    backward = any(action.kind != "F" for action in done)
    for stage in range(stages):
        for i in range(micro_batches):
            if Action(stage, "F", i) not in done:
                raise ScheduleError(f"{stage}F{i} is missing")
            whole = Action(stage, "B", i) in done or Action(stage, "W", i) in done
            if backward and not whole:
                raise ScheduleError(f"the backward of stage {stage}, micro-batch {i}, is missing")


def _edges(values: Iterable[Value], stages: int) -> dict[str, list[set[int]]]:
    """For each stage: the stages whose forward (F), and those whose halves of a backward (I, W), must come before."""
    forward: list[set[int]] = [set() for _ in range(stages)]
    inputs: list[set[int]] = [set() for _ in range(stages)]
    weights: list[set[int]] = [set() for _ in range(stages)]
    for value in values:
        for target in value.targets:
            if value.source is not None:
                forward[target].add(value.source)
        # A gradient goes from the last stage that takes the value to the one before, which adds its own, and so on.
        chain = value.targets if value.source is None else (value.source, *value.targets)
        for to, origin in pairwise(chain):
            (weights if value.is_weight else inputs)[to].add(origin)
    return {"F": forward, "I": inputs, "W": weights}


#: A whole backward gives what both halves give.
GIVES = {"F": "F", "B": "IW", "I": "I", "W": "W"}


def _needs(action: Action, edges: Mapping[str, list[set[int]]]) -> list[tuple[int, str, int | None]]:
    return [(other, kind, action.micro_batch) for kind in GIVES[action.kind] for other in edges[kind][action.stage]]


def _stuck(
    rows: Sequence[Sequence[Action]], at: Sequence[int], waits: Mapping[int, tuple[int, str, int | None]]
) -> str:
    lines = [
        f"rank {rank} waits at {rows[rank][at[rank]]} for the {_WORDS[kind]} of stage {stage}"
        for rank, (stage, kind, _) in sorted(waits.items())
    ]
    return "the schedule stops: " + "; ".join(lines)


def _run(
    rows: Sequence[Sequence[Action]], values: Sequence[Value], stages: int, costs: Mapping[str, Sequence[float]]
) -> list[Span]:
    """Runs each action as soon as its rank is free and its inputs exist."""
    edges = _edges(values, stages)
    ended: dict[tuple[int, str, int | None], float] = {}
    waiting: dict[tuple[int, str, int | None], list[int]] = defaultdict(list)
    waits: dict[int, tuple[int, str, int | None]] = {}
    at, free = [0] * len(rows), [0.0] * len(rows)
    spans: list[list[Span]] = [[] for _ in rows]
    ready = list(range(len(rows)))
    while ready:
        rank = ready.pop()
        waits.pop(rank, None)
        while at[rank] < len(rows[rank]):
            action = rows[rank][at[rank]]
            needs = _needs(action, edges)
            missing = next((need for need in needs if need not in ended), None)
            if missing is not None:
                waits[rank] = missing
                waiting[missing].append(rank)
                break
            start = max([free[rank], *(ended[need] for need in needs)])
            free[rank] = end = start + costs[action.kind][action.stage]
            spans[rank].append(Span(rank, action, start, end))
            at[rank] += 1
            for kind in GIVES[action.kind]:
                key = (action.stage, kind, action.micro_batch)
                ended[key] = end
                ready += waiting.pop(key, [])
    if waits:
        raise ScheduleError(_stuck(rows, at, waits))
    return [span for row in spans for span in row]


def _peaks(spans: Sequence[Span], values: Sequence[Value], saved: Sequence[float], stages: int) -> tuple[int, ...]:
    """The most bytes that each stage holds. A value is held by its taker from arrival to its last use."""
    begun: dict[tuple[int, int | None], float] = {}
    given: dict[tuple[int, int | None], float] = {}
    used: dict[tuple[int, int | None], float] = {}
    for span in spans:
        key = span.action.stage, span.action.micro_batch
        if span.action.kind == "F":
            begun[key], given[key] = span.start, span.end
        used[key] = max(used.get(key, 0.0), span.end)
    changes: list[list[tuple[float, float]]] = [[] for _ in range(stages)]

    def hold(stage: int, since: float, until: float, size: float) -> None:
        changes[stage] += [(since, size), (until, -size)]

    micro_batches = {i for _, i in begun}
    for (stage, i), since in begun.items():
        hold(stage, since, used[stage, i], saved[stage])
    for value in values:
        for i in micro_batches if value.source is not None else ():
            for target in value.targets:
                hold(target, given[value.source, i], used[target, i], value.bytes)  # type: ignore[index]
    return tuple(int(max(accumulate(size for _, size in sorted(of)), default=0)) for of in changes)


def simulate(
    schedule: Schedule,
    *,
    forward: float | Sequence[float] = 1,
    backward: float | Sequence[float] = 2,
    saved: float | Sequence[float] = 0,
    values: Sequence[Value] | None = None,
) -> Simulation:
    """Carries a schedule out on paper.

    Args:
        schedule: with or without backwards.
        forward: what a stage's forward takes, one for all or by stage.
        backward: its backward; each half of it takes half.
        saved: bytes that a stage's forward keeps until its backward.
        values: what stages hand to stages; None: each stage hands something to the next one.

    Returns:
        How long it takes and what it holds.

    Raises:
        ScheduleError: something is missing or done twice, a backward comes before its forward, a stage is in two
            places, or all wait for each other; names cells.

    Example:
        >>> simulate(Schedule.gpipe(stages=2, micro_batches=4)).time
        15.0
        >>> simulate(Schedule.one_f_one_b(stages=2, micro_batches=4)).peak_bytes
        (0, 0)

    """
    rows = [list(schedule.computations(rank)) for rank in range(len(schedule.rows))]
    stages = schedule.stages
    owner: dict[int, int] = {}
    done: set[Action] = set()
    for rank, actions in enumerate(rows):
        _same_place(actions, rank, owner, done)
    _is_whole(done, stages, schedule.micro_batches)
    values = _neighbours(stages) if values is None else values
    whole = _by_stage(backward, stages)
    half = [cost / 2 for cost in whole]
    spans = _run(rows, values, stages, {"F": _by_stage(forward, stages), "B": whole, "I": half, "W": half})
    time = max((span.end for span in spans), default=0.0)
    busy = sum(span.end - span.start for span in spans)
    return Simulation(
        time=time,
        bubble=1 - busy / (time * len(rows)) if time else 0.0,
        spans=tuple(spans),
        peak_bytes=_peaks(spans, values, _by_stage(saved, stages), stages),
        moved_bytes=schedule.micro_batches
        * sum(value.bytes * len(value.targets) for value in values if value.source is not None),
    )
