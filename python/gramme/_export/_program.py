"""Turns a captured call into the graph of torch's calls that torch.export lowers."""

from __future__ import annotations

import inspect
import operator
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import noop_context_fn

from .._torch.names import (
    OpOverload,
    OpOverloadPacket,
    PyTreeCodeGen,
    PyTreeInfo,
    UserErrorType,
    argument_names,
    check_user_input_output,
    pytree,
    tag_activation_checkpoint,
)
from ._call import Call, Change, Place
from ._objects import is_input
from ._retraced import keep_what_nodes_said

__all__ = ["torch_graph"]

_HERE = __file__.replace("_program.py", "_call.py")
# Their results share no memory with their arguments.
_NEW = {
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.neg),
    *(torch.add, torch.sub, torch.mul, torch.div, torch.where, torch.clone, torch.cat),
}


class _Builder:
    """Builds the graph: all user inputs in order, parameters and buffers as attributes, all results in one tuple."""

    def __init__(self, module: torch.nn.Module, leaves: Sequence[Any], fakes: Sequence[Any], call: Call) -> None:
        self._root = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self._module = module
        self._leaves = leaves
        self._call = call
        self._users = [self.graph.placeholder(f"arg_{i}") for i in range(len(leaves))]
        for node, fake in zip(self._users, fakes, strict=True):
            node.meta["val"] = fake
        self._of_leaf: dict[int, torch.fx.Node] = {
            id(v): n for n, v in reversed([*zip(self._users, leaves, strict=True)]) if _is_tensor(v) or is_input(v)
        }
        self._state = {id(tensor): name for name, tensor in reversed([*_tensors_of(module)])}
        self._made: dict[int, torch.fx.Node] = {}
        self._nodes: dict[torch.fx.Node, Any] = {}
        self._takes_objects: set[torch.fx.Node] = set()

    def build(self, assigned: dict[str, Any]) -> torch.fx.GraphModule:
        result = pytree.tree_map(_as_tuple, self._call.result, is_leaf=_is_size)
        flat, self.out_spec = pytree.tree_flatten(result)
        check_user_input_output([v for v in flat if not _is_node(v)], UserErrorType.INVALID_OUTPUT)
        self._inputs()
        direct = [*flat, *assigned.values()]
        for value in [*direct, *self._objects()]:  # attributes come before all calls
            self._known(value)
        attributes = {name: self._attribute(self._module.get_buffer(name)) for name in assigned}
        self._keep_apart([node for node in attributes.values() if self._is_shared(node, direct)])
        self._calls()
        outputs = tuple(self._known(value) for value in flat)
        values = {name: self._known(value) for name, value in assigned.items()}
        for name, value in values.items():  # when everything is computed
            self.graph.call_method("copy_", (attributes[name], value))
        self.graph.output(outputs)
        return torch.fx.GraphModule(self._root, self.graph)

    def _inputs(self) -> None:
        graph = self._call.graph_module.graph
        for node, given in zip(graph.find_nodes(op="placeholder"), self._call.inputs, strict=True):
            if isinstance(given, Place) and given.what and not node.users:
                continue  # a size that only conditions use
            self._nodes[node] = self._at(given) if isinstance(given, Place) else self._known(given)
            if not isinstance(self._nodes[node], torch.fx.Node):
                self._nodes[node] = given  # a number

    def _objects(self) -> list[Any]:
        """Opaque objects in calls."""
        found: list[Any] = []
        for node in self._call.graph_module.graph.nodes:
            before = len(found)
            is_operator = isinstance(node.target, (OpOverload, OpOverloadPacket))  # others take none
            leaves = pytree.tree_leaves((node.args, node.kwargs)) if is_operator else []
            found += [value for value in leaves if not _is_node(value) and is_input(value)]
            if len(found) > before:
                self._takes_objects.add(node)
        return found

    def _at(self, place: Place) -> torch.fx.Node:
        leaf: torch.fx.Node = self._users[place.leaf]
        if not place.what:
            return self._of_leaf.get(id(self._leaves[place.leaf]), leaf)
        if place.what == "size":
            return self.graph.call_function(torch.ops.aten.sym_size.int, (leaf, place.dim))
        if place.what == "stride":
            return self.graph.call_function(torch.ops.aten.sym_stride.int, (leaf, place.dim))
        return self.graph.call_function(torch.ops.aten.sym_storage_offset.default, (leaf,))

    def _known(self, value: Any) -> Any:
        """The node of a tensor or of a captured value; other values are returned unchanged."""
        if _is_node(value):
            return self._nodes.get(value)
        if not (_is_tensor(value) or is_input(value)):
            return value
        of_leaf = self._of_leaf.get(id(value))
        return self._attribute(value) if of_leaf is None else of_leaf

    def _attribute(self, tensor: torch.Tensor) -> torch.fx.Node:
        known = self._made.get(id(tensor))
        if known is not None:
            return known
        said = self._call.names.get(id(tensor)) or self._state.get(id(tensor)) or "constant"
        name = re.sub(r"\W", "_", said)
        while hasattr(self._root, name):
            name += "_"
        if not _is_tensor(tensor):
            setattr(self._root, name, tensor)
        elif isinstance(tensor, torch.nn.Parameter):
            self._root.register_parameter(name, tensor)
        else:
            self._root.register_buffer(name, tensor)
        self._made[id(tensor)] = made = self.graph.get_attr(name)
        return made

    def _keep_apart(self, attributes: list[torch.fx.Node]) -> None:
        """Makes the program read copies of these."""
        apart = {node: self.graph.call_method("clone", (node,)) for node in attributes}
        for old, new in self._nodes.items():
            self._nodes[old] = apart.get(new, new) if _is_node(new) else new
        self._made = {key: apart.get(node, node) for key, node in self._made.items()}

    def _calls(self) -> None:
        captured = self._call.graph_module
        for name, body in captured.named_children():
            self._root.add_module(name, body)
        for node in captured.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            made = self.graph.node_copy(node, lambda n: self._nodes[n])
            if node in self._takes_objects:
                made.args, made.kwargs = torch.fx.node.map_aggregate((made.args, made.kwargs), self._passed)
            made.meta["stack_trace"] = _without_ours(made.meta.get("stack_trace"))
            stack = made.meta.get("nn_module_stack", {})  # torch.export adds the root, under its own name
            made.meta["nn_module_stack"] = {key: row for key, row in stack.items() if row[0] != "L['self']"}
            if node.target is tag_activation_checkpoint:
                body = getattr(self._root, node.args[0].target)
                body.meta.setdefault("_checkpoint_context_fn", noop_context_fn)
            self._nodes[node] = made

    def _passed(self, value: Any) -> Any:
        """An argument of a call with opaque objects replaced by nodes."""
        return value if _is_node(value) else self._known(value)

    def _is_shared(self, attribute: torch.fx.Node, direct: list[Any]) -> bool:
        """Whether another value may share memory with a buffer whose new content is stored at the end."""
        if any(_is_tensor(value) and self._made.get(id(value)) is attribute for value in direct):
            return True
        users = [user for old, new in self._nodes.items() if new is attribute for user in old.users]
        return any(user.op != "call_function" or user.target not in _NEW for user in users)


