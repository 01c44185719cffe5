"""Refuses includes that are not allowed between the rooms of src/, and knowledge that belongs to certain rooms.

    python tools/check_includes.py src

Checks each file under src/<room>/ for
- `#include "room/..."` of a room it may not use,
- headers of torch outside the rooms that wrap it, which are compiled once for all torches,
- headers that include pybind11, which costs each file ten seconds: aten/python.h replaces most of them; a line that
  needs one is marked, on it or above it, with `// sees pybind11: reason`,
- knowledge of CPython's internals outside cpython, of its version outside cpython/features.h, and of a frame's slots
  outside cpython/image.h,
- access to a type's dict, whose place differs between versions of CPython: type_dict() of src/base/type_dict.h has it,
- imports through the running frame's `__import__`: use import_module() of src/base/imported.h,
- manual reference counts outside base and cpython; a line that needs one is marked, on it or above it, with
  `// counts by hand: reason`, and is only listed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# room: what it may include besides itself. docs/HACKING.md says what each room is for.
_VALUE = {"base", "torch", "opcode", "bytecode", "cpython", "source", "meta", "shape"}
_RECORD = _VALUE | {"value", "plan"}
_TRACE = _RECORD | {"aten", "graph", "effects", "guards"}
_PROTOCOL = _TRACE | {"trace"}
_TRACING = _PROTOCOL | {"protocol"}
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "torch": {"base"},
    "opcode": set(),
    "cpython": {"base", "torch", "opcode"},
    "bytecode": {"base", "opcode", "cpython"},
    "shape": {"base"},
    "aten": {"base", "torch", "shape"},
    "meta": {"base", "torch", "shape", "aten"},
    "source": {"base", "cpython", "shape", "meta"},
    "value": _VALUE,
    "plan": {"base", "torch", "cpython", "source", "meta", "shape", "aten", "guards"},
    "graph": _RECORD | {"aten"},
    "effects": _RECORD | {"aten", "graph"},
    "guards": {"base", "torch", "cpython", "source", "shape", "aten"},
    "trace": _TRACE,
    "protocol": _PROTOCOL,
    "builtins": _TRACING,
    "hop": _TRACING,
    "interp": _TRACING,
    "portable": {"base", "torch", "cpython", "source", "meta", "shape", "aten", "guards", "plan", "graph"},
    "runtime": {"base", "torch", "opcode", "bytecode", "cpython", "aten", "plan", "source"},
    "backend": {"base", "torch", "graph", "guards", "meta", "shape", "source", "plan", "aten", "value", "trace"},
    "tape": {"base", "torch", "shape", "aten"},
    "record": {"base", "torch", "shape", "aten", "meta", "tape"},
    "passes": {"base", "torch", "shape", "aten", "tape", "record"},
    "training": {"base", "torch", "shape", "aten", "meta", "tape", "record", "passes"},
    "native": {"base", "torch", "graph", "meta", "shape", "aten", "tape", "record", "passes", "training"},
    "pipeline": set(),
}
ALLOWED["api"] = set(ALLOWED)

TORCH_ROOMS = {"aten", "meta", "backend", "tape", "record", "passes", "training", "native", "pipeline", "api"}
COUNTING_ROOMS = {"base", "cpython"}

INCLUDE = re.compile(r'\s*#\s*include\s*(["<][^">]+)[">]')
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2|pybind11)/")
PYBIND_HEADER = re.compile(
    r"pybind11/|torch/csrc/(Exceptions|utils/(pybind|python_symnode)|autograd/python_\w+|jit/python/\w+)\.h"
)
PYBIND_REASON = re.compile(r"//\s*sees pybind11:\s*\S")
PYTHON_INTERNALS = re.compile(r"\binternal/pycore")
ONLY_IN = {  # a header, with its source: what nothing else may name
    "cpython/features": re.compile(r"\bPY_(VERSION_HEX|MINOR_VERSION)\b"),
    "cpython/image": re.compile(
        r"(->|\.)localsplus\b|\b(stacktop|stackpointer|prev_instr|instr_ptr|_?PyStackRef(_\w+)?)\b"
    ),
}
IMPORT = re.compile(r"\bPyImport_Import(Module)?\b")
TYPE_DICT = re.compile(r"(->|\.)tp_dict\b")
COUNT = re.compile(r"\bPy_X?(INCREF|DECREF)\b")
COUNT_REASON = re.compile(r"//\s*counts by hand:\s*\S")


class Finding(NamedTuple):
    path: Path
    line: int
    text: str
    is_error: bool


def check_include(room: str, header: str) -> str | None:
    """Say what is wrong with `room` including `header`, or None."""
    is_own = header.startswith('"')  # of src: torch's headers are in angle brackets
    header = header[1:]
    target = header.split("/")[0]
    if ".." in header.split("/"):
        return f'"{header}": include by room, not by relative path'
    if not is_own and TORCH_HEADER.match(header) and room not in TORCH_ROOMS:
        return f"{room} must not see torch's headers: {header}"
    if is_own and "/" in header and target in ALLOWED and target != room and target not in ALLOWED[room]:
        return f'{room} must not include {target}: "{header}"'
    return None


def check_lines(room: str, lines: list[str], name: str = "") -> Iterator[tuple[int, str, bool]]:
    """Yield (line number, text, is an error) for each finding in the file `name` of `room`."""
    if room not in ALLOWED:
        yield 1, f"room {room} has no row in tools/check_includes.py", True
        return
    for number, line in enumerate(lines, start=1):
        code = line.split("//")[0]
        near = lines[max(number - 2, 0) : number]
        include = INCLUDE.match(line)
        if include and (problem := check_include(room, include[1])):
            yield number, problem, True
        if include and PYBIND_HEADER.match(include[1][1:]) and not any(map(PYBIND_REASON.search, near)):
            yield number, f"{include[1][1:]} includes pybind11; use aten/python.h", True
        if PYTHON_INTERNALS.search(code) and room != "cpython":
            yield number, "CPython's internals are known in src/cpython only", True
        for file, pattern in ONLY_IN.items():
            if (found := pattern.search(code)) and f"{room}/{name}" not in (f"{file}.h", f"{file}.cpp"):
                yield number, f"{found[0]} is known in {file}.h only", True
        if IMPORT.search(code):
            yield number, "imported by the frame's __import__; use import_module()", True
        if TYPE_DICT.search(code) and room != "base":
            yield number, "where a type keeps its dict is known in base/type_dict.h only; use type_dict()", True
        if COUNT.search(code) and room not in COUNTING_ROOMS:
            has_reason = any(map(COUNT_REASON.search, near))
            yield number, "reference counted by hand" + ("" if has_reason else "; use Owned, Borrowed"), not has_reason


def check_tree(src: Path) -> Iterator[Finding]:
    for path in sorted(src.glob("*/**/*")):
        if path.suffix in {".h", ".cpp", ".def", ".inc"}:
            room, *rest = path.relative_to(src).parts
            for line, text, is_error in check_lines(room, path.read_text().splitlines(), "/".join(rest)):
                yield Finding(path, line, text, is_error)


def main(arguments: list[str]) -> int:
    findings = list(check_tree(Path(arguments[0] if arguments else "src")))
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {'error' if finding.is_error else 'note'}: {finding.text}")
    return int(any(finding.is_error for finding in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
