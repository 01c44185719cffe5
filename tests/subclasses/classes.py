"""The classes that the programs use."""

from typing import Any

import torch
from torch.utils import _pytree as pytree

LOG: list[str] = []


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", "") or str(getattr(function, "__name__", function))


class Carrying(torch.Tensor):
    """Results take the attributes of the first argument."""

    meta: dict[str, Any]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Carrying) and result is not args[0]:
            result.meta = dict(args[0].meta) if hasattr(args[0], "meta") else {}
        return result


class Logged(torch.Tensor):
    """Tells what it is asked for, of which classes."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append(f"{cls.__name__} {name_of(func)} {[t.__name__ for t in types]} {len(args)} {sorted(kwargs or {})}")
        return super().__torch_function__(func, types, args, kwargs or {})


class Inheriting(torch.Tensor):
    """PyTorch's own handler: tensors that come out get the class."""

    @property
    def rows(self) -> int:
        return self.shape[0]


class Off(torch.Tensor):
    """No handler: what comes out is plain."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Tagged(torch.Tensor):
    """Made with a tag, which results keep; a property, a method and a constant of the class."""

    tag: str
    kind = "tagged"
    asked = 0

    def __new__(cls, data: Any, tag: str = "new") -> Any:
        made = torch.as_tensor(data).as_subclass(cls)
        made.tag = tag
        return made

    def __init__(self, data: Any, tag: str = "new") -> None:
        pass

    @property
    def loud(self) -> str:
        return self.tag.upper()

    def scaled(self, by: float) -> Any:
        return (self * by).retagged(f"{self.tag} by {by}")

    def retagged(self, tag: str) -> Any:
        self.tag = tag
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Tagged.asked += 1
        tags = [a.tag for a in args if isinstance(a, Tagged) and hasattr(a, "tag")]
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if type(result) is torch.Tensor:
            result = result.as_subclass(cls)
            result.tag = "+".join(tags)
        return result


class Child(Tagged):
    """Asked before its base."""

    kind = "child"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append(f"child {name_of(func)}")
        return super().__torch_function__(func, types, args, kwargs)


class Unwrapping(torch.Tensor):
    """Plain results but for two functions, as images of torchvision have it."""

    KEPT = (torch.Tensor.clone, torch.Tensor.to)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs or {})
        if func in cls.KEPT:
            return result.as_subclass(cls)
        return result.as_subclass(torch.Tensor) if isinstance(result, cls) else result


class Modest(torch.Tensor):
    """Leaves to others whatever it is not alone in."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append(f"modest {name_of(func)}")
        if any(t is not cls for t in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})


class Answering(torch.Tensor):
    """Answers for itself, and changes what it is given."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sum:
            return "a sum"
        if func is torch.Tensor.mul:
            func = torch.Tensor.add
        return super().__torch_function__(func, types, args, kwargs or {})


def tagged(*shape: int, tag: str = "x") -> Any:
    return Tagged(numbers(*shape), tag)


def carrying(*shape: int, **meta: Any) -> Any:
    made = numbers(*shape).as_subclass(Carrying)
    made.meta = meta
    return made


def numbers(*shape: int) -> torch.Tensor:
    """0.5, 1, 1.5 … in the shape; four of them without one."""
    size = torch.Size(shape or (4,))
    return torch.arange(1.0, 1 + size.numel()).view(size) / 2


class One(torch.Tensor):
    """Wraps one tensor. A subclass has a `__torch_dispatch__`."""

    inside: torch.Tensor

    def __new__(cls, inside: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype, device=inside.device)

    def __init__(self, inside: torch.Tensor) -> None:
        self.inside = inside

    def __repr__(self, **_: Any) -> str:
        return type(self).__name__

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inside"], None

    @classmethod
    def __tensor_unflatten__(cls, parts: dict[str, torch.Tensor], context: None, size: Any, stride: Any) -> Any:
        return cls(parts["inside"])


class Two(torch.Tensor):
    """Two tensors, to both of which everything is done."""

    a: torch.Tensor
    b: torch.Tensor

    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls, a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.size(),
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            dtype=a.dtype,
            layout=a.layout,
            device=a.device,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a: torch.Tensor, b: torch.Tensor) -> None:
        self.a, self.b = a, b

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first = func(
            *pytree.tree_map_only(Two, lambda t: t.a, args), **pytree.tree_map_only(Two, lambda t: t.a, kwargs)
        )
        other = func(
            *pytree.tree_map_only(Two, lambda t: t.b, args), **pytree.tree_map_only(Two, lambda t: t.b, kwargs)
        )
        flat, spec = pytree.tree_flatten(first)
        pairs = zip(flat, pytree.tree_leaves(other), strict=True)
        made = [Two(a, b) if isinstance(a, torch.Tensor) else a for a, b in pairs]
        result = pytree.tree_unflatten(made, spec)
        return torch.utils._python_dispatch.return_and_correct_aliasing(func, args, kwargs, result)


class Scaled(torch.Tensor):
    """Int8 values and a scale; everything but a few views is done to the floats that they stand for."""

    data8: torch.Tensor
    scale: torch.Tensor

    __repr__ = object.__repr__  # PyTorch's logs print fakes of it

    @staticmethod
    def __new__(cls, data8: torch.Tensor, scale: torch.Tensor, note: str = "") -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, data8.size(), strides=data8.stride(), dtype=scale.dtype, device=data8.device
        )

    def __init__(self, data8: torch.Tensor, scale: torch.Tensor, note: str = "") -> None:
        self.data8, self.scale, self.note = data8, scale, note

    @classmethod
    def of(cls, data: torch.Tensor, note: str = "") -> Any:
        scale = data.abs().amax() / 127
        return cls((data / scale).round().to(torch.int8), scale, note)

    def floats(self) -> torch.Tensor:
        return self.data8.to(self.scale.dtype) * self.scale

    def __tensor_flatten__(self) -> Any:
        return ["data8", "scale"], (self.note,)

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["data8"], inner["scale"], *context)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func in (aten.t.default, aten.detach.default, aten.clone.default, aten.alias.default):
            self = args[0]
            result = cls(func(self.data8), func(self.scale) if func is not aten.t.default else self.scale, self.note)
            return torch.utils._python_dispatch.return_and_correct_aliasing(func, args, kwargs or {}, result)
        plain = pytree.tree_map_only(Scaled, Scaled.floats, (args, kwargs or {}))
        return func(*plain[0], **plain[1])


def two(*shape: int, grad: bool = False) -> Any:
    return Two(numbers(*shape), numbers(*shape) + 1).requires_grad_(grad)
