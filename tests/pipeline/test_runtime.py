"""gramme.pipeline.Runtime: stages in threads, equal to the bit to the uncut model."""

import contextlib
import gc
import random
import signal
import threading
import time
import weakref

import gramme
import pytest
import torch
from gramme.pipeline import Runtime, Schedule, ScheduleError, simulate, split
from gramme.pipeline._random import seed_of
from gramme.pipeline._worker import Worker
from gramme.torchgpipe.pipe import NoChunk
from torch import nn
from torch.nn import functional

from pipeline.models import Call, gradients, same
from pipeline.test_split import CASES, Language, UNet, leaves

SETTINGS = [
    {"schedule": "1f1b"},
    {"schedule": "gpipe", "checkpoint": True},
    {"schedule": "1f1b", "checkpoint": True, "backend": "native"},
    {"schedule": "gpipe", "backend": "native"},
    {"schedule": "sequential", "reduction": "sum"},
]


class DenseNet(nn.Module):
    """Each layer takes what all before it gave."""

    def __init__(self, layers=7, width=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width * (i + 1), width) for i in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))

    def forward(self, x):
        found = [x]
        for layer, norm in zip(self.layers, self.norms):
            found.append(norm(torch.relu(layer(torch.cat(found, 1)))))
        return found[-1] + found[0]


class Experts(nn.Module):
    """A mixture of experts, each row weighted, and a table that all layers take."""

    def __init__(self, layers=3, width=6, experts=3):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.experts = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(experts)) for _ in range(layers)
        )
        self.register_buffer("table", torch.randn(width))

    def forward(self, x):
        table = self.table.sin()
        for gate, experts in zip(self.gates, self.experts):
            weights, chosen = gate(x).softmax(-1).topk(2)
            each = torch.stack([expert(x * table) for expert in experts], 1)
            taken = each.gather(1, chosen.unsqueeze(-1).expand(-1, -1, x.shape[1]))
            x = x + (weights.unsqueeze(-1) * taken).sum(1)
        return x


class Still(Language):
    """Language without dropout."""

    def __init__(self):
        super().__init__()
        self.dropout.p = 0.0


class Twice(nn.Module):
    """Layers that all stages share, used more than once in each; an input that all take."""

    def __init__(self, layers=6, width=4):
        super().__init__()
        self.a, self.b, self.layers = nn.Linear(width, width), nn.Linear(width, width), layers

    def forward(self, x):
        y = x
        for i in range(self.layers):
            y = torch.tanh(self.a(y) + self.b(self.a(x)) * y + x)
            z = y.contiguous()
            y = y * z + z.sin()
        return y, z


class Statistics(nn.Module):
    """Batch norms whose statistics are read further on: they write them without counting the write."""

    def __init__(self, width=4):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(10))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))

    def forward(self, x):
        for norm, *linears in zip(self.norms, self.linears[:4], self.linears[4:7], self.linears[7:]):
            x = norm(linears[0](x))
            for linear in linears[1:]:
                x = torch.tanh(linear(x))
            x = x * norm.running_mean.exp() + norm.running_var
        for linear in (*self.linears[2:4], self.linears[6], self.linears[9]):
            x = torch.tanh(linear(x))
        return x


MODELS = dict(
    CASES,
    statistics=(Statistics, CASES["normed"][1]),
    language=(Still, CASES["language"][1]),
    densenet=(DenseNet, CASES["unet"][1]),
    experts=(Experts, CASES["unet"][1]),
    twice=(Twice, CASES["normed"][1]),
)


def loss_of(result):
    return sum((leaf.double() ** 2).mean() for leaf in leaves(result) if leaf.is_floating_point())


