"""Runs each program as CPython does, then in ways that gramme takes and writes frames, and compares what it shows.

python run.py [--all] [--programs NAME ...]     needs the module `frames`, built by tools/pythons.py
"""

import argparse
import gc
import sys
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import frames
import generated
import programs

MOST_STEPS = 400
WARM = 20  # runs after which CPython has specialised a function
GENERATED = range(80)


def all_programs() -> dict[str, Callable[[list[Any]], Any]]:
    found = dict(programs.PROGRAMS)
    for seed in GENERATED:
        namespace = vars(programs).copy()
        exec(compile(generated.source(seed), f"<{seed}>", "exec"), namespace)
        programs.add_codes(namespace["program"].__code__)
        found[f"generated {seed}"] = namespace["program"]
    return found


def outcome(program: Callable[[list[Any]], Any]) -> list[Any]:
    """What happened, in order: the program's events, its result or exception, what died when it had ended."""
    log: list[Any] = []
    try:
        log.append(["result", repr(program(log))])
    except Exception as e:
        where, lines = e.__traceback__, []
        while where:
            lines.append((where.tb_frame.f_code.co_name, where.tb_lineno))
            where = where.tb_next
        log.append(["raised", type(e).__name__, repr(e), lines[1:]])
        del where
        e.__traceback__ = None
        del e
    gc.collect()
    log.append("collected")
    return [repr(event) for event in log]


def with_frames(program: Callable[[list[Any]], Any], *how: Any) -> list[Any]:
    frames.take(*how)
    try:
        return outcome(program)
    finally:
        frames.take(None)


def monitored(program: Callable[[list[Any]], Any], callback: Callable[..., Any]) -> list[Any]:
    """With an event at each instruction of the programs' functions."""
    monitoring = sys.monitoring
    monitoring.use_tool_id(4, "frames")
    monitoring.register_callback(4, monitoring.events.INSTRUCTION, callback)
    for code in programs.FUNCTIONS:
        monitoring.set_local_events(4, code, monitoring.events.INSTRUCTION)
    try:
        return outcome(program)
    finally:
        for code in programs.FUNCTIONS:
            monitoring.set_local_events(4, code, 0)
        monitoring.free_tool_id(4)


def split(program: Callable[[list[Any]], Any], codes: set[types.CodeType], *how: Any) -> Any:
    """Each number of first instructions in C++: the outcomes, until no frame has so many."""
    frames.counts()
    for steps in [*range(60), *range(60, MOST_STEPS, 7)]:
        yield steps, with_frames(program, codes, steps, *how)
        _, _, longest, unknown = frames.counts()
        unknown_opcodes.update(unknown)
        if longest < steps:
            return


unknown_opcodes: Counter[str] = Counter()


class Comparison:
    def __init__(self, what: str, against: str) -> None:
        self.what, self.against = what, against
        self.runs = 0
        self.different: dict[str, tuple[Any, list[str], list[str]]] = {}

    def add(self, name: str, detail: Any, got: list[str], expected: list[str]) -> None:
        self.runs += 1
        if got != expected:
            self.different.setdefault(name, (detail, got, expected))

    def tell(self, verbose: bool) -> None:
        print(f"{self.what}, beside {self.against}: {self.runs} runs, programs that differ: {len(self.different)}")
        for name, (detail, got, expected) in self.different.items():
            print(f"    {name} {detail}")
            if verbose:
                for a, b in zip(got + [""] * len(expected), expected + [""] * len(got), strict=False):
                    if a != b:
                        print(f"        {a:40} expected {b}")
                        break


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", nargs="*")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    gc.disable()
    everything = all_programs()
    gc.collect()
    gc.freeze()  # collections look at what the programs make
    print(f"CPython {sys.version.split()[0]}: {len(everything)} programs")
    comparisons = {
        "warm": Comparison("run often", "run once"),
        "hook": Comparison("a hook that passes frames on", "plain CPython"),
        "events": Comparison("an event at each instruction", "plain CPython"),
        "safe": Comparison("all frames made safe at each instruction", "the same events"),
        "split": Comparison("outer frame split at each instruction, arguments moved, lends as compiled", "plain CPython"),
        "split own": Comparison("outer frame split, arguments moved, all references its own", "plain CPython"),
        "split vectorcall": Comparison("outer frame split, lends as compiled, calls by vectorcall", "plain CPython"),
        "split all": Comparison("all frames split, lends as compiled", "the hook"),
        "split all own": Comparison("all frames split, all references their own", "the hook"),
    }
    for name, program in everything.items():
        if options.programs and name not in options.programs:
            continue
        if options.trace:
            print(name, flush=True)
        cold = outcome(program)
        for _ in range(WARM):
            plain = outcome(program)
        comparisons["warm"].add(name, "", plain, cold)
        hooked = with_frames(program, set())
        events = monitored(program, frames.nothing)
        comparisons["hook"].add(name, "", hooked, plain)
        comparisons["events"].add(name, "", events, plain)
        comparisons["safe"].add(name, "", monitored(program, frames.make_safe), events)
        outer = {program.__code__}
        for steps, got in split(program, outer, True, True, True):
            comparisons["split"].add(name, steps, got, plain)
        for steps, got in split(program, outer, False, True, True):
            comparisons["split own"].add(name, steps, got, plain)
        for steps, got in split(program, outer, True, False, True):
            comparisons["split vectorcall"].add(name, steps, got, plain)
        for steps, got in split(program, programs.FUNCTIONS, True, False, False):
            comparisons["split all"].add(name, steps, got, hooked)
        for steps, got in split(program, programs.FUNCTIONS, False, False, False):
            comparisons["split all own"].add(name, steps, got, hooked)
    for comparison in comparisons.values():
        comparison.tell(options.v)
    print("opcodes that end the part in C++:", dict(unknown_opcodes.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
