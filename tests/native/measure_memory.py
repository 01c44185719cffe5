"""Prints, as JSON, the memory that programs and models take eagerly and natively: run by test_memory.py on its own,
since it replaces the allocator of its process."""

import contextlib
import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import gramme
import torch
import torch.utils._pytree as pytree
from gramme import _C
from gramme._compile import entry_of

from native.corpus import CORPUS
from native.memory_programs import PROGRAMS

memory: Any = _C.testing.memory  # type: ignore[attr-defined]
CALLS = 3


def measure(call: Callable[..., Any], args: Any, kwargs: Any, seed: int, grad: bool) -> dict[str, int]:
    """Bytes above those held before: at most in the call, beside its result, at most in the backward, at the end."""
    torch.manual_seed(seed)
    before = memory.held()
    memory.forget_peak()
    with torch.set_grad_enabled(grad):
        output = call(*args, **kwargs)
    found = {"peak": memory.peak() - before, "with_result": memory.held() - before}
    memory.forget_peak()
    if grad:
        loss: Any = sum(t.float().sum() for t in tensors(output) if t.requires_grad)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        found["backward"] = memory.peak() - before
        del loss
    del output
    for parameter in (*args, *(call.parameters() if isinstance(call, torch.nn.Module) else ())):
        parameter.grad = None
    found["left"] = memory.held() - before
    return found


def tensors(output: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def draws(function: Any, args: Any, kwargs: Any) -> bool:
    """Does a call draw random numbers?"""
    before = torch.get_rng_state()
    with torch.no_grad():
        function(*args, **kwargs)
    return not torch.equal(before, torch.get_rng_state())


def instructions(compiled: Any) -> int:
    graphs = [segment["native"] for segment in _C.segments(entry_of(compiled))]
    counted = [_C.native.counters(graph) for graph in graphs if graph is not None]
    return sum(count["typed"] + count["boxed"] for count in counted)


def compare(function: Any, args: Any, kwargs: Any, grad: bool, eagerly: Any = contextlib.nullcontext) -> dict[str, Any]:
    """Of each call eagerly, then natively: the first native one captures and records."""
    if isinstance(function, torch.nn.Module):
        function.train(grad)
    # What a recorded backward takes: measure_training.py. What comes from the cache is not counted.
    options = {"recorded_backward": False, "caching_allocator": False}
    compiled = gramme.compile(function, backend="native", options=options)
    for warm_up, told in enumerate((contextlib.nullcontext, eagerly)):  # what libraries keep after their first use
        with told():
            measure(function, args, kwargs, warm_up, grad)
    with eagerly():
        random = draws(function, args, kwargs)
        eager = [measure(function, args, kwargs, seed, grad) for seed in range(CALLS)]
    native = []
    for seed in range(CALLS):
        before = gramme.statistics(compiled).captures
        native.append(measure(compiled, args, kwargs, seed, grad))
        captured = gramme.statistics(compiled).captures > before
        native[-1]["recorded"] = instructions(compiled) if captured else 0
    gramme.reset()
    return {"eager": eager, "native": native, "random": random}


def programs(grad: bool) -> Any:
    for name, function in PROGRAMS.items():
        torch.manual_seed(0)
        x, w = (torch.randn(n, 256).requires_grad_(grad) for n in (64, 256))
        yield name, compare(function, (x, w), {}, grad)


def corpus(grad: bool) -> Any:
    for name, make in CORPUS.items():
        torch.manual_seed(0)
        yield name, compare(*make(), {}, grad)


def models(grad: bool) -> Any:
    from e2e.models import MODELS, eagerly

    for name, case in MODELS.items():
        yield name, compare(case.make(), (), case.arguments(0), grad, eagerly)


def checkpoints(grad: bool) -> Any:
    from e2e.function_modules import CHECKPOINTS

    for name, make in CHECKPOINTS.items():
        torch.manual_seed(0)
        module, args = make()
        yield name, compare(module, tuple(arg.requires_grad_(grad) for arg in args), {}, grad)


if __name__ == "__main__":
    torch.set_num_threads(1)
    memory.count()
    gc.disable()
    known = {"programs": programs, "corpus": corpus, "models": models, "checkpoints": checkpoints}
    groups = [known[name] for name in sys.argv[1:]]
    modes = {"no_grad": False, "grad": True}
    print(json.dumps({mode: [list(group(grad)) for group in groups] for mode, grad in modes.items()}))
