"""A model that runs in stages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, fx, nn

from .. import _C
from .._compile import compile as _compile
from .._compile import entry_of
from .._meshes import keeps_meshes
from .._torch.names import pytree
from ..errors import CaptureError
from ._batch import rows_alike
from ._cut import Cut, Wishes
from ._names import Names
from ._observe import tensors_of
from ._plan import Plan
from ._refused import not_captured

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.pipelining import PipelineStage


_CONSTANT_STORE = re.compile(r"Store\w+ .* = (None|True|False|-?\d+)")


@contextlib.contextmanager
def undisturbed(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Restores random numbers and the tensors at the end of the scope."""
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors]
    devices = {tensor.device.index for tensor, _ in kept if tensor.is_cuda}
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                if not tensor.is_meta and not torch.equal(tensor, before):
                    tensor.copy_(before)


@contextlib.contextmanager
def any_number_of_rows(tensors: Iterable[Tensor]) -> Iterator[None]:
    """What is captured inside holds for every number of rows of these tensors, one too, as long as all have as many."""
    from .._torch.names import mark_unbacked

    kept = [(tensor, dict(vars(tensor))) for tensor in tensors]
    try:
        for tensor, _ in kept:
            mark_unbacked(tensor, 0, shape_id="rows", min=1)
        yield
    finally:
        for tensor, before in kept:
            vars(tensor).clear()
            vars(tensor).update(before)


