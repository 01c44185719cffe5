"""A program exported by gramme beside torch.export.export(strict=True)."""

from __future__ import annotations

import copy
import gc
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gramme
import torch
from torch.utils import _pytree as pytree

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """A module, arguments of it, and what varies.

    Attributes:
        make: makes the module.
        arguments: makes arguments; of the size that varies, if it is given one.
        dynamic_shapes: as torch.export takes it.
        sizes: those that arguments are made of besides the first.
        differs: why torch.export's program is another one; what it computes is compared with the module alone then.
        loads: the program can be saved and loaded.
        names: parameters and constants have the names that torch.export gives them.

    """

    make: Callable[[], torch.nn.Module]
    arguments: Callable[..., Any]
    dynamic_shapes: Any = None
    sizes: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    differs: str = ""
    loads: bool = True
    names: bool = True

    def given(self, size: int | None = None) -> Arguments:
        torch.manual_seed(3)
        made = self.arguments() if size is None else self.arguments(size)
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], dict) and isinstance(made[0], tuple):
            return made
        return (made if isinstance(made, tuple) else (made,)), {}


@contextmanager
def quietly() -> Iterator[None]:
    """PyTorch's front end writes to the log whatever it refuses.

    Nothing is collected meanwhile: where the collection closes a generator of another test that `torch.no_grad` wraps,
    that enters the mode, and PyTorch's tracer makes an operator of it.
    """
    logging.disable(logging.CRITICAL)
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        if collects:
            gc.enable()


def export(program: Program, by: Callable[..., Any], module: torch.nn.Module, **more: Any) -> Any:
    args, kwargs = program.given()
    with quietly():
        return by(module, args, kwargs, dynamic_shapes=program.dynamic_shapes, **program.options, **more)


def signature(exported: Any, names: bool = True) -> list[tuple[Any, ...]]:
    specs = exported.graph_signature
    inputs = [
        (spec.kind.name, spec.target, spec.arg.name, spec.persistent) if names else spec.kind.name
        for spec in specs.input_specs
    ]
    outputs = [(spec.kind.name, spec.target, type(spec.arg).__name__) for spec in specs.output_specs]
    return [*inputs, *outputs]


def ranges(exported: Any) -> list[str]:
    """PyTorch's own front end leaves symbols behind that stand in no graph."""
    return sorted({str(bounds) for bounds in exported.range_constraints.values()})


def shapes(exported: Any) -> list[str]:
    """Of inputs, with symbols by the order in which they come."""
    symbols: dict[str, str] = {}
    found = []
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, (torch.Tensor, torch.SymInt)):
            text = str(tuple(value.shape) if isinstance(value, torch.Tensor) else value)
            found.append(re.sub(r"\bs\d+", lambda match: symbols.setdefault(match[0], f"n{len(symbols)}"), text))
    return found


def calls(exported: Any) -> list[str]:
    return sorted(str(node.target) for node in exported.graph.nodes if node.op == "call_function")


def module_calls(exported: Any) -> list[tuple[str, bool]]:
    return [(entry.fqn, entry.signature is not None) for entry in exported.module_call_graph]


def loaded(exported: Any) -> Any:
    stream = io.BytesIO()
    torch.export.save(exported, stream)
    stream.seek(0)
    return torch.export.load(stream)


def run(module: Any, given: Arguments) -> tuple[Any, list[Any]]:
    """What the call returns, and its tensors afterwards."""
    args, kwargs = copy.deepcopy(given)
    torch.manual_seed(7)
    result = module(*args, **kwargs)
    return result, pytree.tree_leaves((args, kwargs))


def assert_same(got: Any, expected: Any) -> None:
    got, got_spec = pytree.tree_flatten(got)
    expected, expected_spec = pytree.tree_flatten(expected)
    assert got_spec == expected_spec
    for left, right in zip(got, expected, strict=True):
        if isinstance(right, torch.Tensor):
            torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)
            assert left.requires_grad == right.requires_grad
        else:
            assert left == right
            assert type(left) is type(right)


def buffers(module: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.named_buffers()}


def assert_computes(exported: Any, program: Program, module: torch.nn.Module) -> None:
    """Two calls of each size: results, arguments and buffers are those of the module."""
    for size in (None, *program.sizes):
        given = program.given(size)
        eager, ours = copy.deepcopy(module), copy.deepcopy(exported).module()
        for _ in range(2):
            assert_same(run(ours, given), run(eager, given))
        expected, got = buffers(eager), buffers(ours)
        for name in expected.keys() & got.keys():
            torch.testing.assert_close(got[name], expected[name], rtol=1e-5, atol=1e-6)


def snapshot(module: torch.nn.Module) -> tuple[Any, ...]:
    parts = {path: {**vars(part)} for path, part in module.named_modules()}
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return parts, [(name, id(tensor), tensor.detach().clone(), tensor._version) for name, tensor in tensors]


def assert_untouched(before: tuple[Any, ...], module: torch.nn.Module) -> None:
    parts, tensors = snapshot(module)
    assert parts.keys() == before[0].keys()
    for path, attributes in before[0].items():
        assert attributes.keys() == parts[path].keys()
        for name, value in attributes.items():
            assert parts[path][name] is value, f"{path}.{name}"
    for (name, identity, value, version), (other, other_identity, now, now_version) in zip(
        before[1], tensors, strict=True
    ):
        assert (name, identity, version) == (other, other_identity, now_version)
        torch.testing.assert_close(now, value, rtol=0, atol=0, equal_nan=True)


def check(program: Program) -> None:
    torch.manual_seed(0)
    module = program.make()
    before = snapshot(module)
    ours = export(program, gramme.export, module)
    assert_untouched(before, module)
    assert_computes(ours, program, module)
    if program.loads:
        assert_computes(loaded(ours), program, module)
    if not program.differs:
        torchs = export(program, torch.export.export, copy.deepcopy(module), strict=True)
        assert signature(ours, program.names) == signature(torchs, program.names)
        assert ranges(ours) == ranges(torchs)
        assert shapes(ours) == shapes(torchs)
        assert calls(ours) == calls(torchs)
        assert module_calls(ours) == module_calls(torchs)
