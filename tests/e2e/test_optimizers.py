"""Steps of PyTorch's optimizers: one graph a step, eager's bits, captured no more often than twice."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch.optim import lr_scheduler

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
WHOLE: dict[str, Make] = {
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "SGD, momentum and decay": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "SGD, for-loop": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=False),
    "SGD, foreach": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=True),
    "SGD, fused": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, fused=True),
    "SGD, groups": lambda ps: torch.optim.SGD(
        [{"params": ps[:1], "lr": 0.2}, {"params": ps[1:], "momentum": 0.5}], lr=0.1
    ),
    "SGD, maximize": lambda ps: torch.optim.SGD(ps, lr=0.1, maximize=True),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.1, centered=True),
    "Adadelta": lambda ps: torch.optim.Adadelta(ps, lr=0.1),
    "Adam, fused": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, fused=True),
    "AdamW, fused": lambda ps: torch.optim.AdamW(ps, lr=0.1, fused=True),
    "Adam": lambda ps: torch.optim.Adam(ps, lr=0.1),
    "Adam, amsgrad and decay": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, weight_decay=0.1),
    "Adam, maximize": lambda ps: torch.optim.Adam(ps, lr=0.1, maximize=True),
    "Adam, foreach": lambda ps: torch.optim.Adam(ps, lr=0.1, amsgrad=True, foreach=True),
    "Adam, groups": lambda ps: torch.optim.Adam(
        [{"params": ps[:1], "lr": 0.2}, {"params": ps[1:], "betas": (0.5, 0.6)}],  # type: ignore[arg-type]
        lr=0.1,
    ),
    "AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.1),
    "AdamW, foreach": lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True),
    "NAdam": lambda ps: torch.optim.NAdam(ps, lr=0.1),
    "NAdam, decoupled": lambda ps: torch.optim.NAdam(ps, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "NAdam, foreach": lambda ps: torch.optim.NAdam(ps, lr=0.1, foreach=True),
    "RAdam": lambda ps: torch.optim.RAdam(ps, lr=0.1),
    "RAdam, foreach": lambda ps: torch.optim.RAdam(ps, lr=0.1, foreach=True),
    "Adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1, lr_decay=0.1),
    "Adagrad, foreach": lambda ps: torch.optim.Adagrad(ps, lr=0.1, lr_decay=0.1, foreach=True),
    "Adagrad, fused": lambda ps: torch.optim.Adagrad(ps, lr=0.1, fused=True),
    "Adamax": lambda ps: torch.optim.Adamax(ps, lr=0.1),
    "Adamax, foreach": lambda ps: torch.optim.Adamax(ps, lr=0.1, foreach=True),
    "Adadelta, foreach": lambda ps: torch.optim.Adadelta(ps, lr=0.1, foreach=True),
    "RMSprop, foreach": lambda ps: torch.optim.RMSprop(ps, lr=0.1, momentum=0.9, foreach=True),
    "Rprop, foreach": lambda ps: torch.optim.Rprop(ps, lr=0.1, foreach=True),
    "ASGD, foreach": lambda ps: torch.optim.ASGD(ps, lr=0.1, foreach=True),
    "Muon": lambda ps: torch.optim.Muon(ps, lr=0.1),
    "Rprop": lambda ps: torch.optim.Rprop(ps, lr=0.1),
    "Adam, tensor lr": lambda ps: torch.optim.Adam(ps, lr=torch.tensor(0.1)),
    "SGD, tensor lr": lambda ps: torch.optim.SGD(ps, lr=torch.tensor(0.1)),
    "SGD, foreach, tensor lr": lambda ps: torch.optim.SGD(ps, lr=torch.tensor(0.1), foreach=True),
    "Adadelta, foreach, tensor lr": lambda ps: torch.optim.Adadelta(ps, lr=torch.tensor(0.1), foreach=True),
    "RMSprop, foreach, tensor lr": lambda ps: torch.optim.RMSprop(ps, lr=torch.tensor(0.1), foreach=True),
    "ASGD": lambda ps: torch.optim.ASGD(ps, lr=0.1),
    "ASGD, tensor lr": lambda ps: torch.optim.ASGD(ps, lr=torch.tensor(0.1)),
    "Adafactor": lambda ps: torch.optim.Adafactor(ps, lr=0.1, weight_decay=0.1),
    "Adafactor, foreach": lambda ps: torch.optim.Adafactor(ps, lr=0.1, foreach=True),
    "Adam, tensor betas": lambda ps: torch.optim.Adam(ps, lr=0.1, betas=(torch.tensor(0.9), torch.tensor(0.99))),
    "AdamW, tensor betas": lambda ps: torch.optim.AdamW(
        ps, lr=torch.tensor(0.1), betas=(torch.tensor(0.9), torch.tensor(0.99))
    ),
}
BROKEN: dict[str, Make] = {
    "Adafactor, tensor lr": lambda ps: torch.optim.Adafactor(ps, lr=torch.tensor(0.1)),
    "Adafactor, foreach, tensor lr": lambda ps: torch.optim.Adafactor(ps, lr=torch.tensor(0.1), foreach=True),
    "Adafactor, large lr": lambda ps: torch.optim.Adafactor(ps, lr=3.0),
}
"""A tensor or a number is taken, whichever is less; a factor may be too large for 32 bits, which raises."""


def steps(make: Make, compile: Callable[[Any], Any], count: int = 5) -> tuple[list[torch.Tensor], Any]:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(3)]
    optimizer = make(parameters)
    step = compile(optimizer.step)
    for _ in range(count):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        step()
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
    return [*parameters, *state], step


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE.keys())
def test_one_graph_a_step(make: Make, backend: str) -> None:
    want, _ = steps(make, lambda step: step)
    got, compiled = steps(make, lambda step: gramme.compile(step, backend=backend, fullgraph=True))
    assert len(got) == len(want)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert gramme.statistics(compiled).captures <= 2


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: torch.optim.Adam(ps, capturable=True),
        lambda ps: torch.optim.ASGD(ps, foreach=True, capturable=True),
        lambda ps: torch.optim.SGD(ps, lr=0.1, differentiable=True),
    ],
    ids=["capturable", "capturable, foreach", "differentiable"],
)
def test_what_eager_refuses_is_refused(make: Make) -> None:
    with pytest.raises((AssertionError, RuntimeError)) as want:
        steps(make, lambda step: step)
    with pytest.raises(want.type) as got:
        steps(make, lambda step: gramme.compile(step, backend="eager"))
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan"), 1e38])
@pytest.mark.parametrize("name", ["Adafactor", "Adafactor, foreach", "ASGD"])
def test_numbers_out_of_data_may_be_anything(name: str, value: float) -> None:
    def change(optimizer: torch.optim.Optimizer, i: int) -> None:
        if i == 3:
            for group in optimizer.param_groups:
                group["params"][0].data.fill_(value)

    want, _ = trained(WHOLE[name], change, lambda step: step)
    for backend in ("eager", "native"):
        got, _ = trained(WHOLE[name], change, lambda step, b=backend: gramme.compile(step, backend=b))  # type: ignore[misc]
        assert all(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in zip(got, want, strict=True))


def minimised(
    line_search: str | None, compile: Callable[[Any], Any], whole: bool
) -> tuple[list[torch.Tensor], list[int]]:
    """Fourteen steps of LBFGS; captures after each."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    options: dict[str, Any] = {"lr": 0.1, "max_iter": 4, "history_size": 3, "line_search_fn": line_search}
    optimizer = torch.optim.LBFGS(model.parameters(), **options)
    x, y = torch.randn(10, 4), torch.randn(10, 1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    step = compile(optimizer.step)
    train = compile(lambda: optimizer.step(closure)) if whole else lambda: step(closure)
    losses, captures = [], []
    for _ in range(14):
        losses.append(train().detach().clone())
        captures.append(gramme.statistics(train if whole else step).captures if compile is in_eager else 0)
    return [*losses, *model.parameters()], captures


def in_eager(step: Any) -> Any:
    return gramme.compile(step, backend="eager")


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad", "ignore:gramme hit the recompile limit")
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("line_search", "most"), [(None, 36), ("strong_wolfe", 86)])
def test_lbfgs_has_a_graph_between_two_decisions(line_search: str | None, most: int, whole: bool) -> None:
    """How many ways through the decisions there are goes by the losses' last bits, and so by the machine."""
    want, _ = minimised(line_search, lambda step: step, whole)
    got, captures = minimised(line_search, in_eager, whole)
    assert same(got, want)
    assert captures[-1] <= most
    assert captures[-1] == captures[-2]  # there is an end


