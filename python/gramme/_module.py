"""Compiled modules, the results of gramme.compile for a torch.nn.Module."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Sized
from typing import Any, cast

import torch
from torch.nn.modules import module as torch_module

from . import _C
from ._options import Options, aot_compile
from ._torch import names

_OWN_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
)
_OWN_ATTRIBUTES = frozenset(
    {
        "_orig_mod",
        "_gramme_entry",
        "_gramme_options",
        "_gramme_ready",
        "_is_full_backward_hook",
        "_torchdynamo_orig_callable",
        "_torchdynamo_wrapper_id",
        "forward",
        "__dict__",
    }
)


def _is_lazy(module: torch.nn.Module) -> bool:
    return hasattr(module, "_initialize_hook") and callable(getattr(module, "_infer_parameters", None))


def _compiled_forward(entry: _C.Entry, module: torch.nn.Module) -> types.FunctionType:
    """A plain function, as in PyTorch: for wrappers of others it has no `__func__` that could be bound again."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return entry(module, *args, **kwargs)

    marks = ("__script_if_tracing_wrapper", "__original_fn")  # which function the entry is of, without the module
    forward.__dict__.update({name: value for name, value in entry.__dict__.items() if name not in marks})
    functools.update_wrapper(forward, module.__call__)
    forward._gramme_entry = entry  # type: ignore[attr-defined]
    return cast(types.FunctionType, forward)


class OptimizedModule(_C.ModuleCall, torch.nn.Module):
    """A compiled module; behaves as `torch.compile`'s class of the same name.

    Attributes, parameters and the training flag are those of the module it was made of, `_orig_mod`; keys of its
    state_dict begin with `_orig_mod.`; hooks registered on it run around the compiled call. Copies and pickles hold the
    module and the options and capture anew.

    Example:
        >>> import torch, gramme
        >>> compiled = gramme.compile(torch.nn.Linear(2, 3), backend="eager")
        >>> compiled(torch.ones(1, 2)).shape, compiled.out_features
        (torch.Size([1, 3]), 3)

    """

    _orig_mod: torch.nn.Module
    _gramme_options: Options

    def __init__(self, module: torch.nn.Module, options: Options) -> None:
        self.__dict__["_gramme_ready"] = False  # module classes may look at attributes in Module.__init__
        self.__dict__["_orig_mod"] = module
        torch.nn.Module.__init__(self)
        del self.__dict__["_orig_mod"]
        self._modules["_orig_mod"] = module
        self.__dict__["_gramme_options"] = options
        self.__dict__["_torchdynamo_orig_callable"] = module.forward
        self.__dict__["_torchdynamo_wrapper_id"] = id(self)
        self.__dict__["_gramme_ready"] = True
        self._install()

    def _install(self) -> None:
        """Make the entry and let calls go straight to it."""
        module = self._orig_mod
        entry = self._gramme_options.entry(cast(types.FunctionType, type(module).__call__))
        self.__dict__["_gramme_entry"] = entry
        self.__dict__["forward"] = _compiled_forward(entry, module)
        hooks = [self.__dict__[name] for name in _OWN_HOOKS] + [getattr(torch_module, name) for name in _GLOBAL_HOOKS]
        self._connect(None if _is_lazy(module) else entry, module, tuple(hooks))

    def _call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """The call if it cannot go straight to the entry: with hooks, a lazy module, or a replaced `forward`."""
        if torch_module._has_any_global_hook():  # type: ignore[no-untyped-call]
            warnings.warn(
                "a compiled module is called while there are global module hooks: they run for it too, "
                "once more than for the module itself; module.compile() or hooks of the module avoid that",
                stacklevel=2,
            )
        module = self._orig_mod
        if _is_lazy(module):
            cast(Any, module)._infer_parameters(module, args, kwargs)
            self._install()
        return torch.nn.Module.__call__(self, *args, **kwargs)

    @property
    def __class__(self) -> type:
        """The class, by which libraries find `_orig_mod`: once PyTorch's OptimizedModule is there, a subclass of both.

        It can be set, as for any module, to a class made from what it or `type()` says.
        """
        return _of_both(type(self)) if type(self) is OptimizedModule else type(self)

    @__class__.setter
    def __class__(self, value: type) -> None:
        own = _of_both(OptimizedModule) if value is _their_class() else value
        _set_class(self, own)

    @property
    def dynamo_ctx(self) -> Options:
        """Compiles callables with the module's options."""
        return self._gramme_options

    def get_compiler_config(self) -> Any:
        """The backend's settings; None if it has none."""
        return self._gramme_options.compiler_config()

    def aot_compile(self, *args: Any, **kwargs: Any) -> Any:
        """Is not supported: NotImplementedError."""
        return aot_compile(*args, **kwargs)

    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._gramme_ready:  # Module.__init__ sets it
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        if name == "__signature__":  # its call is in C
            return inspect.signature(self._orig_mod.forward)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN_ATTRIBUTES or hasattr(type(self), name):
            torch.nn.Module.__setattr__(self, name, value)
            if name == "forward":
                self._connect(None, self._orig_mod, ())
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN_ATTRIBUTES or hasattr(type(self), name):
            torch.nn.Module.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        inherited = list(self._orig_mod.__dir__())  # type: ignore[no-untyped-call]
        own: list[str] = torch.nn.Module.__dir__(self)  # type: ignore[no-untyped-call]
        return inherited + [name for name in own if name not in inherited]

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self)
        plain = cls is OptimizedModule or cls is _of_both(OptimizedModule)
        return OptimizedModule if plain else cls, (self._orig_mod, self._gramme_options)

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies: everything except the entry."""
        return {name: value for name, value in self.__dict__.items() if name not in ("forward", "_gramme_entry")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._install()


def _call_in_python(self: OptimizedModule, *args: Any, **kwargs: Any) -> Any:
    """The call of any module, with hooks; `forward` is the compiled call of the wrapped module."""
    return torch.nn.Module.__call__(self, *args, **kwargs)


OptimizedModule._tell_call(_call_in_python)

_set_class = object.__dict__["__class__"].__set__


def _their_class() -> type | None:
    """PyTorch's OptimizedModule if it is loaded; loading it takes more than a second."""
    return getattr(names.loaded(names.DYNAMO_EVAL_FRAME), "OptimizedModule", None)


@functools.cache
def _joined(own: type, theirs: type) -> type:
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, theirs), names)


def _of_both(own: type) -> type:
    """A subclass of this class and of PyTorch's, with the same layout of instances."""
    theirs = _their_class()
    return own if theirs is None else _joined(own, theirs)
