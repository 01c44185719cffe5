"""Checks that all sources of the extension module compile for aarch64, without building it.

    python tools/check_aarch64.py [BUILD]

AARCH64_CXX is a cross compiler (aarch64-linux-gnu-g++). BUILD (build/release) is a folder in which CMake has configured
the module: each file is compiled as there, with that compiler. Headers of CPython and torch are those of this machine,
which ask the compiler for what differs.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPILER = os.environ.get("AARCH64_CXX", "aarch64-linux-gnu-g++")
HEADER = re.compile(r"-include (\S+/(\S+)\.dir/cmake_pch\.hxx)")


def commands(build: Path) -> list[tuple[str, str]]:
    """Sources and the commands that compile them; headers that are compiled first are left out."""
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "ninja"
    told = subprocess.run([ninja, "-C", build, "-t", "compdb"], capture_output=True, text=True, check=True).stdout
    rows = json.loads(told)
    return [(row["file"], row["command"]) for row in rows if row["file"].endswith(".cpp") and " -c " in row["command"]]


def precompiled(headers: dict[str, tuple[str, str]], folder: Path) -> dict[str, Path]:
    """A header of the cross compiler's for each target that has one."""
    made = {}
    for target, (header, command) in headers.items():
        own = folder / target / "all.h"
        own.parent.mkdir()
        own.write_text(f'#include "{header}"\n')
        options = [*options_of(command.replace(f"-include {header}", "")), "-x", "c++-header", str(own)]
        subprocess.run([COMPILER, *options, "-o", f"{own}.gch"], check=True)
        made[header] = own
    return made


def options_of(command: str) -> list[str]:
    """Without what concerns outputs, and without options for another processor."""
    kept, skip = [], False
    for word in shlex.split(command)[1:]:
        if skip or word in ("-MD", "-c") or word.startswith("-mtls-dialect"):
            skip = False
            continue
        if word in ("-MT", "-MF", "-o"):
            skip = True
            continue
        kept.append(word)
    return kept


def main() -> int:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/release"
    if not shutil.which(COMPILER):
        print(f"error: no compiler {COMPILER}; set AARCH64_CXX (Debian: g++-aarch64-linux-gnu)", file=sys.stderr)
        return 2
    rows = commands(build)
    headers = {}
    for file, command in rows:
        if found := HEADER.search(command):
            headers.setdefault(Path(found[2]).name, (found[1], command.replace(file, "")))
    with tempfile.TemporaryDirectory() as folder:
        made = precompiled(headers, Path(folder))

        def check(row: tuple[str, str]) -> str:
            file, command = row
            if found := HEADER.search(command):
                command = command.replace(found[0], f"-include {made[found[1]]}")
            run = subprocess.run([COMPILER, *options_of(command), "-fsyntax-only"], capture_output=True, text=True)
            return f"{file}\n{run.stderr}" if run.returncode else ""

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failed = [text for text in pool.map(check, rows) if text]
    print("\n".join([*failed, f"{len(rows)} files for aarch64, {len(failed)} failed"]))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
