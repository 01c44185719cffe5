"""The decoder, the exception table and the stack effects against dis over the standard library."""

import dis
import sysconfig
import types
from pathlib import Path
from typing import Any

import pytest

from bytecode.support import native, nested, only_311

STDLIB = Path(sysconfig.get_path("stdlib"))
QUICK = ["dataclasses", "typing", "asyncio/streams", "contextlib", "inspect", "argparse", "statistics", "ast", "enum"]
RESUMABLE, CAN_BREAK = 1, 2


def modules(soak: bool) -> list[Path]:
    if soak:
        return [
            path for path in STDLIB.rglob("*.py") if "site-packages" not in path.parts and "lib2to3" not in path.parts
        ]
    return [STDLIB / f"{name}.py" for name in QUICK]


def codes(soak: bool) -> list[types.CodeType]:
    found: list[types.CodeType] = []
    for path in modules(soak):
        try:
            found += nested(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
        except (SyntaxError, ValueError):  # test data of the standard library that is not meant to compile
            continue
    return found


SAME_AS = {"LOAD_CLOSURE": "LOAD_FAST"} | {
    f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"
    for way in ("FORWARD", "BACKWARD")
    for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}
TWO = {"PRINT_EXPR": ("CALL_INTRINSIC_1", "POP_TOP"), "IMPORT_STAR": ("CALL_INTRINSIC_1", "POP_TOP")}
PARTS_OF_CALL = ("EXTENDED_ARG", "KW_NAMES", "PRECALL")
Row = tuple[int, int, str, int, int, int | None]


def by_dis(code: types.CodeType) -> list[Row]:
    """Rows (offset, at, name, arg, target, line) in code units, as dis has them, in gramme's vocabulary."""
    rows: list[Row] = []
    start = None
    lines = {unit: line for begin, end, line in code.co_lines() for unit in range(begin // 2, end // 2)}
    for instruction in dis.get_instructions(code):
        unit = instruction.offset // 2
        start = unit if start is None else start
        if instruction.opname in PARTS_OF_CALL:
            continue
        jumps = instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
        target = instruction.argval // 2 if jumps else -1
        name = SAME_AS.get(instruction.opname, instruction.opname)
        arg = (instruction.arg or 0) & 3 if name == "RESUME" else instruction.arg or 0
        if name in TWO:
            first, second = TWO[name]
            rows.append((start, unit, first, 1 if name == "PRINT_EXPR" else 2, -1, lines.get(unit)))
            name = second
        rows.append((start, unit, name, arg, target, lines.get(unit)))
        start = None
    return rows


def decoded(code: types.CodeType) -> list[Row]:
    return [
        (offset, at, name, arg, target, None if line < 0 else line)
        for offset, at, name, arg, _, target, line, *_ in native.decode(code)
    ]


@only_311
def test_decoder_against_dis(soak: bool) -> None:
    for code in codes(soak):
        assert decoded(code) == by_dis(code), code


def test_exception_table_against_dis(soak: bool) -> None:
    count = 0
    for code in codes(soak):
        entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        for unit in range(len(code.co_code) // 2):
            expected = next(
                ((e.target // 2, e.depth, e.lasti) for e in entries if e.start <= 2 * unit < e.end),
                None,
            )
            assert native.handler(code, unit) == expected
            count += 1
    assert count > 20_000


@only_311
@pytest.mark.parametrize("jumped", [False, True])
def test_stack_effects_against_dis(jumped: bool) -> None:
    """dis counts PRECALL as if it took the arguments that CALL takes, and not the value a generator starts with."""
    possible = {"BUILD_SLICE": [2, 3], "RAISE_VARARGS": [0, 1, 2]}
    for raw, opcode in dis.opmap.items():
        if raw in ("KW_NAMES", "PRECALL", "CALL", "CACHE", "EXTENDED_ARG", "RETURN_GENERATOR"):
            continue
        for arg in possible.get(raw, range(5)) if opcode >= dis.HAVE_ARGUMENT else [None]:
            expected = dis.stack_effect(opcode, arg, jump=jumped)
            names = TWO.get(raw) or (SAME_AS.get(raw, raw),)
            assert sum(native.stack_effect(name, arg or 0, jumped) for name in names) == expected, (raw, arg)
    parts = sum(dis.stack_effect(dis.opmap[name], 3) for name in ("KW_NAMES", "PRECALL", "CALL"))
    assert native.stack_effect("CALL", 3, jumped) == parts


@only_311
def test_every_opcode_has_a_row() -> None:
    rows = {row[0]: row for row in native.opcodes()}
    known = {name for raw in dis.opmap for name in TWO.get(raw) or (SAME_AS.get(raw, raw),)}
    assert known - rows.keys() == {"CACHE", *PARTS_OF_CALL}
    for name, properties, steps, text in rows.values():
        if name in dis.opmap and name != "CALL":  # it begins with PRECALL or KW_NAMES
            assert bool(properties & CAN_BREAK) == steps, name
        assert text
        assert not text.endswith(".")


@only_311
def test_specialised_code_decodes_as_compiled() -> None:
    def hot(items, table):
        total = 0
        for item in items:
            total += item
            table["n"] = total + len(items)
            a, b = item, total
            if a < b:
                items[0] = table["n"]
        return total

    body = "        a, b = b + i, a - i\n" * 80  # jumps with EXTENDED_ARGs
    namespace: dict[str, Any] = {}
    exec(f"def long():\n    a = b = 0\n    for i in range(1000):\n{body}    return a + b", namespace)
    long = namespace["long"]
    compiled = decoded(types.FunctionType(long.__code__.replace(co_name="fresh"), {}).__code__)
    long()
    assert any(i.opname == "EXTENDED_ARG_QUICK" for i in dis.get_instructions(long, adaptive=True))
    assert decoded(types.FunctionType(long.__code__, {}).__code__) == compiled

    fresh = types.FunctionType(hot.__code__.replace(co_name="fresh"), globals()).__code__
    before = decoded(fresh)
    for _ in range(100):
        hot([1, 2, 3], {"n": 0})
    assert any(i.opname.endswith(("_ADAPTIVE", "_INT")) for i in dis.get_instructions(hot, adaptive=True))
    assert decoded(hot.__code__) == before


def test_decoded_form_dies_with_its_code() -> None:
    def once() -> None:
        native.decode(compile("\n".join(f"x{i} = y{i} + 1" for i in range(500)), "<many>", "exec"))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def growth() -> int:
        before = resident()
        for _ in range(100):  # some 100 kB each
            once()
        return resident() - before

    growth()
    assert min(growth() for _ in range(3)) < 4 << 20  # what others left may be given back, or taken, meanwhile
