"""Runs tests with each available pair of CPython and torch, and writes the table of docs/matrix.md.

    python tools/matrix.py                  each environment that is there: 2,000 quick tests, evenly spread
    python tools/matrix.py 3.11-2.15 all    one of them, all quick tests; `3.11-2.13 full`: the slow ones, too
    python tools/matrix.py 3.14-2.15 import one of them: tools/wheels.py has tried the wheel with it
    python tools/matrix.py write            the table alone

docs/matrix.json keeps the last run of each. tools/torches.py sets up environments.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torches
import wheels

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs/matrix.json"
PAGE = ROOT / "docs/matrix.md"
KINDS = {"full": "all tests", "all": "all quick tests", "sample": "an even sample", "import": "wheel tried"}
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
HEAD = """\
# CPython and torch
`make matrix` runs what is there and writes this page.

*All tests*: slow ones, too. *An even sample*: quick tests, evenly spread. *Wheel tried*: it is
installed and passes `tools/check_wheel.py`. Tests that differ are listed with
reasons: [tests/other_torches.txt](../tests/other_torches.txt).

<!-- matrix -->
"""
TAIL = "<!-- /matrix -->\n"


def pairs() -> list[tuple[str, str]]:
    """CPython and torch's minor version."""
    return [(python, wheels.minor_of(torch)) for python, all_torches in wheels.TORCHES.items() for torch in all_torches]


def folder_of(python: str, torch: str) -> Path | None:
    own = ROOT / ".venv"
    code = "import sys, torch; print('%d.%d-' % sys.version_info[:2] + '.'.join(torch.__version__.split('.')[:2]))"
    mine = torches.run(own / "bin/python", "-c", code, what="torch").strip()
    if mine == f"{python}-{torch}":
        return own
    folder = torches.FOLDER / torches.name_of(torch, "" if mine.startswith(f"{python}-") else python)
    return folder if (folder / torches.READY).exists() else None


def run_pair(python: str, torch: str, kind: str) -> dict[str, Any] | None:
    """The record of a run; None where there is no environment."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=True
    )
    record: dict[str, Any] = {"kind": kind, "commit": commit.stdout.strip(), "date": time.strftime("%Y-%m-%d")}
    if kind == "import":
        return record
    folder = folder_of(python, torch)
    if not folder:
        print(f"CPython {python}, torch {torch} SKIPPED: no environment; tools/torches.py set-up {torch}.0 {python}")
        return None
    if folder.name != ".venv":
        torches.build(folder)
    options = () if kind == "full" else ("-m", "not slow")
    _, last = torches.run_tests(folder, *options, count=torches.SAMPLE if kind == "sample" else 0)
    return record | {word.rstrip("s"): int(number) for number, word in COUNTS.findall(last)}


def cell(record: dict[str, Any] | None) -> str:
    if not record:
        return "—"
    said = KINDS[record["kind"]]
    if "passed" in record:
        said += f": {record['passed']:,} passed"
        said += f", {record['xfailed']} differ as listed" if record.get("xfailed") else ""
        wrong = record.get("failed", 0) + record.get("error", 0) + record.get("xpassed", 0)
        said += f", **{wrong} failed**" if wrong else ""
    return f"{said} ({record['commit']})"


def table(records: dict[str, Any]) -> str:
    versions = sorted({torch for _, torch in pairs()}, key=lambda torch: int(torch.split(".")[1]))
    lines = [
        "| CPython | " + " | ".join(f"torch {torch}" for torch in versions) + " |",
        "|---" * (len(versions) + 1) + "|",
    ]
    for python in wheels.TORCHES:
        cells = [cell(records.get(f"{python}-{torch}")) for torch in versions]
        lines.append(f"| {python} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    records: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    wanted = [(python, torch, "sample") for python, torch in pairs()]
    if arguments[:1] == ["write"]:
        wanted = []
    elif arguments:
        python, _, torch = arguments[0].partition("-")
        kind = (arguments[1:] or ["sample"])[0]
        if (python, torch) not in pairs() or kind not in KINDS:
            raise SystemExit(__doc__)
        wanted = [(python, torch, kind)]
    for python, torch, kind in wanted:
        if record := run_pair(python, torch, kind):
            records[f"{python}-{torch}"] = record
            RECORD.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(HEAD + table(records) + TAIL)
    return int(any(record.get("failed") or record.get("error") for record in records.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
