"""Optimizers: captures of a step compared with PyTorch's front end's, and native steps with eager ones.

python bench/optimizers.py            # both tables
python bench/optimizers.py capture native
python bench/optimizers.py graphs     # graphs after steps 1, 2 and 100; pytorch_optimizer's too, if it is on PYTHONPATH
python bench/optimizers.py graphs SOAP Kron
python bench/optimizers.py graphs-aot # the same under aot_eager
"""

import functools
import importlib
import logging
import math
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import torch
from gramme._backends import Eager
from gramme._meter import as_graph

now = time.perf_counter
optim = torch.optim
FORMS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD for-loop": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9, foreach=False),
    "SGD foreach": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9, foreach=True),
    "Adam for-loop": lambda ps: optim.Adam(ps, foreach=False),
    "Adam foreach": lambda ps: optim.Adam(ps, foreach=True),
    "Adam fused": lambda ps: optim.Adam(ps, fused=True),
    "NAdam for-loop": lambda ps: optim.NAdam(ps, foreach=False),
    "NAdam foreach": lambda ps: optim.NAdam(ps, foreach=True),
    "RAdam for-loop": lambda ps: optim.RAdam(ps, foreach=False),
    "RAdam foreach": lambda ps: optim.RAdam(ps, foreach=True),
    "Adamax for-loop": lambda ps: optim.Adamax(ps, foreach=False),
    "Adagrad for-loop": lambda ps: optim.Adagrad(ps, foreach=False),
    "RMSprop for-loop": lambda ps: optim.RMSprop(ps, foreach=False),
    "RMSprop foreach": lambda ps: optim.RMSprop(ps, foreach=True),
    "Adadelta for-loop": lambda ps: optim.Adadelta(ps, foreach=False),
    "ASGD for-loop": lambda ps: optim.ASGD(ps, foreach=False),
    "Adafactor": lambda ps: optim.Adafactor(ps),
    "Rprop foreach": lambda ps: optim.Rprop(ps, foreach=True),
}


def optimizer_of(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer], count: int
) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(16, 16)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = make(parameters)
    optimizer.step()  # the state is there
    return optimizer


def by_capture(count: int = 10) -> None:
    print(f"the first compiled step, backend eager, {count} parameters: milliseconds")
    ratios = []
    for name, make in FORMS.items():
        took = []
        for compile in (gramme.compile, torch.compile):
            torch._dynamo.reset()
            compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # what is imported and started once
            step: Any = compile(optimizer_of(make, count).step, backend="eager")
            start = now()
            step()
            took.append((now() - start) * 1e3)
        ratios.append(took[1] / took[0])
        print(f"  {name:17s} {took[0]:8.1f}   torch.compile {took[1]:8.1f}   {ratios[-1]:6.1f} times")
    print(f"  geometric mean {math.prod(ratios) ** (1 / len(ratios)):.1f} times, least {min(ratios):.1f}")


def microseconds(step: Callable[[], Any], repeat: int = 40) -> float:
    times = []
    for _ in range(repeat):
        start = now()
        step()
        times.append((now() - start) * 1e6)
    return min(times)


def by_step(count: int = 100) -> None:
    print(f"a step on {count} parameters of 16 by 16, one thread: microseconds")
    torch.set_num_threads(1)
    for name, make in FORMS.items():
        eager = optimizer_of(make, count).step
        native = gramme.compile(optimizer_of(make, count).step, backend="native")
        for _ in range(8):  # past branches by the number of steps
            eager(), native()
        a, b = microseconds(eager), microseconds(native)
        print(f"  {name:17s} eager {a:8.0f}   native {b:8.0f}   {a / b:5.2f} times")


# ---- graphs


