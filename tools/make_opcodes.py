"""Writes the table of the running CPython's instructions: src/cpython/opcodes/3xx.def.

    python3.14 tools/make_opcodes.py            writes it
    python3.14 tools/make_opcodes.py --print    prints it

Numbers are <opcode.h>'s, by name. Forms that only the interpreter puts into code are left out; specialised ones stand
with what they specialise. MEANINGS, JUMPS, PREFIXES and STACK are written by hand: what differs from the vocabulary,
src/opcode/opcodes.def. The rest comes from the interpreter.
"""

import opcode
import re
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MINOR = sys.version_info[1]
TABLE = ROOT / f"src/cpython/opcodes/3{MINOR}.def"
VOCABULARY = set(re.findall(r"^OP\((\w+),", (ROOT / "src/opcode/opcodes.def").read_text(), re.MULTILINE))
INTERNAL = (
    "CACHE", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "INSTRUMENTED_", "INTERPRETER_EXIT", "RESERVED", "TRACE_RECORD",
)  # fmt: skip
WIDTH = 120

HEAD = """\
// CPython {version}'s public opcodes with their numbers from <opcode.h>, and what they are in gramme's vocabulary.
// Written by tools/make_opcodes.py.
// RAW(name, inline cache units, specialised forms...)
// SAME(name): the instruction of that name
// MEANS(name, mask, value, parts...): where argument & mask is the value, these instructions one after the other;
//   PART(instruction, shift, keep, plus): its argument is (argument >> shift & keep) + plus
// JUMPS(name, sign, beyond): by the argument, and so many units behind the destination
// PREFIX(name, Prefix::kind): part of the instruction behind it
// SPECIAL(name): the methods that LOAD_SPECIAL finds, in order
// STACK(what, value): see cpython::Stack
"""


class Part(NamedTuple):
    op: str
    shift: int = 0
    keep: int = -1
    plus: int = 0

    def text(self) -> str:
        return f"PART({self.op}, {self.shift}, {self.keep}, {self.plus})"


class Case(NamedTuple):
    """If argument & mask equals the value, the instruction means these parts."""

    parts: tuple[Part, ...]
    mask: int = 0
    value: int = 0


def bare(op: str, plus: int = 0) -> Part:
    return Part(op, keep=0, plus=plus)


def one(op: str, shift: int = 0, keep: int = -1) -> list[Case]:
    return [Case((Part(op, shift, keep),))]


def pair(first: str, second: str) -> list[Case]:
    return [Case((Part(first, 4), Part(second, 0, 15)))]


COMPARES = 4 if MINOR < 13 else 5  # below: the bits that tell specialised forms apart; 16: a bool is wanted
INTRINSICS = {4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}

