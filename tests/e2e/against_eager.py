"""Small programs under the backends that are to equal eager: results, state, exceptions."""

from collections.abc import Callable
from typing import Any

import gramme
import torch

BACKENDS = ("eager", "native", "aot_eager")


def outcome(call: Callable[[], Any]) -> str:
    """What a call gives or raises, tensors by class and content."""
    try:
        return _text(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return f"{type(value).__name__} {value.dtype} {value.tolist()} {value.requires_grad}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(_text(item) for item in value)})"
    return f"{type(value).__name__} {value!r}"


def assert_same(
    function: Callable[..., Any], *calls: Callable[[], tuple[Any, ...]], backends: tuple[str, ...] = BACKENDS
) -> None:
    """One compiled function for all calls, each of which is made twice."""
    for backend in backends:
        compiled = gramme.compile(function, backend=backend)
        for make in calls:
            for repeat in range(2):
                expected, found = outcome(lambda: function(*make())), outcome(lambda: compiled(*make()))  # noqa: B023
                assert found == expected, f"{backend}, repeat {repeat}"