def _tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers, and other attributes that are tensors."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if _is_tensor(value):
                yield (f"{path}.{name}" if path else name), value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if _is_size(value) else value


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def _without_ours(trace: str | None) -> str:
    """The stack of module calls without the wrapper's."""
    lines = (trace or "").splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith("  File ")]
    if starts and _HERE in lines[starts[0]]:
        lines = lines[starts[1] :] if len(starts) > 1 else []
    return "".join(lines)


def _assigned_buffers(module: torch.nn.Module, call: Call, changes: list[Change]) -> dict[str, Any]:
    """The new content of registered buffers; other changes are appended to `changes`."""
    dicts = {id(part._buffers): path for path, part in module.named_modules(remove_duplicate=False)}
    tensors = [id(tensor) for _, tensor in module.named_buffers(remove_duplicate=False)]
    found: dict[str, Any] = {}
    for change in call.changes:
        path = dicts.get(id(change.target))
        if path is None or change.kind not in ("FillDict", "AssignDict", "StoreDict"):
            changes.append(change)
            continue
        keys, values = change.values[::2], change.values[1::2]
        if change.kind == "StoreDict":
            keys, values = [change.key], change.values
        for name, value in zip(keys, values, strict=True):
            buffer = change.target.get(name)
            if value is buffer:
                continue
            single = _is_tensor(buffer) and tensors.count(id(buffer)) == 1
            if single and (_is_node(value) or _is_tensor(value)):
                found[f"{path}.{name}" if path else name] = value
            else:
                changes.append(change)
    return found


def _fits(call: Call, mode: Any, buffer: torch.Tensor, value: Any) -> bool:
    """Whether the buffer can hold what was assigned, without being another tensor."""
    if _is_node(value):
        nodes = [node for node in call.graph_module.graph.nodes if node.op != "output"]
        value = call.fakes(mode)[nodes.index(value)]
    same = isinstance(value, torch.Tensor) and value.dtype == buffer.dtype and value.device == buffer.device
    return same and tuple(value.shape) == tuple(buffer.shape)


def _warn(module: torch.nn.Module, changes: Sequence[Change]) -> None:
    """Warns of changes that the call makes and the exported program does not."""
    paths = {id(part): f"self.{path}" if path else "self" for path, part in module.named_modules()}
    names = []
    for change in changes:
        if change.target is None or (change.kind == "PlaceMembers" and change.target == change.key):
            continue
        if change.target is torch.fx.traceback.current_meta:  # annotate(): nodes have it
            continue
        owner = paths.get(id(change.target), type(change.target).__name__)
        names.append(f"{owner}.{change.key}" if isinstance(change.key, str) else owner)
    if names:
        text = "The exported program does not change what the call changes besides tensors: "
        warnings.warn(text + ", ".join(dict.fromkeys(names)), UserWarning, stacklevel=2)


def torch_graph(
    module: torch.nn.Module, args: Any, kwargs: Any, fakes: Sequence[Any], mode: Any, call: Call, specs: dict[str, Any]
) -> torch.fx.GraphModule:
    """The result of torch.export's strict front end, for its lower half."""
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    changes: list[Change] = []
    assigned = _assigned_buffers(module, call, changes)
    for name in list(assigned):
        if not _fits(call, mode, module.get_buffer(name), assigned[name]):
            del assigned[name]
            changes.append(Change("StoreAttr", module, name, [], 0))
    for change in changes:
        if change.target is specs:
            specs.update(zip(change.values[::2], change.values[1::2], strict=True))
    _warn(module, [change for change in changes if change.target is not specs])
    builder = _Builder(module, leaves, fakes, call)
    made = builder.build(assigned)
    names = argument_names(inspect.signature(module.forward), args, kwargs)
    made.graph._codegen = PyTreeCodeGen(PyTreeInfo(names, in_spec, builder.out_spec))
    made.recompile()
    keep_what_nodes_said(module, made)
    made.meta["module_call_specs"] = specs
    return made
