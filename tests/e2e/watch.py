"""A compiled function of which each call says whether it shall be a hit."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from e2e.describe import describe, describe_copies
from e2e.front import Compiled


class Watch:
    """A compiled function of which each call says whether it shall be a hit."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.compiled = Compiled(function, **options)

    def miss(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(True, args, kwargs)

    def hit(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(False, args, kwargs)

    def _call(self, captures: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        eager_args, eager_kwargs = copy.deepcopy((args, kwargs)) if self._writes() else (args, kwargs)
        eager = self.function(*eager_args, **eager_kwargs)
        before, hits = self.compiled.captures, self.compiled.hits
        result = self.compiled(*args, **kwargs)
        text = describe_copies if self._writes() else describe
        assert text(result=result, args=args) == text(result=eager, args=eager_args)
        if captures:
            assert self.compiled.captures > before, "a stale hit"
        else:
            assert self.compiled.captures == before, "captured again"
            assert hits is None or self.compiled.hits == hits + 1
        return result

    def _writes(self) -> bool:
        return getattr(self.function, "writes", False)


def x(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape or (4,)).numel()).view(shape or (4,))
