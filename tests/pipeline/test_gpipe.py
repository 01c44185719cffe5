"""GPipe: its arguments, what it refuses, and results equal to the bit to those without it."""

from collections import OrderedDict

import pytest
import torch
from gramme.torchgpipe import GPipe, is_checkpointing, is_recomputing
from gramme.torchgpipe.gpipe import verify_module
from torch import nn

from pipeline.models import CPU, Call, cpus, gradients, node_names, popper, run_uncut, same, stasher, unet


def two(**kwargs):
    return GPipe(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), [1, 1], devices=cpus(2), **kwargs)


def test_attributes():
    model = GPipe(
        nn.Sequential(*[nn.ReLU() for _ in range(3)]), (2, 1), devices=cpus(5), chunks="4", checkpoint="never"
    )
    assert (model.balance, model.chunks, model.checkpoint) == ([2, 1], 4, "never")
    assert model.devices == [CPU, CPU]  # those too many are dropped
    assert isinstance(model.partitions, nn.ModuleList)
    assert [len(p) for p in model.partitions] == [2, 1]
    assert two().chunks == 1
    assert two().checkpoint == "except_last"


@pytest.mark.parametrize(
    ("kind", "text", "arguments"),
    [
        (ValueError, "balance is required.*torchgpipe.balance", {}),
        (ValueError, r"different length \(module: 2, sum of balance: 1\).*torchgpipe.balance", {"balance": [1]}),
        (ValueError, "positive integer.*torchgpipe.balance", {"balance": [2, 0]}),
        (ValueError, "positive integer.*torchgpipe.balance", {"balance": [3, -1]}),
        (ValueError, "number of chunks must be positive", {"balance": [2], "chunks": 0}),
        (ValueError, "number of chunks must be positive", {"balance": [2], "chunks": -1}),
        (ValueError, "checkpoint is not one of", {"balance": [2], "checkpoint": "sometimes"}),
        (IndexError, r"too few devices.*\(devices: 1, partitions: 2\)", {"balance": [1, 1], "devices": ["cpu"]}),
    ],
)
def test_arguments_that_do_not_fit(kind, text, arguments):
    arguments = {"devices": cpus(2), **arguments}
    with pytest.raises(kind, match=f"(?s){text}"):
        GPipe(nn.Sequential(nn.ReLU(), nn.ReLU()), **arguments)


def test_models_that_cannot_be_cut():
    shared = nn.Linear(1, 1)
    other = nn.Linear(1, 1)
    other.weight = shared.weight
    with pytest.raises(TypeError, match="must be nn.Sequential"):
        GPipe(nn.ReLU(), [1], devices=cpus(1))
    with pytest.raises(TypeError, match="must be nn.Sequential"):
        verify_module(nn.ModuleList())
    with pytest.raises(ValueError, match="duplicate children"):
        GPipe(nn.Sequential(shared, shared), [1, 1], devices=cpus(2))
    with pytest.raises(ValueError, match="duplicate parameters in distinct children"):
        GPipe(nn.Sequential(shared, nn.Sequential(other)), [1, 1], devices=cpus(2))
    with pytest.raises(TypeError, match="no module declared 'a' as poppable"):
        GPipe(nn.Sequential(stasher("a")), [1], devices=cpus(1))


def test_it_is_a_sequence_of_the_layers():
    layers = [nn.Linear(1, 1), nn.ReLU(), nn.Tanh()]
    model = GPipe(nn.Sequential(*layers), [1, 2], devices=cpus(2))
    assert len(model) == 3
    assert list(model) == layers
    assert model[0] is layers[0]
    assert model[-1] is layers[2]
    with pytest.raises(IndexError):
        model[3]
    with pytest.raises(AttributeError):
        _ = model.in_features


def test_names_of_parameters():
    model = nn.Sequential(OrderedDict(one=nn.Linear(1, 1), two=nn.ReLU(), three=nn.Linear(1, 1)))
    model = GPipe(model, [2, 1], devices=cpus(2))
    names = ["partitions.0.one.weight", "partitions.0.one.bias", "partitions.1.three.weight", "partitions.1.three.bias"]
    assert list(model.state_dict()) == names
    other = GPipe(
        nn.Sequential(OrderedDict(one=nn.Linear(1, 1), two=nn.ReLU(), three=nn.Linear(1, 1))), [2, 1], devices=cpus(2)
    )
    other.load_state_dict(model.state_dict())
    assert all(map(torch.equal, other.parameters(), model.parameters()))


def test_it_is_not_moved_but_cast():
    model = two()
    for move in (
        model.cpu,
        model.cuda,
        lambda: model.to("cpu"),
        lambda: model.to(CPU),
        lambda: model.to(device=CPU),
        lambda: model.to(torch.ones(1)),
        lambda: model.to(tensor=torch.ones(1)),
        lambda: model.to(0),
    ):
        with pytest.raises(TypeError, match="denied to move"):
            move()
    assert model.to(torch.double) is model
    assert model(torch.ones(1, 2).double()).dtype == torch.double
    assert model.float()(torch.ones(1, 2)).dtype == torch.float


def test_empty_model():
    model = GPipe(nn.Sequential(), [])
    x = torch.ones(2)
    assert model(x) is x
    assert len(model) == 0
    with pytest.raises(TypeError, match="expected Tensor"):
        model(1)


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="expected Tensor"):
        two()([torch.ones(1, 2)])
    with pytest.raises(TypeError, match="expected Tensor"):
        GPipe(nn.Sequential(Call(lambda x: "text")), [1], devices=cpus(1))(torch.ones(1))


