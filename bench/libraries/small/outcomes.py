"""Runs small programs of libraries eagerly and on gramme, and compares.

    python bench/libraries/small/outcomes.py [--libraries zuko,monai] [program ...]

A line a program: what `native`, `eager` and a callable backend gave against eager execution (results, gradients, the
state of what was compiled, exceptions, to the bit), graphs handed to the callable by torch.compile and by gramme (where
gramme has more of them, the operations outside, too), and which calls raise. Each program runs in a fork of a process
that has imported the library.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import os
import pickle
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
LIBRARIES = ("monai", "zuko", "metric_learning", "pypose", "geoopt", "einops", "e3nn", "pyro", "nflows", "attribution")
SECONDS = 100


def described(value: Any, depth: int = 0) -> Any:
    """Types, shapes and bits of all that is in a value."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        plain = value.detach().as_subclass(torch.Tensor)
        bits = hashlib.sha256(plain.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[:12]
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, bits
    if isinstance(value, numpy.ndarray):
        return "ndarray", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(repr(key), described(part, depth)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [described(part, depth) for part in value]
    if isinstance(value, torch.nn.Module):
        named = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        grads = {name: part.grad for name, part in value.named_parameters()}
        others = [described(own(module), 9) for module in value.modules()] if depth == 0 else []
        return type(value).__name__, described(named), described(grads), value.training, others
    if isinstance(value, int | float | str | bool | bytes | type(None)):
        return value
    if depth < 3 and hasattr(value, "__dict__") and not callable(value):
        return type(value).__name__, described(vars(value), depth + 1)
    return type(value).__name__


def own(module: Any) -> dict[str, Any]:
    """Attributes, without the mark that torch.compile leaves."""
    return {name: value for name, value in vars(module).items() if name != "_is_torch_compile"}


def loss_of(value: Any) -> Any:
    import torch
    from torch.utils import _pytree as pytree

    leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    parts = [leaf.as_subclass(torch.Tensor).double().abs().sum() for leaf in leaves]
    return sum(parts[1:], parts[0]) if parts else None


def ran(name: str, compiled: Callable[[Any], Any]) -> list[Any]:
    """What each call gave."""
    import numpy
    import torch

    from small.table import TABLE

    make, make_calls = TABLE[name]
    torch.manual_seed(0)
    made = make()
    calls = make_calls()
    run = compiled(made)
    state = made if isinstance(made, torch.nn.Module) else getattr(made, "state", None)
    found: list[Any] = []
    for i, args in enumerate(calls):
        torch.manual_seed(i)
        random.seed(i)
        numpy.random.seed(i)
        try:
            result = run(*args)
            outcome = described(result)
            loss = loss_of(result)
            if loss is not None:
                loss.backward()
        except Exception as error:
            outcome = type(error).__name__, str(error).splitlines()[:1]
            if "--trace" in sys.argv:
                traceback.print_exc()
        grads = [arg.grad if isinstance(arg, torch.Tensor) and arg.is_leaf else None for arg in args]
        drawn = torch.rand(()).item(), random.random(), float(numpy.random.rand())
        found.append((outcome, described(list(args)), described(grads), described(state), drawn))
    return found


def one(name: str, way: str) -> Any:
    import gramme
    import torch
    from gramme._meter import as_graph

    graphs = 0

    def counting(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    warnings.simplefilter("ignore")
    theirs = as_graph(counting)  # gramme.meter() knows what runs in graphs of torch.compile, too
    ways: dict[str, Callable[[Any], Any]] = {
        "eager": lambda f: f,
        "native": lambda f: gramme.compile(f, backend="native"),
        "gramme eager": lambda f: gramme.compile(f, backend="eager"),
        "gramme": lambda f: gramme.compile(f, backend=counting),
        "torch": lambda f: torch.compile(f, backend=theirs),
    }
    with contextlib.redirect_stdout(io.StringIO()) as out, gramme.meter() as meter:
        found = ran(name, ways[way])
    return found, out.getvalue(), graphs, meter.outside


def apart(name: str, way: str) -> Any:
    """In a fork: None where it died or took too long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        signal.alarm(SECONDS)
        if "--trace" not in sys.argv:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with os.fdopen(write, "wb") as file:
                pickle.dump(one(name, way), file)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    return (pickle.loads(data), status) if data else (None, status)


def has_raised(outcome: Any) -> bool:
    return isinstance(outcome, tuple) and str(outcome[0]).endswith(("Error", "Exception"))


def compared(found: Any, expected: Any) -> str:
    value, status = found
    if value is None:
        return f"died of {signal.Signals(status).name}" if status else "nothing"
    (calls, printed, *_), (wanted, printed_there, *_) = value, expected
    for i, (a, b) in enumerate(zip(calls, wanted, strict=True)):
        if a != b:
            parts = ("result", "arguments", "gradients", "state", "random numbers")
            which = [part for part, x, y in zip(parts, a, b, strict=True) if x != y]
            raised = f" {a[0][0]}: {a[0][1]}" if which[0] == "result" and has_raised(a[0]) else ""
            return f"other {', '.join(which)} in call {i}{raised[:110]}"
    return "printed otherwise" if printed != printed_there else "="


def values(name: str) -> str:
    """Backends of gramme's own, which run each graph as it is, against eager execution."""
    eager, status = apart(name, "eager")
    if eager is None:
        return f"{name}: eager does not run ({status})"
    found = [compared(apart(name, way), eager) for way in ("native", "gramme eager")]
    return f"{name}: {' | '.join(sorted(set(found)))}"


def line(name: str) -> str:
    eager, status = apart(name, "eager")
    if eager is None:
        return f"{name}: eager does not run ({status})"
    raises = [i for i, call in enumerate(eager[0]) if has_raised(call[0])]
    again = compared(apart(name, "eager"), eager)
    ours = {way: apart(name, way) for way in ("native", "gramme eager", "gramme")}
    torchs = apart(name, "torch")
    found = [compared(each, eager) for each in ours.values()]
    counts = [found[0][2] if found[0] else "-" for found in (torchs, ours["gramme"])]
    theirs = compared(torchs, eager)
    text = "=" if all(v == "=" for v in found) else " | ".join(found)
    notes = [f"eager itself: {again}"] * (again != "=") + [f"torch.compile: {theirs}"] * (theirs != "=")
    if torchs[0] and ours["gramme"][0] and counts[1] > max(counts[0], 1):
        notes.append(f"operations outside of graphs {torchs[0][3]}/{ours['gramme'][0][3]}")
    notes += [f"raises in call {', '.join(map(str, raises))}"] * bool(raises)
    return f"{name}: {text}; {counts[0]}/{counts[1]}" + "".join(f"; {note}" for note in notes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--trace", action="store_true", help="print what raises")
    parser.add_argument("--values", action="store_true", help="native and eager only, and no graphs are counted")
    parser.add_argument("--way", help="one way only, with what it gives")
    parser.add_argument("programs", nargs="*")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for library in given.libraries.split(","):
        from small.table import TABLE

        TABLE.clear()
        try:
            importlib.import_module(f"small.in_{library}")
        except ImportError as error:
            print(f"# {library} SKIPPED: {error}; requirements.txt says what to install", flush=True)
            continue
        names = [name for name in TABLE if not given.programs or name in given.programs]
        if names:
            print(f"# {library}", flush=True)
        for name in names:
            if given.way:
                print(name, apart(name, given.way))
            else:
                print(values(name) if given.values else line(name), flush=True)


if __name__ == "__main__":
    main()
