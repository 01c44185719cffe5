"""Writes the table of opcodes of the CPython that runs it: src/cpython/opcodes/3xx.def.

    python3.11 tools/make_opcodes.py            writes it
    python3.14 tools/make_opcodes.py --print    prints it

Numbers are <opcode.h>'s, by name. Forms that only the interpreter puts into code are left out; specialised ones stand
with what they specialise.
"""

import opcode
import sys
import textwrap
from pathlib import Path

VERSION = "".join(str(part) for part in sys.version_info[:2])
TABLE = Path(__file__).parents[1] / f"src/cpython/opcodes/{VERSION}.def"
INTERNAL = ("INSTRUMENTED_", "ENTER_EXECUTOR", "INTERPRETER_EXIT", "RESERVED", "TRACE_RECORD")
WIDTH = 120

HEAD = """\
// CPython {version}'s public opcodes with their numbers from <opcode.h>, inline cache units and specialised forms.
// RAW(name, cache units, specialised forms...). Written by tools/make_opcodes.py.
"""


def caches(name: str) -> int:
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    by_number = isinstance(entries, list)  # until 3.12
    return int(entries[opcode.opmap[name]] if by_number else entries.get(name, 0))


def row(name: str) -> str:
    forms = opcode._specializations.get(name, [])  # type: ignore[attr-defined]
    text = f"RAW({', '.join([name, str(caches(name)), *forms])})"
    return textwrap.fill(text, WIDTH, subsequent_indent="    ", break_long_words=False)


def table() -> str:
    public = {name: number for name, number in opcode.opmap.items() if number < 256 and not name.startswith(INTERNAL)}
    rows = "\n".join(row(name) for name in sorted(public, key=public.__getitem__))
    return HEAD.format(version=f"{sys.version_info[0]}.{sys.version_info[1]}") + rows + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(table(), end="")
    else:
        TABLE.write_text(table())
