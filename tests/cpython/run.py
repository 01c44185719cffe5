"""Runs each program as CPython does, then in ways that gramme takes and writes frames, and compares what it shows.

python run.py [-v] [--programs EXPRESSION] [--generated COUNT]     needs the module `frames`, built by tools/pythons.py

The rows of COMPARISONS say what may differ, and why; anything else fails.
"""

import argparse
import gc
import importlib
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import frames
import generated
from lifetimes import objects
from lifetimes.watched import WATCHED

FAMILIES = "operands variables calls blocks exceptions references generators frames_kept"
if sys.version_info >= (3, 15):
    FAMILIES += " since_3_15"  # its syntax
GENERATED = 80
STEPS = [*range(60), *range(60, 400, 7)]
WARM = 20  # runs after which CPython has specialised a function
HAS_EVENTS = sys.version_info >= (3, 12)
TAGGED = sys.version_info >= (3, 14)  # items of the stack may borrow; before, all that a frame holds is its own

Program = Callable[[list[Any]], Any]
Outcome = list[str]


def all_programs(generated_count: int) -> dict[str, Program]:
    for family in FAMILIES.split():
        importlib.import_module("lifetimes." + family)
    names = {name: value for module in list(sys.modules.values()) for name, value in vars(module).items()
             if module.__name__.startswith("lifetimes.")}  # fmt: skip
    found = dict(objects.PROGRAMS)
    for seed in range(generated_count):
        namespace = names | {"sys": sys}
        exec(compile(generated.source(seed), f"<{seed}>", "exec"), namespace)
        objects.add_codes(namespace["program"].__code__)
        found[f"generated {seed}"] = namespace["program"]
    return found


def outcome(program: Program) -> Outcome:
    """What happened, in order: the program's events, its result or exception, what died when it had ended."""
    log: list[Any] = []
    try:
        log.append(["result", repr(program(log))])
    except Exception as e:
        where, lines = e.__traceback__, []
        while where:
            lines.append((where.tb_frame.f_code.co_name, where.tb_lineno))
            where = where.tb_next
        lines = [line for line in lines if line[0] not in ("outcome", "<lambda>")]
        log.append(["raised", type(e).__name__, repr(e), lines])
        del where
        e.__traceback__ = None
        del e
    gc.collect()
    log.append("collected")
    return [repr(event) for event in log]


def with_frames(program: Program, codes: set[types.CodeType], *how: Any) -> Outcome:
    frames.take(codes, *how)
    try:
        return outcome(program)
    finally:
        frames.take(None)


def monitored(program: Program, callback: Callable[..., Any]) -> Outcome:
    """With an event at each instruction of the programs' functions."""
    monitoring = sys.monitoring
    monitoring.use_tool_id(4, "frames")
    monitoring.register_callback(4, monitoring.events.INSTRUCTION, callback)
    for code in objects.FUNCTIONS:
        monitoring.set_local_events(4, code, monitoring.events.INSTRUCTION)
    try:
        return outcome(program)
    finally:
        for code in objects.FUNCTIONS:
            monitoring.set_local_events(4, code, 0)
        monitoring.free_tool_id(4)


unknown_opcodes: Counter[str] = Counter()


def split(program: Program, codes: set[types.CodeType], **how: bool) -> Iterator[tuple[int, Outcome]]:
    """Each number of first instructions in C++: the outcomes, until no frame has so many."""
    order = ("lends", "moves", "once", "aware")
    frames.counts()
    for steps in STEPS:
        yield steps, with_frames(program, codes, steps, *(how.get(name, False) for name in order))
        _, _, longest, unknown = frames.counts()
        unknown_opcodes.update(unknown)
        if longest < steps:
            return


# ---- what may differ


def is_death(event: str) -> bool:
    return event.startswith("'del ") or event in ("'callback'", "'finalize'")


def without_counts(events: Outcome) -> Outcome:
    return ["count" if event.isdigit() else event for event in events]


def same_but_counts(got: Outcome, expected: Outcome) -> bool:
    return without_counts(got) == without_counts(expected)