MEANINGS: dict[str, list[Case]] = {
    "LOAD_FAST_CHECK": one("LOAD_FAST"),
    "LOAD_FAST_BORROW": one("LOAD_FAST"),
    "LOAD_CLOSURE": one("LOAD_FAST"),
    "LOAD_FAST_LOAD_FAST": pair("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": pair("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": pair("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": pair("STORE_FAST", "STORE_FAST"),
    "RETURN_CONST": [Case((Part("LOAD_CONST"), bare("RETURN_VALUE")))],
    "LOAD_COMMON_CONSTANT": [Case((bare("LOAD_ASSERTION_ERROR"),), -1, 0), Case((Part("LOAD_COMMON_CONSTANT"),))],
    "NOT_TAKEN": [Case((bare("NOP"),))],
    "END_FOR": [Case((bare("UNREACHED"),))],  # FOR_ITER jumps behind it
    "RESUME": one("RESUME", keep=3),
    "POP_ITER": [Case((bare("POP_TOP" if MINOR < 15 else "POP_ITER_PAIR"),))],
    "PRINT_EXPR": [Case((bare("CALL_INTRINSIC_1", 1), bare("POP_TOP")))],
    "IMPORT_STAR": [Case((bare("CALL_INTRINSIC_1", 2), bare("POP_TOP")))],
    "CALL_INTRINSIC_1": [
        *(Case((bare(op),), -1, number) for number, op in INTRINSICS.items()),
        Case((Part("CALL_INTRINSIC_1"),)),
    ],
    "CALL_INTRINSIC_2": [Case((bare("PREP_RERAISE_STAR"),), -1, 1), Case((Part("CALL_INTRINSIC_2"),))],
    "FORMAT_SIMPLE": [Case((bare("FORMAT_VALUE"),))],
    "FORMAT_WITH_SPEC": [Case((bare("FORMAT_VALUE", 4),))],
    **{
        f"POP_JUMP_{way}IF_{what}": one(f"POP_JUMP_IF_{what}")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
        for way in ("FORWARD_", "BACKWARD_", "")
    },
}
if MINOR >= 12:
    MEANINGS |= {
        "LOAD_ATTR": [Case((Part("LOAD_METHOD", 1),), 1, 1), Case((Part("LOAD_ATTR", 1),))],
        "LOAD_SUPER_ATTR": [Case((Part("LOAD_SUPER_METHOD", 1),), 1, 1), Case((Part("LOAD_SUPER_ATTR", 1),))],
        "COMPARE_OP": one("COMPARE_OP", COMPARES),
        "END_ASYNC_FOR": [Case((bare("END_ASYNC_FOR"),))],
        "YIELD_VALUE": [Case((bare("YIELD_VALUE"),))],
    }
if MINOR >= 13:
    MEANINGS |= {
        "COMPARE_OP": [
            Case((Part("COMPARE_OP", COMPARES), bare("TO_BOOL")), 16, 16),
            Case((Part("COMPARE_OP", COMPARES),)),
        ],
        "MAKE_FUNCTION": [Case((bare("MAKE_FUNCTION"),))],
    }
if MINOR >= 14:
    MEANINGS |= {
        "BINARY_OP": [Case((bare("BINARY_SUBSCR"),), -1, 26), Case((Part("BINARY_OP"),))],
        "CALL_FUNCTION_EX": [Case((bare("CALL_FUNCTION_EX", 1),))],  # the mapping's place is always there
    }
if MINOR >= 15:
    MEANINGS |= {
        "SEND": one("SEND_PAIR"),
        "END_SEND": [Case((bare("END_SEND_PAIR"),))],
        "GET_ITER": one("GET_ITER_PAIR"),
        "FOR_ITER": one("FOR_ITER_PAIR"),
    }

# Behind its destination FOR_ITER passes what drops the iterator, SEND END_SEND.
BEYOND = {"FOR_ITER": {11: 0, 12: 1}.get(MINOR, 2), "SEND": int(MINOR >= 12)}
PREFIXES = {"KW_NAMES": "Names", "PRECALL": "Nothing", "TO_BOOL": "Truth"}

STACK = {
    "null_above": MINOR >= 13,
    "with_pair": MINOR >= 14,
    "iterator_pair": MINOR >= 15,
    "strict_bool": MINOR >= 13,
}


def caches(name: str) -> int:
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    by_number = isinstance(entries, list)  # until 3.12
    return int(entries[opcode.opmap[name]] if by_number else entries.get(name, 0))


def raw(name: str) -> str:
    forms = opcode._specializations.get(name, [])  # type: ignore[attr-defined]
    text = f"RAW({', '.join([name, str(caches(name)), *forms])})"
    return textwrap.fill(text, WIDTH, subsequent_indent="    ", break_long_words=False)


def meanings(name: str) -> list[str]:
    if name not in MEANINGS or MEANINGS[name] == one(name):
        return [f"SAME({name})"] if name in VOCABULARY else []
    return [
        f"MEANS({name}, {case.mask}, {case.value}, {', '.join(part.text() for part in case.parts)})"
        for case in MEANINGS[name]
    ]


def jump(name: str) -> list[str]:
    if "JUMP" not in name and name not in BEYOND:
        return []
    return [f"JUMPS({name}, {'-1' if 'BACKWARD' in name else '1'}, {BEYOND.get(name, 0)})"]


def table() -> str:
    names = [name for name, number in opcode.opmap.items() if number < 256 and not name.startswith(INTERNAL)]
    names.sort(key=opcode.opmap.__getitem__)
    unknown = [name for name in names if not meanings(name) and name not in (*PREFIXES, "EXTENDED_ARG")]
    if unknown:
        raise SystemExit(f"neither in the vocabulary nor in MEANINGS: {', '.join(unknown)}")
    rows = [
        *map(raw, names),
        *(line for name in names for line in meanings(name)),
        *(line for name in names for line in jump(name)),
        *(f"PREFIX({name}, {kind})" for name, kind in PREFIXES.items() if name in names),
        *(f'SPECIAL("{name}")' for name in getattr(opcode, "_special_method_names", [])),
        *(f"STACK({what}, {str(value).lower()})" for what, value in STACK.items()),
    ]
    return HEAD.format(version=f"3.{MINOR}") + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(table(), end="")
    else:
        TABLE.write_text(table())
