"""A torch.fx graph with the graphs inside it as text, one line a node; the same for every front end."""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx


def spell(argument: Any) -> str:
    if isinstance(argument, fx.Node):
        return argument.name
    if isinstance(argument, tuple):
        return "(" + ", ".join(map(spell, argument)) + (",)" if len(argument) == 1 else ")")
    if isinstance(argument, list):
        return "[" + ", ".join(map(spell, argument)) + "]"
    if isinstance(argument, dict):
        return "{" + ", ".join(f"{key}: {spell(value)}" for key, value in argument.items()) + "}"
    return getattr(argument, "__name__", None) or repr(argument)


def target_of(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, str):
        return f".{target}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"HOP {target._name}"
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    return f"{module.replace('_operator', 'operator')}.{getattr(target, '__name__', target)}"


def text_of(module: fx.GraphModule, indent: str = "") -> list[str]:
    lines = []
    for node in module.graph.nodes:
        match node.op:
            case "placeholder":
                lines.append(node.name + (f" = {node.target}" if node.target != node.name else ""))
            case "get_attr":
                body = getattr(module, node.target)
                lines.append(f"{node.name} = self.{node.target}")
                if isinstance(body, fx.GraphModule) and node.name == node.target:
                    lines += text_of(body, "    ")
            case "output":
                lines.append(f"return {spell(node.args[0])}")
            case _:
                arguments = [spell(each) for each in node.args]
                arguments += [f"{key}={spell(value)}" for key, value in node.kwargs.items()]
                lines.append(f"{node.name} = {target_of(node)}({', '.join(arguments)})")
    return [indent + line for line in lines]


def assert_alike(got: Any, want: Any, **tolerance: float) -> None:
    """Equal, with tensors as close as the tolerance says."""
    if isinstance(want, torch.Tensor):
        return torch.testing.assert_close(got, want, **tolerance)
    if isinstance(want, dict):
        got, want = list(got.items()), list(want.items())
    if not isinstance(want, list | tuple):
        assert got == want
        return None
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert_alike(mine, theirs, **tolerance)
    return None


class Shown:
    """A backend that runs graphs as they are and keeps their texts."""

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []

    def __call__(self, module: fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs.append(text_of(module))
        return module.forward
