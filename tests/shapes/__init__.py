"""Programs called with varying sizes, each with the most captures that it may cost."""

import inspect
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SMALL = 40
LARGE = (64, 127, 512)
EVERY_SIZE = 1_000_000  # a capture for each size, whatever is done


class Tensors:
    """Makes equal tensors each time it is made with one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, dtype=dtype).requires_grad_(grad)

    def ints(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, max(high, 1), shape, generator=self.generator)


class Keywords(dict[str, Any]):
    """Last of what a maker of arguments gives: the keyword arguments."""


@dataclass(frozen=True)
class Program:
    """A function and what makes its arguments for given sizes.

    Attributes:
        function: called with the arguments; if `fresh`, called without any to make what is called.
        make: takes Tensors and one to three sizes.
        limit: captures that any number of calls may cost, those for a size of 0 not counted.
        why: why the limit is not the usual three (static, dynamic, and one for a size of 1 or less dims varying).
        low, high: sizes that make sense.
        backward: compare gradients too.
        plain: why calls run plainly, if they do.

    """

    function: Callable[..., Any]
    make: Callable[..., tuple[Any, ...]]
    limit: int
    why: str
    low: int
    high: int
    backward: bool
    fresh: bool
    plain: str

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    @property
    def arity(self) -> int:
        return len(inspect.signature(self.make).parameters) - 1

    def callable(self) -> Any:
        torch.manual_seed(0)
        return self.function() if self.fresh else self.function

    def arguments(self, seed: int, sizes: tuple[int, ...]) -> tuple[list[Any], dict[str, Any]]:
        args = list(self.make(Tensors(seed), *sizes))
        return (args[:-1], args[-1]) if args and isinstance(args[-1], Keywords) else (args, {})

    def allowed(self, calls: list[tuple[int, ...]]) -> int:
        """The limit, and one more for each place of a 0 among the sizes."""
        return self.limit + len({tuple(n == 0 for n in sizes) for sizes in calls if 0 in sizes})

    def calls(self, count: int) -> list[tuple[int, ...]]:
        """Sizes of `count` calls: one 0, one 1 and one large among them, in a random order."""
        chosen = random.Random(zlib.crc32(self.name.encode()))
        special = [n for n in (0, 1) if n >= self.low]
        special += [chosen.choice([n for n in LARGE if n <= self.high] or [self.high])]
        calls = [self._others(chosen) for _ in range(count)]
        for sizes, n in zip(calls, special, strict=False):
            sizes[chosen.randrange(self.arity)] = n
        chosen.shuffle(calls)
        return [tuple(sizes) for sizes in calls]

    def all_calls(self) -> list[tuple[int, ...]]:
        """Each size in each place, in a random order."""
        chosen = random.Random(zlib.crc32(self.name.encode()))
        calls = []
        for place in range(self.arity):
            for n in [*range(self.low, SMALL + 1), *(n for n in LARGE if n <= self.high)]:
                sizes = self._others(chosen)
                sizes[place] = n
                calls.append(tuple(sizes))
        chosen.shuffle(calls)
        return calls

    def _others(self, chosen: random.Random) -> list[int]:
        return [chosen.randint(max(self.low, 2), min(SMALL, self.high)) for _ in range(self.arity)]


PROGRAMS: list[Program] = []


def program(
    make: Callable[..., tuple[Any, ...]],
    *,
    limit: int = 3,
    why: str = "",
    low: int = 0,
    high: int = 127,
    backward: bool = False,
    fresh: bool = False,
    plain: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function to the programs; the first argument makes the tuple of its arguments."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        assert limit == 3 or why, f"{function.__name__}: why {limit}?"
        PROGRAMS.append(Program(function, make, limit, why, low, high, backward, fresh, plain))
        return function

    return add