def same_but_when(got: Outcome, expected: Outcome) -> bool:
    """The same happens and the same dies; what asks whether something has died is told another thing."""

    def told(events: Outcome) -> tuple[Outcome, Outcome]:
        others = ["asked" if event in ("True", "False") else event for event in without_counts(events)]
        return [e for e in others if not is_death(e)], sorted(e for e in others if is_death(e))

    return told(got) == told(expected)


def same(got: Outcome, expected: Outcome) -> bool:
    return got == expected


# CPython's own two ways: __getitem__ in Python is called by its slot, which holds the operands until it returns; once
# specialised, its frame takes them over.
TWO_WAYS = {"subscript"}


# What CPython does not tell when somebody begins to watch in an instruction that was carried out in C++.
NOT_TOLD = {
    "trace_across_lines": "the line that the next instruction begins: the evaluator takes it for the one it stood in",
    "trace_is_last_of_line": "the same",
    "tool_starts_in_expression": "the same",
    "tool_raises_through": "who handles the exception, or that it leaves the frame: CPython exports no function for it",
}


class Comparison(NamedTuple):
    what: str
    against: str
    allowed: Callable[[Outcome, Outcome], bool]
    why: str


COMPARISONS = {
    "warm": Comparison("run often", "run once", same, ""),
    "hook": Comparison(
        "a hook that passes frames on", "plain", same_but_when,
        "CPython calls by vectorcall while a hook is in: the caller's stack holds the arguments until the call returns",
    ),
    "events": Comparison("an event at each instruction", "plain", same, ""),
    "safe": Comparison(
        "all frames made safe at each instruction", "events", same_but_counts,
        "sys.getrefcount counts the references that items of the stack have of their own",
    ),
    "split": Comparison("the outer frame split, as compiled, arguments moved", "plain", same, ""),
    "split, safe": Comparison(
        "the outer frame split, written anew at each instruction, arguments moved", "plain", same_but_counts,
        "what CPython loads without a reference has one",
    ),
    "split, vectorcall": Comparison(
        "the outer frame split, as compiled, calls by vectorcall", "plain", same_but_when,
        "as with a hook: the stack holds the arguments until the call returns",
    ),
    "split, begun": Comparison("the same, the frame begun without a hook", "plain", same, ""),
    "all split": Comparison("all frames split, as compiled", "hook", same, ""),
    "all split, safe": Comparison(
        "all frames split, written anew at each instruction", "hook", same_but_counts,
        "what CPython loads without a reference has one",
    ),
    "watched": Comparison("somebody begins to watch, unseen", "plain", lambda *_: True, "events are missed"),
    "watched, aware": Comparison("somebody begins to watch, CPython goes on", "plain", same, ""),
}  # fmt: skip


class Results:
    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.different: dict[str, dict[str, tuple[Any, Outcome, Outcome]]] = {name: {} for name in COMPARISONS}
        self.wrong: set[tuple[str, str]] = set()

    def add(self, comparison: str, program: str, at: Any, got: Outcome, expected: Outcome) -> None:
        self.runs[comparison] += 1
        if got == expected:
            return
        known = program in TWO_WAYS or (comparison == "watched, aware" and program in NOT_TOLD)
        if not known and not COMPARISONS[comparison].allowed(got, expected):
            if (comparison, program) not in self.wrong:
                self.different[comparison].pop(program, None)
            self.wrong.add((comparison, program))
        self.different[comparison].setdefault(program, (at, got, expected))

    def tell(self, verbose: bool) -> None:
        for name, row in COMPARISONS.items():
            if not self.runs[name]:
                continue
            different = self.different[name]
            print(f"{row.what}, beside {row.against}: {self.runs[name]} runs, {len(different)} programs differ")
            if different.keys() - TWO_WAYS:
                print(f"    {row.why}")
            for program, (at, got, expected) in different.items():
                wrong = (name, program) in self.wrong
                if not (wrong or verbose):
                    continue
                print(f"    {'WRONG ' if wrong else ''}{program}, {at} steps")
                for a, b in zip([*got, *[""] * len(expected)], [*expected, *[""] * len(got)], strict=False):
                    if a != b:
                        print(f"        {a}, expected {b}")
                        break