def test_lbfgs_breaks_where_it_decides() -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.LBFGS([weight], max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    breaks = gramme.explain(optimizer.step)(closure).break_reasons
    reasons = {each.reason for each in breaks}
    assert not any("_local_scalar_dense" in reason or "zero_grad" in reason for reason in reasons)


def test_grad_mode_is_the_programs_after_a_step() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(3)

    def program(x: torch.Tensor) -> Any:
        optimizer.step()
        y = x * parameter
        return y.requires_grad, torch.is_grad_enabled()

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(3)) == (True, True)


def same(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
def test_eagers_bits_with_breaks(make: Make) -> None:
    want, _ = steps(make, lambda step: step)
    got, _ = steps(make, lambda step: gramme.compile(step, backend="eager"))
    assert same(got, want)


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
def test_breaks_cost_no_captures_from_the_third_step_on(make: Make) -> None:
    captures: list[int] = []

    def counted(step: Any) -> Any:
        compiled = gramme.compile(step, backend="eager")

        def call() -> None:
            compiled()
            captures.append(gramme.statistics(compiled).captures)

        return call

    got, _ = steps(make, counted, 6)
    want, _ = steps(make, lambda step: step, 6)
    assert same(got, want)
    assert captures[2:] == [captures[1]] * 4


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_branch_by_the_number_of_steps_is_one_more_graph(backend: str) -> None:
    """RAdam computes otherwise from its sixth step on."""
    want, _ = steps(WHOLE["RAdam"], lambda step: step, 12)
    got, compiled = steps(WHOLE["RAdam"], lambda step: gramme.compile(step, backend=backend, fullgraph=True), 12)
    assert same(got, want)
    assert gramme.statistics(compiled).captures == 2


def trained(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    change: Callable[[torch.optim.Optimizer, int], object],
    compile: Callable[[Any], Any],
    count: int = 6,
) -> tuple[list[torch.Tensor], Any]:
    """The program changes something before each step."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(2)]
    optimizer = make(parameters)
    step = compile(optimizer.step)
    for i in range(count):
        change(optimizer, i)
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        step()
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
    return [*parameters, *state], step


def set_steps(value: float) -> Callable[[torch.optim.Optimizer, int], object]:
    def change(optimizer: torch.optim.Optimizer, i: int) -> None:
        if i == 3:
            for of in optimizer.state.values():
                of["step"].fill_(value)

    return change


def reload(optimizer: torch.optim.Optimizer, i: int) -> None:
    if i == 3:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def share_steps(optimizer: torch.optim.Optimizer, i: int) -> None:
    """All parameters count in one tensor: each adds one."""
    if i == 3:
        states = list(optimizer.state.values())
        for of in states:
            of["step"] = states[0]["step"]


def overlap_steps(optimizer: torch.optim.Optimizer, i: int) -> None:
    """The same through views."""
    if i == 3:
        memory = torch.full((1,), 3.0)
        for of in optimizer.state.values():
            of["step"] = memory[0]


def schedule(optimizer: torch.optim.Optimizer, i: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (i + 1)


CHANGES: dict[str, Callable[[torch.optim.Optimizer, int], object]] = {
    "a fraction": set_steps(2.5),
    "below none": set_steps(-0.5),
    "far": set_steps(2.0**24),
    "none": set_steps(0.0),
    "infinite": set_steps(float("inf")),
    "not a number": set_steps(float("nan")),
    "loaded": reload,
    "shared": share_steps,
    "overlapping": overlap_steps,
    "schedule": schedule,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("name", ["Adam", "Adam, foreach", "RAdam"])
def test_what_the_steps_are_is_looked_at(name: str, change: Callable[[torch.optim.Optimizer, int], object]) -> None:
    def attempt(compile: Callable[[Any], Any]) -> list[torch.Tensor] | tuple[type, str]:
        try:
            return trained(WHOLE[name], change, compile)[0]
        except (ArithmeticError, TypeError, RuntimeError, ValueError) as error:
            return type(error), str(error)

    want = attempt(lambda step: step)
    for backend in ("eager", "native"):
        got = attempt(lambda step, backend=backend: gramme.compile(step, backend=backend))  # type: ignore[misc]
        if isinstance(want, tuple) or isinstance(got, tuple):
            assert got == want
        else:
            assert len(got) == len(want)
            assert all(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", ["SGD", "AdamW, foreach", "NAdam", "ASGD", "Adafactor", "Adafactor, foreach"])
def test_a_learning_rate_that_varies_costs_one_more_capture(name: str, backend: str) -> None:
    want, _ = trained(WHOLE[name], schedule, lambda step: step)
    got, compiled = trained(WHOLE[name], schedule, lambda step: gramme.compile(step, backend=backend, fullgraph=True))
    assert same(got, want)
    assert gramme.statistics(compiled).captures <= 3


@pytest.mark.parametrize("name", ["SGD", "ASGD", "Adafactor", "Adam, tensor lr"])
def test_a_scheduler_of_the_library_costs_one_more_capture(name: str) -> None:
    """It wraps `step` in a function that asks a weak reference for the optimizer: one break before all operations."""

    def run(compile: Callable[[Any], Any]) -> tuple[list[torch.Tensor], Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(2)]
        optimizer = WHOLE[name](parameters)
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9)
        step = compile(optimizer.step)
        for _ in range(6):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            step()
            scheduler.step()
        return [parameter.detach() for parameter in parameters], step

    want, _ = run(lambda step: step)
    got, compiled = run(lambda step: gramme.compile(step, backend="eager"))
    assert same(got, want)
    assert gramme.statistics(compiled).captures <= 3


Train = Callable[[torch.nn.Module, torch.optim.Optimizer], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]


def loss_of(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(x), y)


def whole(set_to_none: bool = True, clip: bool = False, foreach: bool | None = None) -> Train:
    def make(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = loss_of(model, x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=foreach)
            optimizer.step()
            return loss

        return train

    return make


def with_closure(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    def train(x: torch.Tensor, y: torch.Tensor) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        return optimizer.step(closure)  # type: ignore[arg-type]

    return train


def scheduled(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    train = whole()(model, optimizer)

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = train(x, y)
        scheduler.step()
        return loss

    return both


def scaled(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)

    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        return loss

    return train


def averaged(ema: bool) -> Train:
    def make(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9) if ema else None  # type: ignore[no-untyped-call]
        kept = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=average)
        train = whole()(model, optimizer)

        def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            train(x, y)
            kept.update_parameters(model)
            return loss_of(kept, x, y)

        return both

    return make


TRAINING: dict[str, tuple[Train, bool]] = {
    "whole": (whole(), False),
    "whole, foreach": (whole(), True),
    "zeroed": (whole(set_to_none=False), False),
    "clipped": (whole(clip=True, foreach=False), False),
    "clipped, foreach": (whole(clip=True, foreach=True), True),
    "closure": (with_closure, False),
    "schedule": (scheduled, False),
    "scaler": (scaled, False),
    "EMA": (averaged(True), False),
    "SWA": (averaged(False), False),
}


@pytest.mark.parametrize(("make", "foreach"), TRAINING.values(), ids=TRAINING.keys())
def test_training_is_captured_in_its_first_steps(make: Train, foreach: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> tuple[list[torch.Tensor], list[int]]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        train = compile(make(model, torch.optim.AdamW(model.parameters(), lr=0.01, foreach=foreach)))
        losses, counts = [], []
        for _ in range(6):
            losses.append(train(torch.randn(5, 4), torch.randn(5, 2)).detach().clone())
            counts.append(gramme.statistics(train).captures if compile is compiled else 0)
        return [*losses, *model.parameters()], counts

    def compiled(train: Any) -> Any:
        return gramme.compile(train, backend="eager")

    want, _ = run(lambda train: train)
    got, counts = run(compiled)
    assert same(got, want)
    assert counts[-1] == counts[3]


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=3),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, total_iters=4),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 5),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, total_iters=2), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, total_iters=2), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=3),
}


def scheduled_programs() -> Iterator[Any]:
    """All of them; the quick ones are those in which most varies."""
    for name in SCHEDULERS:
        for compiled in ("step", "train", "train and schedule"):
            for of_tensor in (False, True):
                quick = not of_tensor and (compiled == "step" or name == "LambdaLR")
                yield pytest.param(name, compiled, of_tensor, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.sampled(32)
@pytest.mark.parametrize(("name", "compiled", "of_tensor"), list(scheduled_programs()))
def test_schedules(name: str, compiled: str, of_tensor: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> tuple[list[torch.Tensor], int]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01) if of_tensor else 0.01)
        scheduler = SCHEDULERS[name](optimizer)
        if compiled == "step":
            optimizer.step = compile(optimizer.step)  # type: ignore[method-assign]

        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        def schedule(loss: torch.Tensor) -> None:
            scheduler.step(*([loss.detach()] if name == "ReduceLROnPlateau" else []))

        def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = train(x, y)
            schedule(loss)
            return loss

        call = compile(train) if compiled == "train" else compile(both) if compiled.startswith("train ") else train
        found = []
        for _ in range(5):
            loss = call(torch.randn(5, 4), torch.randn(5, 2))
            if not compiled.startswith("train "):
                schedule(loss)
            found += [loss.detach().clone(), torch.as_tensor(optimizer.param_groups[0]["lr"]).clone()]
        entry = optimizer.step if compiled == "step" else call
        captures = gramme.statistics(entry).captures if compile is in_eager else 0
        return [*found, *model.parameters(), *model.buffers()], captures

    want, _ = run(lambda step: step)
    got, captures = run(in_eager)
    assert same(got, want)
    most = {"step": 4, "train": 6, "train and schedule": 9}
    assert captures <= most[compiled]


def test_a_whole_train_step_has_one_break() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    train = whole(clip=True)(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    train(x, y)  # the state is there
    explanation = gramme.explain(train)(x, y)
    assert [each.reason for each in explanation.break_reasons] == [
        "a call to a C function that gramme has no model of: Tensor.backward"
    ]
    compiled = in_eager(train)
    for _ in range(3):
        compiled(x, y)
    with gramme.meter() as m:
        compiled(x, y)
    assert (m.outside, m.captures, m.steps) == (1, 0, 1)  # backward() makes its first gradient


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("overflows", [False, True])
def test_scalers(enabled: bool, overflows: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2, enabled=enabled)

        def train(x: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return norm

        step, found = compile(train), []
        for i in range(5):
            x = torch.randn(3, 4) * (float("inf") if overflows and i == 2 else 1)
            found += [step(x).detach().clone(), scaler.get_scale()]
        return [found, *model.parameters()]

    assert str(run(in_eager)) == str(run(lambda train: train))


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("function", ["norm", "norm of infinity", "value"])
def test_clipping_alone(function: str, foreach: bool) -> None:
    def clip(parameters: list[torch.nn.Parameter]) -> Any:
        if function == "value":
            return torch.nn.utils.clip_grad_value_(parameters, 0.5, foreach=foreach)
        kind = float("inf") if "infinity" in function else 2.0
        return torch.nn.utils.clip_grad_norm_(parameters, 0.5, norm_type=kind, foreach=foreach)

    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3, 2)) for _ in range(3)]
        call, found = compile(lambda: clip(parameters)), []
        for _ in range(5):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            found.append(call())
            found += [parameter.grad.clone() for parameter in parameters]  # type: ignore[union-attr]
        return found

    want = run(lambda call: call)
    for backend in ("eager", "native"):
        got = run(lambda call, b=backend: gramme.compile(call, backend=b, fullgraph=True))  # type: ignore[misc]
        assert str(got) == str(want)


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("foreach", [False, True])
def test_zero_grad_is_captured(set_to_none: bool, foreach: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3)) for _ in range(3)]
        optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=foreach)
        call = compile(lambda: optimizer.zero_grad(set_to_none=set_to_none))
        found: list[Any] = []
        for i in range(5):
            for parameter in parameters[i % 2 :]:
                parameter.grad = torch.randn(3)
            kept = parameters[-1].grad
            call()
            found += [None if p.grad is None else p.grad.clone() for p in parameters]
            found += [kept, parameters[-1].grad is kept]
        return found

    want = run(lambda call: call)
    assert str(run(lambda call: gramme.compile(call, backend="eager", fullgraph=True))) == str(want)


def test_averages_and_their_statistics() -> None:
    def run(compile: Callable[[Any], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        kept = torch.optim.swa_utils.AveragedModel(model)
        update = compile(lambda: kept.update_parameters(model))
        forward = compile(kept)
        data = [torch.randn(6, 4) for _ in range(3)]
        for _ in range(5):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter))
            update()
        torch.optim.swa_utils.update_bn(data, kept)
        return [forward(data[0]), *kept.parameters(), *kept.buffers()]

    assert same(run(in_eager), run(lambda call: call))


def test_is_compiling_holds_for_compilers() -> None:
    """A backend that compiles gets the form that PyTorch's front end gives it."""
    seen: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        seen.append(module.code)
        return module.forward

    want, _ = steps(WHOLE["Adam"], lambda step: step)
    got, _ = steps(WHOLE["Adam"], lambda step: gramme.compile(step, backend=backend))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, want, strict=True))
    assert not any(".item()" in code for code in seen)


@pytest.mark.parametrize("lists", ["one dtype", "two dtypes", "with None", "empty"])
@pytest.mark.parametrize("with_indices", [False, True])
def test_grouping_is_pytorchs(lists: str, with_indices: bool) -> None:
    a, b = torch.ones(2), torch.ones(3, dtype=torch.float64)
    given: dict[str, list[list[Any]]] = {
        "one dtype": [[a, a + 1], [a, b]],
        "two dtypes": [[a, b, a], [b, a, b]],
        "with None": [[b, a], [None, a], [None, None]],
        "empty": [[a, b], []],
    }

    def program(tensors: list[list[Any]]) -> Any:
        return torch._C._group_tensors_by_device_and_dtype(tensors, with_indices)

    want = program(given[lists])
    got = gramme.compile(program, backend="eager")(given[lists])
    assert list(got) == list(want)
    for key, (tensors, indices) in want.items():
        assert got[key][1] == indices
        assert [[x is y for x, y in zip(*pair, strict=True)] for pair in zip(got[key][0], tensors, strict=True)] == [
            [True] * len(of) for of in tensors
        ]
