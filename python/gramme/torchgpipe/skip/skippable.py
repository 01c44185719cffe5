"""Modules that stash and pop skip tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..microbatch import Batch
from .namespace import Namespace

__all__ = ["Skippable", "pop", "skippable", "stash", "verify_skippables"]

#: A namespace and a name in it.
Key = tuple[Namespace | None, str]


class stash(NamedTuple):  # noqa: N801
    """A command to put a tensor away: ``yield stash("name", tensor)``.

    The tensor may be None. It is put away when the module's forward has returned.
    """

    name: str
    tensor: Tensor | None


class pop(NamedTuple):  # noqa: N801
    """A command to get a stashed tensor: ``tensor = yield pop("name")``."""

    name: str


class Skippable(nn.Module):
    """What :func:`skippable` makes of a module class.

    Attributes:
        module: the module itself.
        stashable_names: the names it declares for stashing.
        poppable_names: the names it declares for popping.
        namespaces: of its names, as far as they are isolated.

    """

    module_cls: ClassVar[type[nn.Module]]
    stashable_names: ClassVar[frozenset[str]]
    poppable_names: ClassVar[frozenset[str]]
    # In the order of declaration: the order of backward must not depend on hashes.
    _stash: ClassVar[tuple[str, ...]]
    _pop: ClassVar[tuple[str, ...]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = self.module_cls(*args, **kwargs)
        self.namespaces: dict[str, Namespace | None] = {}

    def __repr__(self) -> str:
        return f"@skippable({self.module})"

    def namespaced(self, name: str) -> Key:
        """Gives a name with its namespace."""
        return self.namespaces.get(name), name

    def stashable(self) -> Iterable[Key]:
        """Gives what it stashes, with namespaces."""
        return map(self.namespaced, self._stash)

    def poppable(self) -> Iterable[Key]:
        """Gives what it pops, with namespaces."""
        return map(self.namespaced, self._pop)

    def isolate(self, ns: Namespace | None, *, only: Iterable[str] | None = None) -> Self:
        """Puts names into a namespace.

        Args:
            ns: the namespace; None is the default one.
            only: which names; all declared ones by default. A later call overrides an earlier one.

        Returns:
            The module itself.

        Example:
            >>> @skippable(stash=["x"])
            ... class Stash(nn.Module):
            ...     pass
            >>> layer = Stash().isolate(Namespace())

        """
        names = (*self._stash, *self._pop) if only is None else _names("only", only)
        self.namespaces.update(dict.fromkeys(names, ns))
        return self

    def dispatch(
        self,
        input: tuple[Any, ...],  # noqa: A002
        handle_stash: Callable[[str, Tensor | None], None],
        handle_pop: Callable[[str], Tensor | None],
    ) -> Any:
        """Runs the module and carries out its commands.

        Raises:
            TypeError: it yields something else.

        """
        commands = self.module(*input)
        if not isinstance(commands, Generator):
            return commands
        answer: Tensor | None = None
        while True:
            try:
                command = commands.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(command, stash):
                handle_stash(command.name, command.tensor)
                answer = None
            elif isinstance(command, pop):
                answer = handle_pop(command.name)
            else:
                raise TypeError(f"{command!r} is not a command from @skippable")

    def forward(self, *input: Any) -> Any:  # noqa: A002
        """Loads what it pops, runs the module, saves what it stashed: a module cannot pop what it stashes itself.

        Args:
            input: what the module takes.

        Returns:
            What its forward returns.

        Raises:
            RuntimeError: a command for a name that is not declared or not stashed, or a declared name without one.
            TypeError: something is yielded that is no command, or stashed that is no tensor.

        """
        from .tracker import current_skip_tracker  # it needs the layout, which needs this module

        tracker = current_skip_tracker()
        stashed: dict[str, Tensor | None] = {}
        loaded: dict[str, Tensor | None] = {}
        batch = Batch(input[0] if len(input) == 1 else input)
        for ns, name in self.poppable():
            try:
                loaded[name] = tracker.load(batch, ns, name)
            except KeyError:
                raise RuntimeError(f"'{name}' has not been stashed") from None
        popped: set[str] = set()

        def handle_stash(name: str, tensor: Tensor | None) -> None:
            if name not in self.stashable_names:
                raise RuntimeError(f"'{name}' has not been declared as stashable")
            if tensor is not None and not torch.is_tensor(tensor):
                raise TypeError(f"expected a tensor or None to stash as '{name}', got {type(tensor)}")
            stashed[name] = tensor

        def handle_pop(name: str) -> Tensor | None:
            if name not in self.poppable_names:
                raise RuntimeError(f"'{name}' has not been declared as poppable")
            if name in popped:
                raise RuntimeError(f"'{name}' has been popped already")
            popped.add(name)
            return loaded.pop(name)

        output = self.dispatch((batch.values,) if len(input) == 1 else batch.values, handle_stash, handle_pop)
        if missing := [name for name in self._stash if name not in stashed]:
            raise RuntimeError(f"{_quoted(missing)} must be stashed but have not")
        if missing := [name for name in self._pop if name not in popped]:
            raise RuntimeError(f"{_quoted(missing)} must be popped but have not")
        batch = Batch(output)
        for ns, name in self.stashable():
            tracker.save(batch, ns, name, stashed[name])
        return batch.values


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _names(what: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each once; a string would be taken for its letters."""
    if isinstance(names, str):
        raise TypeError(f"{what}: expected a list of names, got the string {names!r}")
    return tuple(dict.fromkeys(names))