def pieces(n, parts):
    return [n // parts + (i < n % parts) for i in range(parts)]


def run_uncut(model, args, parts, loss, *, target=None, reduction="mean"):
    """Loss and results, micro-batch by micro-batch; gradients stay in the parameters."""
    rows = pieces(len(args[0]), parts)
    batches = zip(*(arg.split(rows) for arg in (*args, *([target] if target is not None else []))))
    losses, results = [], []
    for number, batch in zip(rows, batches):
        result = model(*batch[: len(args)])
        weight = number / sum(rows) if reduction == "mean" else 1.0
        found = loss(result, *batch[len(args) :]) * weight
        found.backward()
        losses.append(found.detach())
        results.append([leaf.detach() for leaf in leaves(result)])
    return torch.stack(losses).sum(), [torch.cat(column) for column in zip(*results)]


def compare(model, run, args, parts, loss=loss_of, *, target=None, reduction="mean", uncut=None, before=None):
    found = []
    for which in ("uncut", "stages"):
        if before is not None:
            model.load_state_dict(before)
        model.zero_grad()
        if which == "uncut":
            result = run_uncut(model if uncut is None else uncut, args, parts, loss, target=target, reduction=reduction)
        else:
            total, outputs = run.step(*args, target=target)
            assert not total.requires_grad
            result = total, leaves(outputs)
        found.append((*result, gradients(model), [value.clone() for value in model.buffers()]))
    (loss_a, outputs_a, gradients_a, buffers_a), (loss_b, outputs_b, gradients_b, buffers_b) = found
    assert same(loss_a, loss_b)
    assert len(outputs_a) == len(outputs_b)
    assert all(map(same, outputs_a, outputs_b))
    assert all(map(same, gradients_a, gradients_b))
    assert all(map(same, buffers_a, buffers_b))


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_uncut_model(name, stages, one_thread):
    """Uneven micro-batches, other sizes without a new capture."""
    make, arguments = MODELS[name]
    if (name, stages) == ("normed", 8):
        pytest.skip("it has not so many places to cut")
    torch.manual_seed(0)
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    cut = split(model, arguments(7, 5), stages=stages)
    for settings in SETTINGS:
        run = Runtime(cut, micro_batches=3, loss=loss_of, **settings)
        for n, length in ((9, 5), (7, 3), (8, 6)):
            args = arguments(n, length)
            compare(model, run, args, 3, reduction=settings.get("reduction", "mean"), before=before)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["experts", "language", "sequential", "unet"])
def test_micro_batches_of_one_row(name, rows, backend, one_thread):
    """With an example of one row and of two: one capture for all numbers of rows."""
    make, arguments = MODELS[name]
    torch.manual_seed(0)
    model = make()
    cut = split(model, arguments(rows, 5), stages=2)
    for parts, n in ((2, 3), (3, 3), (2, 4)):
        run = Runtime(cut, micro_batches=parts, loss=loss_of, backend=backend)
        compare(model, run, arguments(n, 5), parts)


class DecidedByRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        x = torch.tanh(self.a(x))
        return self.b(x) if x.shape[0] == 1 else self.b(x) * 2


def test_where_the_number_of_rows_decides(one_thread):
    """One row is another way through the model, so it is refused; an example of one row holds for one."""
    torch.manual_seed(0)
    model, x = DecidedByRows(), torch.randn(7, 6)
    cut = split(model, (x[:2],), stages=2)
    run = Runtime(cut, micro_batches=3, loss=loss_of)
    compare(model, run, (torch.cat([x, x]),), 3)
    with pytest.raises(RuntimeError, match="takes another way for these arguments .* or a size of one"):
        run.step(x[:5])
    compare(model, Runtime(split(model, (x[:1],), stages=2), micro_batches=3, loss=loss_of), (x[:3],), 3)
    assert not any(name.startswith("_dynamo") for name in vars(x))


def test_more_micro_batches_than_stages_and_fewer(one_thread):
    torch.manual_seed(0)
    model = UNet()
    cut = split(model, (torch.randn(3, 6),), stages=4)
    for parts in (1, 2, 10):
        for schedule in ("1f1b", "gpipe"):
            compare(
                model, Runtime(cut, micro_batches=parts, schedule=schedule, loss=loss_of), (torch.randn(21, 6),), parts
            )


def test_stages_that_share_a_thread(one_thread):
    """Interleaved; and read from a file of torch.distributed.pipelining's."""
    torch.manual_seed(0)
    model = Still()
    cut = split(model, (torch.randint(0, 11, (3, 4)),), stages=4)
    for schedule in (
        Schedule.interleaved(2, 4, 4),
        Schedule.from_csv("0F0,1F0,,0F1,1F1,1B0,0B0,1B1,0B1\n2F0,3F0,3B0,2B0,2F1,3F1,3B1,2B1"),
    ):
        parts = schedule.micro_batches
        for checkpoint in (False, True):
            run = Runtime(cut, schedule=schedule, loss=loss_of, checkpoint=checkpoint)
            compare(model, run, (torch.randint(0, 11, (2 * parts + 1, 4)),), parts)


