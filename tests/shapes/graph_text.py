"""The graphs of PyTorch's own front end and of gramme for one call, as text to compare.

Numbers are no results of gramme's graphs, which compute them from the guards: of PyTorch's those results are left out,
with what only they need. The order of results is each front end's own.
"""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import gramme
import torch
import torch._dynamo
from torch import fx

from shapes import Program
from shapes.harness import observe, story

SIZES = (7, 10, 12, 9)
MODES = ("dynamic", "marked")
STATIC = "static"
NUMBERS = torch.SymInt | torch.SymFloat | torch.SymBool | int | float


@dataclasses.dataclass
class Looked:
    """What a backend was given."""

    graphs: list[str] = dataclasses.field(default_factory=list)
    symbols: set[str] = dataclasses.field(default_factory=set)
    raised: bool = False
    stale: bool = False
    story: str = ""  # gramme's segments with their guards

    def __call__(self, graph: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        shown = without_numbers(graph)
        places = shown.graph.find_nodes(op="placeholder")
        varying = {n.target: n._dynamo_source.name for n in places if n.type is torch.SymInt}
        self.graphs.append(f"{shown.code.strip()}\n{varying}")
        self.symbols |= set(varying.values())
        self.stale |= any(map(is_stale, shown.graph.nodes))
        return graph.forward


def without_numbers(graph: fx.GraphModule) -> fx.GraphModule:
    """Without results that are numbers, and what only they need."""
    sources = {n.name: n._dynamo_source for n in graph.graph.nodes if hasattr(n, "_dynamo_source")}
    numbers = numbers_of(graph.graph)
    order = {n.name: i for i, n in enumerate(graph.graph.nodes)}
    copied = copy.deepcopy(graph)
    nodes = copied.graph
    output = nodes.output_node()
    kept = {n.name: n for n in output.args[0] if n.name not in numbers and not stands_for_number(n)}
    output.args = (tuple(kept[name] for name in sorted(kept, key=lambda name: order[name])),)
    mentioned = {str(s) for n in graph.graph.find_nodes(op="placeholder") for s in symbols_of(n)}
    for node in reversed(list(nodes.nodes)):
        if node.users or node.op == "output":
            continue
        if (node.name in numbers or stands_for_number(node)) and node.name not in mentioned:
            nodes.erase_node(node)
    copied.recompile()
    for node in nodes.nodes:
        if node.name in sources:
            node._dynamo_source = sources[node.name]
    return copied


def numbers_of(graph: fx.Graph) -> set[str]:
    """Nodes that are numbers or tuples of them, by their values or, where those are not noted, by how they are made."""
    found: set[str] = set()
    for node in graph.nodes:
        value = node.meta.get("example_value")
        values = value if isinstance(value, tuple) else (value,)
        computed = node.op == "call_function" and node.target.__module__ in ("_operator", "math")
        made = computed and node.all_input_nodes and all(n.name in found for n in node.all_input_nodes)
        if made or node.type is torch.SymInt or all(isinstance(v, NUMBERS) for v in values):
            found.add(node.name)
    return found


def is_stale(node: fx.Node) -> bool:
    """Is it one number by the guards, or that of another symbol, and stands in the graph all the same?"""
    value = node.meta.get("example_value")
    numbers = value if isinstance(value, torch.Size) else [value]
    expressions = [n.node.expr for n in numbers if isinstance(n, torch.SymInt)]
    made_for = [n.node._expr for n in numbers if isinstance(n, torch.SymInt)]
    return any(e.is_number for e in expressions) or (node.op == "placeholder" and expressions != made_for)


def stands_for_number(node: fx.Node) -> bool:
    """PyTorch returns a float in a tensor."""
    return node.op == "call_function" and node.target is torch.scalar_tensor and bool(node.kwargs)


def symbols_of(node: fx.Node) -> set[Any]:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return set()
    numbers = [*value.shape, *value.stride(), value.storage_offset()]
    return set().union(*(n.node.expr.free_symbols for n in numbers if isinstance(n, torch.SymInt)))


def mark(value: Any) -> None:
    """All sizes but 0 and 1."""
    if isinstance(value, torch.Tensor):
        for dim in range(value.dim()):
            if value.shape[dim] > 1:
                torch._dynamo.maybe_mark_dynamic(value, dim)
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            mark(item)


def looked_at(program: Program, mode: str, front: Callable[..., Any]) -> Looked:
    """What the front end makes of one call."""
    looked = Looked()
    torch._dynamo.reset()
    gramme.reset()
    dynamic = {"dynamic": True, STATIC: False}.get(mode)
    compiled = front(program.callable(), backend=looked, dynamic=dynamic)

    def call(*args: Any, **kwargs: Any) -> Any:
        if mode == "marked":
            mark([args, kwargs])
        return compiled(*args, **kwargs)

    sizes = tuple(min(n, program.high) for n in SIZES[: program.arity])
    with torch._dynamo.config.patch(specialize_float=True):
        looked.raised = observe(call, program, 1, sizes, backward=False).error is not None
    if front is gramme.compile:
        looked.story = story(program, "eager", [sizes], compiled)
    return looked


def compared(program: Program, mode: str) -> tuple[Looked, Looked] | None:
    """PyTorch's and gramme's; None if they are not to be compared.

    They are where both make one graph, nothing is raised, the graphs for fixed sizes are equal, gramme took nothing for
    varying that PyTorch makes a constant, and PyTorch's graph computes with no symbol that its guards made a number or
    another symbol: gramme captures again then.
    """
    theirs, ours = looked_at(program, mode, torch.compile), looked_at(program, mode, gramme.compile)
    alike = len(theirs.graphs) == len(ours.graphs) == 1 and not theirs.raised and not ours.raised
    if not alike or theirs.stale or not ours.symbols <= theirs.symbols:
        return None
    if theirs.graphs == ours.graphs:
        return theirs, ours
    fixed = [looked_at(program, STATIC, front).graphs for front in (torch.compile, gramme.compile)]
    return (theirs, ours) if fixed[0] == fixed[1] else None
