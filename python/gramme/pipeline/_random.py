"""Random numbers for a stage's work on a micro-batch, independent of other work at the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

# Operators draw from the process's one generator; the owner of the lock has set it to the numbers of its work.
_lock = threading.Lock()
_now = threading.local()


def seed_of(base: int, stage: int, micro_batch: int) -> int:
    """The seed of a stage's work on a micro-batch in a step whose number is `base`."""
    mask = 2**64 - 1
    mixed = (base + 0x9E3779B97F4A7C15 * (1 + stage + (micro_batch << 16))) & mask
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & mask
    return mixed ^ mixed >> 31


class Numbers:
    """The random numbers of one piece of work, which are rarely used."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._state: Tensor | None = None

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """In the scope, the default generator is at these numbers, and only this thread draws."""
        with _lock:
            outside = torch.get_rng_state()
            if self._state is None:
                self._state = torch.Generator().manual_seed(self._seed).get_state()
            torch.set_rng_state(self._state)
            try:
                yield
            finally:
                self._state = torch.get_rng_state()
                torch.set_rng_state(outside)

    @contextmanager
    def used(self) -> Iterator[None]:
        """In the scope, this thread draws from these numbers by :func:`draw`."""
        _now.numbers = self
        try:
            yield
        finally:
            del _now.numbers


def drawing(node: fx.Node) -> Callable[..., Any] | None:
    """A function that runs a node with the random numbers of the thread's work; None if there is none."""
    if node.op == "call_function" and callable(node.target):
        target = node.target
    elif node.op == "call_method":
        target = operator_of(str(node.target))
    else:
        return None

    def draw(*args: Any, **kwargs: Any) -> Any:
        numbers: Numbers = _now.numbers
        with numbers.drawn():
            return target(*args, **kwargs)

    return draw


def operator_of(method: str) -> Callable[..., Any]:
    """A method as a function."""
    return lambda of, *args, **kwargs: getattr(of, method)(*args, **kwargs)


class Watch(fx.Interpreter):
    """Runs a graph and finds out which nodes draw; for a thread that owns the generator."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.drawing: list[fx.Node] = []

    def run_node(self, n: fx.Node) -> Any:
        before = torch.get_rng_state()
        result = super().run_node(n)
        if not torch.equal(before, torch.get_rng_state()):
            self.drawing.append(n)
        return result


def draw_in(module: fx.GraphModule, nodes: list[fx.Node]) -> bool:
    """Makes these nodes of a module draw the numbers of the running work. False if one cannot."""
    functions = [(node, function) for node in nodes if (function := drawing(node)) is not None]
    if len(functions) < len(nodes):
        return False
    for node, function in functions:
        with module.graph.inserting_before(node):
            new = module.graph.call_function(function, node.args, node.kwargs)
        new.meta = node.meta
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
    module.recompile()
    return True


class Watched:
    """A function that is watched for draws at its first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._draws: bool | None = None

    def __call__(self, numbers: Numbers, *args: Any) -> Any:
        if self._draws is False:
            return self._function(*args)
        with numbers.drawn():
            before = torch.get_rng_state()
            result = self._function(*args)
            self._draws = bool(self._draws) or not torch.equal(before, torch.get_rng_state())
        return result

    def watch_again(self) -> None:
        """Something drew that did not the first time."""
        self._draws = True
