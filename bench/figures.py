"""The tables of figures in README.md and the line of this release in docs/figures.md, measured here.

    make figures                                  # measures, rewrites both files
    .venv/bin/python bench/figures.py             # prints the tables
    .venv/bin/python bench/figures.py --inductor  # asks inductor, too: minutes of compiling

Tables stand between `<!-- figures: NAME -->` and `<!-- /figures -->`; what is outside of them is left alone. Both front
ends run in one process, in turns; figures are medians. Run it on a quiet machine: it says what the load was.
"""

import argparse
import logging
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compare
import gramme
import native
import torch
from corpus import CAPTURE
from instructions import processor

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "x_plus_1": "x + 1",
    "add_loop": "a loop of 1,000 additions",
    "list_of_linears": "20 linear layers, used twice",
    "deep_calls": "calls 20 deep",
    "python_heavy": "3,000 iterations of plain Python",
    "args_100": "100 tensor arguments",
    "bert": "BERT, 12 layers",
    "gpt2": "GPT-2, 12 layers",
    "t5": "T5, 6 + 6 layers",
    "llama": "Llama, 16 layers",
}
RUNS = ("x_plus_1", "list_of_linears", "bert", "gpt2", "t5", "llama")
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def program(name: str) -> Program:
    """As a function of positional arguments."""
    if name in CAPTURE:
        function, arguments = CAPTURE[name]()
        return function, arguments()
    model, inputs = native.CASES[name]()
    names = list(inputs)
    return (lambda *values: model(**dict(zip(names, values, strict=True)))), tuple(inputs.values())


def number(value: float) -> str:
    """Two digits at least, no more than are known."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def pair(left: float, right: float) -> str:
    return f"{number(left)} / {number(right)} | {number(left / right)}"


def captured(name: str, rounds: int) -> tuple[float, float, int]:
    """Seconds until the backend has the graph, of each front end; operations in the graph."""
    function, arguments = program(name)
    fronts = compare.fronts("gramme")
    for i in range(rounds + 1):
        for front in fronts:
            compare.capture_once(front, function, arguments)
            if i == 0:  # imports and caches that live as long as the process
                front.enter.clear()
    left, right = (statistics.median(front.enter) for front in fronts)
    return left, right, fronts[1].ops


def hit(name: str, rounds: int) -> tuple[float, float]:
    """Seconds of a call whose graph is a constant."""
    function, arguments = program(name)
    calls = [compare.hit_call(front, function, lambda: arguments) for front in compare.fronts("gramme")]
    counts = [compare.calls_per_batch(call) for call in calls]
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds * 3):
        for call, n, times in zip(calls, counts, taken, strict=True):
            times.append(compare.batch(call, n))
    left, right = (statistics.median(times) for times in taken)
    return left, right


def front_table(rounds: int) -> tuple[list[str], dict[str, float]]:
    rows = [
        "| program | operations | capture, ms: torch.compile / gramme | ratio "
        "| hit, µs: torch.compile / gramme | ratio |",
        "|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {"capture": [], "hit": []}
    for name, title in PROGRAMS.items():
        native.forget()
        torch.manual_seed(0)
        left, right, operations = captured(name, rounds)
        native.forget()
        theirs, ours = hit(name, rounds)
        ratios["capture"].append(left / right)
        ratios["hit"].append(theirs / ours)
        figures = f"{pair(1e3 * left, 1e3 * right)} | {pair(1e6 * theirs, 1e6 * ours)}"
        rows.append(f"| {title} | {operations:,} | {figures} |")
        print(rows[-1], flush=True)
    return rows, {what: native.mean(values) for what, values in ratios.items()}


def runs_table(seconds: float, inductor: bool) -> tuple[list[str], dict[str, float]]:
    fronts = {"eager": "eager", "native": '`backend="native"`', "no cache": "with `caching_allocator=False`"}
    if inductor:
        fronts["inductor"] = '`backend="inductor"` of torch.compile'
    rows = [f"| program | {' | '.join(fronts.values())} |", f"|{'---|' * (len(fronts) + 1)}"]
    ratios: list[float] = []
    for name in RUNS:
        native.forget()
        torch.manual_seed(0)
        function, arguments = program(name)
        calls = [native.call_of(native.FRONTS[front], function, arguments, False) for front in fronts]
        eager, *others = native.in_turns(calls, seconds, native.BATCH)
        ratios.append(eager / others[0])
        cells = [f"{number(1e6 * taken)} ({eager / taken:.1f})" for taken in others]
        rows.append(f"| {PROGRAMS[name]} | {number(1e6 * eager)} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return rows, {"native": native.mean(ratios)}


def sizes() -> str:
    """Parameters of the models."""
    counts = []
    for name, title in PROGRAMS.items():
        model = (CAPTURE.get(name) or native.CASES[name])()[0]
        if isinstance(model, torch.nn.Module):
            counts.append(f"{title.split(',')[0]} {sum(p.numel() for p in model.parameters()) / 1e6:.1f}")
    return f"Millions of parameters: {', '.join(counts)}."


def commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def where() -> str:
    return (
        f"{processor()}, {os.cpu_count()} cores, one thread; PyTorch {torch.__version__.partition('+')[0]}, "
        f"CPython {platform.python_version()}, gramme {gramme.__version__} ({commit()}), {time.strftime('%Y-%m-%d')}, "
        f"load at the start {os.getloadavg()[0]:.1f}."
    )


def rewrite(path: Path, tables: dict[str, list[str]]) -> None:
    text = path.read_text()
    for name, lines in tables.items():
        text, count = re.subn(
            rf"(<!-- figures: {name} -->\n).*?(\n<!-- /figures -->)",
            lambda found, lines=lines: found[1] + "\n".join(lines) + found[2],
            text,
            flags=re.S,
        )
        if count != 1:
            raise SystemExit(f"{path.name}: one place for the figures '{name}' is needed, {count} found")
    path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite README.md, add a line to docs/figures.md")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a program's turns")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    place = where()
    print(place, sizes(), sep="\n")
    with torch.no_grad():
        front, ratios = front_table(chosen.rounds)
        runs, native_ratio = runs_table(chosen.seconds, chosen.inductor)
    means = ratios | native_ratio
    summary = ", ".join(f"{what} {number(value)}" for what, value in means.items())
    print(f"geometric means of the ratios: {summary}")
    if not all(math.isfinite(value) for value in means.values()):
        sys.exit("a figure is missing")
    if chosen.write:
        rewrite(ROOT / "README.md", {"where": [place, sizes()], "front": front, "runs": runs})
        line = f"| {time.strftime('%Y-%m-%d')} | {commit()} | {processor()} | " + " | ".join(
            number(means[what]) for what in ("capture", "hit", "native")
        )
        with (ROOT / "docs" / "figures.md").open("a") as file:
            file.write(line + " |\n")


if __name__ == "__main__":
    main()
