"""Costs of varying sizes: a capture for all sizes compared with one for one size, and hits with changing sizes.

    python bench/sizes.py

Times are medians of the processor's, of one process, side by side; read the ratios.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gramme
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e2e.models import MODELS

ROUNDS = 7


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def arguments_of(name: str, batch: int, length: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {"input_ids": torch.randint(3, 50, (batch, length)), "use_cache": False}
    if name == "bert":
        del arguments["use_cache"]
    return arguments


def capture_milliseconds(name: str) -> tuple[float, float, float, float]:
    """Of one call each: static, all sizes for the first time in the process, all sizes again, PyTorch's front end."""
    model = MODELS[name].make()
    arguments = arguments_of(name, 2, 16)

    def captured(compiled: Callable[..., Any]) -> float:
        with torch.no_grad():
            eager = min(seconds(lambda: model(**arguments)) for _ in range(3))
            return seconds(lambda: compiled(**arguments)) - eager

    def by_gramme(dynamic: bool) -> float:
        gramme.reset()
        return captured(gramme.compile(model, backend="eager", dynamic=dynamic))

    def by_torch() -> float:
        torch._dynamo.reset()
        return captured(torch.compile(model, backend="eager", dynamic=True))

    by_gramme(False)
    first = by_gramme(True)
    rows = [(by_gramme(False), by_gramme(True)) for _ in range(ROUNDS)]
    static, dynamic = (statistics.median(column) for column in zip(*rows, strict=True))
    return 1e3 * static, 1e3 * first, 1e3 * dynamic, 1e3 * min(by_torch() for _ in range(2))


def native_microseconds(name: str) -> tuple[float, float]:
    """A call of one recording for one size and of one for all sizes, at that size, in turns."""
    model, arguments, others = MODELS[name].make(), arguments_of(name, 2, 16), arguments_of(name, 3, 9)
    one, every = (gramme.compile(model, backend="native", dynamic=dynamic) for dynamic in (False, True))
    times: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        every(**others)
        for _ in range(20 * ROUNDS):
            for compiled, row in zip((one, every), times, strict=True):
                row.append(min(seconds(partial(compiled, **arguments)) for _ in range(5)))
    return 1e6 * statistics.median(times[0]), 1e6 * statistics.median(times[1])


def hit_microseconds() -> tuple[float, float, float]:
    """A hit of x * 2 + 1 under the native executor: one size, any size, and any size that changes at every call."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    xs = [torch.ones(n, 3) for n in range(4, 20)]
    static = gramme.compile(f, backend="native", dynamic=False)
    dynamic = gramme.compile(f, backend="native", dynamic=True)
    for x in xs[:2]:
        dynamic(x)
    static(xs[0])

    def each(compiled: Any, tensors: list[torch.Tensor]) -> float:
        def many() -> None:
            for _ in range(200):
                for x in tensors:
                    compiled(x)

        many()
        return 1e6 * min(seconds(many) for _ in range(ROUNDS)) / (200 * len(tensors))

    return each(static, [xs[0]] * 16), each(dynamic, [xs[0]] * 16), each(dynamic, xs)


def main() -> None:
    names = ("bert", "gpt2", "llama")
    print("capture, ms       static   all sizes, first   all sizes   ratio   torch.compile   ratio")
    ratios = []
    for name in names:
        static, first, dynamic, torchs = capture_milliseconds(name)
        ratios.append(dynamic / static)
        print(f"{name:14} {static:9.1f} {first:18.1f} {dynamic:11.1f} {ratios[-1]:7.2f}", end="")
        print(f"{torchs:16.0f} {torchs / dynamic:7.0f}")
    print(f"{'geometric mean':56} {statistics.geometric_mean(ratios):5.2f}")
    print("native, us      one size   all sizes   ratio")
    for name in names:
        one, every = native_microseconds(name)
        print(f"{name:14} {one:9.1f} {every:11.1f} {every / one:7.3f}")
    one, same, changing = hit_microseconds()
    print(f"hit, us: one size {one:.2f}, any size {same:.2f}, changing sizes {changing:.2f}")


if __name__ == "__main__":
    main()