def skippable(
    stash: Iterable[str] = (),
    pop: Iterable[str] = (),
) -> Callable[[type[nn.Module]], type[Skippable]]:
    """Declares which skip tensors a class of modules stashes and pops.

    Its ``forward`` becomes a generator: it yields ``stash(name, tensor)`` and ``pop(name)`` and returns its output.

    Args:
        stash: the names that each call stashes.
        pop: the names that each call pops.

    Returns:
        A decorator. The class it gives has the name of the decorated one; the module itself is in ``.module``.

    Raises:
        TypeError: a string instead of a list of names.

    Example:
        >>> @skippable(stash=["x"])
        ... class Stash(nn.Module):
        ...     def forward(self, input):
        ...         yield stash("x", input)
        ...         return input * 2
        >>> Stash()(torch.ones(1))
        tensor([2.])

    """
    stashed, popped = _names("stash", stash), _names("pop", pop)

    def decorate(module_cls: type[nn.Module]) -> type[Skippable]:
        content = {
            "module_cls": module_cls,
            "stashable_names": frozenset(stashed),
            "poppable_names": frozenset(popped),
            "_stash": stashed,
            "_pop": popped,
            "__module__": module_cls.__module__,
            "__qualname__": module_cls.__qualname__,
            "__doc__": module_cls.__doc__,
        }
        return type(module_cls.__name__, (Skippable,), content)

    return decorate


def _without(names: frozenset[str], keys: Iterable[Key]) -> list[Key]:
    return [key for key in keys if key[1] not in names]


def verify_skippables(module: nn.Sequential) -> None:
    """Checks that stashes and pops of a model's layers match: each name once, stashed before it is popped.

    Args:
        module: the model. Its layers are looked at, not what is nested in them.

    Raises:
        TypeError: they do not match; it lists all that is wrong.

    Example:
        >>> verify_skippables(nn.Sequential(nn.Linear(1, 1)))

    """
    stashed: dict[Key, None] = {}
    popped: set[Key] = set()
    wrong: list[str] = []
    for layer_name, layer in module.named_children():
        if not isinstance(layer, Skippable):
            continue
        both = layer.stashable_names & layer.poppable_names
        for name in sorted(both):
            wrong.append(f"'{layer_name}' declared '{name}' both as stashable and as poppable")
        for key in _without(both, layer.stashable()):
            if key in stashed:
                wrong.append(f"'{layer_name}' redeclared '{key[1]}' as stashable but not isolated by namespace")
            stashed[key] = None
        for key in _without(both, layer.poppable()):
            if key in popped:
                wrong.append(f"'{layer_name}' redeclared '{key[1]}' as poppable but not isolated by namespace")
            elif key not in stashed:
                wrong.append(f"'{layer_name}' declared '{key[1]}' as poppable but it was not stashed")
            else:
                popped.add(key)
    wrong += [
        f"no module declared '{name}' as poppable but stashed" for ns, name in stashed if (ns, name) not in popped
    ]
    if wrong:
        raise TypeError("stashes and pops do not match:\n\n" + "\n".join(f"* {line}" for line in wrong))
