"""Small programs over the language and the library, for every test that runs one eagerly and captured.

A program is a function and a maker of its arguments:

    @program("closures", args=lambda t: (t(), [t(2, 3)]))
    def counter(x, rows): ...

The maker gets a `Tensors`, whose `n` is another number when the call shall miss; it makes new, equal objects each time.
Programs with breaks loop `steps` times, which a test raises to see that segments do not multiply.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from device import placed

ON_BREAKS = ("across_breaks", "vmap_breaks")  # side effects where the subject is a break: no one graph is wanted
CATEGORIES = (
    "calls",
    "closures",
    "control",
    "patterns",
    "exceptions",
    "generators",
    "contexts",
    "containers",
    "objects",
    "library",
    "tensors",
    "indexing",
    "inplace",
    "effects",
    "breaks",
    "printed",
    "errors",
    "functorch",
    "modules",
    "module_state",
    "module_hooks",
    "module_layers",
    *ON_BREAKS,
    *sorted(path.stem for path in Path(__file__).parent.glob("fx_*.py")),  # side effects, a file for each family
)


class Tensors:
    """Makes tensors of reproducible values: `t()` has shape (n,), `t(2, 3)` the shape given."""

    def __init__(self, seed: int = 0, n: int = 4, steps: int = 3) -> None:
        self.n = n
        self.steps = steps
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
        values = torch.randn(shape or (self.n,), generator=self._generator)
        return placed(values.to(dtype)).requires_grad_(grad)

    def ints(self, *shape: int, below: int = 10) -> torch.Tensor:
        return placed(torch.randint(below, shape or (self.n,), generator=self._generator))

    def bools(self, *shape: int) -> torch.Tensor:
        return self.ints(*shape, below=2).bool()

    def module(self, make: Callable[[], Any]) -> Any:
        """What `make` returns, its parameters of reproducible values."""
        with torch.random.fork_rng():
            torch.manual_seed(self.n)
            return placed(make())


@dataclass(frozen=True)
class Program:
    name: str
    category: str
    function: Callable[..., Any]
    make_args: Callable[[Tensors], tuple[Any, ...]]
    make_kwargs: Callable[[Tensors], dict[str, Any]]
    one_graph: bool
    """Captured as one graph under fullgraph=True."""
    hits: bool
    """A second call with equal arguments captures nothing."""
    misses: bool
    """A call with another `Tensors.n` captures anew."""
    backward: bool
    """The result's gradients are compared too."""
    setup: Callable[[], object]
    """Called before each run: puts globals back as they were."""
    state: Callable[[], object]
    """What besides the arguments the program writes."""
    why: str
    """Why it is not captured as one graph."""
    known: str
    """The family that PyTorch's front end gets or got wrong to which it belongs."""
    plain: str = ""
    """Why gramme runs the program or a part of it plainly, perhaps with a warning."""


_registry: dict[str, Program] = {}


def program(
    category: str,
    args: Callable[[Tensors], tuple[Any, ...]] = lambda t: (t(),),
    *,
    kwargs: Callable[[Tensors], dict[str, Any]] = lambda t: {},
    one_graph: bool = True,
    hits: bool = True,
    misses: bool = True,
    backward: bool = False,
    setup: Callable[[], object] = lambda: None,
    state: Callable[[], object] = lambda: None,
    why: str = "",
    known: str = "",
    plain: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function. One that says why is not captured as one graph."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert category in CATEGORIES, category
        assert name not in _registry, f"two programs named {name}"
        _registry[name] = Program(
            name,
            category,
            function,
            args,
            kwargs,
            one_graph and not why,
            hits,
            misses,
            backward,
            setup,
            state,
            why,
            known,
            plain,
        )
        return function

    return register


def programs(*categories: str) -> list[Program]:
    """All programs, or those of some categories, in the order they are written in."""
    for category in CATEGORIES:
        importlib.import_module(f"{__name__}.{category}")
    return [p for p in _registry.values() if not categories or p.category in categories]