def test_targets_keywords_and_what_is_not_cut(one_thread):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, mask, scale, *, add):
            return {"y": self.b(torch.tanh(self.a(x)) * mask + add) * scale, "rows": x.shape[0], "name": "y"}

    torch.manual_seed(0)
    model = Model()
    mask, x, add, target = torch.randn(4), torch.randn(7, 4), torch.randn(7, 1), torch.randn(7, 4)

    class Positional(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, add, mask):
            return self.model(x, mask, 2.0, add=add)

    cut = split(Positional(), (x, add, mask), stages=2)
    run = Runtime(cut, micro_batches=2, loss=lambda result, target: functional.mse_loss(result["y"], target))
    model.zero_grad()
    total, outputs = run.step(x, add, NoChunk(mask), target=target)
    found = gradients(model)
    assert outputs["rows"] == [4, 3]
    assert outputs["name"] == "y"
    assert outputs["y"].shape == (7, 4)
    model.zero_grad()
    expected = 0
    for part in (slice(0, 4), slice(4, 7)):
        loss = functional.mse_loss(model(x[part], mask, 2.0, add=add[part])["y"], target[part])
        (loss * ((part.stop - part.start) / 7)).backward()
        expected = expected + loss.detach() * ((part.stop - part.start) / 7)
    assert same(total, expected)
    assert all(map(same, found, gradients(model)))


@pytest.mark.parametrize("stages", [2, 4])
def test_gradients_of_inputs_and_of_tensors_from_outside(stages, one_thread):
    torch.manual_seed(0)
    outside = torch.randn(4, requires_grad=True)

    def body(x, y):
        a = torch.tanh(x * outside)
        for _ in range(4):
            a = torch.tanh(a * outside + y * x) + x
        return a, x

    model = Call(body)
    example = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    cut = split(model, example, stages=stages)
    for checkpoint in (False, True):
        run = Runtime(cut, micro_batches=3, loss=loss_of, checkpoint=checkpoint)
        x, y, before = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 4)
        found = []
        for which in ("uncut", "stages"):
            outside.grad = None
            leaf = x.clone().requires_grad_()
            given = leaf * 1
            if which == "uncut":
                grads = []
                for part, other in zip(given.split([3, 3, 2]), y.split([3, 3, 2])):
                    part = part.detach().requires_grad_()
                    (loss_of(model.function(part, other)) * (len(part) / 8)).backward()
                    grads.append(part.grad)
                given.backward(torch.cat(grads))
            else:
                run.step(given, y)
            found.append((leaf.grad, outside.grad))
        assert same(found[0][0], found[1][0])
        assert same(found[0][1], found[1][1])


def test_forward_alone(one_thread):
    torch.manual_seed(0)
    model = Still()
    ids = torch.randint(0, 11, (7, 4))
    cut = split(model, (ids,), stages=3)
    for backend in ("eager", "native"):
        run = Runtime(cut, micro_batches=3, backend=backend)
        expected = torch.cat([model(part)["logits"] for part in ids.split([3, 2, 2])]).detach()
        for context in (torch.enable_grad(), torch.no_grad()):
            with context:
                result = run(ids)
            assert same(result["logits"], expected)
            assert not result["logits"].requires_grad
            assert result["hidden"][1] == 4
        with pytest.raises(ValueError, match="needs a loss"):
            run.step(ids)