class Graphs:
    """How many graphs backends were given: the two called eager, and AOTAutograd by way of PyTorch's registry."""

    def __init__(self) -> None:
        self.count = 0
        run = Eager.__call__

        def counted(backend: Eager, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            self.count += 1
            return run(backend, module, inputs)

        Eager.__call__ = counted  # type: ignore[method-assign]

    def of_torch(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.count += 1
        return module.forward

    def by_aot(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.count += 1
        return torch._dynamo.lookup_backend("aot_eager")(module, inputs)

    def backends(self, aot: bool) -> tuple[Any, Any]:
        """Of gramme and of torch.compile. AOTAutograd is one by name, which gramme tells from callables."""
        if not aot:
            return "eager", as_graph(self.of_torch)
        torch._dynamo.register_backend(lambda module, inputs: self.by_aot(module, inputs), name="counted")
        return "counted", as_graph(self.by_aot)


GRAPHS = Graphs()


def of_library() -> dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]]:
    """Those of pytorch_optimizer."""
    try:
        library = importlib.import_module("pytorch_optimizer")
    except ImportError:
        return {}
    found = {}
    for name in sorted(dir(library)):
        cls = getattr(library, name)
        if isinstance(cls, type) and issubclass(cls, optim.Optimizer) and not cls.__module__.startswith("torch."):
            found[name] = cls
    return found


def graphs_of(
    make: Callable[..., Any], front: Callable[..., Any] | None, backend: Any, count: int
) -> tuple[list[int], list[int], Any]:
    """Graphs after each step, operations outside of them in each, and all tensors at the end."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(size)) for size in ((8, 16), (8,), (4, 8), (4,))]
    optimizer = make(parameters)
    GRAPHS.count = 0
    step = front(optimizer.step, backend=backend) if front else optimizer.step
    gradients = torch.Generator().manual_seed(1)
    graphs, outside = [], []
    for i in range(count):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=gradients)
        torch.manual_seed(i)
        random.seed(i)
        with gramme.meter() as m:
            step()
        outside.append(m.outside)
        graphs.append(GRAPHS.count)
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
    return graphs, outside, [*parameters, *state]


def by_graphs(*names: str, aot: bool = False, count: int = 100) -> None:
    print(f"graphs after steps 1, 2 and {count}, backend {'aot_eager' if aot else 'eager'}: gramme, torch.compile;")
    print(
        "operations outside of them in the last step, of the two; `more` graphs, and no fewer operations outside in all"
    )
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    our_backend, their_backend = GRAPHS.backends(aot)
    equal = functools.partial(torch.allclose, rtol=1e-3, atol=1e-4) if aot else torch.equal
    worse = total = 0
    for name, make in {**FORMS, **of_library()}.items():
        if names and name not in names:
            continue
        try:
            *_, want = graphs_of(make, None, None, count)
        except Exception:  # it asks for other arguments
            continue
        torch._dynamo.reset()
        theirs, their_outside, their_values = graphs_of(make, torch.compile, their_backend, count)
        ours, our_outside, got = graphs_of(make, gramme.compile, our_backend, count)
        more = any(ours[i] > max(theirs[i], 1) for i in (0, 1, -1)) and sum(our_outside) >= sum(their_outside)
        worse, total = worse + more, total + 1
        row = "  ".join(f"{'/'.join(str(found[i]) for i in (0, 1, -1)):>10s}" for found in (ours, theirs))
        outside = f"{our_outside[-1]:4d}  {their_outside[-1]:4d}"
        marks = "   more" * more + "   other values" * (not alike(got, want, equal))
        marks += "   torch.compile has other values" * (not alike(their_values, want, equal))
        print(f"  {name:22s} {row}   {outside}{marks}", flush=True)
    print(f"  {worse} of {total} have more graphs than torch.compile")


def alike(got: list[torch.Tensor], want: list[torch.Tensor], equal: Callable[..., bool]) -> bool:
    return len(got) == len(want) and all(a.shape == b.shape and equal(a, b) for a, b in zip(got, want, strict=True))


if __name__ == "__main__":
    tables = {"capture": by_capture, "native": by_step}
    if sys.argv[1:2] in (["graphs"], ["graphs-aot"]):
        by_graphs(*sys.argv[2:], aot=sys.argv[1] == "graphs-aot")
    else:
        for table in sys.argv[1:] or tables:
            tables[table]()
