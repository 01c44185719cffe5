"""What the tools that generate a table from the installed torch have in common."""

import sys
from pathlib import Path


def write_or_check(table: Path, text: str, summary: str) -> int:
    """Writes the table and prints the summary; with --check only says whether it is up to date. The exit status."""
    if "--check" in sys.argv[1:]:
        if table.read_text() == text:
            return 0
        print(f"{table} is out of date: run python {sys.argv[0]}", file=sys.stderr)
        return 1
    table.write_text(text)
    print(f"{table}: {summary}")
    return 0
