"""Every operator of PyTorch's own table, run natively: recorded on some data, replayed on other data, against eager."""

import collections
import functools
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import gramme
import pytest
import torch
import torch.fx as fx
import torch.utils._pytree as pytree
from device import DEVICE
from sampling import SOAK

from native.same import difference, outcome, twin

SAMPLES = 4 if SOAK else 2
SHARE = 100  # entries looked at in one run that is no soak
native: Any = gramme._C.native

# Entries, or their variants, whose results cannot be compared.
EXCEPTIONS = {
    "empty": "uninitialised memory",
    "empty_like": "uninitialised memory",
    "empty_permuted": "uninitialised memory",
    "empty_strided": "uninitialised memory",
    "new_empty": "uninitialised memory",
    "new_empty_strided": "uninitialised memory",
    "linalg.lstsq": "eager differs from itself",
    **({} if DEVICE == "cpu" else {"segment_reduce": "other data is no lengths: kernels assert"}),
    "linalg.lstsq.grad_oriented": "eager differs from itself",
}


class Case(NamedTuple):
    name: str
    target: Callable[..., Any] | str  # a string is the name of a method
    in_place: bool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def name_of(entry: Any) -> str:
    return entry.name + ("." + entry.variant_test_name if entry.variant_test_name else "")


def dtype_of(entry: Any) -> torch.dtype | None:
    supported = sorted(entry.supported_dtypes(DEVICE), key=str)
    return torch.float32 if torch.float32 in supported else next(iter(supported), None)


def is_helper(target: Any) -> bool:
    """A function of the table's own around PyTorch's, which no graph would call."""
    module = getattr(target, "__module__", None) or ""
    return not isinstance(target, str) and (module.startswith("torch.testing") or target.__name__ == "<lambda>")


def as_function(target: Callable[..., Any]) -> Callable[..., Any]:
    """Graphs want functions with names."""
    return target if hasattr(target, "__name__") else lambda *args, **kwargs: target(*args, **kwargs)


def public_function(entry: Any) -> Any:
    """What the entry is named after: the table calls some by way of a helper."""
    found: Any = torch
    for name in entry.name.removeprefix("torch.").split("."):
        found = getattr(found, name, None)
    return found


def targets_of(entry: Any) -> Iterator[tuple[str, Any, bool]]:
    yield "function", as_function(entry.op), False
    if callable(named := public_function(entry)) and named is not entry.op:
        yield "public function", as_function(named), False
    if hasattr(torch.Tensor, entry.name):
        yield "method", entry.name, False
    if in_place := entry.inplace_variant:
        yield "in place", as_function(in_place), True


def cases_of(entry: Any) -> Iterator[Case]:
    dtype = dtype_of(entry)
    if dtype is None:
        return
    requires_grad = entry.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    torch.manual_seed(1)
    random.seed(1)
    samples = list(itertools.islice(entry.sample_inputs(DEVICE, dtype, requires_grad=requires_grad), SAMPLES))
    for variant, target, in_place in targets_of(entry):
        for i, sample in enumerate(samples):
            args = (sample.input, *sample.args)
            yield Case(f"{name_of(entry)} {variant} {i}", target, in_place, args, dict(sample.kwargs))


def program_of(case: Case, among_others: bool) -> tuple[Any, Callable[..., Any], list[torch.Tensor]]:
    """A graph of the one call; the same call plainly; the tensors that both take after a number.

    `among_others`: the call takes copies that are read again after it, in a graph of any sizes.
    """
    leaves, spec = pytree.tree_flatten((case.args, case.kwargs))
    graph, inputs = fx.Graph(), []
    number = graph.placeholder("number")
    nodes: dict[int, fx.Node] = {}
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) not in nodes:
            nodes[id(leaf)] = graph.placeholder(f"input_{len(inputs)}")
            inputs.append(leaf)
    if among_others:
        nodes = {key: graph.call_method("clone", (node,)) for key, node in nodes.items()}
    places = [next((i for i, t in enumerate(inputs) if t is leaf), None) for leaf in leaves]
    args, kwargs = pytree.tree_unflatten([nodes.get(id(leaf), leaf) for leaf in leaves], spec)
    create = graph.call_method if isinstance(case.target, str) else graph.call_function
    result = create(case.target, args, kwargs)
    after = [graph.call_method("clone", (node,)) for node in nodes.values()]
    made = graph.call_function(torch.zeros, (number,)) if among_others else None
    graph.output((result, after, made) if among_others else result)

    def plainly(number: int, *tensors: torch.Tensor) -> Any:
        tensors = tuple(tensor.clone() for tensor in tensors) if among_others else tensors
        filled = [leaf if place is None else tensors[place] for leaf, place in zip(leaves, places, strict=True)]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        if isinstance(case.target, str):
            result = getattr(args[0], case.target)(*args[1:], **kwargs)
        else:
            result = case.target(*args, **kwargs)
        return (result, [tensor.clone() for tensor in tensors], torch.zeros(number)) if among_others else result

    return SimpleNamespace(graph=graph), plainly, inputs


