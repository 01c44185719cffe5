"""Graphs of optimizer steps: no more than PyTorch's front end makes, whatever the backend."""

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.utils import counters

from e2e.apart import in_a_child

optim = torch.optim
Make = Callable[[list[torch.nn.Parameter]], optim.Optimizer]
ONE, TWO = (1, 1, 1), (1, 2, 2)
"""Graphs of torch.compile after step 1, after step 2, in the end. What it runs without a graph counts as one here."""


def made(cls: Any, **options: Any) -> Make:
    return lambda parameters: cls(parameters, **options)


def in_groups(parameters: list[torch.nn.Parameter]) -> optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": parameters[:1], "lr": 0.2}, {"params": parameters[1:]}]
    return optim.Adam(groups, lr=0.1)


def table() -> dict[str, tuple[Make, tuple[int, int, int]]]:
    rows: dict[str, tuple[Make, tuple[int, int, int]]] = {}
    both: list[tuple[Any, dict[str, Any], tuple[int, int, int]]] = [
        (optim.SGD, {}, ONE),
        (optim.SGD, {"momentum": 0.9}, TWO),
        (optim.SGD, {"momentum": 0.9, "nesterov": True}, TWO),
        (optim.SGD, {"maximize": True, "weight_decay": 0.1}, ONE),
        (optim.Adam, {}, ONE),
        (optim.Adam, {"amsgrad": True}, ONE),
        (optim.Adam, {"maximize": True}, ONE),
        (optim.AdamW, {}, ONE),
        (optim.NAdam, {}, ONE),
        (optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}, ONE),
        (optim.RAdam, {}, ONE),
        (optim.Adagrad, {"lr_decay": 0.1}, ONE),
        (optim.Adamax, {}, ONE),
        (optim.Adadelta, {}, ONE),
        (optim.RMSprop, {}, ONE),
        (optim.RMSprop, {"centered": True, "momentum": 0.9}, ONE),
        (optim.Rprop, {}, ONE),
        (optim.ASGD, {}, ONE),
        (optim.Adafactor, {}, ONE),
    ]
    for cls, options, counts in both:
        for foreach in (False, True):
            words = " ".join([cls.__name__, "foreach" if foreach else "for-loop", *options])
            rows[words] = made(cls, foreach=foreach, **options), counts
    rows["SGD fused"] = made(optim.SGD, lr=0.1, momentum=0.9, fused=True), TWO
    rows["Adam fused"] = made(optim.Adam, amsgrad=True, fused=True), ONE
    rows["AdamW fused"] = made(optim.AdamW, fused=True), ONE
    rows["Muon"] = lambda ps: optim.Muon([p for p in ps if p.ndim == 2], lr=0.1), ONE
    rows["AdamW tensor lr"] = lambda ps: optim.AdamW(ps, lr=torch.tensor(0.1)), ONE
    rows["Adam groups"] = lambda ps: in_groups(ps), ONE
    return rows


TABLE = table()
SCHEDULED: dict[str, Make] = {
    "SGD": made(optim.SGD, lr=0.1, momentum=0.9),
    "AdamW": made(optim.AdamW, lr=0.1),
    "AdamW foreach": made(optim.AdamW, lr=0.1, foreach=True),
    "AdamW fused": made(optim.AdamW, lr=0.1, fused=True),
    "SGD fused": made(optim.SGD, lr=0.1, fused=True),
    "Adagrad": made(optim.Adagrad, lr=0.1),
}


class Counter:
    """A backend of the program's own."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        self.graphs += 1
        return module.forward


def steps(
    make: Make,
    compile: Callable[[Any], Any] | None,
    count: int,
    scheduled: bool = False,
    counted: Callable[[Any], int] = lambda step: gramme.statistics(step).captures,
) -> tuple[list[torch.Tensor], Any, list[int], optim.Optimizer]:
    """What a training leaves, the compiled step, its captures after each (or what is counted), and the optimizer."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(size)) for size in ((4, 6), (4,), (3, 4), (3,))]
    optimizer = make(parameters)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if scheduled else None
    step = compile(optimizer.step) if compile else optimizer.step
    captures = []
    for _ in range(count):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        step()
        if schedule:
            schedule.step()
        captures.append(counted(step) if compile else 0)
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
    return [*parameters, *state], step, captures, optimizer


def same(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def close(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return len(got) == len(want) and all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", TABLE)
def test_no_more_graphs_and_eagers_bits(name: str, backend: str) -> None:
    make, (first, second, last) = TABLE[name]
    if name.startswith("RAdam"):
        last += 1  # from the sixth step on it computes otherwise; PyTorch's front end computes both and chooses
    want, *_ = steps(make, None, 8)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=backend, fullgraph=True), 8)
    assert same(got, want)
    assert captures[0] <= first
    assert captures[1] <= second
    assert captures[-1] <= last


