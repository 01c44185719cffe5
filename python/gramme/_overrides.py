"""Finds out for which operands a function calls __torch_function__, by calling it on stand-ins.

question(torch.Tensor.__add__, [tensor(0, 1, torch.float32), 1], {})  # (torch.Tensor.add, (0,))
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["question", "tensor"]


class _Asked(BaseException):  # a BaseException, so that no function of torch handles it
    def __init__(self, function: Callable[..., Any], types: Any) -> None:
        self.function, self.types = function, types


class _Asking(torch.Tensor):
    place: int

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Asked(func, types)


@functools.cache
def _class(place: int) -> type[_Asking]:
    return type(f"_Asking{place}", (_Asking,), {"place": place})


@functools.lru_cache(256)
def tensor(place: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """A stand-in for a tensor of the class with this index, or for a plain tensor if it is -1."""
    made = torch.zeros((1,) * dim, dtype=dtype)
    return made if place < 0 else made.as_subclass(_class(place))


def question(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """The function as passed to handlers, and the indices of the classes that it asks; None if it asks none."""
    try:
        function(*args, **kwargs)
    except _Asked as asked:
        return asked.function, tuple(cls.place for cls in asked.types)
    return None
