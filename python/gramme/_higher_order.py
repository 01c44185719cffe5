"""Replacements for higher-order operators, for backends that run a graph as it is.

Called outside a compiler, such operators compile their bodies to differentiate them, or take a way that is meant for
compilers only. The replacements do what the program asked for, with eager's gradients, hooks and random numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from . import _C
from ._control import OWN
from ._graph_module import LazyGraphModule
from ._torch.names import HigherOrderOperator

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_they_are", "called", "leaf_parts"]


def _enters_levels(body: GraphModule | Block) -> bool:
    """Whether the graph enters a transform of torch.func."""
    if "gramme_levels" not in body.meta:
        names = (getattr(node.target, "__name__", "") for node in body.graph.nodes)
        body.meta["gramme_levels"] = any(name.endswith("_increment_nesting") for name in names)
    levels: bool = body.meta["gramme_levels"]
    return levels


class Block:
    """A checkpointed body that the native executor runs, in place of its module."""

    def __init__(self, module: GraphModule, program: Any) -> None:
        self.graph, self.meta, self.forward = module.graph, module.meta, program

    def recompute(self, lifted: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The results, with a recorded backward that runs the body again; None if there is none for this call."""
        if options.get("use_reentrant", True) or "_checkpoint_context_fn" in self.meta or _enters_levels(self):
            return None
        arguments: tuple[int, ...] = self.meta["gramme_given"]
        return _C.native.call_recomputing(self.forward, lifted, arguments, options.get("preserve_rng_state", True))


def _checkpoint(body: GraphModule | Block, *lifted: Any, **options: Any) -> Any:
    """`torch.utils.checkpoint` of the body; values that the program's function took from outside are no arguments."""
    from torch.utils.checkpoint import checkpoint

    if isinstance(body, Block) and (results := body.recompute(lifted, options)) is not None:
        return results
    places: tuple[int, ...] = body.meta["gramme_given"]
    outside = [None if place in places else value for place, value in enumerate(lifted)]

    def run(*given: Any) -> Any:
        every = list(outside)
        for place, value in zip(places, given, strict=True):
            every[place] = value
        return _C.keeping_modes(body.forward, *every)

    if _enters_levels(body):
        options["early_stop"] = False  # the levels would stay entered
    if "_checkpoint_context_fn" in body.meta:
        options["context_fn"] = body.meta["_checkpoint_context_fn"]
    plain: Callable[..., Any] = getattr(checkpoint, "__wrapped__", checkpoint)  # skips the check for torch._dynamo
    return plain(run, *(lifted[place] for place in places), **options)


def _region(body: GraphModule, name: str, *lifted: Any) -> Any:
    return body.forward(*lifted)


def _body(body: GraphModule, *lifted: Any, **options: Any) -> Any:
    return body.forward(*lifted)


def _runs_its_body(operator: Any) -> bool:
    """Whether the operator is a `BaseHOP` with the default behaviour: it runs its body."""
    from ._torch.names import BaseHOP

    kept = ("_call_Autograd", "_call_CompositeExplicitAutograd")
    return isinstance(operator, BaseHOP) and all(getattr(type(operator), of) is getattr(BaseHOP, of) for of in kept)


def called(operator: HigherOrderOperator) -> Callable[..., Any]:
    """The function to call instead of the operator; the operator itself if it has no replacement."""
    from ._torch.names import invoke_subgraph, tag_activation_checkpoint, wrap

    if operator in OWN:
        return OWN[operator]
    if operator is tag_activation_checkpoint:
        return _checkpoint
    if operator is invoke_subgraph:
        return _region
    if operator is wrap or _runs_its_body(operator):
        return _body
    return operator


def leaf_parts(function: Any, example: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments for a leaf function's operator: the function, the one for fakes, the structure of its arguments.

    `example` is (args, keywords) with something for each leaf. None where nobody says what the function gives, or
    where it writes.
    """
    from ._torch.names import _LeafCallable, make_leaf_function_wrappers, tree_structure

    if function._torchdynamo_leaf_fake_fn is None or function._torchdynamo_leaf_mutates_args:
        return None
    real, fake = make_leaf_function_wrappers(
        function._torchdynamo_leaf_real_fn, function._torchdynamo_leaf_fake_fn, [None]
    )
    called = _LeafCallable(real)
    if function._torchdynamo_leaf_hook_fn is not None:
        called._leaf_hook_real_fn = function._torchdynamo_leaf_hook_fn  # type: ignore[attr-defined]
        called._leaf_hook_fake_fn = function._torchdynamo_leaf_hook_fake_fn  # type: ignore[attr-defined]
    return called, _LeafCallable(fake), tree_structure(example)


def as_they_are(module: GraphModule) -> GraphModule:
    """The module with operators replaced by `called`, in bodies too; the module itself if there are none."""
    names = [str(node.target) for node in module.graph.nodes if node.op == "get_attr"]
    attributes = {name: getattr(module, name) for name in names}
    bodies = {name: as_they_are(of) for name, of in attributes.items() if isinstance(of, GraphModule)}
    calls = [node.target for node in module.graph.nodes if node.op == "call_function"]
    operators = {target for target in calls if isinstance(target, HigherOrderOperator)}
    same = all(called(operator) is operator for operator in operators)
    if same and all(attributes[name] is body for name, body in bodies.items()):
        return module
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for node in graph.nodes:
        if node.op == "call_function" and node.target in operators:
            node.target = called(node.target)
    made = LazyGraphModule(attributes | bodies, graph)
    made.meta.update(module.meta)
    return made
