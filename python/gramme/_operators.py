"""Decides whether an operator written in Python (torch.library.custom_op) depends only on its arguments."""

from __future__ import annotations

import builtins
import itertools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _C
from ._torch import names

__all__ = ["is_self_contained"]

# Instructions that move values between arguments, locals and the stack, compute with them, or jump.
_INSTRUCTIONS = frozenset(
    """RESUME NOP UNREACHED LOAD_CONST LOAD_SMALL_INT LOAD_COMMON_CONSTANT LOAD_FAST STORE_FAST DELETE_FAST
    LOAD_FAST_AND_CLEAR LOAD_GLOBAL LOAD_ATTR LOAD_METHOD PUSH_NULL POP_TOP COPY SWAP CALL CALL_KW CALL_FUNCTION_EX
    RETURN_VALUE BINARY_OP BINARY_SUBSCR STORE_SUBSCR BINARY_SLICE STORE_SLICE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT
    UNARY_POSITIVE TO_BOOL COMPARE_OP IS_OP CONTAINS_OP BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP BUILD_SLICE
    BUILD_STRING FORMAT_VALUE CONVERT_VALUE LIST_EXTEND LIST_APPEND LIST_TO_TUPLE DICT_MERGE UNPACK_SEQUENCE GET_ITER
    FOR_ITER GET_ITER_PAIR FOR_ITER_PAIR POP_ITER_PAIR JUMP_FORWARD JUMP_BACKWARD JUMP_IF_TRUE_OR_POP
    JUMP_IF_FALSE_OR_POP POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE RAISE_VARARGS RERAISE
    """.split()  # noqa: SIM905
)
_BUILTINS = frozenset(
    """range len zip enumerate reversed int float bool min max sum abs tuple list isinstance
    ValueError TypeError RuntimeError IndexError NotImplementedError""".split()  # noqa: SIM905
)
_REGISTRATIONS = frozenset(("CompositeExplicitAutograd", "Autograd", "ADInplaceOrView", "Meta"))


def _draws(packet: Any) -> bool:
    """Whether the operator draws random numbers."""
    import torch

    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in packet.overloads())


def _is_operator(value: Any) -> bool:
    """Whether it is an operator that depends only on its arguments."""
    import torch

    if isinstance(value, names.OpOverload):
        value = value.overloadpacket
    if isinstance(value, names.OpOverloadPacket):
        name = value._qualified_op_name
        return not _draws(value) if name.startswith("aten::") else is_self_contained(name)
    name = getattr(value, "__name__", "")
    function = isinstance(value, types.BuiltinFunctionType) and getattr(names.VariableFunctions, name, None) is value
    packet = getattr(torch.ops.aten, name, None) if function else None
    return packet is not None and not _draws(packet)


def _names_of_torch(attributes: Iterable[str]) -> bool:
    """Whether the chain of attributes leads from PyTorch to an operator or a constant."""
    import torch

    value: Any = torch
    for attribute in attributes:
        value = getattr(value, attribute, None)
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format) or _is_operator(value):
            return True
    return False


def _is_known(instructions: Sequence[tuple[str, Any]], function: types.FunctionType) -> bool:
    """Whether the first instruction names an operator of PyTorch, or a builtin that depends only on its arguments."""
    name = instructions[0][1]
    if name in function.__globals__:
        attributes = itertools.takewhile(lambda i: i[0] in ("LOAD_ATTR", "LOAD_METHOD"), instructions[1:])
        value = function.__globals__[name]
        of_torch = isinstance(value, types.ModuleType) and value.__name__ == "torch"
        return of_torch and _names_of_torch(attribute for _, attribute in attributes)
    return name in _BUILTINS and hasattr(builtins, name)


def _sees_only_its_arguments(function: Callable[..., Any] | None, context: bool = False) -> bool:
    """Whether the function names nothing else; `context`: its first argument is a new object, which it may write to."""
    if function is None:
        return True
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return False
    instructions = _C.instructions(function.__code__)
    own = function.__code__.co_varnames[0] if context and function.__code__.co_argcount else None
    if any(name in ("STORE_FAST", "LOAD_FAST_AND_CLEAR") and operand == own for name, operand in instructions):
        own = None
    for at, (name, _) in enumerate(instructions):
        before = instructions[at - 1] if at else None
        if name == "STORE_ATTR":
            if own is None or before != ("LOAD_FAST", own):
                return False
        elif name not in _INSTRUCTIONS:
            return False
        if name == "LOAD_GLOBAL" and not _is_known(instructions[at:], function):
            return False
    return True


def is_self_contained(name: str) -> bool:
    """Whether the custom operator reads and writes nothing but its arguments.

    Its code is looked through: arguments, locals, PyTorch's functions and a few builtins are all that it may name. What
    the program has written then makes no difference to it, nor does it change what the program reads.

    Args:
        name: namespace and name, `"namespace::name"`.

    Returns:
        False also for what is not known: kernels registered in another way than by `torch.library.custom_op`.

    Example:
        >>> is_self_contained("aten::add")
        False
    """
    from ._torch.names import OPDEFS

    definition = OPDEFS.get(name)
    if definition is None or set(definition._backend_fns) != {None} or definition._torch_dispatch_fns:
        return False
    prefix = name.replace("::", "/") + "/"
    registered = {key.removeprefix(prefix) for key in names.python_kernels if key.startswith(prefix)}
    functions = (definition._init_fn, definition._backward_fn, definition._vmap_fn)
    return (
        registered <= _REGISTRATIONS
        and all(_sees_only_its_arguments(function) for function in functions)
        and _sees_only_its_arguments(definition._setup_context_fn, context=True)
    )
