"""A model that runs in stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from .._compile import compile as _compile
from ._cut import Cut
from ._observe import tensors_of
from ._plan import Plan


@dataclass(frozen=True)
class Bound:
    """What the stages take for some arguments.

    Attributes:
        values: by name, what is there before any stage runs.
        returned: names of those among them that are in the model's result.
        result: gives the model's result when it is called with all values by name.

    """

    values: dict[str, Any]
    returned: frozenset[str]
    result: Callable[[Mapping[str, Any]], Any]


class Split(nn.Module):
    """A model in stages. Called like the model, it runs them one after the other.

    Attributes:
        stages: the stages, modules whose parameters are the model's own, under the model's names. Each takes the values
            named in `takes` and gives a tuple of those named in `gives`.
        plan: where it was cut and why, a :class:`Plan`.

    """

    stages: nn.ModuleList
    plan: Plan

    def __init__(self, model: nn.Module, stages: int) -> None:
        super().__init__()
        self._number = stages
        self._names = {id(tensor): name for name, tensor in _named_tensors(model)}
        self._compiled = [_compile(model, backend=self._backend, fullgraph=True, dynamic=True)]  # not a submodule
        self._cut: Cut | None = None
        self._refusal: Exception | None = None
        self._bound: dict[str, Any] | None = None  # what bind() is told
        self._stand_ins: dict[int, str] = {}  # of the values that stages give, in what it is given
        self.grad_mode = torch.is_grad_enabled()

    def _backend(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._cut is not None:
            self._refusal = RuntimeError(
                "the model takes another way for these arguments than for the example: another mode, requires_grad, or "
                "sizes that were equal in the example and are not now; split it anew"
            )
            raise self._refusal
        return lambda *values: self._run(module, values)

    def _run(self, module: fx.GraphModule, values: Sequence[Any]) -> tuple[Any, ...]:
        if self._cut is None:
            state = torch.get_rng_state()
            kept = [(tensor, tensor.detach().clone()) for tensor in tensors_of(values) if not tensor.requires_grad]
            try:
                cut = Cut(module, self._names, values, self._number)
            except ValueError as error:
                self._refusal = error
                raise
            torch.set_rng_state(state)
            with torch.no_grad():
                for tensor, before in kept:
                    if not torch.equal(tensor, before):
                        tensor.copy_(before)
            stages = [cut.stage(i) for i in range(self._number)]
            self.stages, self.plan, self._cut = nn.ModuleList(stages), cut.plan(stages), cut
        known = {node.name: value for node, value in zip(self._cut.inputs, values, strict=True)}
        if self._bound is not None:
            self._bound.update(known)
            known.update({name: torch.empty(0) for name in self.result_names if name not in known})
            self._stand_ins = {id(value): name for name, value in known.items() if isinstance(value, Tensor)}
            return self._results(known)
        for stage in self.stages:
            known.update(
                zip(_names(stage, "gives"), stage(*(known[name] for name in _names(stage, "takes"))), strict=True)
            )
        return self._results(known)

    def _results(self, known: Mapping[str, Any]) -> tuple[Any, ...]:
        assert self._cut is not None
        return tuple(known[leaf.name] if isinstance(leaf, fx.Node) else leaf for leaf in self._cut.results)

    @property
    def result_names(self) -> list[str]:
        """The values that the model's result is made of, each once."""
        assert self._cut is not None
        return list(dict.fromkeys(leaf.name for leaf in self._cut.results if isinstance(leaf, fx.Node)))

    @property
    def written_storages(self) -> set[int]:
        """What memory the run with the example wrote to."""
        assert self._cut is not None
        return set[int]().union(*(operation.written for operation in self._cut.operations))

    def bind(self, *args: Any, **kwargs: Any) -> Bound:
        """Finds out what the stages take for some arguments; runs none.

        Args:
            args: the model's own.
            kwargs: the same.

        Returns:
            The values that are there from the start, and how the result is made of all values.

        Raises:
            RuntimeError: as a call.
            TypeError: the result has tensors in an object that is no tree of `torch.utils._pytree`.

        """
        assert self._cut is not None
        values: dict[str, Any] = {}
        self._bound, self._stand_ins = values, {}
        try:
            with torch.set_grad_enabled(self.grad_mode):
                shape = self(*args, **kwargs)
        finally:
            self._bound = None
        leaves, spec = pytree.tree_flatten(shape)
        names = [self._stand_ins.get(id(leaf)) for leaf in leaves]
        if not values.keys() >= {node.name for node in self._cut.inputs}:
            raise RuntimeError("the model ran as it is: gramme captures nothing here")
        if not set(names) >= set(self._stand_ins.values()) - values.keys():
            raise TypeError(
                f"the model's result, {type(shape).__name__}, has tensors where torch.utils._pytree sees none"
            )
        return Bound(
            values,
            frozenset(name for name in names if name in values),
            lambda known: pytree.tree_unflatten(
                [known.get(name, leaf) if name else leaf for name, leaf in zip(names, leaves, strict=True)], spec
            ),
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs all stages.

        Args:
            args: the model's own, of any batch size and length.
            kwargs: the same.

        Returns:
            What the model returns.

        Raises:
            RuntimeError: the model takes another way for these arguments than for the example.

        """
        try:
            return self._compiled[0](*args, **kwargs)
        except Exception:
            refusal, self._refusal = self._refusal, None
            if refusal is None:
                raise
        raise refusal


def _names(stage: nn.Module, which: str) -> list[str]:
    names: list[str] = stage.__dict__[which]
    return names


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The first name of each: of tied parameters there is one."""
    seen: set[int] = set()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def split(model: nn.Module, example_args: tuple[Any, ...], *, stages: int) -> Split:
    """Cuts a model into stages of about the same cost.

    The model is captured as one graph in which sizes vary. Of all cuts of the graph's order, those are taken whose
    dearest stage is cheapest, with what it takes and hands over; of these, those that hand over least. A value that
    later stages take goes there directly (a portal); inputs and parameters are delivered where they are used. No cut
    separates writes to a tensor from its other uses, or lies where grad mode or autocast is another than around the
    model.

    Args:
        model: any module that is captured whole; neither it nor its buffers nor random numbers are changed.
        example_args: arguments to measure with, the model's shapes. Later ones may have other sizes, where those that
            are equal here are equal too; all else (requires_grad, the model's mode) stays as it is now.
        stages: how many there shall be.

    Returns:
        The stages, which is called like the model.

    Raises:
        CaptureError: the model is not one graph; it names file, line and reason.
        ValueError: there are fewer operations, or places to cut, than stages.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
        >>> print(split(model, (torch.ones(2, 4),), stages=2).plan)
        stage operations   cost, us   parameters   bytes in  bytes out
            0          2        1.0           80          0         32
            1          2        1.0           80         32          0

    """
    if stages < 1:
        raise ValueError(f"stages must be a positive number, not {stages}")
    made = Split(model, stages)
    state = torch.get_rng_state()
    kept = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        made(*example_args)
    finally:
        torch.set_rng_state(state)
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
    return made
