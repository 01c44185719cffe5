"""Adapts captured graphs to AOTAutograd's conventions.

A captured graph changes the thread's modes and returns a distinct tensor for each output. AOTAutograd expects a graph
to leave the modes unchanged, decides by the present grad mode whether there is a backward, and returns one tensor for
two outputs that are computed alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._torch import names

__all__ = ["Modes", "add_input", "each_its_own", "is_unfit", "watching"]

Run = Callable[..., Any]
_set_grad = names.set_grad_enabled
_enter_autocast, _exit_autocast = names.enter_autocast, names.exit_autocast
_enter_inference = names.enter_inference_mode
_exit_inference = names.exit_inference_mode


def add_input(graph: torch.fx.Graph, name: str, example: Any, kind: type | None = None) -> torch.fx.Node:
    """A new last input, for what comes from no place in the program."""
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        made = graph.placeholder(name, kind)
    made.meta["example_value"] = example
    made._dynamo_source = None  # AOTAutograd reads it of each input
    return made


def _calls(graph: torch.fx.Graph, target: Callable[..., Any]) -> list[torch.fx.Node]:
    if ("call_function", target) not in graph._find_nodes_lookup_table.table:
        return []
    return list(graph.find_nodes(op="call_function", target=target))


def is_unfit(graph: torch.fx.Graph) -> bool:
    """Whether AOTAutograd would change the graph's meaning; then it runs uncompiled.

    It enters or leaves autocast without the other, or it goes through inference mode in a part of it.
    """
    entered, left = _calls(graph, _enter_autocast), _calls(graph, _exit_autocast)
    if len(entered) != len(left) or any(node.args[0] not in entered for node in left):
        return True
    return bool(_calls(graph, _enter_inference) or _calls(graph, _exit_inference))


class Modes:
    """The modes in which to compile and run a graph, which then leaves them unchanged.

    Attributes:
        nodes: those of the graph before it was changed; None if it was not.

    """

    def __init__(self, graph_module: torch.fx.GraphModule, peel: bool) -> None:
        self.graph_module = graph_module
        self.nodes: list[torch.fx.Node] | None = None
        self.inference = peel and self._peel_inference()
        self.initial = self.outer = self.final = torch.is_grad_enabled()
        changes = _calls(graph_module.graph, _set_grad)
        if changes:
            self._move_grad_outside([bool(node.args[0]) for node in changes])

    def _peel_inference(self) -> bool:
        """Turns a graph that is wholly under inference mode into one without modes, to be run in inference mode."""
        graph = self.graph_module.graph
        calls = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        whole = len(calls) > 2 and calls[0].target is _enter_inference and calls[-1].target is _exit_inference
        if not whole or len(_calls(graph, _enter_inference)) > 1 or calls[0].args != (True,):
            return False
        if calls[-1].args != (calls[0],) or _calls(graph, _set_grad):
            return False
        self.nodes = list(graph.nodes)
        graph.erase_node(calls[-1])
        graph.erase_node(calls[0])
        self.graph_module.recompile()
        return True

    def _move_grad_outside(self, modes: list[bool]) -> None:
        """Moves the grad mode around the graph outside: AOTAutograd compiles for the mode of the call."""
        graph = self.graph_module.graph
        self.outer, self.final = self.initial or any(modes), modes[-1]
        if not self.changes_grad:
            return
        self.nodes = list(graph.nodes)
        if self.outer != self.initial:
            with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
                graph.call_function(_set_grad, (self.initial,))
        if self.outer != self.final:
            with graph.inserting_before(graph.output_node()):
                graph.call_function(_set_grad, (self.outer,))
        self.graph_module.recompile()

    @property
    def changes_grad(self) -> bool:
        return not self.initial == self.outer == self.final

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """To compile the graph."""
        with torch.inference_mode() if self.inference else torch.set_grad_enabled(self.outer):
            yield

    def around(self, run: Run) -> Run:
        """The compiled graph, changing the modes as the captured one did."""
        if self.inference:
            return torch.inference_mode()(run)
        return self._with_grad_changes(run) if self.changes_grad else run

    def _with_grad_changes(self, run: Run) -> Run:
        def call(*inputs: Any) -> Any:
            _set_grad(self.outer)
            mode = self.initial
            try:
                outputs = run(*inputs)
                mode = self.final
                return outputs
            finally:
                _set_grad(mode)

        return call


def each_its_own(graph: torch.fx.Graph) -> Callable[[Run], Run]:
    """Wraps a compiled graph so that its outputs are distinct, like the program's."""
    if len(graph.output_node().args[0]) < 2:  # type: ignore[arg-type]
        return lambda run: run

    def distinct(run: Run) -> Run:
        def call(*inputs: Any) -> Any:
            outputs = run(*inputs)
            if len(set(map(id, outputs))) == len(outputs):
                return outputs
            return _with_copies(outputs)

        return call

    return distinct


def _with_copies(outputs: Any) -> tuple[Any, ...]:
    seen: set[int] = set()
    result = []
    for output in outputs:
        again = id(output) in seen and isinstance(output, torch.Tensor)
        seen.add(id(output))
        result.append(output.clone() if again else output)
    return tuple(result)


_Name = tuple[Any, str | None]
_MISSING = object()


def watching(run: Run, names: list[_Name], of_inputs: list[int], of_outputs: list[int]) -> Run:
    """Wraps a compiled graph so that its backward raises if what it reads has changed.

    It reads what `names` hold, and inputs and outputs in those places: nobody may have written to them.
    """

    def call(*inputs: Any) -> Any:
        before = [_held(name) for name in names]
        known = _nodes(inputs)
        outputs = run(*inputs)
        shared = [
            (what, *_version(values[i]))
            for what, values, places in (("an input", inputs, of_inputs), ("a result", outputs, of_outputs))
            for i in places
        ]

        def check(_: Any) -> None:
            for name, value in zip(names, before, strict=True):
                if not _is_same(_held(name), value):
                    raise RuntimeError(
                        f"{name[1] or 'a variable of a function'}, which the backward of an autograd.Function or a hook"
                        f" reads, is not what it was when the compiled forward ran: {value!r}. Keep it in the context"
                        " instead, or in the graph."
                    )
            for what, tensor, version in shared:
                if tensor._version != version:
                    raise RuntimeError(
                        f"{what} of a compiled graph, of shape {tuple(tensor.shape)}, which a hook reads, was written "
                        "in place since the compiled forward ran. Let the hook read a clone of it instead."
                    )

        for node in (_nodes(outputs) | _nodes(inputs)) - known:  # inputs may be written
            node.register_prehook(check)
        return outputs

    return call


def _version(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A detached tensor with the same memory and version counter, and the version."""
    alias = tensor.detach()
    return alias, alias._version


def _nodes(values: Any) -> set[Any]:
    return {value.grad_fn for value in values if isinstance(value, torch.Tensor)} - {None}


def _held(name: _Name) -> Any:
    """The present content of a cell, a dict's key or an attribute."""
    holder, key = name
    if key is None:
        try:
            return holder.cell_contents
        except ValueError:
            return _MISSING
    held = holder.get(key, _MISSING) if isinstance(holder, dict) else getattr(holder, key, _MISSING)
    return tuple(held.items()) if isinstance(held, dict) else held  # the defaults of keywords


def _is_same(now: Any, before: Any) -> bool:
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, tuple):
        return len(now) == len(before) and all(map(_is_same, now, before))
    return isinstance(now, int | float | complex | str | bytes) and repr(now) == repr(before)
