"""A stage as a function of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from types import TracebackType
from typing import Any

from torch import Tensor, fx

from .. import _C
from .._torch.names import OPDEFS
from ._observe import line_of
from ._random import Numbers, Watch, draw_in

#: Prefix of attributes' names, which distinguishes them from names of values.
ATTRIBUTE = "self."


def _with_inputs(stage: fx.GraphModule, lifted: Collection[str]) -> tuple[fx.GraphModule, list[str]]:
    """A copy of a stage's module that takes these attributes as further inputs, and their names in order."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    names: dict[str, fx.Node] = {}
    nodes = list(stage.graph.nodes)
    for node in nodes:
        if node.op == "placeholder":
            copies[node] = graph.node_copy(node)
    for node in nodes:
        if node.op == "get_attr" and node.target in lifted:
            name = str(node.target)
            if name not in names:
                names[name] = graph.placeholder(name.replace(".", "_"))
            copies[node] = names[name]
    for node in nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, lambda of: copies[of])
    module = fx.GraphModule(stage, graph)
    module.train(stage.training)
    return module, list(names)


class Program:
    """A stage as a function of values.

    Attributes:
        inputs: names of what it takes: values, then attributes of the stage, as `self.weight`.
        outputs: names of what it gives.

    """

    def __init__(self, stage: fx.GraphModule, lifted: Collection[str], backend: str) -> None:
        self._module, attributes = _with_inputs(stage, lifted)
        self.inputs: tuple[str, ...] = (*stage.__dict__["takes"], *map(ATTRIBUTE.__add__, attributes))
        self.outputs: tuple[str, ...] = tuple(stage.__dict__["gives"])
        self._is_native = backend == "native"
        self._call: Callable[..., Any] | None = None
        self._draws_anywhere = False

    def __call__(self, values: Sequence[Any], numbers: Numbers) -> tuple[Any, ...]:
        """Runs it. A second run with the same numbers draws them again."""
        result: tuple[Any, ...]
        if self._call is None:
            with numbers.drawn():
                result = self._watch(values)
            return result
        if self._draws_anywhere:
            with numbers.drawn():
                result = self._call(*values)
        else:
            with numbers.used():
                result = self._call(*values)
        return result

    def _watch(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Finds out in the first run which nodes draw random numbers."""
        watch = Watch(self._module)
        result: tuple[Any, ...] = watch.run(*values)
        self._draws_anywhere = not draw_in(self._module, watch.drawing)
        self._call = _C.native.from_graph_module(self._module) if self._is_native else self._module
        return result

    def watch_again(self) -> None:
        """Called when a node drew random numbers that had not the first time."""
        self._draws_anywhere = True

    def lines(self) -> str:
        """The stage's lines in the program."""
        found = [place for node in self._module.graph.nodes if node.op.startswith("call") and (place := line_of(node))]
        return f"{found[0]} to {found[-1]}" if found else ""

    def place_of(self, traceback: TracebackType | None) -> str:
        """The line of the program whose node raised, if the traceback shows it."""
        code = self._module.forward.__func__.__code__  # type: ignore[attr-defined]
        nodes = list(self._module.graph.nodes)
        line_map: dict[int, int | None] = self._module._lineno_map or {}
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code is code:
                index = line_map.get(traceback.tb_lineno - self._module._prologue_start)
                if isinstance(index, int) and index < len(nodes):
                    return line_of(nodes[index])
            if frame.f_code is fx.Interpreter.run_node.__code__:  # other frames may hold the exception: a cycle
                running = frame.f_locals.get("n")
                if isinstance(running, fx.Node):
                    return line_of(running)
            traceback = traceback.tb_next
        return ""

    def in_python(self) -> list[str]:
        """The parts that need the GIL, in words; empty if its operators run without."""
        if not self._is_native:
            return ["every operator is called from Python: backend='eager'"]
        if self._call is None:
            return ["it has not run yet"]
        lines = _C.native.tape(self._call).splitlines()
        found = [line.split(" = python ", 1)[1].split("; frees")[0] for line in lines if " = python " in line]
        operators = [
            str(node.target).removesuffix(".default").replace(".", "::", 1) for node in self._module.graph.nodes
        ]
        return found + [f"{name}: its kernel is Python's" for name in operators if name in OPDEFS]


def attributes(stage: fx.GraphModule) -> dict[str, Tensor]:
    """The stage's own tensors that it reads, by name."""
    names = [str(node.target) for node in stage.graph.nodes if node.op == "get_attr"]
    found = {name: attrgetter(name)(stage) for name in names}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}
