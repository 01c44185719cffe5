"""Every operator of PyTorch's own table with each of its arguments in turn of another kind, against eager.

A tensor without dimensions where a number was and the other way round, other dtypes, gradients, strides, classes; each
argument by its name; `out=`. The call is captured as the program made it, called again with other values and at other
sizes: results, written inputs and errors are eager's.
"""

import collections
import inspect
import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gramme
import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
from native.same import difference, outcome, twin, without_bases
from native.test_op_db import EXCEPTIONS, as_function, changed, dtype_of, name_of
from sampling import SOAK, some

ENTRIES = 30  # looked at in one run that is no soak
VARIANTS = 6  # of each, likewise
SAMPLES = 3 if SOAK else 2
BACKENDS = ("eager", "native")

# Of other kinds the call reads what nobody wrote, or says what differs from call to call in one process.
UNDEFINED = {
    "resize_": "uninitialised memory",
    "resize_as_": "uninitialised memory",
    "grid_sampler_2d": "numbers that name a mode: others leave memory uninitialised",
    "grid_sampler_3d": "numbers that name a mode: others leave memory uninitialised",
}


# Kernels that read as many numbers as another argument has, beyond the end of one that has fewer. Instances of classes
# keep their sizes where the other arguments grow.
UNCHECKED = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "lu_unpack")


class Plain(torch.Tensor):
    """A class that says nothing."""


class Asked(torch.Tensor):
    """A class that is asked, and answers with what it would have been."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def sparser(t: torch.Tensor) -> torch.Tensor:
    """The same values, of which every other one of the memory is one."""
    wide = torch.stack((t, t), dim=-1)
    return wide[..., 0]


def single(t: torch.Tensor) -> torch.Tensor | None:
    return t.reshape(-1)[:1].reshape(()) if t.numel() else None


def emptied(t: torch.Tensor) -> torch.Tensor | None:
    return t[:0] if t.dim() else None


def differentiable(t: torch.Tensor) -> torch.Tensor | None:
    return t.clone().requires_grad_() if t.is_floating_point() or t.is_complex() else None


def as_number(t: torch.Tensor) -> Any:
    return t.item() if t.numel() == 1 else t.reshape(-1)[0].item() if t.numel() else None


OF_TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "as it is": lambda t: t,
    "no dimensions": single,
    "empty": emptied,
    "double": lambda t: t.to(torch.float64),
    "half": lambda t: t.to(torch.float16),
    "int64": lambda t: t.to(torch.int64),
    "uint8": lambda t: t.to(torch.uint8),
    "bool": lambda t: t.to(torch.bool),
    "complex": lambda t: t.to(torch.complex64),
    "needs a gradient": differentiable,
    "strided": sparser,
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else None,
    "expanded": lambda t: t[:1].expand(t.shape) if t.dim() and t.shape[0] else None,
    "a class": lambda t: t.as_subclass(Plain),
    "a class that is asked": lambda t: t.as_subclass(Asked),
    "a parameter": lambda t: torch.nn.Parameter(t) if t.is_floating_point() else None,
    "a number": as_number,
    "None": lambda t: None,
}
OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "a float": float,
    "an int": int,
    "a bool": bool,
    "a complex": complex,
    "negative": lambda n: -n if type(n) is not bool else None,
    "numpy": np.asarray,
    "a numpy number": lambda n: np.float64(n) if type(n) is float else np.int64(n),
    "a narrow numpy number": lambda n: np.float32(n) if type(n) is float else np.int32(n),
    "a tensor": torch.tensor,
    "a tensor of another dtype": lambda n: torch.tensor(n, dtype=torch.float64 if type(n) is int else torch.int64),
    "a tensor that needs a gradient": lambda n: torch.tensor(float(n), requires_grad=True),
    "a tensor of one element": lambda n: torch.tensor([n]),
    "text": str,
    "None": lambda n: None,
}


class Variant(NamedTuple):
    name: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def names_of(target: Any, entry: Any) -> list[str]:
    """The names of the positional parameters, as far as they can be found out."""
    try:
        parameters = inspect.signature(target).parameters.values()
        return [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        packet = getattr(torch.ops.aten, entry.name.rpartition(".")[2], None)
        if packet is None:
            return []
        schema = getattr(packet, packet.overloads()[0])._schema
        return ["input" if a.name == "self" else a.name for a in schema.arguments if not a.kwarg_only]


def spellings(args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> Iterator[tuple[str, Any, Any]]:
    for kept in range(len(args)):
        if len(args) <= len(names) and not set(names[kept : len(args)]) & set(kwargs):
            moved = dict(zip(names[kept : len(args)], args[kept:], strict=True))
            yield f"from {kept} by name", args[:kept], {**moved, **kwargs}
    rest = list(kwargs)
    for taken in range(1, len(rest) + 1):
        if names[len(args) : len(args) + taken] == rest[:taken]:
            yield f"{taken} by place", (*args, *(kwargs[k] for k in rest[:taken])), {k: kwargs[k] for k in rest[taken:]}


def outs(target: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    try:
        made = target(*pytree.tree_map(twin, args), **pytree.tree_map(twin, kwargs))
    except Exception:
        return
    if isinstance(made, torch.Tensor) and made.layout == torch.strided:
        yield "out", torch.zeros_like(made, requires_grad=False)
        yield "out of another size", torch.zeros(0, dtype=made.dtype)
        yield "out of another dtype", torch.zeros(made.shape, dtype=torch.float64)
        yield "out of ints", torch.zeros(made.shape, dtype=torch.int64)
        yield "strided out", sparser(torch.zeros(made.shape, dtype=made.dtype))
        yield "out that needs a gradient", torch.zeros(made.shape, requires_grad=True)


def replaced(args: Any, kwargs: Any, left_out: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any]]:
    """The arguments with one leaf in turn made of another kind."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    for i, leaf in enumerate(leaves):
        table: dict[str, Any] = {}
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and not leaf.is_quantized:
            table = OF_TENSORS
        elif type(leaf) in (int, float, bool):
            table = OF_NUMBERS
        for kind, change in table.items():
            if kind in left_out or (kind == "as it is" and i):
                continue
            try:
                with torch.no_grad():
                    other = change(leaf.detach() if isinstance(leaf, torch.Tensor) else leaf)
            except (RuntimeError, TypeError, OverflowError):
                continue
            if other is None and kind != "None":
                continue
            yield f"{i} {kind}", *pytree.tree_unflatten([*leaves[:i], other, *leaves[i + 1 :]], spec)


