"""gramme.pipeline.Runtime: stages in threads, equal to the bit to the uncut model."""

import pytest
import torch
from gramme.pipeline import Runtime, Schedule, split
from gramme.torchgpipe.pipe import NoChunk
from torch import nn
from torch.nn import functional

from pipeline.cases import MODELS, DenseNet, Still, UNet
from pipeline.models import Call, gradients, same
from pipeline.runs import SETTINGS, compare, loss_of


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
    line = DecidedByRows.forward.__code__.co_firstlineno + 2
    with pytest.raises(
        RuntimeError, match=rf"another way .* or a size of one \(one row is apart: .*test_runtime.py:{line}\)"
    ):
        run.step(x[:5])
    compare(model, Runtime(split(model, (x[:1],), stages=2), micro_batches=3, loss=loss_of), (x[:3],), 3)
    assert not any(name.startswith("_dynamo") for name in vars(x))


def test_one_row_where_statistics_need_two(one_thread):
    """Eager's error in training; in evaluation there are no statistics to take."""
    torch.manual_seed(0)
    model, x = DenseNet(), torch.randn(3, 6)
    run = Runtime(split(model, (x,), stages=2), micro_batches=3, loss=loss_of)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        run.step(torch.cat([x, x[:2]]))
    model.eval()
    compare(model, Runtime(split(model, (x,), stages=2), micro_batches=3, loss=loss_of), (torch.cat([x, x[:2]]),), 3)


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
