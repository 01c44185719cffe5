"""Follows the report's advice: records a program, makes the edit that the first piece of advice asks for, and again.

A program is a file in `programs`: a title, the source, which has `calls(compile)`, how many graphs the edited program
needs at least, and edits. An edit says which advice it obeys, by the line that the advice names and words of its
hint, and which lines it takes away (-) and puts in their place (+); @@ stands between two places.

From the folder tests: python -m report.advised.follow [name ...] prints each step.
"""

import importlib.util
import itertools
import linecache
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import gramme
import torch
import torch._dynamo.testing
from gramme._report.advice import Advice, advise

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.txt"))
_MOST_ROUNDS = 8
_numbers = itertools.count()


@dataclass
class Edit:
    """What a user changes who reads one piece of advice: (lines before, lines after) of each place."""

    line: str
    hint: str
    places: list[tuple[list[str], list[str]]] = field(default_factory=list)

    def obeys(self, advice: Advice) -> bool:
        return self.line == advice.code and self.hint in advice.hint

    def applied(self, source: str) -> str:
        for before, after in self.places:
            old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
            assert source.count(f"\n{old}") == 1, f"there is not one place for\n{old}in\n{source}"
            source = source.replace(f"\n{old}", f"\n{new}")
        return source


@dataclass
class Program:
    """A program as users write it, the edits, and the number of graphs that the edited one needs at least."""

    title: str
    source: str
    ideal: int
    edits: list[Edit]


@dataclass
class Round:
    """A recorded run: the advice of its report, the first first, and what was counted."""

    source: str
    advice: list[Advice]
    graphs: int
    captures: int
    breaks: int
    results: Any

    @property
    def todo(self) -> list[Advice]:
        """Of breaks and recompiles."""
        return [advice for advice in self.advice if advice.kind != "compile"]

    def __str__(self) -> str:
        head = f"{self.graphs} graphs, {self.captures} captures, {self.breaks} breaks"
        return "\n".join([head, *(f"  {a.line}: {a.code}\n    {a.what}\n    -> {a.hint}" for a in self.advice)])


def program(path: Path) -> Program:
    text, ideal, *edits = path.read_text().split("\n==== ")
    title, _, source = text.partition("\n")
    return Program(title.lstrip("# "), f"\n{source}\n", int(ideal.split()[1]), [_edit(edit) for edit in edits])


def _edit(text: str) -> Edit:
    head, _, body = text.partition("\n")
    edit = Edit(*head.rsplit(" -> ", 1))
    for place in body.rstrip("\n").split("\n@@\n"):
        lines = place.split("\n")
        before, after = ([line[1:] for line in lines if line[0] == sign] for sign in "-+")
        edit.places.append((before, after))
    return edit


def loaded(source: str, folder: Path) -> ModuleType:
    """The program as a module of its own file, which reports show."""
    path = folder / f"program_{next(_numbers)}.py"
    path.write_text(source)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    torch.manual_seed(0)
    with torch._dynamo.config.patch(capture_scalar_outputs=False):
        spec.loader.exec_module(module)
    return module


def recorded(source: str, folder: Path) -> Round:
    """Runs the program in a recording."""
    gramme.reset()
    module = loaded(source, folder)
    recording = gramme.record(folder / "report.html")
    with recording, torch._dynamo.config.patch(capture_scalar_outputs=False):
        results = module.calls(lambda f, **how: gramme.compile(f, backend="native", **how))
    found = recording.recorded
    breaks = sum(totals.count for call in found.tree.root.walk() for totals in call.real.values())
    captures = sum(1 for capture in found.captures if capture.start >= 0)
    graphs = sum(1 for capture in found.captures if capture.graph is not None)
    return Round(source, advise(found), graphs, captures, breaks, results)


def rounds(given: Program, folder: Path) -> list[Round]:
    """Until the report has nothing to say of breaks and recompiles."""
    found = [recorded(given.source, folder)]
    while found[-1].todo and len(found) <= _MOST_ROUNDS:
        first = found[-1].todo[0]
        edit = next((edit for edit in given.edits if edit.obeys(first)), None)
        assert edit is not None, f"{given.title}: no edit obeys the first piece of advice\n{found[-1]}"
        found.append(recorded(edit.applied(found[-1].source), folder))
    return found


def graphs_of_torch(source: str, folder: Path) -> int:
    """Graphs that torch.compile hands to its backend."""
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=False):
        loaded(source, folder).calls(lambda f, **how: torch.compile(f, backend=counter, **how))
    return int(counter.frame_count)


def main() -> None:
    for path in PROGRAMS:
        if len(sys.argv) > 1 and path.stem not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as name:
            given = program(path)
            print(f"== {given.title}")
            try:
                found = rounds(given, Path(name))
                print("\n".join(map(str, found)), f"\ntorch.compile: {graphs_of_torch(found[-1].source, Path(name))}")
            except AssertionError as error:
                print(error)


if __name__ == "__main__":
    main()
