"""Pipe, for programs written for torch.distributed.pipeline.sync."""

import pytest
import torch
from gramme.torchgpipe import NoChunk, Pipe, PipeSequential, WithDevice
from gramme.torchgpipe.skip import Namespace
from torch import nn
from torch.distributed import rpc

from pipeline.models import CPU, Call, gradients, popper, run_uncut, same, stasher, unet


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    file = tmp_path_factory.mktemp("rpc") / "store"
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file}")
    rpc.init_rpc("worker", rank=0, world_size=1, rpc_backend_options=options)
    yield
    rpc.shutdown()


def test_without_rpc(monkeypatch):
    monkeypatch.setattr(rpc.api, "_is_current_rpc_agent_set", lambda: False)  # tests before this one may have begun it
    with pytest.raises(RuntimeError, match="Please initialize RPC"):
        Pipe(nn.Sequential(nn.ReLU()))


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_equals_the_uncut_model(started, checkpoint, one_thread):
    torch.manual_seed(0)
    plain = unet(2)
    x = torch.randn(7, 6, requires_grad=True)
    output, _ = run_uncut(plain, x, 3, lambda y: y.exp().sum())
    expected, expected_x = gradients(plain), x.grad
    plain.zero_grad()
    x.grad = None
    result = Pipe(plain, chunks=3, checkpoint=checkpoint)(x).local_value()
    result.exp().sum().backward()
    assert same(result, output)
    assert same(x.grad, expected_x)
    assert all(map(same, gradients(plain), expected))


def test_layers_on_the_cpu_are_partitions(started):
    model = Pipe(nn.Sequential(nn.Linear(1, 1), nn.ReLU(), WithDevice(nn.Tanh(), "cpu")), chunks=2)
    assert [len(partition) for partition in model.partitions] == [1, 1, 1]
    assert model.devices == [CPU] * 3
    assert list(model.state_dict()) == ["partitions.0.0.weight", "partitions.0.0.bias"]
    assert isinstance(model[-1], nn.Tanh)
    assert len(model) == 3


def test_values_of_a_tuple_are_arguments(started):
    layers = [Call(lambda a, b: (a + b, b, "text")), Call(lambda a, b, text: (a * b, text))]
    a, b = torch.ones(4, 1, requires_grad=True), torch.full((4, 1), 2.0)
    for checkpoint in ("always", "never"):
        product, texts = Pipe(nn.Sequential(*layers), chunks=2, checkpoint=checkpoint)(a, b).local_value()
        assert product.flatten().tolist() == [6.0] * 4
        assert texts == ["text", "text"]
        a.grad = None
        product.sum().backward()
        assert a.grad.unique().item() == 2
    assert PipeSequential(*layers)(torch.ones(1), torch.ones(1))[1] == "text"


def test_what_is_not_cut(started):
    seen = []
    model = Pipe(nn.Sequential(Call(lambda x, whole, n: seen.append((len(x), len(whole), n)) or x)), chunks=2)
    model(torch.ones(4, 1), NoChunk(torch.ones(3)), 5)
    assert seen == [(2, 3, 5)] * 2
    with pytest.raises(TypeError, match="NoChunk only supported for tensors"):
        NoChunk(5)


def test_none_and_flags_pass_checkpoints(started):
    model = nn.Sequential(Call(lambda x, mask: (x * 2, mask)), Call(lambda x, mask: x if mask is None else x * mask))
    x = torch.ones(2, 1, requires_grad=True)
    Pipe(model, chunks=2, checkpoint="always")(x, None).local_value().sum().backward()
    assert x.grad.unique().item() == 2


def test_skips(started):
    ns = Namespace()
    model = nn.Sequential(stasher("a").isolate(ns), nn.Tanh(), popper("a").isolate(ns))
    x = torch.ones(2, 1)
    assert torch.equal(Pipe(model, chunks=2)(x).local_value(), model(x))


def test_refusals(started):
    model = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(TypeError, match="expected at least one tensor"):
        Pipe(model)(5)
    with pytest.raises(RuntimeError, match="Found different number of chunks"):
        Pipe(nn.Sequential(Call(lambda a, b: a)), chunks=4)(torch.ones(4), torch.ones(2))
    with pytest.raises(ValueError, match="same device as the first partition"):
        Pipe(model)(torch.ones(1, 1, device="meta"))
    with pytest.raises(TypeError, match="Types for microbatch outputs do not match"):
        Pipe(nn.Sequential(Call(lambda x: (x, 1 if x[0] else None))), chunks=2)(torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="on a single device"):
        Pipe(nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, device="meta"))))
    with pytest.raises(TypeError, match="must be nn.Sequential"):
        Pipe(nn.ReLU())
    with pytest.raises(ValueError, match="checkpoint is not one of"):
        Pipe(model, checkpoint="sometimes")
    with pytest.raises(ValueError, match="number of chunks"):
        Pipe(model, chunks=0)
    with pytest.raises(TypeError, match="denied to move"):
        Pipe(model).to("cpu")


def test_parameters_of_two_layers(started):
    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    two.weight = one.weight
    Pipe(nn.Sequential(one, two))  # on one device they may
    far = nn.Linear(1, 1, device="meta")
    far.register_parameter("other", one.weight)
    with pytest.raises(ValueError, match="on a single device|distinct devices"):
        Pipe(nn.Sequential(one, far))
