"""The front end under test: gramme. GRAMME_FRONT=torch or eager puts another in its place, to check the tests."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

NAME = os.environ.get("GRAMME_FRONT", "gramme")
GRAMME = NAME == "gramme"

if GRAMME:
    import gramme

    compile = gramme.compile
    reset = gramme.reset
    disable = gramme.disable
    graph_break = gramme.graph_break
elif NAME == "eager":

    def compile(function: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
        if function is None:
            return compile
        return lambda *args, **kwargs: function(*args, **kwargs)

    def reset() -> None: ...

    def graph_break() -> None: ...

    def disable(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

else:
    compile = torch.compile
    reset = torch._dynamo.reset
    disable = torch._dynamo.disable
    graph_break = torch._dynamo.graph_break


def target_name(node: torch.fx.Node) -> str:
    """A node's target as golden files spell it: `torch.sin`, `operator.add`, `.view`."""
    if node.op == "call_method":
        return f".{node.target}"
    if isinstance(node.target, str):
        return f"{node.op} {node.target}"
    module = getattr(node.target, "__module__", None) or "torch"
    name = getattr(node.target, "__name__", None) or repr(node.target)
    return f"{module.removeprefix('_')}.{name}"


MODE_CHANGES = {
    "torch._C._set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
}


class Recorder:
    """A backend that keeps the operations of each graph it is given and runs it as it is."""

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []
        self.ops_run = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        nodes = [n for n in graph.graph.nodes if n.op.startswith("call_")]
        index = len(self.graphs)
        self.graphs.append([target_name(node) for node in nodes])

        def run(*inputs: Any) -> Any:
            self.ops_run += sum(name not in MODE_CHANGES for name in self.graphs[index])
            return graph.forward(*inputs)

        return run

    @property
    def ops(self) -> list[str]:
        return [op for graph in self.graphs for op in graph]


class Compiled:
    """A compiled function with its counters."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.recorder = Recorder()
        self.call = compile(function, backend=self.recorder, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    @property
    def captures(self) -> int:
        return gramme.statistics(self.call).captures if GRAMME else len(self.recorder.graphs)

    @property
    def hits(self) -> int | None:
        """Calls answered without a capture; None where the front end does not count them."""
        return gramme.statistics(self.call).hits if GRAMME else None

    @property
    def plain_runs(self) -> int | None:
        """Calls that ran plainly from the start; None where the front end does not count them."""
        return gramme.statistics(self.call).plain_runs if GRAMME else None

    @property
    def handovers(self) -> int | None:
        """Frames that CPython ran to their ends from the middle; None where the front end does not count them."""
        return gramme.statistics(self.call).handovers if GRAMME else None

    @property
    def segments(self) -> int:
        return gramme.statistics(self.call).segments if GRAMME else len(self.recorder.graphs)