@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith("Adafactor")])
def test_no_more_graphs_for_a_compiler(name: str) -> None:
    make, (first, second, last) = TABLE[name]
    counter = Counter()
    want, *_ = steps(make, None, 8)
    got, step, captures, optimizer = steps(make, lambda step: gramme.compile(step, backend=counter), 8)
    assert close(got, want)
    assert counter.graphs <= last
    one = Counter()
    steps(make, lambda step: gramme.compile(step, backend=one), 1)
    assert one.graphs <= first
    two = Counter()
    steps(make, lambda step: gramme.compile(step, backend=two), 2)
    assert two.graphs <= second
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = torch.randn_like(parameter)
    with gramme.meter() as m:
        step()
    assert m.captures == 0
    # AOTAutograd has no form of the fused operator. Where PyTorch's front end has compiled in this process, it has
    # disabled the functions around it (TorchPatcher), whose count of steps stays outside then, too.
    assert m.outside <= ("fused" in name) * (1 + is_disabled())


@pytest.mark.parametrize("backend", ["counter", "aot_eager"])
@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("Adafactor")])
def test_numbers_of_data_are_computed_outside_for_compilers(name: str, backend: str) -> None:
    """PyTorch's front end skips the step. It would be a break a number, and a capture a step."""
    make, _ = TABLE[name]
    want, *_ = steps(make, None, 12)
    compile = functools.partial(gramme.compile, backend=used(backend))
    got, step, captures, _ = steps(make, compile, 12)
    assert same(got, want)
    assert captures[-1] == captures[1]
    counter = Counter()
    steps(make, functools.partial(gramme.compile, backend=counter), 12)
    assert counter.graphs <= 1


def is_disabled() -> bool:
    return hasattr(sys.modules["torch.optim.adam"]._fused_adam, "_torchdynamo_disable")


@pytest.mark.parametrize("name", ["SGD fused", "Adam fused", "AdamW fused", "Adam foreach"])
@in_a_child
def test_what_pytorchs_front_end_disables(name: str) -> None:
    """For the whole process, when it first compiles: that is honoured, and nothing is captured anew at each step."""
    from torch._dynamo.eval_frame import TorchPatcher

    TorchPatcher.patch()
    assert is_disabled()
    make, _ = TABLE[name]
    want, *_ = steps(make, None, 8)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=Counter()), 8)
    assert close(got, want)
    assert captures[-1] == captures[1]


@pytest.mark.parametrize("name", ["SGD fused", "Adam fused", "AdamW fused", "Adam foreach", "AdamW for-loop"])
def test_aot_autograd_takes_the_step(name: str) -> None:
    make, _ = TABLE[name]
    want, *_ = steps(make, None, 3)
    got, *_ = steps(make, lambda step: gramme.compile(step, backend="aot_eager"), 3)
    assert close(got, want)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in TABLE if "fused" not in name and "Adafactor" not in name])
def test_no_more_graphs_for_aot_autograd(name: str) -> None:
    make, wanted = TABLE[name]
    before = counters["aot_autograd"]["total"]
    want, *_ = steps(make, None, 8)
    compile = functools.partial(gramme.compile, backend="aot_eager")
    got, _, graphs, _ = steps(make, compile, 8, counted=lambda _: counters["aot_autograd"]["total"] - before)
    assert close(got, want)
    assert all(found <= limit for found, limit in zip((graphs[0], graphs[1], graphs[-1]), wanted, strict=True))
    assert graphs[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_the_table_says_what_pytorchs_front_end_makes(name: str) -> None:
    make, wanted = TABLE[name]
    found = []
    for count in (1, 2, 8):
        torch._dynamo.reset()
        counter = Counter()
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(size)) for size in ((4, 6), (4,), (3, 4), (3,))]
        step = torch.compile(make(parameters).step, backend=counter)
        for _ in range(count):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            step()
        found.append(max(counter.graphs, 1))
    if name != "SGD fused":  # disabled there: no graph, and the state is another from the second step on
        assert tuple(found) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", TABLE)
def test_a_hundred_steps(name: str, backend: str) -> None:
    make, (_, _, last) = TABLE[name]
    want, *_ = steps(make, None, 100)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=backend), 100)
    assert same(got, want)
    assert captures[-1] <= last + name.startswith("RAdam")


