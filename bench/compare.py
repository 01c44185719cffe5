"""Compares gramme with PyTorch's front end, in one process and in turns.

    compare.py capture   cold capture in a warm process: until the backend has the graph, and the whole first call
    compare.py hit       a call answered by the compiled function, less the same call of a plain function
    compare.py place     a call that runs its graph, less the graph: guards are no longer in the near caches
    compare.py linear    capture of 1,000, 10,000 and 100,000 operations

Each figure is the median of the rounds, with the least and the greatest; the backend does nothing. --names a,b picks
programs, --rounds sets the rounds, --ours torch puts PyTorch in gramme's place (to see the noise).
"""

import argparse
import gc
import logging
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from corpus import CAPTURE, HIT, chain

clock = time.perf_counter


@dataclass
class Front:
    name: str
    compile: Callable[..., Any]
    reset: Callable[[], None]
    enter: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    ops: int = 0
    graphs: int = 0


def fronts(ours: str) -> list[Front]:
    dynamo = Front("torch", torch.compile, torch._dynamo.reset)
    if ours == "torch":
        return [dynamo, Front("torch again", torch.compile, torch._dynamo.reset)]
    import gramme

    return [dynamo, Front("gramme", gramme.compile, gramme.reset)]


def capture_once(front: Front, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """One cold capture; notes when the backend had its graph and when the call was over.

    The backend walks the nodes before the clock is read: a graph that is made lazily is not captured before that.
    """
    front.reset()
    entered: list[float] = []
    graphs: list[list[torch.fx.Node]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(list(graph.graph.nodes))
        entered.append(clock())
        return graph.forward

    compiled = front.compile(function, backend=backend)
    gc.collect()
    start = clock()
    compiled(*args)
    front.whole.append(clock() - start)
    front.enter.append(entered[0] - start if entered else front.whole[-1])
    front.ops, front.graphs = sum(n.op.startswith("call_") for nodes in graphs for n in nodes), len(graphs)


def microseconds(seconds: list[float]) -> str:
    low, middle, high = (1e6 * v for v in (min(seconds), statistics.median(seconds), max(seconds)))
    return f"{middle:>12,.1f} ({low:,.1f} to {high:,.1f})"


def ratio(left: list[float], right: list[float]) -> float:
    return statistics.median(left) / statistics.median(right)


def capture(names: list[str], rounds: int, ours: str) -> dict[str, float]:
    print(f"{'':18} {'until the backend has it, us':>44} {'whole call, us':>44} {'ops':>7} {'graphs':>6}")
    ratios = {}
    for name in names or CAPTURE:
        function, make = CAPTURE[name]()
        pair = fronts(ours)
        for i in range(rounds + 1):
            for front in pair:
                capture_once(front, function, make())
                if i == 0:  # imports and caches that live as long as the process
                    front.enter.clear()
                    front.whole.clear()
        for front in pair:
            figures = f"{microseconds(front.enter):>44} {microseconds(front.whole):>44}"
            title = name if front is pair[0] else ""
            print(f"{title:18} {figures} {front.ops:>7} {front.graphs:>6}  {front.name}")
        left, right = pair
        ratios[name] = ratio(left.enter, right.enter)
        print(f"{'':18} ratio {ratio(left.enter, right.enter):.1f}, whole call {ratio(left.whole, right.whole):.1f}\n")
    return ratios


def calls_per_batch(call: Callable[[], Any], seconds: float = 0.03) -> int:
    call()
    start = clock()
    call()
    return max(1, min(20_000, int(seconds / max(clock() - start, 1e-7))))


def batch(call: Callable[[], Any], n: int) -> float:
    start = clock()
    for _ in range(n):
        call()
    return (clock() - start) / n


def hit_call(front: Front, function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> Callable[[], Any]:
    """Calls a compiled function whose graph is a constant."""
    front.reset()

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        result = graph.forward(*inputs)
        return lambda *_: result

    compiled = front.compile(function, backend=backend)
    compiled(*make())
    return lambda: compiled(*make())


def tell_calls(name: str, pair: list[Front]) -> float:
    """Prints what a call cost each front; how many times less it cost ours."""
    for front in pair:
        title = name if front is pair[0] else ""
        print(f"{title:18} {microseconds(front.whole):>44}  {front.name}", flush=True)
    times = ratio(pair[0].whole, pair[1].whole)
    print(f"{'':18} ratio {times:.1f}\n")
    return times


def hit(names: list[str], rounds: int, ours: str) -> dict[str, float]:
    print(f"{'':18} {'one hit, above a plain call, us':>44}")
    ratios = {}
    for name in names or HIT:
        function, make = HIT[name]()
        result = function(*make())
        plain = lambda *_, result=result: result  # noqa: E731
        bare = lambda make=make, plain=plain: plain(*make())  # noqa: E731
        pair = fronts(ours)
        runs = [hit_call(front, function, make) for front in pair]
        n = [calls_per_batch(run) for run in runs]
        nothing = calls_per_batch(bare)
        for _ in range(rounds * 3):
            floor = batch(bare, nothing)
            for front, run, times in zip(pair, runs, n, strict=True):
                front.whole.append(max(batch(run, times) - floor, 1e-9))
        ratios[name] = tell_calls(name, pair)
    return ratios


def place_call(front: Front, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], float]:
    """A call that runs its graph; gives the time spent outside the graph, which finds its guards in no near cache."""
    front.reset()
    in_graph = [0.0]

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graph.real_recompile()
        forward = graph.forward

        def timed(*inputs: Any) -> Any:
            start = clock()
            result = forward(*inputs)
            in_graph[0] = clock() - start
            return result

        return timed

    compiled = front.compile(function, backend=backend)
    compiled(*args)

    def call() -> float:
        start = clock()
        compiled(*args)
        return clock() - start - in_graph[0]

    return call


def place(names: list[str], rounds: int, ours: str) -> dict[str, float]:
    print(f"{'':18} {'one hit less its graph, the graph running, us':>44}")
    ratios = {}
    for name in names or HIT:
        function, make = HIT[name]()
        pair = fronts(ours)
        calls = [place_call(front, function, make()) for front in pair]
        for _ in range(rounds * 40):
            for front, call in zip(pair, calls, strict=True):
                front.whole.append(call())
        ratios[name] = tell_calls(name, pair)
    return ratios


def linear(names: list[str], rounds: int, ours: str) -> dict[str, float]:
    """Time per operation at three sizes; PyTorch's front end only at the first."""
    print(f"{'operations':>12} {'until the backend has it, us':>44} {'us an operation':>16}")
    per_op = {}
    for ops in (1_000, 10_000, 100_000) if ours == "gramme" else (100, 1_000):
        function, args = chain(ops)
        pair = fronts(ours)
        for front in pair if ops <= 1_000 else pair[1:]:
            for _ in range(rounds + 1 if ops < 100_000 else 2):
                capture_once(front, function, args)
            del front.enter[0]
            each = 1e6 * statistics.median(front.enter) / ops
            print(f"{ops:>12,} {microseconds(front.enter):>44} {each:>16.2f}  {front.name}", flush=True)
            if front is pair[1]:
                per_op[str(ops)] = each
    return per_op


def heading() -> None:
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} thread, {time.strftime('%Y-%m-%d')}"
    )


MODES = {"capture": capture, "hit": hit, "place": place, "linear": linear}


def main(arguments: list[str]) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("--names", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours", choices=["gramme", "torch"], default="gramme")
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    heading()
    with torch.no_grad():
        return MODES[chosen.mode]([n for n in chosen.names.split(",") if n], chosen.rounds, chosen.ours)


if __name__ == "__main__":
    main(sys.argv[1:])
