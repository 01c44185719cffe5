"""One thread of a step: runs its row of the schedule, and exchanges messages with the others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .. import _C
from ._random import Numbers, seed_of
from ._schedule import Action
from ._simulate import Span

if TYPE_CHECKING:
    from ._step import Step

#: Kind, stage that waits for it, micro-batch, value. Kinds: a value ("F"), its gradient for the stage that gave it
#: ("B"), the part of it that later takers found, for the taker before them ("S").
Key = tuple[str, int, int, str]


class Sent(NamedTuple):
    """A value in transit."""

    value: Any
    requires_grad: bool
    name: str  # the first name of this object
    chain: tuple[int, ...]  # the stages that use it under any of its names


@dataclass
class Leaf:
    """Where a stage's graph is cut.

    A value comes out of a portal, which keeps the gradient as it is: the leaf that a parameter is would give it its own
    strides, by which kernels before it choose how they sum, and autocast would keep its casts.
    """

    tensor: Tensor
    use: Tensor  # the tensor with which the stage computes
    chain: tuple[int, ...]
    portal: _C.Portal | None = None

    @staticmethod
    def through_portal(tensor: Tensor, chain: tuple[int, ...], phony: Tensor) -> Leaf:
        """The leaf of a value."""
        portal = _C.Portal(tensor, 1)
        use = portal.orange(phony)
        assert use is not None
        return Leaf(tensor, use, chain, portal)

    @property
    def gradient(self) -> Tensor | None:
        """The gradient that backward computed."""
        return self.tensor.grad if self.portal is None else self.portal.grad


@dataclass
class Work:
    """A stage's work on a micro-batch between forward and backward."""

    inputs: dict[str, Any] = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    written: dict[str, Tensor] = field(default_factory=dict)  # earlier contents
    given: dict[str, Tensor] | None = None  # with a graph; None: to be computed again
    loss: Tensor | None = None
    halves: _C.Halves | None = None  # of a backward whose second half is still to come


_WORDS = {"F": "forward", "B": "backward", "I": "backward for inputs", "W": "backward for weights"}


class Cancelled(Exception):  # noqa: N818
    """Another thread failed."""


