"""What autograd's nodes are made by PyTorch's own table of operators, and whether their backward is recorded."""

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import gramme
import torch
import torch.utils._pytree as pytree
from device import DEVICE, placed

from native.same import nodes, recorded_nodes, twin, values_of


class Training(NamedTuple):
    name: str
    call: Callable[..., Any]
    given: Any  # args, kwargs
    dtype: torch.dtype | None = None  # of the autocast that it runs under


# Nodes that models have, and the tables make in no call that is recorded.
MORE: list[tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    ("x[:]", lambda x: x[:], ((3, 4),)),
    ("x[..., rows]", lambda x: x[:, torch.tensor([2, 0, 2], device=x.device)], ((3, 4),)),
]


class Trained(NamedTuple):
    nodes: set[str]
    outcome: str  # recorded, engine, raises, differs


def operators(entry: Any, samples: int) -> Iterator[Training]:
    """Calls of an entry of op_db of which gradients can be taken."""
    if not entry.supports_autograd or torch.float32 not in entry.supported_dtypes(DEVICE):
        return
    torch.manual_seed(1)
    random.seed(1)
    for sample in itertools.islice(entry.sample_inputs(DEVICE, torch.float32, requires_grad=True), samples):
        yield Training(entry.name, entry.op, ((sample.input, *sample.args), dict(sample.kwargs)))


def modules(entry: Any) -> Iterator[Training]:
    """Calls of an entry of module_db in training, its parameters being inputs."""
    torch.manual_seed(1)
    for given in entry.module_inputs_func(entry, DEVICE, torch.float32, requires_grad=True, training=True):
        if given.forward_input is None:
            continue
        made = given.constructor_input
        module = placed(entry.module_cls(*made.args, **made.kwargs))

        def call(parameters: Any, args: Any, kwargs: Any, module: Any = module) -> Any:
            return torch.func.functional_call(module, parameters, args, kwargs)

        forward = given.forward_input
        yield Training(entry.name, call, ((dict(module.named_parameters()), forward.args, forward.kwargs), {}))


def more() -> Iterator[Training]:
    for name, call, sizes in MORE:
        torch.manual_seed(1)
        yield Training(name, call, (tuple(placed(torch.randn(*size)).requires_grad_() for size in sizes), {}))


def joined(value: Any, earlier: torch.Tensor, whole: bool) -> Any:
    """An operator's first argument, of which the first tensor depends on what an operator before it gave."""
    leaves, spec = pytree.tree_flatten(value)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            continue
        if whole and earlier.shape == leaf.shape and earlier.dtype == leaf.dtype:
            leaves[i] = earlier
        else:
            real = earlier.abs() if earlier.is_complex() else earlier
            leaves[i] = leaf * (1 + 0.1 * real.to(leaf.dtype).sum().tanh())
        break
    return pytree.tree_unflatten(leaves, spec)


def chain(trainings: list[Training], whole: bool) -> Training:
    """The operators one after another: the next takes what one gave, if it may be `whole`, or a number made of it."""

    def call(*given: Any) -> list[torch.Tensor]:
        outputs: list[torch.Tensor] = []
        for training, (args, kwargs) in zip(trainings, given, strict=True):
            first = joined(args[0], outputs[-1], whole) if outputs else args[0]
            made = pytree.tree_leaves(training.call(first, *args[1:], **kwargs))
            outputs += [t for t in made if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())]
        return outputs

    return Training(", ".join(each.name for each in trainings), call, (tuple(each.given for each in trainings), {}))


def chains(entries: Any, count: int, seed: int) -> Iterator[Training]:
    """Programs of three operators drawn from op_db; those of which gradients are taken one by one are known to run."""
    single = [training for entry in entries for training in operators(entry, 2)]
    drawn = random.Random(seed)
    for _ in range(count):
        yield chain(drawn.sample(single, 3), drawn.random() < 0.5)


def plain(value: Any) -> bool:
    return value.layout == torch.strided and type(value) in (torch.Tensor, torch.nn.Parameter)