@pytest.mark.parametrize("backend", ["eager", "native", "counter"])
@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_costs_one_graph(name: str, backend: str) -> None:
    counter = Counter()
    used: Any = counter if backend == "counter" else backend
    want, *_ = steps(SCHEDULED[name], None, 8, scheduled=True)
    got, _, captures, _ = steps(SCHEDULED[name], lambda step: gramme.compile(step, backend=used), 8, scheduled=True)
    assert close(got, want) if backend == "counter" else same(got, want)
    assert captures[-1] == captures[1]
    assert (counter.graphs if backend == "counter" else captures[-1]) <= 2


# ---- the state is made before the first capture, and nobody can tell


def test_state_is_made_once() -> None:
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(3))
    optimizer = optim.Adam([parameter])
    parameter.grad = torch.ones(3)
    gramme.compile(optimizer.step, backend="eager")()
    assert list(optimizer.state[parameter]) == ["step", "exp_avg", "exp_avg_sq"]
    assert optimizer.state[parameter]["step"].item() == 1.0


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_program_that_looks_at_the_state_first_sees_none(backend: str) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3)) for _ in range(2)]
        optimizer = optim.Adam(parameters, lr=0.1)
        alias = optimizer.state

        def train(by_alias: bool) -> tuple[int, bool]:
            seen = len(alias) if by_alias else len(optimizer.state)
            known = parameters[0] in alias
            optimizer.step()
            return seen, known

        call, found = compile(train), []
        for i in range(4):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            found.append(call(i % 2 == 0))
        return [found, [p.detach().clone() for p in parameters]]

    assert str(run(lambda f: gramme.compile(f, backend=backend))) == str(run(lambda f: f))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("change", ["gradient", "groups", "state", "closure", "clipped", "added"])
def test_what_the_program_does_before_its_first_step_counts(change: str, backend: str) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3)) for _ in range(3)]
        late = torch.nn.Parameter(torch.randn(2))
        optimizer = optim.AdamW(parameters, lr=0.1)

        def closure() -> torch.Tensor:
            return (parameters[0] * 2).sum()

        def train() -> Any:
            if change == "gradient":
                parameters[1].grad = None
            elif change == "groups":
                optimizer.param_groups[0]["amsgrad"] = True
            elif change == "state":
                optimizer.state.clear()
            elif change == "clipped":
                torch.nn.utils.clip_grad_norm_(parameters, 0.1)
            elif change == "added" and len(optimizer.param_groups) == 1:
                optimizer.add_param_group({"params": [late]})
            return optimizer.step(closure) if change == "closure" else optimizer.step()

        found: list[Any] = []
        call = compile(train)
        for _ in range(4):
            for parameter in [*parameters, late]:
                parameter.grad = torch.randn_like(parameter)
            call()
            found += [p.detach().clone() for p in [*parameters, late]]
            found.append([list(of) for of in optimizer.state.values()])
            found += [v.clone() for of in optimizer.state.values() for v in of.values()]
        return found

    assert str(run(lambda f: gramme.compile(f, backend=backend))) == str(run(lambda f: f))


class Own(optim.Adam):
    """Its own way to make state, around PyTorch's."""

    calls = 0

    def _init_group(self, group: Any, *lists: Any) -> Any:
        self.calls += 1
        return super()._init_group(group, *lists)  # type: ignore[no-untyped-call]


def test_a_method_of_the_programs_is_called_as_often_as_eagerly() -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        parameter = torch.nn.Parameter(torch.randn(3))
        optimizer = Own([parameter], lr=0.1)
        step: Any = gramme.compile(optimizer.step, backend="eager") if compiled else optimizer.step
        for _ in range(3):
            parameter.grad = torch.ones(3)
            step()
        found.append((optimizer.calls, parameter.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "counter"])
def test_sparse_gradients_are_refused_as_eagerly(backend: str) -> None:
    texts = []
    for compiled in (False, True):
        parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
        parameters[0].grad = torch.ones(3)
        parameters[1].grad = torch.ones(3).to_sparse()
        optimizer = optim.Adam(parameters)
        step: Any = optimizer.step
        if compiled:
            step = gramme.compile(step, backend=Counter() if backend == "counter" else backend)
        with pytest.raises(RuntimeError) as error:
            step()
        texts.append((str(error.value), len(optimizer.state), [p.tolist() for p in parameters]))
    assert texts[0] == texts[1]


# ---- optimizers of libraries, which count in Python's numbers