def by_name(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)


def variants_of(entry: Any) -> Iterator[Variant]:
    dtype = dtype_of(entry)
    if dtype is None:
        return
    torch.manual_seed(1)
    random.seed(1)
    target = as_function(entry.op)
    names = names_of(target, entry)
    method = getattr(torch.Tensor, entry.name, None)
    unchecked = ("empty", "no dimensions", "a class", "a class that is asked")
    left_out = unchecked if entry.name in UNCHECKED else ()
    for i, sample in enumerate(itertools.islice(entry.sample_inputs("cpu", dtype), SAMPLES)):
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        head = f"{name_of(entry)} {i}"
        for kind, a, k in replaced(args, kwargs, left_out):
            yield Variant(f"{head}: {kind}", target, a, k)
        for spelling, a, k in spellings(args, kwargs, names):
            yield Variant(f"{head}: {spelling}", target, a, k)
        for out, tensor in outs(target, args, kwargs):
            yield Variant(f"{head}: {out}", target, args, {**kwargs, "out": tensor})
        if method is None or not isinstance(sample.input, torch.Tensor):
            continue
        for kind, a, k in replaced(args, kwargs, left_out):
            if isinstance(a[0], torch.Tensor):
                yield Variant(f"{head} method: {kind}", by_name(entry.name), a, k)


def at(leaf: Any, how: int) -> Any:
    """Other values (1), other sizes (2)."""
    if isinstance(leaf, torch.Tensor):
        other = changed(leaf, 1 if how else 0)
        if type(leaf) is not torch.Tensor:
            other = twin(leaf)
        grows = how == 2 and leaf.dim() and leaf.layout == torch.strided and type(leaf) is torch.Tensor
        if grows and not leaf.is_quantized:
            with torch.no_grad():
                other = torch.cat((other.detach(), other.detach())).requires_grad_(leaf.requires_grad)
        return other
    return leaf


def run(variant: Variant, call: Callable[..., Any], how: int) -> Any:
    leaves, spec = pytree.tree_flatten((variant.args, variant.kwargs))
    made = [at(leaf, how) for leaf in leaves]
    tensors = [leaf for leaf in made if isinstance(leaf, torch.Tensor)]

    def with_tensors(*given: torch.Tensor) -> Any:
        left = iter(given)
        filled = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in made]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return call(args, kwargs)

    given = [t.clone() if t.requires_grad and how == 1 and type(t) is torch.Tensor else t for t in tensors]
    torch.manual_seed(0)
    return outcome(with_tensors, given, leaves=tensors)


def program_of(target: Callable[..., Any]) -> Callable[..., Any]:
    names: dict[str, Any] = {"target": target}
    exec(compile("def call(args, kwargs):\n    return target(*args, **kwargs)\n", "<op_db>", "exec"), names)  # noqa: S102
    return names["call"]


def differences_of(variant: Variant, backend: str) -> list[str]:
    plainly = program_of(variant.target)
    compiled = gramme.compile(plainly, backend=backend)
    found = []

    def told(call: Callable[..., Any], how: int) -> Any:
        outcome = run(variant, call, how)
        return without_bases(outcome) if backend == "native" else outcome

    for call, how in enumerate((0, 1, 2, 0, 2)):
        expected = told(plainly, how)
        actual = told(compiled, how)
        what = difference(expected, actual)
        if what and not difference(expected, told(plainly, how)):  # else eager differs from itself
            found.append(f"{variant.name} {backend} call {call} (data {how}): {what}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600 if SOAK else 240)
def test_kinds_of_arguments() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    entries = [entry for entry in op_db if not {name_of(entry), entry.name} & {*EXCEPTIONS, *UNDEFINED}]
    differences, count = [], collections.Counter[str]()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in some(entries, ENTRIES, "kinds of arguments"):
            for variant in some(list(variants_of(entry)), VARIANTS, name_of(entry)):
                for backend in BACKENDS:
                    count[backend] += 1
                    differences += differences_of(variant, backend)
            gramme.reset()
    torch.set_num_threads(threads)
    print(dict(count), "variants;", len(differences), "differences")
    assert not differences, "\n".join(differences[:60])
