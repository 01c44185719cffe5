"""Hooks that a graph registers on its tensors before the program's own objects are there."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ._conventions import add_input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.utils.hooks import BackwardHook, RemovableHandle

__all__ = [
    "call_from_state",
    "fill",
    "hooks_of_module",
    "pending",
    "register_from_state",
    "set_up_inputs",
    "set_up_outputs",
    "state",
    "with_backward_state",
]


def pending(gradient: Any) -> Any:
    """A placeholder for a hook that is made after the graph; no gradient flows before."""
    raise AssertionError("only the end of a segment puts the program's hook in this place")


def fill(handle: RemovableHandle, hook: Callable[..., Any]) -> None:
    """Puts the hook in place of the graph's placeholder, which has not been removed yet."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None:
        hooks[handle.id] = hook


class _State:
    """Represents the backward state in a captured graph; each run gets a new one."""


state = _State()


def register_from_state(tensor: torch.Tensor, backward_state: Any, name: str) -> None:
    """A node of graphs for compiled autograd: the hook is an attribute of the backward state when it runs."""
    from ._torch.names import trace_wrapped

    hook = functools.partial(trace_wrapped, fn=call_from_state, bw_state=backward_state, hook_name=name)
    tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def call_from_state(gradient: Any, *, bw_state: Any, hook_name: str) -> Any:
    result = getattr(bw_state, hook_name)(gradient)
    return gradient if result is None else result


def hooks_of_module(backward_state: Any, name: str) -> BackwardHook:
    """A node of graphs for compiled autograd: full backward hooks of a module.

    Module and hooks are attributes of the backward state when they run.
    """
    from torch.utils.hooks import BackwardHook

    from ._torch.names import call_module_hooks_from_backward_state as call
    from ._torch.names import trace_wrapped

    def of_state(kind: str) -> Callable[..., Any]:
        names = {"hooks_name": f"{kind}_of_{name}", "module_name": name}
        return functools.partial(trace_wrapped, fn=call, bw_state=backward_state, **names)

    return BackwardHook(None, (of_state("hooks"),), (of_state("pre_hooks"),))


def set_up_inputs(hook: BackwardHook, places: Sequence[int], count: int, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """A node: the tensors among a module's `count` inputs, prepared for its backward hooks."""
    return _in_their_places(hook.setup_input_hook, places, count, tensors)


def set_up_outputs(hook: BackwardHook, places: Sequence[int], count: int, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    return _in_their_places(hook.setup_output_hook, places, count, tensors)


def _in_their_places(
    set_up: Callable[..., Any], places: Sequence[int], count: int, tensors: tuple[Any, ...]
) -> tuple[Any, ...]:
    given: list[Any] = [None] * count
    for place, tensor in zip(places, tensors, strict=True):
        given[place] = tensor
    results = set_up(tuple(given))
    return tuple(results[place] for place in places)


def with_backward_state(compiler: Callable[..., Any], graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Compiles the graph with its backward state as the last input, and returns the state with it.

    PyTorch reserves such an input for hooks; AOTAutograd hands it on to the backward.
    """
    if all(value is not state for value in vars(graph_module).values()):
        return compiler(graph_module, inputs)
    graph = graph_module.graph
    kept = [n for n in graph.nodes if n.op == "get_attr" and getattr(graph_module, n.target, None) is state]
    from ._torch.names import BackwardState

    made = add_input(graph, "dynamo_backward_state", BackwardState())
    output = graph.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    at = next((i for i, result in enumerate(results) if result in kept), None)
    if at is not None:
        del results[at]
        output.args = (tuple(results),)
    for node in kept:
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    graph_module.recompile()
    run = compiler(graph_module, [*inputs, BackwardState()])

    def call(*inputs: Any) -> tuple[Any, ...]:
        backward_state = BackwardState()
        outputs = tuple(run(*inputs, backward_state))
        return outputs if at is None else (*outputs[:at], backward_state, *outputs[at:])

    return call if callable(run) else run