def test_under_autocast(one_thread):
    """A cast that autocast keeps for several uses: of parameters, not of what comes from another stage."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))

    def body(x):
        for layer in layers:
            x = layer(x) + layer(x.sin()) + layer(x)
        return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return body(x)

    model = Model()
    x = torch.randn(8, 6)
    with torch.autocast("cpu", torch.bfloat16):
        cut = split(model, (x[:3],), stages=3)
        for checkpoint in (False, True):
            compare(model, Runtime(cut, micro_batches=3, loss=loss_of, checkpoint=checkpoint), (x,), 3)
    run = Runtime(cut, micro_batches=3, loss=loss_of)
    with pytest.raises(RuntimeError, match="takes another way"):
        run.step(x)


# ---- Random numbers


class Noisy(nn.Module):
    """Draws in all stages."""

    def __init__(self, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = functional.dropout(torch.tanh(layer(x)), 0.3) + torch.rand_like(x) * 0.1
        return x.clone().bernoulli_(0.5) * x


def run_stages(cut, base, x, parts, loss):
    """The stages one after the other in one graph, each with its random numbers."""
    losses = []
    for i, part in enumerate(x.split(pieces(len(x), parts))):
        values = {cut.stages[0].takes[0]: part}
        for number, stage in enumerate(cut.stages):
            torch.manual_seed(seed_of(base, number, i))
            values.update(zip(stage.gives, stage(*(values[name] for name in stage.takes))))
        torch.manual_seed(seed_of(base, len(cut.stages), i))
        found = loss(values[cut.result_names[0]]) * (len(part) / len(x))
        found.backward()
        losses.append(found.detach())
    return torch.stack(losses).sum()


def noisy_loss(result):
    return functional.dropout(result, 0.2).sum()


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_random_numbers_are_those_of_the_seed(backend, one_thread):
    """Over 50 seeds and whatever thread comes first, with and without checkpointing."""
    torch.manual_seed(0)
    model, x = Noisy(), torch.randn(7, 6)
    cut = split(model, (x[:2],), stages=4)
    runs = [
        Runtime(cut, micro_batches=3, loss=noisy_loss, backend=backend, **settings)
        for settings in ({}, {"schedule": "gpipe", "checkpoint": True}, {"schedule": "sequential"})
    ]
    seen = set()
    for seed in range(50):
        found = []
        torch.manual_seed(seed)
        base = int(torch.empty((), dtype=torch.int64).random_())
        after = torch.get_rng_state()
        model.zero_grad()
        found.append((run_stages(cut, base, x, 3, noisy_loss), gradients(model)))
        for run in runs:
            torch.manual_seed(seed)
            model.zero_grad()
            found.append((run.step(x)[0], gradients(model)))
            assert torch.equal(torch.get_rng_state(), after)
        for total, grads in found[1:]:
            assert same(total, found[0][0])
            assert all(map(same, grads, found[0][1]))
        seen.add(float(found[0][0]))
    assert len(seen) == 50


def test_numbers_do_not_depend_on_which_thread_is_first(monkeypatch, one_thread):
    torch.manual_seed(0)
    model, x, numbers = Noisy(), torch.randn(6, 6), random.Random(0)
    cut = split(model, (x[:2],), stages=4)
    run = Runtime(cut, micro_batches=3, loss=noisy_loss)
    receive = Worker._receive

    def late(self, key):
        time.sleep(numbers.random() * 0.005)
        return receive(self, key)

    monkeypatch.setattr(Worker, "_receive", late)
    found = []
    for _ in range(5):
        torch.manual_seed(1)
        model.zero_grad()
        found.append((run.step(x)[0], gradients(model)))
    for total, grads in found[1:]:
        assert same(total, found[0][0])
        assert all(map(same, grads, found[0][1]))


def test_what_drew_nothing_at_first_is_watched_again(one_thread):
    """A loss that begins to draw later."""
    draws = False
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), torch.randn(6, 6)
    run = Runtime(
        split(model, (x[:2],), stages=2),
        micro_batches=3,
        loss=lambda result: functional.dropout(result, 0.5, training=draws).sum(),
    )
    run.step(x)
    draws = True
    run.step(x)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(run.step(x)[0])
    assert same(*found)


# ---- Failures


class Oops(Exception):
    pass


class Failing:
    """The place that raises: kind, layer, and the micro-batch whose number its rows hold."""

    when = None


@torch.library.custom_op("gramme_pipeline_test::fail", mutates_args=())
def fail(x: torch.Tensor, stage: int, number: torch.Tensor) -> torch.Tensor:
    _raise("F", stage, number)
    return x.clone()


@fail.register_fake
def _(x, stage, number):
    return torch.empty_like(x)


def _raise(kind, stage, number):
    place = kind, stage, int(number.flatten()[0])
    if Failing.when == place:
        raise Oops(" ".join(map(str, place)))


def _setup(ctx, inputs, output):
    ctx.stage = inputs[1]
    ctx.save_for_backward(inputs[2])


def _backward(ctx, grad):
    _raise("B", ctx.stage, *ctx.saved_tensors)
    return grad, None, None


fail.register_autograd(_backward, setup_context=_setup)


class MayFail(nn.Module):
    def __init__(self, stages=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(stages))

    def forward(self, x, number):
        for i, layer in enumerate(self.layers):
            x = torch.ops.gramme_pipeline_test.fail(torch.tanh(layer(x)), i, number)
        return x


@pytest.fixture(scope="module")
def may_fail():
    torch.manual_seed(0)
    model = MayFail()
    cut = split(model, (torch.randn(2, 4), torch.zeros(2)), stages=3)
    return model, cut


def stage_of(cut, i):
    """The stage that has the i-th call that may fail."""
    for number, stage in enumerate(cut.stages):
        for node in stage.graph.nodes:
            if "fail" in str(node.target) and node.args[1] == i:
                return number
    raise AssertionError


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gramme")]


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_failure_anywhere(may_fail, schedule, backend, checkpoint):
    model, cut = may_fail
    run = Runtime(cut, micro_batches=4, schedule=schedule, loss=loss_of, backend=backend, checkpoint=checkpoint)
    x, number = torch.randn(8, 4), torch.arange(4.0).repeat_interleave(2)
    for kind in "FB":
        for layer in range(3):
            for i in range(4):
                Failing.when = kind, layer, i
                began = time.perf_counter()
                with pytest.raises(Oops, match=f"{kind} {layer} {i}") as caught:
                    run.step(x, number)
                assert time.perf_counter() - began < 5
                notes = "\n".join(caught.value.__notes__)
                word = {"F": "forward", "B": "backward"}[kind]
                assert f"in stage {stage_of(cut, layer)}, {word} of micro-batch {i}, " in notes
                assert "test_runtime.py:" in notes
                assert not threads()
    Failing.when = None
    compare(model, run, (x, number), 4)


def test_the_line_that_failed(may_fail):
    """In the eager backend the very line of the program, and so in the first run."""
    _, cut = may_fail
    line = MayFail.forward.__code__.co_firstlineno + 2
    run = Runtime(cut, micro_batches=4, loss=loss_of)
    for _ in range(2):
        Failing.when = "F", 1, 2
        with pytest.raises(Oops) as caught:
            run.step(torch.randn(8, 4), torch.arange(4.0).repeat_interleave(2))
        assert f"test_runtime.py:{line}" in caught.value.__notes__[-1]
        Failing.when = None
        run.step(torch.randn(8, 4), torch.arange(4.0).repeat_interleave(2))


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, MemoryError])
def test_a_loss_that_raises_anything(kind):
    def loss(result):
        raise kind("from the loss")

    cut = split(UNet(), (torch.randn(2, 6),), stages=2)
    run = Runtime(cut, micro_batches=2, loss=loss)
    with pytest.raises(kind, match="from the loss") as caught:
        run.step(torch.randn(4, 6))
    assert "in stage 1, forward of micro-batch 0" in caught.value.__notes__[-1]
    assert not threads()


@pytest.mark.parametrize("loss", [lambda result: result, lambda result: 3.0])
def test_a_loss_that_is_none(loss):
    run = Runtime(split(UNet(), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss)
    with pytest.raises(TypeError, match="must be a tensor of one element"):
        run.step(torch.randn(4, 6))


def test_an_interrupt_comes_while_a_stage_works():
    def slow(result):
        if slow.interrupt:
            slow.interrupt = False
            signal.raise_signal(signal.SIGALRM)
            time.sleep(0.3)
        return result.sum()

    def interrupt(*_):
        raise KeyboardInterrupt

    model = UNet()
    run = Runtime(split(model, (torch.randn(2, 6),), stages=4), micro_batches=4, loss=slow)
    slow.interrupt = True
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        began = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            run.step(torch.randn(8, 6))
        assert time.perf_counter() - began < 5
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not threads()
    compare(model, run, (torch.randn(8, 6),), 4, loss=slow)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one may come in a finalizer
def test_no_thread_is_left_wherever_an_interrupt_comes():
    def interrupt(*_):
        raise KeyboardInterrupt

    run = Runtime(split(UNet(), (torch.randn(2, 6),), stages=4), micro_batches=4, loss=loss_of)
    batch, interrupted, left = torch.randn(8, 6), 0, []
    run.step(batch)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + i % 40))
                run.step(batch)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            left += threads()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert not left
    assert run.step(batch)[0].isfinite()


def test_batches_that_cannot_be_cut():
    cut = split(UNet(), (torch.randn(2, 6),), stages=2)
    run = Runtime(cut, micro_batches=4, loss=loss_of)
    with pytest.raises(ValueError, match="a batch of 3 rows cannot be cut into 4 micro-batches"):
        run.step(torch.randn(3, 6))
    with pytest.raises(ValueError, match="tensors of 7, 8 rows cannot be cut alike"):
        run.step(torch.randn(8, 6), target=torch.randn(7))
    with pytest.raises(ValueError, match="no tensor to cut"):
        run.step(NoChunk(torch.randn(3, 6)))


def test_arguments():
    cut = split(UNet(), (torch.randn(2, 6),), stages=2)
    for arguments, message in (
        (
            {"micro_batches": 2, "schedule": "zb"},
            "one of gpipe, 1f1b, sequential, zero-bubble, not 'zb'",
        ),
        ({"micro_batches": 2, "reduction": "none"}, "reduction must be one of"),
        ({"micro_batches": 2, "backend": "inductor"}, "backend must be one of"),
        ({}, "how many micro-batches"),
        ({"micro_batches": 0}, "needs stages and micro-batches"),
    ):
        with pytest.raises(ValueError, match=message):
            Runtime(cut, loss=loss_of, **arguments)
    for schedule, message in (
        (Schedule.gpipe(3, 2), "for 3 stages and 2 micro-batches, not for 2"),
        (Schedule.from_csv("0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1B0,1F1,1B1"), "0W0 is behind a later micro-batch"),
        (Schedule.from_csv("0F0,0F1,0I0,0B1,0W0\n1F0,1B0,1F1,1B1"), "0W0 is behind a later micro-batch"),
        (Schedule.from_csv("0F1,0F0,0B0,0B1\n1F1,1F0,1B0,1B1"), "0F0 is behind a later micro-batch"),
        (Schedule.from_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0"), "1B0 is behind a later micro-batch"),
        (Schedule.from_csv("0B0,0F0\n1F0,1B0"), "0B0 before 0F0"),
        (Schedule.from_csv("0F0,0F1,0B0,0B1\n1F0,1B0"), "1F1 is missing"),
    ):
        with pytest.raises(ScheduleError, match=message):
            Runtime(cut, schedule=schedule, loss=loss_of)
    with torch.no_grad():
        run = Runtime(split(UNet(), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss_of)
    with pytest.raises(ValueError, match="was split without"):
        run.step(torch.randn(4, 6))
    assert run(torch.randn(4, 6)).shape == (4, 3)


def test_what_the_model_takes_from_outside_has_no_graph_of_its_own():
    base = torch.randn(6, requires_grad=True)
    outside = base * 2
    cut = split(Call(lambda x: (x * outside).sin().cos()), (torch.randn(2, 6),), stages=2)
    with pytest.raises(ValueError, match="computed of what requires a gradient"):
        Runtime(cut, micro_batches=2, loss=loss_of).step(torch.randn(4, 6))


def test_a_parameter_in_the_result():
    class Model(nn.Linear):
        def forward(self, x):
            return super().forward(x).sin(), self.weight

    run = Runtime(split(Model(6, 6), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss_of)
    with pytest.raises(ValueError, match="returns a parameter, l_self_parameters_weight_"):
        run.step(torch.randn(4, 6))


def test_a_stage_that_writes_to_its_input_is_not_run_twice():
    cut = split(
        Call(lambda x, y: (x.mul_(2) * y).sin().cos()),
        (torch.randn(2, 6), torch.randn(2, 6, requires_grad=True)),
        stages=2,
    )
    arguments = torch.randn(4, 6), torch.randn(4, 6, requires_grad=True)
    Runtime(cut, micro_batches=2, loss=loss_of, schedule="sequential").step(*arguments)
    with pytest.raises(RuntimeError, match="checkpoint=False"):
        Runtime(cut, micro_batches=2, loss=loss_of, checkpoint=True).step(*arguments)


def test_a_model_that_is_not_captured_just_now():
    run = Runtime(split(UNet(), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss_of)
    with torch.utils.flop_counter.FlopCounterMode(display=False), pytest.raises(RuntimeError, match="captures nothing"):
        run.step(torch.randn(4, 6))


# ---- What stays, and what is told


def test_two_hundred_steps_leave_nothing():
    torch.manual_seed(0)
    model = Language()
    cut = split(model, (torch.randint(0, 11, (2, 5)),), stages=3)
    run = Runtime(cut, micro_batches=2, loss=loss_of, backend="native")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def tensors():
        gc.collect()
        return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())

    counts = []
    for step in range(200):
        optimizer.zero_grad()
        run.step(torch.randint(0, 11, (4, 5)))
        optimizer.step()
        if step in (20, 199):
            counts.append(tensors())
    assert counts[0] == counts[1]
    assert not threads()


def test_nothing_waits_for_the_collector_after_a_failure(may_fail):
    _, cut = may_fail
    run = Runtime(cut, micro_batches=4, loss=loss_of)
    x, number = torch.randn(8, 4), torch.arange(4.0).repeat_interleave(2)
    run.step(x, number)
    gc.collect()
    before = sum(type(thing).__name__ == "Step" for thing in gc.get_objects())
    gc.disable()
    try:
        Failing.when = "F", 1, 2
        for _ in range(3):
            try:
                run.step(x, number)
            except Oops:
                pass
        Failing.when = None
        assert not threads()
    finally:
        gc.enable()
    assert sum(type(thing).__name__ == "Step" for thing in gc.get_objects()) == before


def test_a_checkpointed_stage_keeps_only_its_inputs(monkeypatch, one_thread):
    """Bytes that the graphs of all stages save, counted by hooks in their threads."""
    work = Worker.run

    def keeping(self, kept):
        with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda box: box[0]):
            work(self)

    class Box(list):
        pass

    class Kept:
        alive = peak = 0

        def pack(self, tensor):
            self.alive += tensor.nbytes
            self.peak = max(self.peak, self.alive)
            box = Box([tensor.detach()])
            weakref.finalize(box, self.drop, tensor.nbytes)
            return box

        def drop(self, size):
            self.alive -= size

    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())])
    cut = split(model, (torch.randn(16, 64),), stages=2)
    peaks = []
    for checkpoint in (False, True):
        run = Runtime(cut, micro_batches=8, schedule="gpipe", loss=loss_of, checkpoint=checkpoint)
        kept = Kept()
        monkeypatch.setattr(Worker, "run", lambda self, kept=kept: keeping(self, kept))
        run.step(torch.randn(128, 64))
        peaks.append(kept.peak)
    assert peaks[1] < peaks[0] / 2


def test_values_and_spans(one_thread):
    torch.manual_seed(0)
    cut = split(UNet(), (torch.randn(2, 6),), stages=4)
    run = Runtime(cut, micro_batches=4, loss=loss_of)
    run.step(torch.randn(8, 6))
    far = {portal.name: portal for portal in cut.plan.portals}
    values = {value.name: value for value in run.values}
    assert far.keys() <= values.keys()
    for name, portal in far.items():
        assert (values[name].source, values[name].targets, values[name].bytes) == (
            portal.source,
            portal.targets,
            2 * 6 * 4,
        )
    assert sorted(str(span.action) for span in run.spans) == sorted(
        f"{stage}{kind}{i}" for stage in range(4) for kind in "FB" for i in range(4)
    )
    relayed = simulate(run.schedule, values=[value.relayed for value in run.values])
    assert run.simulate().moved_bytes < relayed.moved_bytes
    assert max(run.simulate().peak_bytes) <= max(relayed.peak_bytes)


def test_which_stages_hold_pythons_lock(may_fail):
    _, cut = may_fail
    x, number = torch.randn(8, 4), torch.arange(4.0).repeat_interleave(2)
    run = Runtime(cut, micro_batches=4, loss=loss_of, backend="native")
    assert run.in_python()[0] == ["it has not run yet"]
    run.step(x, number)
    for number_of, reasons in enumerate(run.in_python()):
        expected = [i for i in range(3) if stage_of(cut, i) == number_of]
        assert len(reasons) == len(expected)
        assert all("gramme_pipeline_test::fail: its kernel is Python's" in reason for reason in reasons)
    assert "backend='eager'" in Runtime(cut, micro_batches=4).in_python()[0][0]
    drawing = Runtime(split(Noisy(), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss_of, backend="native")
    drawing.step(torch.randn(4, 6))
    assert all(any("draw" in reason for reason in reasons) for reasons in drawing.in_python())
    plain = Runtime(split(UNet(), (torch.randn(2, 6),), stages=2), micro_batches=2, loss=loss_of, backend="native")
    plain.step(torch.randn(4, 6))
    assert plain.in_python() == [[], []]


# ---- Random programs

WIDTH = 4
STEPS = {
    "layer": lambda model, a, b, c: torch.tanh(model.layers[0](a) + model.layers[1](b)) * c,
    "product": lambda model, a, b, c: a * b + c,
    "same object": lambda model, a, b, c: a.contiguous(),
    "parameter twice": lambda model, a, b, c: a * model.scale + (b * model.scale).sin(),
    "quotient": lambda model, a, b, c: (a + b) / (1 + b * b),
    "strided": lambda model, a, b, c: torch.cat([a, b], 1)[:, ::2].tanh(),
    "view": lambda model, a, b, c: a.t().t() * model.table,
    "no gradient": lambda model, a, b, c: a.detach() * b,
    "where": lambda model, a, b, c: torch.where(a > b, a, c) * 0.5,
    "size": lambda model, a, b, c: (a - b.mean(0)).clamp(-2, 2) + c * a.shape[0] * 0.1,
    "statistics": lambda model, a, b, c: model.norm(a),
    "in place": lambda model, a, b, c: a.clone().mul_(0.7).add_(b * 0.1),
}


class Random(nn.Module):
    """Each step takes three of the values before it, near ones more often."""

    def __init__(self, seed):
        super().__init__()
        numbers = random.Random(seed)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.scale, self.norm = nn.Parameter(torch.randn(WIDTH)), nn.BatchNorm1d(WIDTH)
        self.register_buffer("table", torch.randn(WIDTH))
        self.steps, size = [], 2
        for _ in range(numbers.randrange(10, 30)):
            nearest = max(0, size - 5) if numbers.random() < 0.7 else 0
            taken = tuple(numbers.randrange(nearest, size) for _ in range(3))
            self.steps.append((taken, numbers.choice(list(STEPS))))
            size += 1
        self.returned = [size - 1, numbers.randrange(size), numbers.randrange(size)]

    def forward(self, x, y):
        values = [x, y]
        for taken, name in self.steps:
            values.append(STEPS[name](self, *(values[i] for i in taken)))
        return [values[i] for i in self.returned], (values[-1] * self.scale).sum(1)


def most_stages(model, args, stages):
    """As many as there are places to cut: statistics that are used everywhere leave none."""
    for number in range(stages, 1, -1):
        with contextlib.suppress(ValueError):
            return split(model, args, stages=number)
    return split(model, args, stages=1)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed, soak, one_thread):
    for one in range(seed, 400 if soak else 16, 8):
        torch.manual_seed(one)
        numbers, model = random.Random(one), Random(one)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        cut = most_stages(model, (torch.randn(3, WIDTH), torch.randn(3, WIDTH)), numbers.choice([2, 3, 4, 6]))
        for settings in (SETTINGS[0], SETTINGS[2]):
            parts = numbers.choice([1, 2, 3, 5])
            run = Runtime(cut, micro_batches=parts, loss=loss_of, **settings)
            n = numbers.randrange(2 * parts, 4 * parts)
            compare(model, run, (torch.randn(n, WIDTH), torch.randn(n, WIDTH)), parts, before=before)


# ---- Models of transformers, from configs

SMALL = dict(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=50)


def llama(transformers):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, use_cache=False))


def bert(transformers):
    none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, **none))


def distilbert(transformers):
    sizes = dict(dim=32, n_layers=4, n_heads=4, hidden_dim=64, vocab_size=50, dropout=0.0, attention_dropout=0.0)
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**sizes))


def gpt2(transformers):
    """Its embeddings are the head's, too."""
    sizes = dict(n_embd=32, n_layer=4, n_head=4, vocab_size=50, bos_token_id=0, eos_token_id=0)
    none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **none))


