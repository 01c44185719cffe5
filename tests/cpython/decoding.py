"""Walks code of the running CPython as gramme's vocabulary has it, and compares with what CPython says.

python decoding.py [--every N] [folder or file...]     the standard library

Needs the module `decoder`, built by tools/pythons.py.

Of every instruction that is reached: its effect on the stack is that of `dis.stack_effect`; depths agree where ways
meet, at handlers and at the end, and are never below nothing nor above co_stacksize; jumps lead to instructions.
"""

import argparse
import dis
import gc
import sys
import sysconfig
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import decoder

MINOR = sys.version_info[1]
CONDITIONAL, ENDS_BLOCK = 1 << 5, 1 << 6
# Their two ways are one instruction for dis, or their next instruction is part of them: what is compared is depths.
NOT_TOLD = {
    "FOR_ITER", "SEND", "END_ASYNC_FOR", "YIELD_VALUE", "RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR",
}  # fmt: skip
PASSED = {"END_FOR", "END_SEND", "POP_TOP", "POP_ITER"}  # what FOR_ITER and SEND jump behind

Decoded = dict[str, Any]


class RefusedError(Exception):
    """What of a code object does not agree."""


def check(condition: object, message: str) -> None:
    if not condition:
        raise RefusedError(message)


effects = cache(decoder.effects)


def raw_instructions(code: types.CodeType) -> dict[int, tuple[str, int]]:
    """CPython's, by code unit, EXTENDED_ARG folded in; those are there, too."""
    found, extended, starts = {}, 0, []
    bytecode = code.co_code
    unit = 0
    while unit < len(bytecode) // 2:
        number, arg = bytecode[2 * unit], bytecode[2 * unit + 1] | extended
        name = dis.opname[number]
        starts.append(unit)
        if name == "EXTENDED_ARG":
            extended = arg << 8
            unit += 1
            continue
        for start in starts:
            found[start] = (name, arg)
        starts, extended = [], 0
        entries = dis._inline_cache_entries  # type: ignore[attr-defined]
        unit += 1 + (entries[number] if isinstance(entries, list) else entries.get(name, 0))
    return found


def argument(name: str, arg: int) -> int | None:
    """For dis, which wants none where CPython takes none."""
    number = dis.opmap[name]
    takes = number >= dis.HAVE_ARGUMENT if MINOR < 13 else number in dis.hasarg
    return arg if takes else None