class Counted(optim.Optimizer):
    """Steps are an int of the group; bias corrections by functions of math."""

    form = "power"

    def __init__(self, parameters: Any, lr: float = 0.1, form: str = "power") -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.99)})
        self.form = form

    @staticmethod
    def debias(beta: float, step: int) -> float:
        return 1.0 - math.pow(beta, step)

    def size(self, group: dict[str, Any]) -> float:
        beta: float = group["betas"][1]
        step: int = group["step"]
        if self.form == "operator":
            return math.sqrt(1.0 - math.pow(beta, step)) / float(1.0 - 0.9**step)
        if self.form == "root of the count":
            return min(1e-2, 1.0 / math.sqrt(step))
        if self.form == "power of the count":
            return min(0.999, 1.0 - math.pow(step, -0.8))
        if self.form == "divided by the count":
            return 0.1 * (1 - 1 / (1e-3 * step + 1)) + 1 / (1e-3 * step)
        if self.form == "quotient":
            return (0.9 * step + 1) / (step + 2)
        if self.form == "count as a float":
            count = float(step + 1)
            return 0.9 * (1.0 - beta ** (count - 1.0)) / (1.0 - beta**count)
        if self.form == "sum of weights":
            largest = group["largest"] = max(group["lr"] * 10, group.get("largest", 0.0))
            weight = largest**2.0
            total = group["total"] = group.get("total", 0.0) + weight
            found: float = weight / total if total != 0.0 else 0.0
            return found
        if self.form == "from zero":  # a warm-up: the largest rate so far and the sum of weights stay 0 for a while
            rate = group["lr"] * math.sqrt(self.debias(beta, step)) if step >= 4 else 0.0
            largest = group["largest"] = max(rate, group.get("largest", 0.0))
            total = group["total"] = group.get("total", 0.0) + step**0.5 * largest**2.0
            share: float = largest**2.0 / total if total != 0.0 else 0.0
            return share
        return math.sqrt(self.debias(beta, step)) / self.debias(group["betas"][0], step)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            size = self.size(group)
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["average"] = torch.zeros_like(p)
                state["average"].lerp_(p.grad, weight=1.0 - group["betas"][0])
                if self.form == "filled":
                    p.sub_(state["average"] * torch.full((), group["lr"] * size, dtype=p.dtype, device=p.device))
                elif self.form == "tensor of a list":
                    sizes = torch.tensor([size, group["lr"] * size], dtype=torch.float32)
                    p.sub_(state["average"] * sizes.unbind()[1])
                else:
                    p.add_(state["average"], alpha=-group["lr"] * size)
        return None


FORMS = (
    "power",
    "operator",
    "root of the count",
    "power of the count",
    "divided by the count",
    "quotient",
    "count as a float",
    "sum of weights",
    "from zero",
    "filled",
    "tensor of a list",
)


def used(backend: str) -> Any:
    return Counter() if backend == "counter" else backend


@pytest.mark.parametrize("backend", ["eager", "native", "counter"])
@pytest.mark.parametrize("form", FORMS)
def test_a_count_of_steps_is_one_graph_more(form: str, backend: str) -> None:
    make = made(Counted, form=form)
    want, *_ = steps(make, None, 12)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=used(backend), fullgraph=True), 12)
    assert close(got, want) if backend == "counter" else same(got, want)
    # No state, a first count, any count; what starts at 0 and is no longer 0.
    assert captures[-1] <= 3 + 2 * (form == "from zero")


EACH_STEP = ("sum of weights", "from zero", "tensor of a list")
"""Of these PyTorch's front end makes a graph a step as well: AOTAutograd takes no float for an input, and no list of
floats."""


@pytest.mark.parametrize("form", [form for form in FORMS if form not in EACH_STEP])
def test_aot_autograd_takes_a_count_of_steps(form: str) -> None:
    make = made(Counted, form=form)
    want, *_ = steps(make, None, 6)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend="aot_eager", fullgraph=True), 6)
    assert close(got, want)
    assert captures[-1] <= 3


@pytest.mark.parametrize("backend", ["eager", "counter"])
@pytest.mark.parametrize("start", [-3, -1, 0, 5, 2**20])
@pytest.mark.parametrize("form", FORMS)
def test_a_count_may_be_set_back(form: str, start: int, backend: str) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameter = torch.nn.Parameter(torch.randn(3))
        optimizer = Counted([parameter], form=form)
        found: list[Any] = []
        step = compile(optimizer.step)
        for i in range(8):
            parameter.grad = torch.randn(3)
            if i == 5:
                optimizer.param_groups[0]["step"] = start
            try:
                step()
            except Exception as error:
                found.append((type(error), str(error)))
            found.append((parameter.tolist(), optimizer.param_groups[0]["step"]))
        return found

    assert run(lambda step: gramme.compile(step, backend=used(backend))) == run(lambda step: step)