@dataclass(frozen=True)
class Bound:
    """What the stages take for some arguments.

    Attributes:
        values: by name, what is there before any stage runs.
        returned: names of those among them that are in the model's result.
        leaves: names of the tensors of the model's result, in the order of ``tree_leaves``.
        result: gives the model's result when it is called with all values by name.

    """

    values: dict[str, Any]
    returned: frozenset[str]
    leaves: tuple[str, ...]
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

    def __init__(self, model: nn.Module, wishes: Wishes) -> None:
        super().__init__()
        self._wishes = wishes
        self._names = Names(model)
        self._compiled = [_compile(model, backend=self._backend, fullgraph=True, dynamic=True)]  # not a submodule
        self._cut: Cut | None = None
        self._refusal: Exception | None = None
        self._rows_decide = ""  # place in the program that depends on the number of rows
        self._bound: dict[str, Any] | None = None  # set by bind()
        self._stand_ins: dict[int, str] = {}  # stand-ins for values of stages, by id
        self.grad_mode = torch.is_grad_enabled()

    @keeps_meshes
    def _backend(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._cut is not None:
            self._refusal = RuntimeError(
                "the model takes another way for these arguments than for the example: another mode, requires_grad, "
                "or sizes that were equal in the example and are not now, or a size of one"
                f"{self._rows_decide}; split it anew"
            )
            raise self._refusal
        return lambda *values: self._run(module, values)

    def _run(self, module: fx.GraphModule, values: Sequence[Any]) -> tuple[Any, ...]:
        if self._cut is None:
            try:
                with undisturbed(tensor for tensor in tensors_of(values) if not tensor.requires_grad):
                    cut = Cut(module, self._names, values, self._wishes)
            except ValueError as error:
                self._refusal = error
                raise
            stages = [cut.stage(i) for i in range(self._wishes.stages)]
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

    def pipeline_stages(
        self,
        micro_batch: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        *,
        device: torch.device | str = "cpu",
        group: ProcessGroup | None = None,
        placement: str = "loop",
        wrap: Callable[[nn.Module], nn.Module] | None = None,
    ) -> list[PipelineStage]:
        """The stages of this process, for the schedules of ``torch.distributed.pipelining``.

        Each process of the group calls it, having cut the same model. Stages take tensors from the stage before and
        give tensors to the next one: what goes further passes through, numbers too, as a tensor. The first stage takes
        the model's arguments, the last one gives the tensors of the model's result in the order of ``tree_leaves``, or
        its only one. A parameter of several stages belongs to the first of them, if it needs a gradient; ``step`` is
        called with arguments in the process of the first stage only.

        Args:
            micro_batch: arguments of the shapes of one micro-batch; all micro-batches have these.
            kwargs: the same by keyword.
            device: where this process's stages are; the model was there when it was cut.
            group: the processes of the pipeline, all by default.
            placement: ``"loop"``, stage i in process i modulo their number, or ``"v"`` (schedules whose name has a V).
            wrap: called with each stage's module, as DistributedDataParallel is.

        Returns:
            One stage, or several where there are more stages than processes.

        Raises:
            ValueError: the model's call has effects that stages do not have, what crosses a cut has a size that
                depends on data, or the processes have cut differently.

        """
        from ._distributed import stages_of_process

        return stages_of_process(self, micro_batch, kwargs or {}, torch.device(device), group, placement, wrap)

    @property
    def cut(self) -> Cut:
        """The graph and where it is cut."""
        assert self._cut is not None
        return self._cut

    @property
    def effects(self) -> list[str]:
        """What each call changes besides returning and besides writes to tensors, as text.

        A store of a constant is left out: the example's call has made it.
        """
        effects = [effect for row in _C.segments(entry_of(self._compiled[0])) for effect in row["effects"]]
        return [effect for effect in effects if not _CONSTANT_STORE.fullmatch(effect)]

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
            tuple(filter(None, names)),
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


def split(
    model: nn.Module,
    example_args: tuple[Any, ...],
    example_kwargs: dict[str, Any] | None = None,
    *,
    stages: int,
    begin: Sequence[str] = (),
    most_memory: int | None = None,
    micro_batches: int | None = None,
    costs: Literal["estimated", "measured"] = "estimated",
) -> Split:
    """Cuts a model into stages of about the same cost.

    The model is captured as one graph in which sizes vary. Of three orders of its operations and all their cuts, those
    are taken whose step is shortest: all micro-batches, one after the other, through all stages, with what each takes
    and hands over. A value that later stages take goes there directly (a portal), or is computed there anew if that is
    cheaper and it depends on sizes and buffers only; inputs and parameters are delivered where they are used. No cut
    separates writes to a tensor from its other uses, or a tensor whose size depends on data from its uses, or lies
    where grad mode, autocast or torch.func's transforms are others than around the model.

    Args:
        model: any module that is captured whole; neither it nor its buffers nor random numbers are changed.
        example_args: arguments to measure with, the model's shapes. Later ones may have other sizes, where those that
            are equal here are equal too, and where no size is one that is greater here, but the number of rows if all
            tensors have as many and nothing in the model is decided by it; all else (requires_grad, the model's mode)
            stays as it is now.
        example_kwargs: the same by keyword.
        stages: how many there shall be.
        begin: names of modules that a stage shall begin with; ``gramme.pipeline.cut()`` marks such places in code.
        most_memory: bytes that no stage exceeds with its parameters, buffers and results, for the example.
        micro_batches: how many a step has, by default four for each stage; the more, the more the dearest stage counts.
        costs: of operations: estimated of arithmetic and bytes, or measured now. Measured ones differ from run to run,
            and processes that work together need the same cuts.

    Returns:
        The stages, which is called like the model.

    Raises:
        TypeError: model is no module, example_args are no tuple.
        CaptureError: the model is not one graph, or was not captured at all; it names file, line and reason.
        ValueError: there are fewer operations, or places to cut, than stages; it names lines between which there is
            no place.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
        >>> print(split(model, (torch.ones(2, 4),), stages=2).plan)
        stage operations   cost, us   parameters    results   bytes in  bytes out
            0          2        1.0           80         64          0         32
            1          2        1.0           80         64         32          0
        >>> cut = split(model, (torch.ones(2, 4),), stages=2, begin=["1"])
        >>> [stage.operations for stage in cut.plan.stages]
        [1, 3]

    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(example_args, (tuple, list)):
        raise TypeError(f"example_args: expected a tuple of arguments, got {type(example_args).__name__}")
    example_args = tuple(example_args)
    if stages < 1:
        raise ValueError(f"stages must be a positive number, not {stages}")
    if costs not in ("estimated", "measured"):
        raise ValueError(f"costs: expected 'estimated' or 'measured', got {costs!r}")
    wishes, kwargs = Wishes(stages, tuple(begin), most_memory, micro_batches, costs), example_kwargs or {}
    decides = ""
    for rows in (rows_alike((example_args, kwargs)), []):
        made = Split(model, wishes)
        made._rows_decide = decides
        try:
            with undisturbed(model.buffers()), any_number_of_rows(rows):
                made(*example_args, **kwargs)
            if made._cut is None:
                raise not_captured(model, made._compiled[0])
        except CaptureError as error:
            if not rows:  # else the model depends on the number of rows
                raise
            decides = f" (one row is apart: {error.file}:{error.line})"
        else:
            break
    return made