def t5(transformers):
    """What the encoder gives goes to all layers of the decoder."""
    sizes = dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=3, num_heads=4, vocab_size=50)
    config = transformers.T5Config(**sizes, dropout_rate=0.0, use_cache=False, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def mixtral(transformers):
    sizes = dict(SMALL, num_local_experts=4, num_key_value_heads=2)
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, use_cache=False))


def token_loss(result, target):
    return functional.cross_entropy(result.logits.flatten(0, 1), target.flatten())


def tokens(make, n, length):
    ids = torch.randint(0, 50, (n, length))
    return (ids, torch.ones_like(ids), torch.randint(0, 50, (n, length))) if make is t5 else (ids,)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("make", [llama, bert, distilbert, gpt2, t5, mixtral])
def test_transformers(make, stages, one_thread):
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers")).train()
    # Mixtral asks whether it is compiled, and then sums its experts in another order.
    uncut = gramme.compile(model, backend="eager", fullgraph=True, dynamic=True) if make is mixtral else model
    cut = split(model, tokens(make, 3, 7), stages=stages)
    for settings in SETTINGS[:3]:
        run = Runtime(cut, micro_batches=3, loss=token_loss, **settings)
        for n, length in ((9, 7), (8, 5)):
            args, target = tokens(make, n, length), torch.randint(0, 50, (n, length))
            compare(model, run, args, 3, token_loss, target=target, uncut=uncut)
