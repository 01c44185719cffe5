"""Helpers of the tools that generate a table from the installed torch."""

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
FOLDER = "_".join(torch.__version__.split(".")[:2])  # of src/torch and python/gramme/_torch: the installed torch's


def table(name: str) -> Path:
    """The file in the folder for the installed torch: * in the path stands for the folder."""
    return ROOT / name.replace("*", FOLDER)


def before(path: Path) -> Path | None:
    """The table of the newest earlier version, which is valid for a version without one."""
    pattern = "*/" + path.name
    minor = int(path.parent.name.split("_")[1])
    older = [other for other in path.parents[1].glob(pattern) if int(other.parent.name.split("_")[1]) < minor]
    return max(older, key=lambda other: int(other.parent.name.split("_")[1]), default=None)


def in_force(path: Path) -> Path:
    """The table for the installed torch: its own, or that of the newest earlier version."""
    return path if path.exists() else before(path) or path


def same(path: Path | None, text: str) -> bool:
    """Whether tables are equal except the first line, which names the version."""
    return path is not None and path.exists() and path.read_text().splitlines()[1:] == text.splitlines()[1:]


def lines_of(path: Path | None) -> list[str]:
    """The lines that hold at a version whose table, like each but the first, has only what differs from the one before.

    A line that holds no more has a minus before it.
    """
    if path is None:
        return []
    lines = lines_of(before(path))
    for line in path.read_text().splitlines():
        if line.startswith("-"):
            lines.remove(line[1:])
        elif not line.startswith("#"):
            lines.append(line)
    return lines


def differences(path: Path, lines: list[str]) -> list[str]:
    """What a table has that turns the lines of the version before into `lines`: all of them in the first."""
    if (older := before(path)) is None:
        return lines
    old, new = set(lines_of(older)), set(lines)
    gone, added = {line: "-" + line for line in old - new}, {line: line for line in new - old}
    return [row for line, row in sorted((gone | added).items(), key=lambda item: item[0].split(" ", 1)[1])]


def write_or_check(path: Path, text: str, summary: str) -> int:
    """Writes the table and prints the summary; with --check only says whether it is up to date. The exit status.

    What is as for the version before is not written again.
    """
    known = before(path)
    if "--check" in sys.argv[1:]:
        if same(in_force(path), text):
            return 0
        print(f"{path} is out of date: run python {sys.argv[0]}", file=sys.stderr)
        return 1
    if same(known, text):
        path.unlink(missing_ok=True)
        print(f"{path}: as {known}")
        return 0
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(f"{path}: {summary}")
    return 0
