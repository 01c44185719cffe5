"""torch.func in graphs: native calls compared with eager ones, captures with PyTorch's front end's.

    python bench/func.py [--torch]

Ratios of medians, taken in turns. A call of the transforms is mostly Python and dispatch, which a graph without Python
instructions would save; a capture is made for the first time in the process and then again.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e2e.test_func import CASES

NAMES = [
    "gradients_of_each_sample",
    "learning_to_learn",
    "jacobian_of_a_network",
    "hessian_of_a_network",
    "ensemble",
    "residual_of_an_equation",
]
ROUNDS = 200


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratio_of_calls(name: str) -> tuple[float, float]:
    """Eager's microseconds, and how many times faster a call of the native executor is."""
    function, make = CASES[name]
    arguments = make()
    compiled = gramme.compile(function, backend="native", fullgraph=True)
    for _ in range(5):
        compiled(*arguments)
    pairs = [(seconds(lambda: function(*arguments)), seconds(lambda: compiled(*arguments))) for _ in range(ROUNDS)]
    eager, native = (statistics.median(column) for column in zip(*pairs, strict=True))
    return 1e6 * eager, eager / native


def capture_milliseconds(name: str) -> tuple[float, float]:
    """Of gramme: the first one in the process, and one with all inferences known."""
    function, make = CASES[name]
    arguments = make()

    def captured() -> float:
        gramme.reset()
        compiled = gramme.compile(function, backend=lambda graph, inputs: graph.forward, fullgraph=True)
        first = seconds(lambda: compiled(*arguments))
        return first - seconds(lambda: compiled(*arguments))

    first = captured()
    return 1e3 * first, 1e3 * statistics.median(captured() for _ in range(5))


def capture_milliseconds_of_torch(name: str) -> float:
    function, make = CASES[name]
    arguments = make()

    def captured() -> float:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        first = seconds(lambda: compiled(*arguments))
        return first - seconds(lambda: compiled(*arguments))

    return 1e3 * min(captured() for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="captures of PyTorch's front end too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in NAMES:
        function, make = CASES[name]
        function(*make())
        first, again = capture_milliseconds(name)
        eager, ratio = ratio_of_calls(name)
        line = f"{name:28} eager {eager:8.0f} us  native {ratio:5.2f}x  capture {first:7.1f} ms, again {again:6.2f} ms"
        if options.torch:
            line += f"  torch {capture_milliseconds_of_torch(name):8.0f} ms"
        print(line, flush=True)


if __name__ == "__main__":
    main()
