"""What sizes that vary cost: a capture for all sizes beside one for one size, and hits whose sizes change.

    python bench/sizes.py

Times are medians of one process, side by side; read the ratios.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e2e.models import MODELS

ROUNDS = 7


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def capture_milliseconds(name: str) -> tuple[float, float, float]:
    """Of one call each: static, all sizes for the first time in the process, all sizes again."""
    model = MODELS[name].make()
    arguments: dict[str, Any] = {"input_ids": torch.randint(0, 50, (2, 16)), "use_cache": False}
    if name == "bert":
        del arguments["use_cache"]

    def captured(dynamic: bool) -> float:
        gramme.reset()
        compiled = gramme.compile(model, backend="eager", dynamic=dynamic)
        with torch.no_grad():
            eager = min(seconds(lambda: model(**arguments)) for _ in range(3))
            return seconds(lambda: compiled(**arguments)) - eager

    captured(False)
    first = captured(True)
    rows = [(captured(False), captured(True)) for _ in range(ROUNDS)]
    static, dynamic = (statistics.median(column) for column in zip(*rows, strict=True))
    return 1e3 * static, 1e3 * first, 1e3 * dynamic


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
    print("capture, ms       static   all sizes, first   all sizes   ratio")
    for name in ("bert", "gpt2", "llama"):
        static, first, dynamic = capture_milliseconds(name)
        print(f"{name:14} {static:9.1f} {first:18.1f} {dynamic:11.1f} {dynamic / static:7.2f}")
    one, same, changing = hit_microseconds()
    print(f"hit, us: one size {one:.2f}, any size {same:.2f}, changing sizes {changing:.2f}")


if __name__ == "__main__":
    main()
