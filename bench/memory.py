"""Peak memory of a capture compared with PyTorch's front end, and memory that many captures leave behind.

    memory.py [--names bert,gpt2] [--captures 500]

Peak: how far the resident set rises above where it was, from the call until the first result, in a warm process.
Left: how much the resident set and the number of Python objects grew over the captures after the first twenty.
"""

import argparse
import ctypes
import gc
import linecache
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from compare import fronts
from corpus import CAPTURE
from torch.fx import graph_module


def status(field: str) -> int:
    """A field of the process' status in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def idle(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return graph.forward


def capture(front: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    front.reset()
    front.compile(function, backend=idle)(*args)


def risen(call: Callable[[], Any]) -> int:
    """How far the resident set rises above where it was, in KiB."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def peak(front: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    capture(front, function, args)
    return risen(lambda: capture(front, function, args))


def left(front: Any, function: Callable[..., Any], args: tuple[Any, ...], captures: int) -> tuple[int, int]:
    def settled() -> tuple[int, int]:
        front.reset()
        graph_module._loader.eval_cache.clear()  # torch.fx keeps the source of each graph
        linecache.clearcache()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return status("VmRSS"), len(gc.get_objects())

    for _ in range(20):
        capture(front, function, args)
    memory, objects = settled()
    for _ in range(captures):
        capture(front, function, args)
    now = settled()
    return now[0] - memory, now[1] - objects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="bert,gpt2,llama")
    parser.add_argument("--captures", type=int, default=500)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    with torch.no_grad():
        for name in chosen.names.split(","):
            function, make = CAPTURE[name]()
            theirs, ours = fronts("gramme")
            for front in (theirs, ours):
                print(
                    f"{name:12} peak above the start {peak(front, function, make()):>8,} KiB  {front.name}", flush=True
                )
            memory, objects = left(ours, function, make(), chosen.captures)
            print(
                f"{name:12} left by {chosen.captures} captures {memory:,} KiB, {objects:,} objects  gramme\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
