"""What the tools that generate a table from the installed torch have in common."""

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
FOLDER = "_".join(torch.__version__.split(".")[:2])  # of src/torch and python/gramme/_torch: the installed torch's


def table(name: str) -> Path:
    """The file in the folder for the installed torch: * in the path stands for the folder."""
    return ROOT / name.replace("*", FOLDER)


def write_or_check(path: Path, text: str, summary: str) -> int:
    """Writes the table and prints the summary; with --check only says whether it is up to date. The exit status."""
    if "--check" in sys.argv[1:]:
        if path.read_text() == text:
            return 0
        print(f"{path} is out of date: run python {sys.argv[0]}", file=sys.stderr)
        return 1
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(f"{path}: {summary}")
    return 0
