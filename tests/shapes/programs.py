"""The programs of all families."""

from shapes import PROGRAMS, arithmetic, branching, data, effects, guarded, layouts, networks

FAMILIES = (arithmetic, branching, data, effects, guarded, layouts, networks)
PROGRAMS.sort(key=lambda program: program.name)
BY_NAME = {program.name: program for program in PROGRAMS}
assert len(BY_NAME) == len(PROGRAMS)

__all__ = ["BY_NAME", "FAMILIES", "PROGRAMS"]
