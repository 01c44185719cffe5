"""A function that trains: zero_grad, forward, loss, backward, clipping, optimizer.

Its backward runs without PyTorch's engine where nobody can tell, and as always where somebody can.
"""

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from sampling import SOAK
from torch import nn
from torch._dynamo import compiled_autograd
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from native import random_training
from native.test_recorded_backward import bits

pytestmark = pytest.mark.usefixtures("fresh")

Call = Callable[..., Any]
ROUNDS = 20


direct = gramme._C.native.direct_backwards  # how many backwards ran without the engine


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))


class Heads(nn.Module):
    """Two losses of one body."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.one, self.other = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x).tanh()
        return self.one(h) + self.other(h.relu())


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.middle, self.leave = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.enter(x)
        return self.leave(self.middle(self.middle(h).tanh()))


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.rest = nn.Linear(6, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.rest, self.enter(x), use_reentrant=False)


class Broken(nn.Module):
    """Two graphs: the second one's gradients go on into the first."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.enter(x).tanh()
        gramme.graph_break()
        return self.leave(h)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, 0.01),
}


def plain(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    return step


def clipped(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        o.step()
        return loss.item(), norm

    return step


def with_results(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    """The logits are read after the backward."""

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        out = m(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        o.step()
        o.zero_grad(set_to_none=False)
        return loss.detach(), (out.argmax(1) == y).sum(), out

    return step


def accumulating(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        losses = []
        for xs, ys in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = F.cross_entropy(m(xs), ys) / 2
            loss.backward()
            losses.append(loss.detach())
        o.step()
        return losses

    return step


def scaled(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(m(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        scaler.step(o)
        scaler.update()
        return loss, scaler.get_scale()

    return step


def scheduled(m: nn.Module, o: torch.optim.Optimizer) -> Call:
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(o, 7)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        schedule.step()
        return loss, schedule.get_last_lr()

    return step


FORMS = [plain, clipped, with_results, accumulating, scaled, scheduled]


def train(make: Call, optimizer: Call, form: Call, compiled: bool) -> Any:
    """What each step returns, all gradients and parameters, and how often the engine was not needed."""
    torch.manual_seed(0)
    m = make()
    step = form(m, optimizer(m.parameters()))
    if compiled:
        step = gramme.compile(step, backend="native")
    before, seen = direct(), []
    for _ in range(ROUNDS):
        x, y = torch.randn(4, 6), torch.randint(3, (4,))
        result = step(x, y)
        tensors = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if torch.is_tensor(t)]
        numbers = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if not torch.is_tensor(t)]
        seen.append((numbers, bits(tensors), bits([p.grad for p in m.parameters()]), bits(m.parameters())))
    return seen, direct() - before


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_have_the_bits_of_eager(optimizer: str, form: Call) -> None:
    expected, _ = train(model, OPTIMIZERS[optimizer], form, False)
    found, without_engine = train(model, OPTIMIZERS[optimizer], form, True)
    assert found == expected
    assert without_engine >= (0 if form is scaled else ROUNDS - 5)


@pytest.mark.parametrize("make", [Heads, Shared, Kept, Broken], ids=lambda make: make.__name__)
@pytest.mark.parametrize("form", [plain, with_results], ids=lambda form: form.__name__)
def test_other_models(make: Call, form: Call) -> None:
    """A parameter used twice, a checkpoint and a graph before this one are the engine's."""
    expected, _ = train(make, OPTIMIZERS["adamw"], form, False)
    found, without_engine = train(make, OPTIMIZERS["adamw"], form, True)
    assert found == expected
    assert (without_engine > 0) == (make is Heads)


@pytest.mark.parametrize("seed", range(2000 if SOAK else 40))
def test_random_programs(seed: int) -> None:
    assert random_training.whole_difference(seed) is None


# ---- where somebody can tell


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


class Asked(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def patched(owner: Any, name: str, log: list[Any]) -> Iterator[None]:
    real = getattr(owner, name)

    def around(*args: Any, **kwargs: Any) -> Any:
        log.append(name)
        return real(*args, **kwargs)

    setattr(owner, name, around)
    try:
        yield
    finally:
        setattr(owner, name, real)


def hook_on_the_loss(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.register_hook(lambda g: log.append(g.item()))
    loss.backward()


def hook_that_changes(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.register_hook(lambda g: g * 2)
    loss.backward()


def hook_on_the_node(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    assert loss.grad_fn is not None
    loss.grad_fn.register_hook(lambda *of: log.append(len(of)))
    loss.backward()


def hook_on_a_parameter(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    handle = p.register_hook(lambda g: log.append(bits([g])))
    loss.backward()
    handle.remove()


def retained(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.retain_grad()
    loss.backward()
    log.append(loss.grad)


def kept_graph(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.backward(retain_graph=True)
    loss.backward()


def twice(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        log.append(str(error))


def written(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with torch.no_grad():
        p.mul_(2)
    try:
        loss.backward()
    except RuntimeError as error:
        log.append(str(error))


def with_gradient(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.backward(torch.tensor(3.0))


def for_one_parameter(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    loss.backward(inputs=[p])


def under_a_dispatch_mode(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with Seen() as mode:
        loss.backward()
    log.append("ones_like.default" in mode.names)


def under_a_function_mode(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with Asked() as mode:
        loss.backward()
    log.append(mode.names)


def under_anomaly_mode(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with torch.autograd.detect_anomaly(check_nan=False):
        loss.backward()


def under_a_profiler(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with torch.profiler.profile() as profile:
        loss.backward()
    log.append(any("evaluate_function" in event.name for event in profile.events()))


def under_autocast(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss.backward()


def without_gradients(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with torch.no_grad():
        loss.backward()


def other_function(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    torch.autograd.backward(loss)


def compiled_backward(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with compiled_autograd._enable(lambda graph: graph):
        loss.backward()


def patched_method(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with patched(torch.Tensor, "backward", log):
        loss.backward()


def patched_function(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with patched(torch.autograd, "backward", log):
        loss.backward()


def patched_engine(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    with patched(torch.autograd, "_engine_run_backward", log):
        loss.backward()


def logged(loss: torch.Tensor, p: nn.Parameter, log: list[Any]) -> None:
    logger = logging.getLogger("torch.autograd.graph")
    handler = logging.Handler()
    handler.emit = lambda record: log.append("Executing" in record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        loss.backward()
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    log[:] = [any(log)]


WAYS = [
    hook_on_the_loss, hook_that_changes, hook_on_the_node, hook_on_a_parameter, retained, written,
    with_gradient, for_one_parameter, under_a_dispatch_mode, under_a_function_mode, under_anomaly_mode,
    under_a_profiler, under_autocast, other_function, compiled_backward, patched_function, patched_engine, logged,
]  # fmt: skip
OTHER_WAYS = [twice, kept_graph, patched_method, without_gradients]  # in part not the engine's


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("after", [plain, with_results], ids=["alone", "with results"])
@pytest.mark.parametrize(
    "way", [*WAYS, twice, kept_graph, patched_method, without_gradients], ids=lambda way: way.__name__
)
def test_what_somebody_sees(way: Call, after: Call) -> None:
    """Some steps are as always, others do it their way: `way` is the engine's."""
    told, began = [], direct()
    for compiled in (False, True):
        torch.manual_seed(0)
        m = model()
        log: list[Any] = []

        def step(x: torch.Tensor, y: torch.Tensor, special: bool, m: nn.Module = m, log: list[Any] = log) -> Any:
            out = m(x)
            loss = F.cross_entropy(out, y)
            if special:
                way(loss, m[3].weight, log)
            else:
                loss.backward()
            return loss.detach() if after is plain else out.sum()

        run = gramme.compile(step, backend="native") if compiled else step
        seen = []
        for round in range(12):
            m.zero_grad()
            before = direct()
            result = run(torch.randn(4, 6), torch.randint(3, (4,)), round % 4 == 3)
            seen.append((bits([result]), bits([p.grad for p in m.parameters()])))
            if compiled and round % 4 == 3 and way in WAYS:
                assert direct() == before
        told.append((seen, log))
    assert told[0] == told[1]
    assert direct() > began


def test_a_loss_that_is_no_number_or_needs_no_gradient() -> None:
    m = model()

    def step(x: torch.Tensor, grad: bool) -> None:
        with torch.set_grad_enabled(grad):
            out = m(x)
        out.backward() if grad else out.sum().backward()

    run = gramme.compile(step, backend="native")
    for _ in range(4):
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            run(torch.randn(4, 6), True)
        with pytest.raises(RuntimeError, match="does not require grad"):
            run(torch.randn(4, 6), False)


def test_a_gradient_that_is_added_to() -> None:
    """It is added to in place, where eager does so."""
    seen, began = [], direct()
    for compiled in (False, True):
        torch.manual_seed(0)
        m = model()

        def step(x: torch.Tensor, y: torch.Tensor, m: nn.Module = m) -> None:
            F.cross_entropy(m(x), y).backward()

        run = gramme.compile(step, backend="native") if compiled else step
        kept = None
        for _ in range(6):
            run(torch.randn(4, 6), torch.randint(3, (4,)))
            first = m[0].weight.grad
            kept = kept if kept is not None else first
            assert first is kept
        seen.append(bits([p.grad for p in m.parameters()]))
    assert seen[0] == seen[1]
    assert direct() > began


def test_the_graph_is_freed() -> None:
    m = model()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        return loss

    run, began = gramme.compile(step, backend="native"), direct()
    for _ in range(5):
        x = torch.randn(4, 6)
        loss = run(x, torch.randint(3, (4,)))
    assert direct() > began
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    assert loss.grad_fn is not None


def test_threads() -> None:
    m = model()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        return loss

    run = gramme.compile(step, backend="native")
    batches = [(torch.randn(4, 6), torch.randint(3, (4,))) for _ in range(8)]
    for x, y in batches:
        step(x, y)
    expected = [p.grad.clone() for p in m.parameters() if p.grad is not None]
    m.zero_grad()
    for x, y in batches[:4]:
        run(x, y)
    m.zero_grad()
    threads = [threading.Thread(target=run, args=batch) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for p, gradient in zip(m.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient)
