"""How much of a program runs in graphs, by gramme and by PyTorch's own front end: rows of gramme.meter.

python bench/meter.py                   all programs of bench/corpus.py
python bench/meter.py bert x_plus_1     some of them

Each is called until nothing is captured any more; the row is of one call after that. Graphs run as they are, without a
compiler behind them, so that an operation is the same on both sides; `eager` is the number that the program dispatches
without a front end. A program that gramme captures whole has as many operations inside as eager has.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

import gramme
import torch
from corpus import CAPTURE, HIT
from gramme._meter import as_graph

CALLS = 10
COLUMNS = ("inside", "outside", "graphs", "steps", "handovers", "plain", "graph_errors")


def measured(call: Callable[..., Any], make_args: Callable[[], tuple[Any, ...]]) -> gramme.Measurement:
    args = make_args()
    with gramme.meter() as m:
        call(*args)
    return m.read()


class Front:
    """A function compiled by one of the front ends, and the captures it took to have nothing more to capture."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.graphs = 0
        torch._dynamo.reset()
        gramme.reset()
        if name == "gramme":
            self.call = gramme.compile(function, backend=self.backend)
        else:
            self.call = torch.compile(function, backend=as_graph(self.backend))

    def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward

    def warm(self, make_args: Callable[[], tuple[Any, ...]]) -> gramme.Measurement:
        for _ in range(CALLS):
            before = self.graphs
            found = measured(self.call, make_args)
            if self.graphs == before and not found.captures:
                break
        return measured(self.call, make_args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = CAPTURE | HIT
    parser.add_argument("names", nargs="*", metavar="program", help=", ".join(cases))
    names = parser.parse_args().names or list(cases)
    print(f"{os.cpu_count()} cores, torch {torch.__version__}")
    print(
        f"{'program':>18} {'front':>7} {'eager':>6} {'share':>6} {'captured':>8} "
        + " ".join(f"{c:>8.8}" for c in COLUMNS)
    )
    for name in names:
        function, make_args = cases[name]()
        with torch.no_grad():
            eager = measured(function, make_args).outside
            for front_name in ("gramme", "torch"):
                front = Front(front_name, function)
                found = front.warm(make_args)
                numbers = " ".join(f"{getattr(found, column):8}" for column in COLUMNS)
                print(f"{name:>18} {front_name:>7} {eager:6} {found.share:6.1%} {front.graphs:8} {numbers}")


if __name__ == "__main__":
    main()
