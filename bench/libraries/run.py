"""Programs of libraries on gramme, on PyTorch's own front end, and eagerly.

    python bench/libraries/run.py [program ...]        each program and front end in a process of its own

For each program: whether the values of all steps are eager's to the bit, seconds of the first step, of one of the last
steps, the share of operations inside graphs over five steps after the third, and graphs compiled until then.
requirements.txt has the versions; the libraries may lie in a folder of their own on PYTHONPATH.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

FRONTS = ("eager", "torch", "gramme")
WARM, STEPS = 3, 5


def digest(value: Any) -> str:
    """Of all tensors in the value, in order, to the bit."""
    import torch

    found = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, torch.Tensor):
            found.update(part.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(part, dict):
            list(map(add, part.values()))
        elif isinstance(part, list | tuple):
            list(map(add, part))
        else:
            found.update(repr(part).encode())

    add(value)
    return found.hexdigest()[:16]


def measure(name: str, front: str) -> dict[str, Any]:
    import gramme
    import torch
    from gramme._meter import as_graph
    from programs import PROGRAMS

    warnings.simplefilter("ignore")
    graphs = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    if front == "eager":
        torch.compile = lambda model=None, **_: model if model is not None else lambda function: function
    elif front == "gramme":
        gramme.install()
    torch.manual_seed(0)
    step = PROGRAMS[name](backend if front == "gramme" else as_graph(backend))
    values, seconds, inside, outside = [], [], 0, 0
    for i in range(WARM + STEPS):
        start = time.perf_counter()
        with gramme.meter() as m:
            value = step(i)
        seconds.append(time.perf_counter() - start)
        values.append(digest(value))
        if i >= WARM:
            found = m.read()
            inside, outside = inside + found.inside, outside + found.outside
    share = inside / max(1, inside + outside)
    return {"values": values, "first": seconds[0], "steady": min(seconds[-3:]), "share": share, "graphs": graphs}


def in_a_process(name: str, front: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, front]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "more than 300 s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:100]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str) -> str:
    found = {front: in_a_process(name, front) for front in FRONTS}
    cells = [f"{name:22s}"]
    for front in FRONTS:
        if "error" in found[front]:
            cells.append(f"{front}: {found[front]['error']}")
            continue
        cell = f"{front} first {found[front]['first']:6.2f} s, step {found[front]['steady'] * 1e3:7.2f} ms"
        if front != "eager":
            same = "equal" if found[front]["values"] == found["eager"].get("values") else "DIFFERENT"
            cell += f", {found[front]['share']:6.1%} inside, {found[front]['graphs']:3d} graphs, {same}"
        cells.append(cell)
    return " | ".join(cells)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(*sys.argv[2:4])))
        return
    sys.path.insert(0, str(Path(__file__).parent))
    from programs import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="program", help=", ".join(PROGRAMS))
    print(f"{os.cpu_count()} cores")
    for name in parser.parse_args().names or PROGRAMS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
