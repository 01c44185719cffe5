"""Six programs captured by gramme and by PyTorch's own front end, side by side in one process."""

import contextlib
import io
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gramme
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import linear

clock = time.perf_counter


def x_plus_1(x):
    return x + 1


class Linears:
    def __init__(self):
        self.weights = [torch.randn(10, 10) for _ in range(20)]
        self.biases = [torch.randn(10) for _ in range(20)]

    def forward(self, x):
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = linear(x, self.weights[i // 2]) + linear(x, weight, bias)
        return x


def add_loop(a, b):
    for i in range(1000):
        a = a + i if i % 2 == 0 else a + b
    return a


def deep_calls(x):
    def g(x, depth):
        return x + 1 if depth == 0 else g(x, depth - 1) * 2

    for _ in range(20):
        x = g(x, 20)
    return x


def python_heavy(x):
    table = {}
    for i in range(3000):
        table[i] = (i * 3, str(i))
    return x + sum(v[0] for v in table.values())


def loop_with_print(x):
    for i in range(10):
        x = torch.tanh(x) * 0.5 + i
        print("step", i)
        x = x - x.mean()
    return x


PROGRAMS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("x_plus_1", x_plus_1, (torch.ones(4),)),
    ("list_of_linears", Linears().forward, (torch.randn(1, 10),)),
    ("add_loop", add_loop, (torch.ones(4), torch.ones(4))),
    ("deep_calls", deep_calls, (torch.ones(4),)),
    ("python_heavy", python_heavy, (torch.ones(4),)),
    ("loop_with_print", loop_with_print, (torch.randn(8),)),
]


@dataclass
class Run:
    """What one front end made of one program."""

    capture: float = 0.0
    call: float = 0.0
    graphs: list[int] = field(default_factory=list)
    equal: bool = False
    segments: str = "-"


def seconds_per_call(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Median of several batches."""
    start = clock()
    function(*args)
    n = max(1, min(2000, int(0.02 / (clock() - start))))
    batches = []
    for _ in range(7):
        start = clock()
        for _ in range(n):
            function(*args)
        batches.append((clock() - start) / n)
    return statistics.median(batches)


def measure(front: Callable[..., Any], function: Callable[..., Any], args: tuple[Any, ...]) -> Run:
    run = Run()

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        run.graphs.append(sum(node.op.startswith("call_") for node in graph.graph.nodes))
        return graph.forward

    compiled = front(function, backend=backend)
    start = clock()
    result = compiled(*args)
    run.capture = clock() - start
    run.equal = torch.equal(result, function(*args)) and torch.equal(compiled(*args), result)
    # What a hit costs besides the operations: the compiled call less the eager one, both run the same operations.
    run.call = seconds_per_call(compiled, args)
    if front is gramme.compile:
        run.segments = str(gramme.statistics(compiled).segments)
    return run


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = Table(title=f"gramme beside torch.compile, torch {torch.__version__}, backend that runs the graph as it is")
    for column in ("program", "front end", "first call, ms", "later call, us", "graphs", "ops", "segments", "as eager"):
        table.add_column(column, justify="left" if column in ("program", "front end") else "right")
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for front in (torch.compile, gramme.compile):
            measure(front, lambda x: x * 2, (torch.ones(2),))  # imports
        for name, function, args in PROGRAMS:
            eager = seconds_per_call(function, args)
            theirs, ours = measure(torch.compile, function, args), measure(gramme.compile, function, args)
            table.add_row(name, "eager", "", f"{1e6 * eager:,.1f}")
            for title, run in (("torch.compile", theirs), ("gramme", ours)):
                table.add_row(
                    "",
                    title,
                    f"{1e3 * run.capture:,.2f}",
                    f"{1e6 * run.call:,.1f}",
                    str(len(run.graphs)),
                    str(sum(run.graphs)),
                    run.segments,
                    "[green]yes" if run.equal else "[red]NO",
                )
            note = f"{theirs.capture / ours.capture:,.0f} times faster"
            table.add_row("", "", note, "", end_section=True)
    Console(width=max(Console().width, 110)).print(table)


if __name__ == "__main__":
    main()
