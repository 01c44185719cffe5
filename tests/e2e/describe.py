"""Objects as text, so that two runs compare line by line: structure, types, bits, identities and shared storage."""

import collections
import dataclasses
import enum
import hashlib
import random
import types
import weakref
from typing import Any

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

ATOMS = (type(None), bool, int, complex, str, bytes, bytearray, range, type(Ellipsis), type(NotImplemented))
TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
MAX_DRAINED = 20


def describe(**roots: Any) -> str:
    """All that is reachable from the roots; an object met a second time is named by its number."""
    return "\n".join(_Describer().roots(roots))


def describe_copies(**roots: Any) -> str:
    """The same without what a copy of a tensor does not share: its version, its hooks, whether it is a view."""
    return "\n".join(_Describer(own_state=False).roots(roots))


class _Describer:
    def __init__(self, own_state: bool = True) -> None:
        self.own_state = own_state
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []
        self.storages: dict[int, int] = {}
        self.lines: list[str] = []

    def roots(self, roots: dict[str, Any]) -> list[str]:
        for name, value in roots.items():
            self.put(name, value, 0)
        return self.lines

    def put(self, label: str, value: Any, depth: int) -> None:
        start = "  " * depth + f"{label}: "
        leaf = self.leaf(value)
        if leaf is not None:
            self.lines.append(start + leaf)
            return
        known = self.numbers.get(id(value))
        if known is not None:
            self.lines.append(start + f"same as #{known}")
            return
        number = ""
        if not _is_plain_tuple(value):
            self.numbers[id(value)] = len(self.numbers)
            self.alive.append(value)
            number = f" #{len(self.numbers) - 1}"
        head, parts = self.parts(value)
        self.lines.append(start + head + number)
        for name, part in parts:
            self.put(name, part, depth + 1)

    def leaf(self, value: Any) -> str | None:
        if isinstance(value, float) and type(value) is float:
            return value.hex()
        if isinstance(value, enum.Enum):
            return str(value)
        if type(value) in ATOMS or isinstance(value, TORCH_ATOMS):
            return repr(value)
        if isinstance(value, types.ModuleType | types.BuiltinFunctionType | types.CodeType):
            return (
                f"{type(value).__name__} {value.__name__ if not isinstance(value, types.CodeType) else value.co_name}"
            )
        if isinstance(value, type) and "<locals>" not in value.__qualname__ and value.__name__ != "Made":
            return f"class {value.__qualname__}"
        if isinstance(value, types.FunctionType) and "<locals>" not in value.__qualname__:
            return f"function {value.__qualname__}"
        return self.stateful_leaf(value)

    def stateful_leaf(self, value: Any) -> str | None:
        """Objects in C of which a line says all that can change."""
        if isinstance(value, random.Random):
            return f"Random {_digest(value.getstate())}"
        if isinstance(value, np.random.Generator):
            return f"numpy Generator {_digest(value.bit_generator.state)}"
        if isinstance(value, torch.Generator):
            return f"torch Generator {_digest(value.get_state().tolist())}"
        if isinstance(value, RemovableHandle):
            hooks = value.hooks_dict_ref() if hasattr(value, "hooks_dict_ref") else None  # Dynamo makes it without
            return f"handle {'live' if hooks is not None and value.id in hooks else 'removed'}"
        if isinstance(value, weakref.ref):
            return f"weakref {'live' if value() is not None else 'dead'}"
        return None

    def parts(self, value: Any) -> tuple[str, list[tuple[str, Any]]]:
        kind = type(value)
        name = kind.__qualname__
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, types.FunctionType):
            return f"function {value.__qualname__}", [
                ("defaults", value.__defaults__),
                ("keyword defaults", value.__kwdefaults__),
                *(
                    (f"cell {n}", _content(c))
                    for n, c in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
                ),
                *value.__dict__.items(),
            ]
        if isinstance(value, types.MethodType):
            return "bound method", [("function", value.__func__), ("self", value.__self__)]
        if isinstance(value, type):
            shown = {k: v for k, v in vars(value).items() if k not in ("__dict__", "__weakref__", "__module__")}
            return f"class {value.__qualname__}", [("bases", value.__bases__), *shown.items()]
        if isinstance(value, BaseException):
            return f"exception {name}", [
                ("args", value.args),
                ("cause", value.__cause__),
                ("context", value.__context__),
                *vars(value).items(),
            ]
        parts: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            ordered = isinstance(value, collections.OrderedDict)
            for i, (k, v) in enumerate((collections.OrderedDict if ordered else dict).items(value)):
                key = self.leaf(k)
                if key is None:
                    parts.append((f"key {i}", k))
                    key = str(i)
                parts.append((f"[{key}]", v))
            if isinstance(value, collections.defaultdict):
                parts.append(("factory", value.default_factory))
        elif isinstance(value, list | tuple | collections.deque):
            parts += [(str(i), v) for i, v in enumerate(kind.__iter__(value))]
            if isinstance(value, collections.deque):
                parts.append(("maxlen", value.maxlen))
        elif isinstance(value, set | frozenset):
            members = list(kind.__iter__(value))
            if any(self.leaf(v) is None for v in members):  # by address: no order to compare
                members.sort(key=lambda v: self.leaf(v) or type(v).__name__)
            parts += [("member", v) for v in members]
        elif isinstance(value, types.GeneratorType):
            return f"generator {value.__qualname__}", _drained(value)
        elif hasattr(kind, "__next__") and kind.__module__ in ("builtins", "itertools"):
            return f"iterator {name}", _drained(value)
        elif isinstance(value, slice):
            parts += [("start", value.start), ("stop", value.stop), ("step", value.step)]
        elif isinstance(value, types.MappingProxyType):
            parts += [(str(k), v) for k, v in value.items()]
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot not in ("__dict__", "__weakref__"):
                    try:
                        parts.append((f".{slot}", object.__getattribute__(value, slot)))
                    except AttributeError:
                        parts.append((f".{slot}", "unset"))
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = {}
        parts += [(f".{k}", v) for k, v in own.items()]
        if dataclasses.is_dataclass(value):
            name += " (dataclass)"
        return name, parts

    def tensor(self, t: torch.Tensor) -> tuple[str, list[tuple[str, Any]]]:
        bare = t.detach() if t.requires_grad else t
        storage = bare.untyped_storage()
        address = storage._cdata
        if address not in self.storages:
            self.storages[address] = len(self.storages)
            self.alive.append(storage)
        facts = [
            type(t).__qualname__,
            str(t.dtype).removeprefix("torch."),
            str(list(t.shape)),
            f"stride {list(t.stride())}",
            f"offset {t.storage_offset()}",
            f"storage {self.storages[address]}",
        ]
        if t.device.type != "cpu":
            facts.append(str(t.device))
        if t.requires_grad:
            facts.append(f"requires grad, {t.grad_fn.name() if t.grad_fn is not None else 'leaf'}")
        if t.is_inference():
            facts.append("inference")
        facts += _own_state(t) if self.own_state else []
        if t.is_conj() or t.is_neg():
            facts.append(f"conj {t.is_conj()} neg {t.is_neg()}")
        if t.device.type == "meta":
            return " ".join(facts), []
        # float64 holds every smaller float, and its repr tells -0.0; NaN payloads are not compared.
        values = bare.resolve_conj().resolve_neg()
        facts.append(str((values.double() if values.dtype == torch.bfloat16 else values).tolist()))
        parts = [(f".{k}", v) for k, v in vars(t).items() if not k.startswith("_dynamo")]
        if (t.is_leaf or t.retains_grad) and t.grad is not None:
            parts.append((".grad", t.grad))
        return " ".join(facts), parts


def _own_state(t: torch.Tensor) -> list[str]:
    hooks, after = t._backward_hooks, t._post_accumulate_grad_hooks
    facts = [] if t.is_inference() else [f"version {t._version}"]
    facts += [f"hooks {len(hooks)}"] if hooks else []
    facts += [f"hooks after accumulation {len(after)}"] if after else []
    facts += ["retains grad"] if t.retains_grad else []
    return facts + (["view"] if t._is_view() else [])


def _digest(state: Any) -> str:
    return hashlib.md5(repr(state).encode()).hexdigest()


def _is_plain_tuple(value: Any) -> bool:
    """Tuples of immutable leaves may be shared or not, as CPython likes."""
    return isinstance(value, tuple | frozenset) and all(
        _is_plain_tuple(v) or not isinstance(v, tuple | list | dict | set | torch.Tensor) for v in value
    )


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "unbound"


def _drained(iterator: Any) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = []
    try:
        for item in iterator:
            parts.append((str(len(parts)), item))
            if len(parts) == MAX_DRAINED:
                break
    except Exception as error:
        parts.append(("raises", repr(error)))
    return parts
