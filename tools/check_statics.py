"""Refuses static initialisers that may run Python.

    python tools/check_statics.py src

C++ guards the initialisation of a function-local static. If the initialiser releases the GIL (any Python may: an
import, an attribute, a call), another thread with the GIL waits for the guard, and both wait forever. Objects that
Python makes are fetched by `once` (src/base/once.h), which holds no lock meanwhile.

- A function-local static is constexpr, constinit, not initialised, or initialised from functions in PURE and literals.
  Another one that runs no Python is marked, on its first line or above, `// no Python: reason`.
- A variable of a namespace, made while the module is loaded, names nothing of RUNS_PYTHON.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Functions that neither run Python nor release the GIL; text and numbers are not tracked by the garbage collector.
PURE = {
    "intern",
    "PyUnicode_InternFromString",
    "PyUnicode_FromString",
    "PyLong_FromLong",
    "PyFloat_FromDouble",
    "sizeof",
    "static_cast",
    "reinterpret_cast",
    "offsetof",
    "of_torch::attribute",
    "of_torch::text",
}
RUNS_PYTHON = re.compile(
    r"\b(PyImport_|import_module|PyObject_(Get|Call|Vectorcall|Has|Set)|PyRun_|PyType_Ready|take|real|attribute)\w*\s*\("
)

STATIC = re.compile(
    r"^[ \t]+(?:inline )?static (?!inline|constexpr|constinit|thread_local)"
    r"([^;(){}=]*?)\b(\w+)(\[[^;=]*\])?(?= =|\{|;)",
    re.M,
)
GLOBAL = re.compile(
    r"^(?=[A-Za-z])(?!using|typedef|return|namespace|template)[\w:<>*&, ]+\b\w+(?:\[\w*\])? = [^;]*;", re.M
)
CALL = re.compile(r"\bnew ([\w:]+)|\b([A-Za-z_][\w:]*)(?:<[^;(){}]*?>)?\s*[({]")
TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'')
COMMENT = re.compile(r"//[^\n]*")
REASON = re.compile(r"//\s*no Python:\s*\S")


class Finding(NamedTuple):
    line: int
    text: str


def without_text(source: str) -> str:
    """Blank comments and literals; every line and column stays where it is."""

    def blank(found: re.Match[str]) -> str:
        return '"' + " " * (len(found[0]) - 2) + '"'

    return COMMENT.sub(lambda found: " " * len(found[0]), TEXT.sub(blank, source))


def end_of(source: str, start: int) -> int:
    """Where the statement that begins at `start` ends: its semicolon outside all brackets."""
    depth = 0
    for at in range(start, len(source)):
        depth += (source[at] in "([{") - (source[at] in ")]}")
        if depth < 0 or (source[at] == ";" and depth == 0):
            return at
    return len(source)


def impure_calls(initialiser: str) -> list[str]:
    """Name what the initialiser calls or makes and this tool does not know as pure."""
    names = [made or called for made, called in CALL.findall(initialiser)]
    return [name for name in names if name not in PURE and not name.startswith("std::")]


def check_source(source: str) -> Iterator[Finding]:
    lines, code = source.splitlines(), without_text(source)
    for found in STATIC.finditer(code):
        line = code.count("\n", 0, found.start()) + 1
        if any(REASON.search(near) for near in lines[max(line - 2, 0) : line]):
            continue
        if impure := impure_calls(code[found.end() : end_of(code, found.end())]):
            yield Finding(line, f"static {found[2]} is initialised by {', '.join(dict.fromkeys(impure))}; use once()")
    for found in GLOBAL.finditer(code):
        if running := RUNS_PYTHON.search(found[0]):
            yield Finding(
                code.count("\n", 0, found.start()) + 1, f"{running[0].rstrip('(')}() runs before the module is loaded"
            )


def main(arguments: list[str]) -> int:
    failed = False
    for path in sorted(Path(arguments[0] if arguments else "src").glob("*/**/*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        for finding in check_source(path.read_text()):
            print(f"{path}:{finding.line}: error: {finding.text}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
