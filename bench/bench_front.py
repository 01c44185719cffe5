"""Checks the ratios to PyTorch's front end that gramme promises; a missed one is an error. See compare.py."""

import math
import sys

import compare


def mean(ratios: dict[str, float]) -> float:
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


def main() -> int:
    missed = []

    def promise(what: str, holds: bool) -> None:
        print(f"{'kept  ' if holds else 'MISSED'} {what}")
        if not holds:
            missed.append(what)

    rounds = ["--rounds", "3"]
    captures = compare.main(["capture", *rounds])
    hits = compare.main(["hit", *rounds])
    per_op = compare.main(["linear", *rounds])
    print()
    slowest, dearest = min(captures, key=captures.__getitem__), per_op["100000"] / per_op["1000"]
    promise(f"capture {captures[slowest]:.1f} times faster on {slowest}, at least 10", captures[slowest] >= 10)
    promise(f"capture {mean(captures):.1f} times faster in the mean, at least 10", mean(captures) >= 10)
    promise(f"an operation of 100,000 costs {dearest:.2f} times one of 1,000, at most 1.5", dearest <= 1.5)
    for name, least in (("list_of_linears", 25), ("args_100", 25), ("fresh_containers", 10)):
        promise(f"hit of {name} {hits[name]:.1f} times cheaper, at least {least}", hits[name] >= least)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
