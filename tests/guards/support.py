"""Builds guard plans for live Python objects: what a capture that read everything would record.

`Facts` walks objects and collects facts; `content` says, independently of it, what those facts are about, so that
"the guards hold" and "the content is equal" must always agree.
"""

import collections
import ctypes
import functools
import struct
import types
import weakref
from typing import Any

import torch
from gramme._C import testing
from torch import nn

TestGuards = testing.TestGuards
TestGuards.__test__ = False

Path = tuple[tuple[Any, ...], ...]
LEAVES = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice)

# What a capture reads of a module besides its parameters, buffers and children.
MODULE_TABLES = ("_parameters", "_buffers", "_modules")
HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_leaf(value: object) -> bool:
    if type(value) in (tuple, frozenset):
        return all(is_leaf(v) for v in value)
    return type(value) in LEAVES


class Facts:
    """Collects facts and the sources that are read."""

    def __init__(self, *locals_: str, skip: tuple[str, ...] = ()) -> None:
        self.locals = list(locals_)
        self.facts: list[tuple[Path, str, object]] = []
        self.reads: list[Path] = []
        self.skip = skip
        self.seen_types: set[type] = set()

    def add(self, path: Path, kind: str, operand: object = None) -> None:
        self.facts.append((path, kind, operand))

    def plan(self, drop: str = "") -> Any:
        return TestGuards(self.locals, [f for f in self.facts if f[1] != drop], self.reads)

    def walk(self, value: Any, path: Path) -> None:
        if is_leaf(value):
            self.add(path, "Constant", value)
        elif isinstance(value, torch.Tensor):
            self.add(path, "Tensor", value)
            self.reads.append(path)
        elif isinstance(value, type):
            self.add(path, "Identity", value)
            self.type_attributes(value)
        elif isinstance(value, (list, tuple)):
            self.sequence(value, path)
        elif isinstance(value, dict):
            self.mapping(value, path)
        elif isinstance(value, (set, frozenset)):
            self.add(path, "Type", type(value))
            self.add(path, "SetIs", frozenset(value))
        elif isinstance(value, nn.Module):
            self.module(value, path)
        else:
            self.other(value, path)

    def sequence(self, value: Any, path: Path) -> None:
        self.add(path, "Type", type(value))
        self.add(path, "Length", len(value))
        for i, item in enumerate(value):
            self.walk(item, (*path, ("Item", i)))

    def mapping(self, value: dict[Any, Any], path: Path) -> None:
        self.add(path, "Type", type(value))
        self.add(path, "Keys", tuple(value))
        for key, item in value.items():
            self.walk(item, (*path, ("Value", key)))
        if isinstance(value, collections.defaultdict):
            self.walk(value.default_factory, (*path, ("DefaultFactory",)))

    def other(self, value: Any, path: Path) -> None:
        match value:
            case types.FunctionType():
                self.function(value, path)
            case types.MethodType():
                self.add(path, "Type", types.MethodType)
                self.walk(value.__func__, (*path, ("MethodFunc",)))
                self.walk(value.__self__, (*path, ("MethodSelf",)))
            case types.BuiltinFunctionType() | types.ModuleType():
                self.add(path, "Identity", value)
            case functools.partial():
                self.add(path, "Type", type(value))
                self.walk(value.func, (*path, ("PartialFunc",)))
                self.walk(value.args, (*path, ("PartialArgs",)))
                self.walk(value.keywords, (*path, ("PartialKw",)))
            case collections.deque():
                self.add(path, "Type", type(value))
                self.add(path, "Length", len(value))
                for i, item in enumerate(value):
                    self.walk(item, (*path, ("DequeItem", i)))
            case types.MappingProxyType():
                self.add(path, "Type", type(value))
                self.walk(dict(value), (*path, ("ProxyMapping",)))
            case weakref.ref():
                self.add(path, "Type", type(value))
                self.walk(value(), (*path, ("WeakTarget",)))
            case _:
                self.instance(value, path)

    def function(self, value: types.FunctionType, path: Path) -> None:
        self.add(path, "Code", value.__code__)
        for name, kind in (("__defaults__", "Defaults"), ("__kwdefaults__", "KwDefaults")):
            field = getattr(value, name)
            if field is None:
                self.add((*path, (kind,)), "Absent")
            else:
                self.walk(field, (*path, (kind,)))
        for i, cell in enumerate(value.__closure__ or ()):
            self.cell(cell, (*path, ("Closure", i), ("Contents",)))

    def cell(self, cell: types.CellType, path: Path) -> None:
        try:
            self.walk(cell.cell_contents, path)
        except ValueError:
            self.add(path, "Absent")

    def instance(self, value: object, path: Path) -> None:
        self.add(path, "Type", type(value))
        self.method("f", value, path)
        for name in attribute_names(value):
            if name not in self.skip:
                kind = "Attr" if not is_slot(type(value), name) else "Slot"
                self.optional(value, name, (*path, (kind, name)))

    def optional(self, value: object, name: str, path: Path) -> None:
        """An attribute that may be missing: then that is the fact."""
        try:
            attribute = object.__getattribute__(value, name)
        except AttributeError:
            self.add(path, "Absent")
        else:
            self.walk(attribute, path)

    def method(self, name: str, value: object, path: Path) -> None:
        """A method looked up on the class, unless the instance hides it."""
        if hasattr(type(value), name):
            own = own_method(value, name)
            self.add((*path, ("Attr", name)), *(("Absent",) if own is None else ("Identity", own)))
            self.type_attributes(type(value))

    def type_attributes(self, cls: type) -> None:
        if cls in self.seen_types or cls.__flags__ & (1 << 9) == 0:  # heap types only
            return
        self.seen_types.add(cls)
        for name in ("f", "forward", "K", "cfg"):
            path = (("Pinned", cls), ("TypeAttr", name))
            for base in cls.__mro__:
                if name in base.__dict__:
                    self.walk(base.__dict__[name], path)
                    break
            else:
                self.add(path, "Absent")

    def module(self, value: nn.Module, path: Path) -> None:
        self.add(path, "Type", type(value))
        self.type_attributes(type(value))
        attributes = value.__dict__
        hides = "forward" in attributes
        self.add((*path, ("Attr", "forward")), *(("Identity", attributes["forward"]) if hides else ("Absent",)))
        for name in module_names(value):
            if name not in self.skip:
                self.walk(attributes[name], (*path, ("Attr", name)))


