"""Schedules as data: which thread or process does what, in which order."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

#: Forward, the whole backward, and its halves for inputs and weights.
COMPUTE = ("F", "B", "I", "W")
_OTHERS = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B")
_CELL = re.compile(rf"(\d+)({'|'.join((*_OTHERS, *COMPUTE))})(\d*)")
_OVERLAP = "OVERLAP_F_B"


class ScheduleError(ValueError):
    """A schedule that cannot be read, or that cannot be carried out."""


class Action(NamedTuple):
    """What stands in a cell.

    Attributes:
        stage: whose work it is; -1 for several at a time.
        kind: `F`, `B`, `I` or `W`; others are about communication.
        micro_batch: None where that says nothing.
        parts: the actions of an `OVERLAP_F_B`.

    Example:
        >>> Action.parse("2B11")
        Action(stage=2, kind='B', micro_batch=11, parts=())
        >>> str(Action(0, "F", 3))
        '0F3'

    """

    stage: int
    kind: str
    micro_batch: int | None = None
    parts: tuple[Action, ...] = ()

    def __str__(self) -> str:
        if self.parts:
            return f"({';'.join(map(str, self.parts))}){self.kind}"
        return f"{self.stage}{self.kind}{'' if self.micro_batch is None else self.micro_batch}"

    @staticmethod
    def parse(cell: str) -> Action:
        """Reads a cell.

        Raises:
            ScheduleError: it is none.

        """
        text = cell.strip()
        if text.startswith("(") and text.endswith(f"){_OVERLAP}"):
            parts = text[1 : -len(_OVERLAP) - 1].split(";")
            return Action(-1, _OVERLAP, None, tuple(map(Action.parse, parts)))
        found = _CELL.fullmatch(text)
        if found is None:
            raise ScheduleError(f"{cell!r} is no action; one is written as stage, kind, micro-batch: 2F0")
        stage, kind, micro_batch = found.groups()
        if kind in COMPUTE and not micro_batch:
            raise ScheduleError(f"{cell!r} has no micro-batch")
        return Action(int(stage), kind, int(micro_batch) if micro_batch else None)


Row = tuple[Action | None, ...]


@dataclass(frozen=True)
class Schedule:
    """Who does what when: a row of actions for each thread or process.

    Its text is that of torch.distributed.pipelining: comma-separated values, a row a rank, cells such as `0F0` and
    `1B3`; empty cells are for the reader.

    Attributes:
        rows: by rank; None is an empty cell.

    Example:
        >>> print(Schedule.one_f_one_b(stages=2, micro_batches=3).to_csv(), end="")
        0F0,0F1,0B0,0F2,0B1,0B2
        1F0,1B0,1F1,1B1,1F2,1B2
        >>> Schedule.from_csv("0F0,0B0").micro_batches
        1

    """

    rows: tuple[Row, ...]

    def computations(self, rank: int) -> Iterator[Action]:
        """A rank's forwards and backwards, in order; overlapped ones one after the other."""
        for action in self.rows[rank]:
            for part in action.parts or (action,) if action is not None else ():
                if part.kind in COMPUTE:
                    yield part

    @property
    def stages(self) -> int:
        """How many stages it is for."""
        return 1 + max(
            (action.stage for rank in range(len(self.rows)) for action in self.computations(rank)), default=-1
        )

    @property
    def micro_batches(self) -> int:
        """How many micro-batches it is for."""
        numbers = (action.micro_batch or 0 for rank in range(len(self.rows)) for action in self.computations(rank))
        return 1 + max(numbers, default=-1)

    def forward_only(self) -> Schedule:
        """The same without backwards."""
        return Schedule(
            tuple(
                tuple(action for action in self.computations(rank) if action.kind == "F")
                for rank in range(len(self.rows))
            )
        )

    def to_csv(self) -> str:
        """Its text."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in self.rows:
            writer.writerow(["" if action is None else str(action) for action in row])
        return text.getvalue()

    @staticmethod
    def from_csv(text: str) -> Schedule:
        """Reads a text.

        Args:
            text: a row a rank.

        Returns:
            The schedule; whether it can be carried out is for :func:`simulate` to say.

        Raises:
            ScheduleError: a cell is no action; says which.

        """
        rows = []
        for rank, cells in enumerate(csv.reader(io.StringIO(text))):
            row = []
            for place, cell in enumerate(cells):
                try:
                    row.append(Action.parse(cell) if cell.strip() else None)
                except ScheduleError as error:
                    raise ScheduleError(f"rank {rank}, cell {place}: {error}") from None
            rows.append(tuple(row))
        return Schedule(tuple(rows))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes its text to a file."""
        Path(path).write_text(self.to_csv())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Schedule:
        """Reads a file; see :meth:`from_csv`."""
        return Schedule.from_csv(Path(path).read_text())

    @staticmethod
    def sequential(stages: int, micro_batches: int) -> Schedule:
        """One rank: each micro-batch through all stages and back, as gradients are accumulated without a pipeline."""
        _check(stages, micro_batches)
        row: list[Action] = []
        for i in range(micro_batches):
            row += [Action(stage, "F", i) for stage in range(stages)]
            row += [Action(stage, "B", i) for stage in reversed(range(stages))]
        return Schedule((tuple(row),))

    @staticmethod
    def gpipe(stages: int, micro_batches: int) -> Schedule:
        """All forwards, then all backwards."""
        _check(stages, micro_batches)
        return Schedule(
            tuple(
                tuple(Action(stage, kind, i) for kind in "FB" for i in range(micro_batches)) for stage in range(stages)
            )
        )

    @staticmethod
    def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
        """Backward as soon as it can be: a stage holds as many micro-batches as there are stages from it on."""
        _check(stages, micro_batches)
        return _warmed(
            [min(micro_batches, stages - rank - 1) for rank in range(stages)],
            micro_batches,
            lambda rank, _: rank,
            lambda rank, _: rank,
        )

    @staticmethod
    def zero_bubble(stages: int, micro_batches: int) -> Schedule:
        """1F1B with backwards in halves (ZB-H1): stage r does the half for weights r micro-batches later.

        Stages hold no more micro-batches than with 1F1B.
        """
        _check(stages, micro_batches)
        rows = []
        for rank in range(stages):
            first = min(micro_batches, stages - rank - 1)
            row = [Action(rank, "F", i) for i in range(first)]
            for i in range(micro_batches):
                row += [Action(rank, "F", i + first)] if i + first < micro_batches else []
                row += [Action(rank, "I", i)]
                row += [Action(rank, "W", i - rank)] if i >= rank else []
            row += [Action(rank, "W", i) for i in range(max(0, micro_batches - rank), micro_batches)]
            rows.append(tuple(row))
        return Schedule(tuple(rows))

    @staticmethod
    def interleaved(ranks: int, stages: int, micro_batches: int) -> Schedule:
        """1F1B of ranks that have several stages each: rank r has r, r + ranks, and so on.

        Raises:
            ValueError: the stages or the micro-batches are no multiple of the ranks.

        """
        _check(stages, micro_batches)
        if ranks < 1 or stages % ranks or micro_batches % ranks:
            raise ValueError(
                f"{stages} stages and {micro_batches} micro-batches cannot be interleaved on {ranks} ranks: both must "
                "be multiples"
            )
        own = stages // ranks
        total = own * micro_batches
        if own == 1:
            return Schedule.one_f_one_b(stages, micro_batches)
        return _warmed(
            [min(total, (own - 1) * ranks + 2 * (ranks - 1 - rank)) for rank in range(ranks)],
            total,
            lambda rank, k: k // ranks % own * ranks + rank,
            lambda rank, k: (own - 1 - k // ranks % own) * ranks + rank,
        )


def _check(stages: int, micro_batches: int) -> None:
    if stages < 1 or micro_batches < 1:
        raise ValueError(f"a schedule needs stages and micro-batches, not {stages} and {micro_batches}")


def _numbered(stages: Iterable[int], kind: str) -> list[Action]:
    """The micro-batches of each stage, counted."""
    seen: dict[int, int] = {}
    actions = []
    for stage in stages:
        actions.append(Action(stage, kind, seen.setdefault(stage, 0)))
        seen[stage] += 1
    return actions


def _warmed(
    warm_up: Sequence[int], total: int, forward: Callable[[int, int], int], backward: Callable[[int, int], int]
) -> Schedule:
    """Forwards by rank, then one forward and one backward in turn, then the backwards that are left."""
    rows: list[Row] = []
    for rank, first in enumerate(warm_up):
        forwards = _numbered((forward(rank, k) for k in range(total)), "F")
        backwards = _numbered((backward(rank, k) for k in range(total)), "B")
        pairs = zip(forwards[first:], backwards, strict=False)
        both = [action for pair in pairs for action in pair]
        rows.append((*forwards[:first], *both, *backwards[total - first :]))
    return Schedule(tuple(rows))