def test_tuples_between_the_stages():
    model = nn.Sequential(Call(lambda x: (x, x * 2)), Call(lambda pair: (pair[0] + pair[1], pair[1].long())))
    x = torch.ones(4, 1, requires_grad=True)
    a, b = GPipe(model, [1, 1], devices=cpus(2), chunks=2, checkpoint="always")(x)
    assert a.shape == b.shape == (4, 1)
    assert b.dtype == torch.long
    assert not b.requires_grad
    a.sum().backward()
    assert x.grad.unique().item() == 3


@pytest.mark.parametrize(("length", "stages"), [(1, 1), (2, 2), (3, 3), (5, 4)])
def test_short_batches(length, stages):
    """Fewer micro-batches than chunks; "except_last" still leaves out the last one."""
    model = two(chunks=4)
    result = model(torch.ones(length, 2))
    micro_batches = len(torch.ones(length, 2).chunk(4))
    assert node_names(result).count("CheckpointBackward") == 2 * (micro_batches - 1)


def test_flags_in_the_stages():
    seen = []

    def note(x):
        seen.append((is_checkpointing(), is_recomputing()))
        return x * 1

    model = GPipe(nn.Sequential(Call(note)), [1], devices=cpus(1), chunks=2, checkpoint="except_last")
    result = model(torch.ones(2, 1, requires_grad=True))
    assert seen == [(True, False), (False, False)]
    result.sum().backward()
    assert seen[2:] == [(False, True)]
    seen.clear()
    model.eval()
    model(torch.ones(2, 1))
    assert seen == [(False, False)] * 2


def test_grad_mode_inside_and_outside():
    modes = []
    model = GPipe(
        nn.Sequential(Call(lambda x: modes.append(torch.is_grad_enabled()) or x * 1)),
        [1],
        devices=cpus(1),
        checkpoint="never",
    )
    x = torch.ones(1, 1, requires_grad=True)
    with torch.no_grad():
        assert not model(x).requires_grad
    assert model(x).requires_grad
    assert modes == [False, True]


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_autocast_reaches_the_stages(checkpoint):
    dtypes = []
    model = nn.Sequential(nn.Linear(2, 2), Call(lambda x: dtypes.append(x.dtype) or x))
    model = GPipe(model, [1, 1], devices=cpus(2), chunks=2, checkpoint=checkpoint)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = model(torch.ones(2, 2))
    result.float().sum().backward()
    assert set(dtypes) == {torch.bfloat16}
    assert torch.equal(model[0].weight.grad, torch.full((2, 2), 2.0))


# ---- to the bit


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
@pytest.mark.parametrize("balance", [[8], [4, 4], [1, 1, 2, 1, 1, 1, 1], [1] * 8, [2, 3, 3]])
@pytest.mark.parametrize(("batch", "chunks"), [(8, 4), (7, 3), (3, 8), (1, 1)])
def test_unet_equals_the_uncut_model(balance, batch, chunks, checkpoint, one_thread):
    torch.manual_seed(3)
    plain = unet(3)
    x = torch.randn(batch, 6, requires_grad=True)

    def loss(y):
        return (y**2).sum().sqrt()

    output, total = run_uncut(plain, x, chunks, loss)
    expected, expected_x = gradients(plain), x.grad
    plain.zero_grad()
    x.grad = None
    model = GPipe(plain, balance, devices=cpus(len(balance)), chunks=chunks, checkpoint=checkpoint)
    result = model(x)
    value = loss(result)
    value.backward()
    assert same(result, output)
    assert same(value, total)
    assert same(x.grad, expected_x)
    assert all(map(same, gradients(plain), expected))


@pytest.mark.parametrize("seed", range(10))
def test_dropout_is_the_same_with_and_without_checkpoints(seed, one_thread):
    found = []
    for checkpoint in ("always", "except_last", "never"):
        torch.manual_seed(seed)
        plain = unet(2, dropout=0.5)
        model = GPipe(plain, [2, 2, 2], devices=cpus(3), chunks=3, checkpoint=checkpoint)
        result = model(torch.ones(6, 6))
        result.sum().backward()
        found.append([result, *gradients(plain), torch.rand(1)])
    assert all(all(map(same, others, found[0])) for others in found[1:])


def test_training_goes_the_same_way(one_thread):
    """Thirty steps of two models, batches of changing lengths."""
    models = []
    for pipelined in (False, True):
        torch.manual_seed(0)
        plain = unet(2)
        optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01)
        model = GPipe(plain, [2, 2, 2], devices=cpus(3), chunks=3) if pipelined else None
        for step in range(30):
            x = torch.randn(4 + step % 5, 6)
            optimizer.zero_grad()
            if model is None:
                run_uncut(plain, x, 3, lambda y: (y**2).mean())
            else:
                (model(x) ** 2).mean().backward()
            optimizer.step()
        models.append(plain)
    assert all(map(same, *(model.parameters() for model in models)))


def test_stages_that_gramme_compiled(one_thread):
    import gramme

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    x = torch.randn(4, 4)
    run_uncut(plain, x, 2, lambda y: y.sum())
    expected = gradients(plain)
    plain.zero_grad()
    compiled = nn.Sequential(*(gramme.compile(layer, backend="eager") for layer in plain))
    GPipe(compiled, [1, 1], devices=cpus(2), chunks=2)(x).sum().backward()
    assert all(map(same, gradients(plain), expected))


def test_pop_in_the_partition_that_stashes():
    plain = nn.Sequential(stasher("a"), popper("a"), nn.Tanh())
    x = torch.ones(2, 1, requires_grad=True)
    assert torch.equal(GPipe(plain, [2, 1], devices=cpus(2), chunks=2, checkpoint="always")(x), plain(x))