def module_names(value: nn.Module) -> list[str]:
    own = [n for n in value.__dict__ if not n.startswith("_") and n != "forward"]
    return [*(n for n in (*MODULE_TABLES, *HOOK_TABLES) if n in value.__dict__), *sorted(own)]


def attribute_names(value: object) -> list[str]:
    """Names a program asks an instance for, whether they are there or not; does not make the instance dict."""
    return list(getattr(type(value), "NAMES", ()))


def is_slot(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), types.MemberDescriptorType)


def content(value: Any, skip: tuple[str, ...] = ()) -> object:
    """A value that is equal exactly if all facts that Facts.walk records hold."""
    again = functools.partial(content, skip=skip)
    if is_leaf(value):
        return leaf(value)
    if isinstance(value, torch.Tensor):
        return tensor_content(value)
    if isinstance(value, type):
        return (id(value), class_content(value, again))
    if isinstance(value, (list, tuple)):
        return (type(value), [again(v) for v in value])
    if isinstance(value, dict):
        factory = again(value.default_factory) if isinstance(value, collections.defaultdict) else None
        return (type(value), [(leaf(k), again(v)) for k, v in value.items()], factory)
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(map(leaf, value)))
    if isinstance(value, nn.Module):
        hidden = id(value.__dict__["forward"]) if "forward" in value.__dict__ else None
        rows = [(n, again(value.__dict__[n])) for n in module_names(value) if n not in skip]
        return (type(value), class_content(type(value), again), hidden, rows)
    return other_content(value, again, skip)


def leaf(value: Any) -> object:
    if type(value) is float:
        return ("float", struct.pack("d", value))
    if type(value) is complex:
        return ("complex", struct.pack("dd", value.real, value.imag))
    if type(value) is tuple:
        return ("tuple", tuple(leaf(v) for v in value))
    if type(value) is frozenset:
        return ("frozenset", tuple(sorted(map(leaf, value))))
    return (type(value).__name__, repr(value))


def tensor_content(value: torch.Tensor) -> object:
    return (
        type(value),
        value.dtype,
        str(value.device),
        value.requires_grad,
        value.is_leaf,
        value.is_inference(),
        (value.layout, value.is_neg(), value.is_conj()),
        tuple(value.shape),
        value.stride() if value.layout is torch.strided else None,
    )