class Decomposed(optim.Optimizer):
    """Writes parameters, then decomposes matrices, which may raise."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                p.mul_(0.9)
                u, _, v = torch.linalg.svd(p.grad.reshape(-1, 2), full_matrices=False)
                self.state[p]["last"] = u
                p.add_((u @ v).reshape_as(p), alpha=-group["lr"])
        return None


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_what_may_raise_after_parameters_were_written(backend: str) -> None:
    def make(parameters: list[torch.nn.Parameter]) -> optim.Optimizer:
        return Decomposed([p for p in parameters if p.numel() % 2 == 0], {"lr": 0.1})

    want, *_ = steps(make, None, 6)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=backend, fullgraph=True), 6)
    assert same(got, want)
    assert captures[-1] <= 3


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_what_raises_after_parameters_were_written(backend: str) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(4, 2)) for _ in range(2)]
        optimizer = Decomposed(parameters, {"lr": 0.1})
        step = compile(optimizer.step)
        found: list[Any] = []
        for i in range(6):
            for parameter in parameters:
                parameter.grad = torch.randn(4, 2)
            if i in (0, 3):
                parameters[1].grad = torch.full((4, 2), math.nan)
            before = [p._version for p in parameters]
            try:
                step()
            except RuntimeError as error:
                found.append(type(error).__name__)
            found.append([p._version - v for p, v in zip(parameters, before, strict=True)])
            found += [p.tolist() for p in parameters]
            found.append([str(of) for of in optimizer.state.values()])
        return found

    assert run(lambda step: gramme.compile(step, backend=backend)) == run(lambda step: step)


class Halved(optim.Optimizer):
    """Looks at its gradients, and goes on in numbers of its groups."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            norm = sum(float(p.grad.norm()) for p in group["params"])
            torch._dynamo.graph_break()
            rate = group["lr"] * math.sqrt(1 + 0.02 * group.get("theta", 1.0))
            if norm > 0:
                rate = min(rate, 1.0 / (2.0 * norm)) + 1e-8
            group["theta"], group["lr"] = rate / group["lr"], rate
            for p in group["params"]:
                p.add_(p.grad, alpha=-rate)
        return None


@pytest.mark.parametrize("backend", ["eager", "native", "counter"])
def test_numbers_of_a_step_after_a_break(backend: str) -> None:
    make: Make = lambda parameters: Halved(parameters, {"lr": 0.1})  # noqa: E731
    want, *_ = steps(make, None, 20)
    got, _, captures, _ = steps(make, lambda step: gramme.compile(step, backend=used(backend)), 20)
    assert close(got, want) if backend == "counter" else same(got, want)
    assert captures[-1] == captures[6]


# ---- what compilers get where eager takes the number in a tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["addcdiv_", "addcmul_", "add_"])
def test_a_number_in_a_tensor_stays_in_the_graph_of_a_compiler(name: str, dtype: torch.dtype) -> None:
    def program(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        if name == "add_":
            return y.add_(a, alpha=v)  # type: ignore[arg-type]
        return getattr(y, name)(a, b, value=v)  # type: ignore[no-any-return]

    given = (*(torch.rand(4, dtype=dtype) + 1 for _ in range(3)), torch.tensor(0.3))
    counter = Counter()
    got = gramme.compile(program, backend=counter, fullgraph=True)(*given)
    assert torch.allclose(got, program(*given), rtol=1e-6)
    assert (counter.graphs, got.dtype) == (1, dtype)
    assert torch.equal(gramme.compile(program, backend="eager")(*given), program(*given))


@pytest.mark.parametrize("value", [torch.tensor([0.3]), torch.tensor(1j), torch.tensor(0.3, requires_grad=True)])
@pytest.mark.parametrize("name", ["addcdiv_", "addcmul_"])
def test_what_eager_makes_of_other_tensors_it_makes(name: str, value: torch.Tensor) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return getattr(x.clone(), name)(x, x, value=value)  # type: ignore[no-any-return]

    found = []
    for call in (program, gramme.compile(program, backend=Counter())):
        try:
            found.append(str(call(torch.ones(3))))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    assert found[0] == found[1]


def test_a_mode_alone_is_no_graph() -> None:
    counter = Counter()

    def program() -> bool:
        torch.set_grad_enabled(False)
        torch._dynamo.graph_break()
        found = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        return found

    compiled = gramme.compile(program, backend=counter)
    for _ in range(3):
        assert compiled() is False
        assert torch.is_grad_enabled()
    assert counter.graphs == 0
