"""What a call of torch.cond costs beside the branch that it takes, and beside PyTorch's own way.

    python bench/higher_order.py

Times are medians of one process, side by side; read the differences.
"""

import statistics
import time
from collections.abc import Callable

import gramme
import torch

ROUNDS, CALLS = 41, 500


def yes(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def no(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 3


def with_cond(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, yes, no, (x,))


def branch_alone(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same operations but for the choice."""
    return yes(x), x.sum() > 0


def microseconds(run: Callable[[torch.Tensor], object], x: torch.Tensor) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        run(x)
    return 1e6 * (time.perf_counter() - start) / CALLS


def main() -> None:
    x = torch.ones(8)
    print(f"{'backend':10} {'branch':>8} {'cond':>8} {'above':>8}  µs a call")
    for backend in ("native", "eager"):
        compiled = [gramme.compile(program, backend=backend) for program in (branch_alone, with_cond)]
        for run in compiled:
            for _ in range(3):
                run(x), run(-x)
        rows = [[microseconds(run, x) for run in compiled] for _ in range(ROUNDS)]
        branch, cond = (statistics.median(column) for column in zip(*rows, strict=True))
        above = statistics.median(b - a for a, b in rows)
        print(f"{backend:10} {branch:8.2f} {cond:8.2f} {above:8.2f}")
    torch.cond(x.sum() > 0, yes, no, (x,))
    real = min(microseconds(with_cond, x) for _ in range(3))
    print(f"called for real {real:.0f} µs")


if __name__ == "__main__":
    main()
