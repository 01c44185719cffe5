"""Writes hooks_matrix.txt: graphs of each program of hook_programs under PyTorch's front end and gramme.

    cd tests; ../.venv/bin/python -m e2e.record_hooks

A cell says how many graphs the first call compiled, `+n` those of two more calls, `differs` if anything that can be
seen is another thing than eagerly; captures of gramme's own backends. Under compiled autograd all of a
round runs in it.
"""

import contextlib
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import gramme
import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.backends.registry import lookup_backend

from e2e.hook_programs import PROGRAMS, Box, run

FRONTS = ("torch callable", "torch aot_eager", "eager", "native", "callable", "aot_eager")
STRICT = ("eager", "native")
ROUNDS = 3


class Counting:
    """A backend that counts graphs with operations."""

    def __init__(self, name: str) -> None:
        self.graphs = 0
        self.inner: Any = lookup_backend(name) if name != "callable" else lambda graph, inputs: graph.forward

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs += any(node.op.startswith("call") for node in graph.graph.nodes)
        return self.inner(graph, inputs)


def compiled(program: Any, front: str) -> tuple[Any, Callable[[], int]]:
    """The program under the front end, and what counts its graphs."""
    backend = front.split()[-1]
    if front in STRICT:
        call = gramme.compile(program, backend=backend)
        return call, lambda: gramme.statistics(call).captures
    counting = Counting(backend)
    compile_with: Any = torch.compile if front.startswith("torch") else gramme.compile
    return compile_with(program, backend=counting), lambda: counting.graphs


def backward_mode(front: str, compiles_backward: bool) -> Any:
    if not compiles_backward:
        return contextlib.nullcontext()
    compile_with: Any = torch.compile if front.startswith("torch") else gramme.compile
    return compiled_autograd._enable(lambda graph: compile_with(graph, backend="eager"))


def outcome(name: str, front: str, compiles_backward: bool) -> str:
    torch._dynamo.reset()
    gramme.reset()
    strict = front in STRICT and not compiles_backward
    box, eager_box, first = Box(), Box(), 0
    call, graphs = compiled(PROGRAMS[name], front)
    for n in range(ROUNDS):
        wanted = run(PROGRAMS[name], eager_box, n, strict)
        with backward_mode(front, compiles_backward):
            found = run(call, box, n, strict)
        first = first or graphs()
        if found != wanted:
            return f"{first} differs"
    return str(first) if graphs() == first else f"{first}+{graphs() - first}"


def main() -> None:
    logging.disable(logging.CRITICAL)
    lines = []
    for mode in ("plain autograd", "compiled autograd"):
        lines += [f"{mode:34}" + "".join(f"{front:17}" for front in FRONTS)]
        for name in PROGRAMS:
            cells = [outcome(name, front, mode.startswith("compiled")) for front in FRONTS]
            lines.append(f"{name:34}" + "".join(f"{cell:17}" for cell in cells))
        lines.append("")
    text = "\n".join(line.rstrip() for line in lines)
    pathlib.Path(__file__).with_name("hooks_matrix.txt").write_text(text)


if __name__ == "__main__":
    main()
