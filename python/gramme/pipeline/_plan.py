"""The description of a cut, for readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ._schedule import Schedule
from ._simulate import Simulation, Value, simulate


@dataclass(frozen=True)
class Portal:
    """A value that goes past at least one stage.

    Attributes:
        name: of the value in the graph.
        line: file and line of the program where it is computed, if known.
        source: the stage that computes it.
        targets: the stages that take it.
        bytes: its size for the example.
        life: how often it is given out.
        saved: bytes that relaying it from stage to stage would move more.

    """

    name: str
    line: str
    source: int
    targets: tuple[int, ...]
    bytes: int
    life: int
    saved: int


@dataclass(frozen=True)
class PlannedStage:
    """One stage.

    Attributes:
        operations: how many nodes of the graph it runs.
        repeated: how many of them compute anew what is cheaper to compute than to hand over.
        cost: estimated nanoseconds of its forward.
        parameters: bytes of its parameters and buffers.
        results: bytes of what it computes, for the example.
        bytes_next: what it gives to the next stage.
        bytes_in: what it takes from other stages, for the example.
        bytes_out: what it gives to others.

    """

    operations: int
    repeated: int
    cost: int
    parameters: int
    results: int
    bytes_next: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Plan:
    """Where a model is cut, and what crosses the cuts. Printed it is a table.

    Attributes:
        stages: a :class:`PlannedStage` each.
        portals: a :class:`Portal` for each value that goes past a stage.
        values: a :class:`Value` for each that stages hand to stages, with bytes for the example.
        micro_batches: how many a step was thought to have.

    """

    stages: tuple[PlannedStage, ...]
    portals: tuple[Portal, ...]
    values: tuple[Value, ...] = ()
    micro_batches: int = 8

    def simulate(self, schedule: Schedule) -> Simulation:
        """What a schedule comes to with the stages' costs, in nanoseconds; a backward takes twice its forward.

        Args:
            schedule: for so many stages.

        Raises:
            ScheduleError: it cannot be carried out.

        """
        forward = [stage.cost for stage in self.stages]
        return simulate(
            schedule,
            forward=forward,
            backward=[2 * cost for cost in forward],
            saved=[stage.results for stage in self.stages],
            values=self.values,
        )

    def save(self, path: str | Path, schedule: Schedule | None = None) -> None:
        """Draws the stages as columns, with arcs above for the values that go past a stage, and below the schedule.

        The schedule is a Gantt chart: who does what when, how long each waits, what its stages hold at most.

        Args:
            path: of an SVG file.
            schedule: one for these stages; 1F1B if there is none.

        Raises:
            ValueError: the path is that of another kind of file.
            ScheduleError: the schedule cannot be carried out.

        Example:
            >>> import tempfile
            >>> plan = Plan((PlannedStage(3, 0, 1500, 96, 64, 32, 0, 32), PlannedStage(2, 0, 900, 0, 64, 0, 32, 0)), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     plan.save(Path(folder, "plan.svg"))

        """
        from ._drawing import drawing

        if Path(path).suffix.lower() not in ("", ".svg"):
            raise ValueError(f"path: plans are drawn as SVG; expected a name that ends in .svg, got {str(path)!r}")
        schedule = schedule or Schedule.one_f_one_b(len(self.stages), self.micro_batches)
        Path(path).write_text(drawing(self, schedule), encoding="utf-8")

    def __str__(self) -> str:
        lines = [
            f"{'stage':>5} {'operations':>10} {'cost, us':>10} {'parameters':>12} {'results':>10} {'bytes in':>10}"
            f" {'bytes out':>10}"
        ]
        for i, stage in enumerate(self.stages):
            lines.append(
                f"{i:>5} {stage.operations:>10} {stage.cost / 1000:>10.1f} {stage.parameters:>12} {stage.results:>10}"
                f" {stage.bytes_in:>10} {stage.bytes_out:>10}"
            )
        for portal in self.portals:
            targets = ", ".join(map(str, portal.targets))
            lines.append(
                f"portal {portal.name}: {portal.source} -> {targets}, {portal.bytes} bytes, life {portal.life}, saves "
                f"{portal.saved} bytes{', ' + portal.line if portal.line else ''}"
            )
        return "\n".join(lines)