class Worker:
    """Runs one row of the schedule."""

    def __init__(self, step: Step, rank: int, actions: list[Action]) -> None:
        self.step, self.rank, self.actions = step, rank, actions
        self.inbox: SimpleQueue[tuple[Key, Any] | None] = SimpleQueue()
        self._held: dict[Key, Any] = {}
        self._works: dict[tuple[int, int], Work] = {}
        self._action: Action | None = None
        self._keeps = any(action.kind != "F" for action in actions)

    def run(self) -> None:
        """Does all its actions."""
        following = [*self.actions[1:], None]
        for action, after in zip(self.actions, following, strict=True):
            if self.step.cancelled:
                raise Cancelled
            self._action = action
            i = action.micro_batch or 0
            if action.kind == "F":
                at_once = after in (Action(action.stage, "B", i), Action(action.stage, "I", i))
                self._forward(action, i, keeps_graph=self._keeps and (at_once or not self.step.checkpoint))
            elif action.kind == "W":
                self._backward_of_weights(action, i)
            else:
                self._backward(action, i)

    def describe(self, error: BaseException) -> str:
        """Where an exception comes from, in words."""
        if self._action is None:
            return f"in rank {self.rank}"
        stage, kind, i, _ = self._action
        program = self.step.routes.programs[stage]
        place = program.place_of(error.__traceback__) or program.lines()
        return f"in stage {stage}, {_WORDS[kind]} of micro-batch {i}{', ' + place if place else ''}"

    # ---- Messages

    def _send(self, key: Key, value: Any) -> None:
        worker = self.step.worker_of[key[1]]
        if worker is self:
            self._held[key] = value
        else:
            worker.inbox.put((key, value))

    def _receive(self, key: Key) -> Any:
        while key not in self._held:
            message = self.inbox.get()
            if message is None:
                raise Cancelled
            self._held[message[0]] = message[1]
        return self._held.pop(key)

    # ---- Forward

    def _forward(self, action: Action, i: int, *, keeps_graph: bool) -> None:
        stage = action.stage
        work = Work()
        for name in self.step.routes.needs[stage]:
            self._take(work, stage, i, name)
        with self._span(action), torch.set_grad_enabled(self._keeps):
            given = self._compute(work, stage, i)
            self._write_back(work, stage)
        self._hand_on(given, stage, i)
        if work.loss is not None:
            self.step.losses[i] = work.loss.detach()
        if not self._keeps:
            return
        self._works[stage, i] = work
        if keeps_graph:
            work.given = self._with_graph(given)
        else:
            work.loss = None

    def _take(self, work: Work, stage: int, i: int, name: str) -> None:
        """Puts an input of a stage into its work."""
        routes = self.step.routes
        if name in routes.written[stage]:
            work.written[name] = routes.attribute(stage, name).detach().clone()
        elif name in routes.sources:
            sent: Sent = self._receive(("F", stage, i, name))
            if sent.requires_grad and self._keeps:
                if sent.name not in work.leaves:
                    value = sent.value.requires_grad_()
                    work.leaves[sent.name] = Leaf.through_portal(value, sent.chain, self.step.phony)
                work.inputs[name] = work.leaves[sent.name].use
            else:
                work.inputs[name] = sent.value
        else:
            values = self.step.bound[i].values
            is_attribute = name not in values
            value = routes.attribute(stage, name) if is_attribute else values[name]
            if isinstance(value, Tensor) and value.requires_grad and self._keeps:
                chain = routes.targets[name]
                if is_attribute:  # the first stage uses the program's own tensor
                    tensor = value if stage == chain[0] else value.detach().requires_grad_()
                    work.leaves[name] = Leaf(tensor, tensor, chain)
                else:
                    work.leaves[name] = Leaf.through_portal(value, chain, self.step.phony)
                value = work.leaves[name].use
            work.inputs[name] = value

    def _compute(self, work: Work, stage: int, i: int) -> dict[str, Any]:
        step = self.step
        program = step.routes.programs[stage]
        inputs = {**work.inputs, **{name: before.clone() for name, before in work.written.items()}}
        versions = _versions(work.inputs)
        numbers = Numbers(seed_of(step.base, stage, i))
        given = dict(zip(program.outputs, program([inputs[name] for name in program.inputs], numbers), strict=True))
        if step.checkpoint and versions != _versions(work.inputs):
            raise RuntimeError("a stage that writes to its input cannot be run again: checkpoint=False")
        for name in work.written:
            work.inputs[name] = inputs[name]
        if step.loss is not None and stage == len(step.routes.programs) - 1:
            numbers = Numbers(seed_of(step.base, stage + 1, i))
            work.loss = step.loss.compute(numbers, i, step.bound[i].result({**work.inputs, **given}))
        return given

    def _write_back(self, work: Work, stage: int) -> None:
        if not work.written:
            return
        with torch.no_grad():
            for name in work.written:
                self.step.routes.attribute(stage, name).copy_(work.inputs.pop(name))

    def _hand_on(self, given: Mapping[str, Any], stage: int, i: int) -> None:
        routes, step = self.step.routes, self.step
        first, chains = self._takers(given)
        for name, value in given.items():
            is_tensor = isinstance(value, Tensor)
            if name in routes.results:
                step.results[i][name] = value.detach() if is_tensor else value
            if is_tensor:
                step.bytes[name] = max(step.bytes.get(name, 0), value.nbytes)
            for target in routes.targets.get(name, ()):
                passed = value.detach() if is_tensor else value
                sent = Sent(passed, is_tensor and value.requires_grad, first[name], chains[first[name]])
                self._send(("F", target, i, name), sent)

    def _takers(self, given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """Of each value the first name of the same object, and by first name the stages that take it."""
        targets = self.step.routes.targets
        names: dict[int, str] = {}
        first: dict[str, str] = {}
        chains: dict[str, tuple[int, ...]] = {}
        for name, value in given.items():
            owner = first[name] = names.setdefault(id(value), name) if isinstance(value, Tensor) else name
            chain = targets.get(name, ())
            chains[owner] = chain if owner == name else tuple(sorted({*chains[owner], *chain}))
        return first, chains

    def _with_graph(self, given: Mapping[str, Any]) -> dict[str, Tensor]:
        """The outputs for which others will send gradients."""
        _, chains = self._takers(given)
        return {name: given[name] for name, chain in chains.items() if chain and _requires_grad(given[name])}

    # ---- Backward

    def _backward(self, action: Action, i: int) -> None:
        stage = action.stage
        work = self._works.pop((stage, i))
        if work.given is None:  # before the gradients arrive: this thread is idle
            with self._span(Action(stage, "F", i)), torch.enable_grad():
                work.given = self._with_graph(self._compute(work, stage, i))
        if action.kind == "I":
            self._works[stage, i] = self._backward_of_inputs(work, action, i)
            return
        roots, gradients = self._roots(work, stage, i, work.leaves)
        with self._span(action):
            if roots:
                torch.autograd.backward(roots, gradients)
        self._send_gradients(stage, i, work.leaves)

    def _backward_of_inputs(self, work: Work, action: Action, i: int) -> Work:
        """The half that other stages wait for. Gives what is left to do: the graph is the halves' own then."""
        stage = action.stage
        weights = {name: leaf for name, leaf in work.leaves.items() if leaf.portal is None}
        inputs = {name: leaf for name, leaf in work.leaves.items() if leaf.portal is not None}
        ends = [*([work.loss] if work.loss is not None else []), *(work.given or {}).values()]
        uses = [leaf.use for leaf in inputs.values()]
        halves = _C.Halves([*ends, *uses], uses)
        if halves.refusal and any(leaf.chain[-1] != stage for leaf in weights.values()):
            raise RuntimeError(
                f"{action}: the backward cannot be split, since {halves.refusal} would run twice, nor be done whole "
                "here, before the gradients of weights that a later stage shares"
            )
        roots, gradients = self._roots(work, stage, i, inputs)
        with self._span(action):
            if not halves.refusal:
                halves.run_inputs(roots, gradients)
            else:
                self._finish_weights(stage)
                if roots:
                    torch.autograd.backward(roots, gradients)
        self._send_gradients(stage, i, inputs)
        return Work(leaves=weights, given={}, halves=None if halves.refusal else halves)

    def _finish_weights(self, stage: int) -> None:
        """Finishes earlier micro-batches, whose gradients are added first."""
        for (other, _), work in self._works.items():  # in the order of their backwards
            if other == stage and work.halves is not None:
                work.halves.run_weights([], [])
                work.halves = None

    def _backward_of_weights(self, action: Action, i: int) -> None:
        stage = action.stage
        work = self._works.pop((stage, i))
        roots, gradients = self._roots(work, stage, i, work.leaves)
        with self._span(action):
            if work.halves is not None:
                work.halves.run_weights(roots, gradients)
        self._send_gradients(stage, i, work.leaves)

    def _send_gradients(self, stage: int, i: int, leaves: Mapping[str, Leaf]) -> None:
        """Sends each gradient to the previous taker, or to the stage that computed the value."""
        for name, leaf in leaves.items():
            place = leaf.chain.index(stage)
            if place:
                self._send(("S", leaf.chain[place - 1], i, name), leaf.gradient)
            elif name in self.step.routes.sources:
                self._send(("B", self.step.routes.sources[name], i, name), leaf.gradient)
            elif leaf.portal is not None and leaf.gradient is not None:
                torch.autograd.backward([leaf.tensor], [leaf.gradient])

    def _roots(self, work: Work, stage: int, i: int, leaves: Mapping[str, Leaf]) -> tuple[list[Tensor], list[Tensor]]:
        """Where backward begins. The engine adds what comes from roots first: later takers before this stage."""
        roots: list[Tensor] = []
        gradients: list[Tensor] = []
        if work.loss is not None:
            assert self.step.loss is not None
            roots.append(work.loss)
            gradients.append(torch.full_like(work.loss, self.step.loss.weights[i]))
        waited = [("B", name, tensor) for name, tensor in (work.given or {}).items()]
        waited += [("S", name, leaf.use) for name, leaf in leaves.items() if leaf.chain[-1] != stage]
        for kind, name, tensor in waited:
            gradient = self._receive((kind, stage, i, name))
            if gradient is not None:
                roots.append(tensor)
                gradients.append(gradient)
        return roots, gradients

    @contextmanager
    def _span(self, action: Action) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.step.spans.append(Span(self.rank, action, start, time.perf_counter()))


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _versions(inputs: Mapping[str, Any]) -> list[int]:
    return [value._version for value in inputs.values() if isinstance(value, Tensor) and not value.is_inference()]