def changed(tensor: torch.Tensor, how: int) -> torch.Tensor:
    """Other data of the same form."""
    copy = twin(tensor)
    if how == 0 or copy.layout != torch.strided or copy.is_quantized or copy.is_nested or not copy.numel():
        return copy
    with torch.no_grad():
        overlapping = torch._debug_has_internal_overlap(copy) != 0
        if copy.is_conj() or copy.is_neg() or overlapping:
            pass
        elif copy.is_floating_point() or copy.is_complex():
            copy.copy_(copy * 0.75 if copy.element_size() > 1 else copy.float() * 0.75)
        elif copy.dtype == torch.bool:
            copy.logical_not_()
        elif how == 1:
            copy.copy_(copy.reshape(-1).flip(0).reshape(copy.shape))
    return copy


class Checked(NamedTuple):
    differences: list[str]
    composition: collections.Counter[str]


def run_with(case: Case, inputs: Sequence[torch.Tensor], how: int, call: Callable[..., Any], grad: bool) -> Any:
    made = [changed(t, how) for t in inputs]
    given = [t.clone() if case.in_place and i == 0 and t.requires_grad else t for i, t in enumerate(made)]
    with torch.set_grad_enabled(grad):
        return outcome(call, given, leaves=made)


def check(case: Case, grad: bool, among_others: bool = False) -> Checked:
    module, plainly, inputs = program_of(case, among_others)
    number: Any = 3 if among_others else None
    expected = [run_with(case, inputs, how, functools.partial(plainly, number), grad) for how in (0, 1, 2)]
    if "raised" in expected[0]:
        return Checked([], collections.Counter(raises=1))
    compiled = native.from_graph_module(module)
    order = [1, 0, 2, 0] if "raised" not in expected[1] else [0, 1, 2, 0]
    differences = []
    for call, how in enumerate(order):
        actual = run_with(case, inputs, how, functools.partial(compiled, number), grad)
        if found := difference(expected[how], actual):
            differences.append(f"{case.name} {'grad' if grad else 'no_grad'} call {call}: {found}")
    counted = native.counters(compiled)
    kind = "native" if not counted["python"] else "helper" if is_helper(case.target) else "python"
    if differences:
        differences.append(native.tape(compiled))
    return Checked(differences, collections.Counter({kind: 1, f"recorded {counted['recorded']}": 1}))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def entries() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return [entry for entry in op_db if name_of(entry) not in EXCEPTIONS]


def look_at(
    chosen: Sequence[Any], among_others: bool = False
) -> tuple[dict[str, collections.Counter[str]], dict[str, list[str]]]:
    """Per entry: how many of its cases were native, python (by way of a helper or not) or raised; and what differed."""
    kinds: dict[str, collections.Counter[str]] = {}
    differences: dict[str, list[str]] = {}
    for entry in chosen:
        name = name_of(entry)
        kinds[name] = collections.Counter()
        for case in cases_of(entry):
            for grad in (True, False):
                checked = check(case, grad, among_others)
                kinds[name] += checked.composition
                if checked.differences:
                    differences.setdefault(name, []).extend(checked.differences)
    return kinds, differences


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
def test_entries_are_eagers() -> None:
    everything = entries()
    chosen = everything if SOAK else random.Random(7).sample(everything, SHARE)
    kinds, differences = look_at(chosen)
    assert not differences, "\n".join(line for lines in differences.values() for line in lines[:4])
    native_only = [name for name, kind in kinds.items() if kind["native"] and not kind["python"]]
    assert len(native_only) > 0.8 * len(chosen)


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
def test_operands_are_there_afterwards() -> None:
    everything = entries()
    losses = [entry for entry in everything if entry.name.endswith("_loss")]
    chosen = everything if SOAK else losses + random.Random(8).sample(everything, SHARE // 2)
    _, differences = look_at(chosen, among_others=True)
    assert not differences, "\n".join(line for lines in differences.values() for line in lines[:4])
