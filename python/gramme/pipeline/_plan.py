"""What was decided, for people."""

from __future__ import annotations

from dataclasses import dataclass


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
        cost: estimated nanoseconds of its forward.
        parameters: bytes of its parameters and buffers.
        bytes_in: what it takes from other stages, for the example.
        bytes_out: what it gives to others.

    """

    operations: int
    cost: int
    parameters: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Plan:
    """Where a model is cut, and what crosses the cuts. Printed it is a table.

    Attributes:
        stages: a :class:`PlannedStage` each.
        portals: a :class:`Portal` for each value that goes past a stage.

    """

    stages: tuple[PlannedStage, ...]
    portals: tuple[Portal, ...]

    def __str__(self) -> str:
        lines = [
            f"{'stage':>5} {'operations':>10} {'cost, us':>10} {'parameters':>12} {'bytes in':>10} {'bytes out':>10}"
        ]
        for i, stage in enumerate(self.stages):
            lines.append(
                f"{i:>5} {stage.operations:>10} {stage.cost / 1000:>10.1f} {stage.parameters:>12} {stage.bytes_in:>10}"
                f" {stage.bytes_out:>10}"
            )
        for portal in self.portals:
            targets = ", ".join(map(str, portal.targets))
            lines.append(
                f"portal {portal.name}: {portal.source} -> {targets}, {portal.bytes} bytes, life {portal.life}, saves "
                f"{portal.saved} bytes{', ' + portal.line if portal.line else ''}"
            )
        return "\n".join(lines)