class Walk:
    """One code object."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.instructions = decoder.decode(code)
        self.by_unit = {i["offset"]: i for i in self.instructions}
        self.by_unit |= {i["inner"]: i for i in self.instructions if i["inner"] >= 0}
        self.raw = raw_instructions(code)
        self.handlers = [
            (e.start // 2, e.end // 2, e.target // 2, e.depth, e.lasti)
            for e in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        ]
        self.depths = {0: 0}
        self.todo = [0]
        self.highest = 0
        self.used: Counter[str] = Counter()
        self.inner = 0

    def go(self, unit: int, depth: int) -> None:
        check(unit in self.by_unit, f"a jump into an instruction at {unit}")
        offset = self.by_unit[unit]["offset"]
        self.inner += offset != unit
        if offset in self.depths:
            check(self.depths[offset] == depth, f"depths {self.depths[offset]} and {depth} meet at {unit}")
        else:
            self.depths[offset] = depth
            self.todo.append(offset)

    def compare_effect(self, i: Decoded) -> None:
        """With the sum of what CPython's instructions do that it stands for."""
        units = sorted(unit for unit in self.raw if i["offset"] <= unit < i["next"])
        raw = [self.raw[unit] for unit in units if dis.opname[self.code.co_code[2 * unit]] != "EXTENDED_ARG"]
        if raw[-1][0] in NOT_TOLD:
            return
        for jump in (False, True):
            told = sum(dis.stack_effect(dis.opmap[name], argument(name, arg), jump=jump) for name, arg in raw)
            mine = sum(effects(op, arg)[2 if jump else 1] for op, arg in i["parts"])
            check(mine == told, f"{raw} takes {told:+d} for dis, {mine:+d} as {i['parts']}")

    def follow(self, i: Decoded) -> None:
        depth = jumped = self.depths[i["offset"]]
        ends = False
        check("UNREACHED" not in dict(i["parts"]), f"{i['raw']} is reached")
        for start, end, target, of_handler, lasti in self.handlers:
            if start <= i["at"] < end and self.can_raise(i, of_handler - depth):
                check(of_handler <= depth, f"a handler deeper than the stack at {i['at']}")
                self.go(target, of_handler + lasti + 1)
        for op, arg in i["parts"]:
            self.used[op] += 1
            pops, effect, effect_jumped, properties = effects(op, arg)
            check(depth >= pops, f"{op} takes more than there is at {i['at']}")
            jumped = depth + effect_jumped
            depth += effect
            self.highest = max(self.highest, depth)
            ends = bool(properties & ENDS_BLOCK)
            check(op != "RETURN_VALUE" or depth == 0, "items are left when it returns")
        if i["target"] >= 0:
            self.check_passed(i)
            self.go(i["target"], jumped)
        if not ends:
            self.go(i["next"], depth)

    def can_raise(self, i: Decoded, too_deep: int) -> bool:
        """3.15's table has a wrong depth behind a generator expression, where nothing raises."""
        quiet = {op for op, _ in i["parts"]} <= {"LOAD_COMMON_CONSTANT", "RETURN_VALUE"}
        return not (too_deep > 0 and MINOR >= 15 and quiet)

    def check_passed(self, i: Decoded) -> None:
        """What lies between where CPython jumps and where the vocabulary's instruction leads."""
        if i["raw"] not in ("FOR_ITER", "SEND"):
            return
        unit = i["next"] + self.raw[i["at"]][1]
        while unit < i["target"]:
            check(self.raw[unit][0] in PASSED, f"{i['raw']} passes {self.raw[unit][0]}")
            unit = self.by_unit[unit]["next"]
        check(unit == i["target"], f"{i['raw']} leads into an instruction")

    def run(self) -> None:
        while self.todo:
            i = self.by_unit[self.todo.pop()]
            self.compare_effect(i)
            self.follow(i)
        over = self.highest - self.code.co_stacksize
        check(over <= 0 or (over == 1 and self.code.co_stacksize <= 1), f"depth {self.highest} above co_stacksize")


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def files(places: list[str]) -> Iterator[Path]:
    for place in map(Path, places or [sysconfig.get_path("stdlib")]):
        found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        yield from (path for path in found if "site-packages" not in path.parts and "lib2to3" not in path.parts)


def codes(places: list[str], every: int) -> Iterator[types.CodeType]:
    for path in list(files(places))[::every]:
        try:
            module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError):  # test data that is not meant to compile; links to nowhere
            continue
        yield from nested(module)


def specialised() -> int:
    """How much code of this process CPython has changed since it was compiled; it is the same instructions."""
    count = 0
    for function in [found for found in gc.get_objects() if isinstance(found, types.FunctionType)]:
        code = function.__code__
        running = decoder.decode(code, True)
        check(running == decoder.decode(code), f"{code} is something else once it has run")
        count += code._co_code_adaptive != code.co_code  # type: ignore[attr-defined]
    return count


def run_long_loop() -> types.FunctionType:
    """A function that was run, whose jumps have EXTENDED_ARGs: 3.11 specialises those, too."""
    body = "        a, b = b + i, a - i\n" * 80
    namespace: dict[str, Any] = {}
    exec(f"def long_loop():\n    a = b = 0\n    for i in range(1000):\n{body}    return a + b", namespace)
    namespace["long_loop"]()
    return namespace["long_loop"]  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("places", nargs="*")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth file only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    count = inner = 0
    used: Counter[str] = Counter()
    refused: dict[str, list[str]] = {}
    for code in codes(options.places, options.every):
        walk = Walk(code)
        try:
            walk.run()
        except RefusedError as why:
            where = f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_name}"
            refused.setdefault(str(why), []).append(where)
        count += 1
        inner += walk.inner
        used += walk.used
    changed, _kept = 0, run_long_loop()
    try:
        changed = specialised()
    except RefusedError as why:
        refused[str(why)] = ["this process"]
    for why, where in sorted(refused.items(), key=lambda row: -len(row[1]))[:20]:
        print(f"{len(where)} REFUSED: {why}, {where[0]}")
    told = f"{count} code objects of {len(used)} instructions, {inner} jumps behind a bool(), {changed} specialised"
    print(f"CPython {sys.version.split()[0]}: {told}, {sum(map(len, refused.values()))} refused")
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