def class_content(cls: type, again: Any) -> object:
    def found(name: str) -> object:
        for base in cls.__mro__:
            if name in base.__dict__:
                return again(base.__dict__[name])
        return "absent"

    return [found(n) for n in ("f", "forward", "K", "cfg")] if cls.__flags__ & (1 << 9) else None


def other_content(value: Any, again: Any, skip: tuple[str, ...]) -> object:
    match value:
        case types.FunctionType():
            cells = [cell_content(c, again) for c in value.__closure__ or ()]
            return (id(value.__code__), again(value.__defaults__), again(value.__kwdefaults__), cells)
        case types.MethodType():
            return ("method", again(value.__func__), again(value.__self__))
        case types.BuiltinFunctionType() | types.ModuleType():
            return id(value)
        case functools.partial():
            return (type(value), again(value.func), again(value.args), again(value.keywords))
        case collections.deque():
            return (type(value), [again(v) for v in value])
        case types.MappingProxyType():
            return (type(value), again(dict(value)))
        case weakref.ref():
            return (type(value), again(value()))
    rows = []
    for name in attribute_names(value):
        if name not in skip:
            try:
                rows.append((name, again(object.__getattribute__(value, name))))
            except AttributeError:
                rows.append((name, "absent"))
    hides = id(own_method(value, "f")) if hasattr(type(value), "f") else None
    return (type(value), class_content(type(value), again), hides, rows)


def own_method(value: object, name: str) -> object:
    """What the instance itself has under the name of a method, or None; does not make the instance dict."""
    found = object.__getattribute__(value, name)
    bound = isinstance(found, types.MethodType) and found.__self__ is value
    return None if bound else found


def cell_content(cell: types.CellType, again: Any) -> object:
    try:
        return again(cell.cell_contents)
    except ValueError:
        return "empty"


class SetHead(ctypes.Structure):
    """How CPython 3.11 begins a set."""

    _fields_ = [
        ("head", ctypes.c_ssize_t * 2),
        ("fill", ctypes.c_ssize_t),
        ("used", ctypes.c_ssize_t),
        ("mask", ctypes.c_ssize_t),
        ("table", ctypes.POINTER(ctypes.c_ssize_t)),
    ]


def table_of(numbers: set[int]) -> object:
    """The places of a set of small ints, which are their own hashes: also those that were left."""
    head = SetHead.from_address(id(numbers))
    return head.fill, head.used, [head.table[2 * i + 1] for i in range(head.mask + 1)]


def evaluate(path: Path, locals_: dict[str, Any]) -> Any:
    """Reads a path as Python does; for objects without properties this is what the source reads."""
    value: Any = None
    for kind, *key in path:
        match kind:
            case "Local":
                value = locals_[key[0]]
            case "Pinned":
                value = key[0]
            case "Attr" | "Slot":
                value = object.__getattribute__(value, key[0])
            case "TypeAttr":
                value = next(b.__dict__[key[0]] for b in value.__mro__ if key[0] in b.__dict__)
            case "Item" | "Value" | "DequeItem":
                value = value[key[0]]
            case "Closure":
                value = value.__closure__[key[0]]
            case _:
                value = FIELDS[kind](value)
    return value


FIELDS: dict[str, Any] = {
    "Contents": lambda v: v.cell_contents,
    "Globals": lambda v: v.__globals__,
    "Defaults": lambda v: v.__defaults__,
    "KwDefaults": lambda v: v.__kwdefaults__,
    "MethodSelf": lambda v: v.__self__,
    "MethodFunc": lambda v: v.__func__,
    "PartialFunc": lambda v: v.func,
    "PartialArgs": lambda v: v.args,
    "PartialKw": lambda v: v.keywords,
    "DefaultFactory": lambda v: v.default_factory,
    "ProxyMapping": lambda v: v,
    "WeakTarget": lambda v: v(),
    "Grad": lambda v: v.grad,
}


def plan_for(value: Any, name: str = "x", skip: tuple[str, ...] = ()) -> Any:
    """A plan with everything about one local variable."""
    facts = Facts(name, skip=skip)
    facts.walk(value, (("Local", name),))
    return facts.plan()