def data(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Other data of the same form, at the numbers that are not 0."""
    made = twin(tensor)
    if number and made.is_floating_point() and torch._debug_has_internal_overlap(made) == 0:
        with torch.no_grad():
            made.mul_(1 - 0.1 * number)
    return made


def outputs_of(value: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor) and t.requires_grad]


def step(
    call: Callable[..., Any], leaves: list[Any], number: int, dtype: torch.dtype | None
) -> tuple[Any, set[str], bool]:
    torch.manual_seed(number)
    given = [data(x, number) if isinstance(x, torch.Tensor) else x for x in leaves]
    with torch.autocast(DEVICE, dtype=dtype, enabled=dtype is not None):
        outputs = outputs_of(call(*given))
    seen = {name for output in outputs for name in nodes(output)} - {"torch::autograd::AccumulateGrad"}
    recorded = {name for output in outputs for name in recorded_nodes(output)}
    loss = sum((o.abs() if o.is_complex() else o).double().sum() for o in outputs)
    loss.backward()  # type: ignore[union-attr]
    grads = [x.grad for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    told = [None if g is None else (g.nan_to_num(7e7).contiguous().cpu().numpy().tobytes(), g.stride()) for g in grads]
    return told, seen, seen == recorded


def train(training: Training) -> Trained:
    leaves, spec = pytree.tree_flatten(training.given)
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if not all(map(plain, tensors)) or not any(t.requires_grad for t in tensors):
        return Trained(set(), "raises")

    def call(*given: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(list(given), spec)
        return [o * 1 for o in outputs_of(training.call(*args, **kwargs))]  # what shares memory is left to the engine

    try:
        wanted = [step(call, leaves, number, training.dtype) for number in range(3)]
    except Exception:  # whatever eager raises is no matter here
        return Trained(set(), "raises")
    seen = set[str]().union(*(names for _, names, _ in wanted))
    compiled = gramme.compile(call, backend="native", options={"recorded_backward": True})
    recorded = False
    for number in (0, 1, 2, 0, 1):
        told, _, recorded = step(compiled, leaves, number, training.dtype)
        if told != wanted[number][0]:
            return Trained(seen, "differs")
    return Trained(seen, "recorded" if recorded else "engine")


def reset_between(trainings: Iterable[Training]) -> Iterator[Training]:
    """The same, with nothing left of what was compiled after each fifty."""
    for i, training in enumerate(trainings):
        if i % 50 == 49:
            gramme.reset()
        yield training


def found_in(trainings: Iterable[Training]) -> tuple[Counter[str], dict[str, set[str]], list[str]]:
    """How many calls came out how, by that the nodes that were in them, and the names of those that differ."""
    counts: Counter[str] = Counter()
    found: dict[str, set[str]] = {"recorded": set(), "engine": set(), "differs": set()}
    differ: list[str] = []
    for training in reset_between(trainings):
        trained = train(training)
        counts[trained.outcome] += 1
        if trained.outcome in found:
            found[trained.outcome] |= trained.nodes
        if trained.outcome == "differs":
            differ.append(training.name)
    return counts, found, differ


def seen_of(tensor: torch.Tensor, counted: bool) -> Any:
    kept = None if tensor.is_inference() else (counted and tensor._version, tensor.requires_grad, tensor._is_view())
    return values_of(tensor), tensor.shape, tensor.stride(), tensor.dtype, kept


def infers(
    training: Training,
    context: Callable[[], Any] = torch.no_grad,
    inputs: Callable[[], Any] = contextlib.nullcontext,
) -> bool:
    """Does the program give eager's values without gradients, also for other data? True, too, if it raises eagerly.

    It runs in `context`, and its inputs are made in `inputs`.
    """
    leaves, spec = pytree.tree_flatten(training.given)
    if not all(plain(x) for x in leaves if isinstance(x, torch.Tensor)):
        return True

    def call(*given: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(list(given), spec)
        outputs = [t for t in pytree.tree_leaves(training.call(*args, **kwargs)) if isinstance(t, torch.Tensor)]
        return outputs, [o * 2 for o in outputs], [o.dtype for o in outputs]  # dtypes as a capture knows them

    def told(function: Callable[..., Any], number: int) -> Any:
        torch.manual_seed(number)
        with inputs():
            given = [data(x, number) if isinstance(x, torch.Tensor) else x for x in leaves]
        with context(), torch.autocast(DEVICE, dtype=training.dtype, enabled=training.dtype is not None):
            outputs, doubled, dtypes = function(*given)
            # Kernels that are called on inference tensors count what they write inside; tapes call them below that.
            counted = inputs is contextlib.nullcontext
            return dtypes, [seen_of(o, counted) for o in [*outputs, *doubled]]

    try:
        wanted = [told(call, number) for number in range(3)]
    except Exception:  # whatever eager raises is no matter here
        return True
    compiled = gramme.compile(call, backend="native")
    return all(told(compiled, number) == wanted[number] for number in (0, 1, 2, 0))


def known(
    entries: Any, samples: int, dtype: torch.dtype | None = None
) -> tuple[Counter[str], dict[str, set[str]], list[str]]:
    """The calls of PyTorch's tables, and more of them."""
    tables = (operators(entry, samples) if hasattr(entry, "op") else modules(entry) for entry in entries)
    everything = itertools.chain(itertools.chain.from_iterable(tables), more())
    return found_in(training._replace(dtype=dtype) for training in everything)