def begun(program: Program, steps: int) -> Program:
    return lambda log: frames.call(program, (log,), steps, True, True, False)


def run_program(results: Results, name: str, program: Program) -> None:
    cold = outcome(program)
    for _ in range(WARM):
        plain = outcome(program)
    results.add("warm", name, "", plain, cold)
    hooked = with_frames(program, set())
    results.add("hook", name, "", hooked, plain)
    if HAS_EVENTS:
        events = monitored(program, frames.nothing)
        results.add("events", name, "", events, plain)
        results.add("safe", name, "", monitored(program, frames.make_safe), events)
    ways: dict[str, tuple[Outcome, set[types.CodeType], dict[str, bool]]] = {
        "split": (plain, {program.__code__}, {"lends": True, "moves": True, "once": True}),
        "split, safe": (plain, {program.__code__}, {"moves": True, "once": True}),
        "split, vectorcall": (plain, {program.__code__}, {"lends": True, "once": True}),
        "all split": (hooked, objects.FUNCTIONS, {"lends": True}),
        "all split, safe": (hooked, objects.FUNCTIONS, {}),
    }
    for steps in STEPS if TAGGED else ():
        results.add("split, begun", name, steps, outcome(begun(program, steps)), plain)
        if frames.counts()[2] < steps:
            break
    for comparison, (expected, codes, how) in ways.items():
        if how.get("moves") and not TAGGED:  # steps call by vectorcall there
            continue
        for steps, got in split(program, codes, **how):
            results.add(comparison, name, steps, got, expected)


def run_watched(results: Results, name: str, program: Program) -> None:
    for _ in range(WARM):
        plain = outcome(program)
    for comparison, aware in (("watched", False), ("watched, aware", True)):
        for steps, got in split(program, {program.code}, lends=True, moves=TAGGED, once=True, aware=aware):
            results.add(comparison, name, steps, got, plain)


def written_below_its_stack() -> list[Any]:
    """A generator's local is written while the stack above holds what it held: the kinds of the stack, what is left."""
    log: list[Any] = []

    def generate(x: Any) -> Iterator[Any]:
        kept = [x, (yield)]
        yield kept[0].name

    suspended = generate(objects.Tracked(log, "x"))
    next(suspended)
    kinds = frames.kinds_of_generator(suspended)[1]
    frames.write_generator(suspended, 0, None)
    return [kinds, list(log), next(suspended)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", default="", help="a regular expression")
    parser.add_argument("--generated", type=int, default=GENERATED, help="so many programs drawn at random")
    parser.add_argument("-v", action="store_true", help="also where the difference is allowed")
    parser.add_argument("--trace", action="store_true", help="each name before it runs")
    options = parser.parse_args()
    gc.disable()
    everything = all_programs(options.generated)
    gc.collect()
    gc.freeze()  # collections look at what the programs make
    print(f"CPython {sys.version.split()[0]}: {len(everything)} programs, {len(WATCHED)} watched")
    results = Results()
    for runs, table in ((run_program, everything), (run_watched, WATCHED)):
        for name, program in table.items():
            if not re.search(options.programs, name):
                continue
            if options.trace:
                print(name, flush=True)
            runs(results, name, program)
    results.tell(options.v)
    kinds, dead, name = written_below_its_stack()
    if (dead, name) != ([], "x") or ("borrowed" in kinds) != TAGGED:
        results.wrong.add(("written below its stack", str((kinds, dead, name))))
        print("WRONG: a generator's local written below its stack", kinds, dead, name)
    print("opcodes that end the part in C++:", *(f"{name} {count}" for name, count in unknown_opcodes.most_common()))
    print(f"{len(results.wrong)} wrong")
    return bool(results.wrong)


if __name__ == "__main__":
    sys.exit(main())
