"""Every operator of PyTorch's own table with one of its Python numbers changing from call to call, against eager."""

import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gramme
import pytest
import torch
from graph.binding import testing
from native.same import difference, outcome
from native.test_op_db import EXCEPTIONS, as_function, dtype_of, name_of
from sampling import SOAK

SHARE = {"eager": 60, "native": 60, "aot_eager": 12}  # entries looked at in one run that is no soak
SAMPLES = 4 if SOAK else 2
REWRITTEN = ("addcdiv",)  # with a value it stands in graphs as PyTorch's front end writes it: other bits
# Numbers that name a mode, of which others leave memory uninitialised; sizes of memory that nobody fills.
UNDEFINED = ("grid_sampler_3d", "grid_sampler_2d", "resize_")
ADDRESSES = ("unflatten",)  # an error text with the addresses of C++ functions
# AOTAutograd gives a view of a new tensor where eager gives that, and raises BackendCompilerFailed with PyTorch's text
# if an offset is outside of the storage.
FUNCTIONALIZED = (
    *("stft", "quantile", "nanquantile", "nn.functional.scaled_dot_product_attention"),
    *("as_strided", "as_strided_scatter", "as_strided.partial_views"),
)


class Place(NamedTuple):
    """A number among the arguments of a call, and the call as a function of the tensors and of that number."""

    name: str
    call: Callable[..., Any]
    with_marker: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]
    tensors: list[torch.Tensor]
    number: Any


def parts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for i, item in enumerate(value):
            yield from parts(item, (*path, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from parts(item, (*path, key))
    elif isinstance(value, slice):
        for field in ("start", "stop", "step"):
            yield from parts(getattr(value, field), (*path, field))
    else:
        yield path, value


def rebuilt(value: Any, change: Callable[[tuple[Any, ...], Any], Any], path: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [rebuilt(item, change, (*path, i)) for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: rebuilt(item, change, (*path, key)) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(rebuilt(getattr(value, f), change, (*path, f)) for f in ("start", "stop", "step")))
    return change(path, value)


def places_of(entry: Any) -> Iterator[Place]:
    dtype = dtype_of(entry)
    if dtype is None:
        return
    torch.manual_seed(1)
    random.seed(1)
    for i, sample in enumerate(itertools.islice(entry.sample_inputs("cpu", dtype), SAMPLES)):
        arguments = ((sample.input, *sample.args), dict(sample.kwargs))
        found = dict(parts(arguments))
        tensors = [v for v in found.values() if isinstance(v, torch.Tensor)]
        for path, number in found.items():
            if type(number) in (int, float):
                yield place(f"{name_of(entry)} {i} {path}", as_function(entry.op), arguments, path, tensors, number)


def place(name: str, target: Any, arguments: Any, path: Any, tensors: list[torch.Tensor], number: Any) -> Place:
    order = [p for p, v in parts(arguments) if isinstance(v, torch.Tensor)]

    def filled(given: list[torch.Tensor], n: Any) -> Any:
        return rebuilt(arguments, lambda p, v: n if p == path else given[order.index(p)] if p in order else v)

    return Place(name, inlined(target, arguments, path, order), lambda n: filled(tensors, n), tensors, number)


def inlined(target: Any, arguments: Any, path: Any, order: list[Any]) -> Callable[..., Any]:
    """The call as source, so that nothing but it is captured."""
    names: dict[str, Any] = {"target": target}

    def spell(value: Any, at: tuple[Any, ...]) -> str:
        if at == path:
            return "n"
        if at in order:
            return f"t{order.index(at)}"
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            inside = "".join(spell(item, (*at, i)) + ", " for i, item in enumerate(value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if isinstance(value, slice):
            return "slice(" + ", ".join(spell(getattr(value, f), (*at, f)) for f in ("start", "stop", "step")) + ")"
        name = f"c{len(names)}"
        names[name] = value
        return name

    args, kwargs = arguments
    spelled = [spell(arg, (0, i)) for i, arg in enumerate(args)]
    spelled += [f"{key}={spell(value, (1, key))}" for key, value in kwargs.items()]
    head = ", ".join([*(f"t{i}" for i in range(len(order))), "n"])
    source = f"def call({head}):\n    return target({', '.join(spelled)})\n"
    exec(compile(source, "<op_db>", "exec"), names)  # noqa: S102
    return names["call"]


def values_of(number: Any) -> list[Any]:
    if isinstance(number, float):
        return [number, number * 0.5, number + 1.0, -number]
    return [number, number + 1, max(number - 1, -3), number + 2]


def run(call: Callable[..., Any], tensors: list[torch.Tensor], n: Any) -> Any:
    torch.manual_seed(0)
    made = [t.detach().clone(memory_format=torch.preserve_format) if t.layout == torch.strided else t for t in tensors]
    return outcome(lambda *given: call(*given, n), made, leaves=made)


def is_aots(found: Place, n: Any, actual: Any) -> bool:
    """Does PyTorch's front end give the same? AOTAutograd decomposes operators, and copies what it wrote back."""
    torch._dynamo.reset()
    return not difference(run(torch.compile(found.call, backend="aot_eager"), found.tensors, n), actual)


def differences_at(found: Place, backend: str) -> list[str]:
    compiled = gramme.compile(found.call, backend=backend)
    differences = []
    for n in (*values_of(found.number), found.number):
        expected = run(found.call, found.tensors, n)
        actual = run(compiled, found.tensors, n)
        what = difference(expected, actual)
        if what and backend == "aot_eager" and is_aots(found, n, actual):
            continue
        if what and not difference(expected, run(found.call, found.tensors, n)):  # else eager differs from itself
            differences.append(f"{found.name} = {n!r}: {what}")
    gramme.reset()
    return differences


def is_known(found: Place) -> bool:
    args, kwargs = found.with_marker(testing.RunTimeNumber(found.number, 2.0**30))
    target = found.call.__globals__["target"]
    try:
        return any(testing.depends_on_numbers(target, *args, **kwargs))
    except RuntimeError:  # an argument that no graph takes
        return True


@pytest.mark.slow
@pytest.mark.timeout(7200 if SOAK else 600)
@pytest.mark.parametrize("backend", SHARE)
def test_changing_numbers_are_eagers(backend: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    left_out = [*EXCEPTIONS, *REWRITTEN, *UNDEFINED, *ADDRESSES, *(FUNCTIONALIZED if backend == "aot_eager" else ())]
    everything = [entry for entry in op_db if name_of(entry) not in left_out]
    chosen = everything if SOAK else random.Random(11).sample(everything, SHARE[backend])
    differences: list[str] = []
    taken, known = set(), set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in chosen:
            for found in places_of(entry):
                (known if is_known(found) else taken).add(found.name)
                differences += differences_at(found, backend)
    print(f"{backend}: {len(taken)} places take a number that varies, {len(known)} want it known")
    assert not differences, "\n".join(line[:300] for line in differences[:40])
