"""Checkpoints: the second run and its place, random numbers, what may not be done."""

import gc
import threading
import weakref

import pytest
import torch
from gramme.torchgpipe import is_checkpointing, is_recomputing
from gramme.torchgpipe.checkpoint import Checkpointing, checkpoint, enable_checkpointing, enable_recomputing
from gramme.torchgpipe.dependency import fork, join
from gramme.torchgpipe.microbatch import Batch
from torch import nn

from pipeline.models import node_names


def flags():
    return is_checkpointing(), is_recomputing()


def lane(value=1.0, *, grad=True):
    return torch.tensor([value], requires_grad=grad)


def test_flags_nest_restore_and_belong_to_a_thread():
    assert flags() == (False, False)
    other = []
    with enable_checkpointing():
        assert flags() == (True, False)
        thread = threading.Thread(target=lambda: other.append(flags()))
        thread.start()
        thread.join()
        with enable_checkpointing():
            assert flags() == (True, False)
        assert flags() == (True, False)
    with pytest.raises(ZeroDivisionError), enable_recomputing():
        1 / (flags() != (False, True))
    assert flags() == (False, False)
    assert other == [(False, False)]


def test_flags_of_the_two_runs():
    seen = []

    def body(x):
        seen.append((flags(), torch.is_grad_enabled()))
        return x * 2

    result = checkpoint(body, lane())
    assert flags() == (False, False)
    result.backward()
    assert seen == [((True, False), False), ((False, True), True)]
    assert flags() == (False, False)


@pytest.mark.parametrize("grad", [False, True])
def test_the_result_always_needs_a_gradient(grad):
    result = checkpoint(lambda x: x * 2, lane(grad=grad))
    assert result.requires_grad
    result.backward()


def test_names_of_the_nodes():
    names = node_names(checkpoint(lambda x: x * 2, lane()))
    assert names.count("CheckpointBackward") == 1
    assert names.count("RecomputeBackward") == 1


def test_recomputed_before_what_it_is_needed_for():
    """Two checkpoints tied one to the other: b is run again, its backward, then a."""
    events = []

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx, name, x):
            events.append(name + ("'" if is_recomputing() else ""))
            ctx.name = name
            return x.detach()

        @staticmethod
        def backward(ctx, gradient):
            events.append(f"{ctx.name} backward")
            return None, gradient

    a = checkpoint(lambda x: Note.apply("a", x), lane())
    a, phony = fork(a)
    b = checkpoint(lambda x: Note.apply("b", x), join(lane(), phony))
    (a + b).backward()
    assert events == ["a", "b", "b'", "b backward", "a'", "a backward"]


def test_recompute_comes_before_the_gradient_it_needs():
    """What stands between the result and its gradient is run after the second run."""
    events = []
    checkpointing = Checkpointing(lambda x: events.append("run") or x * 2, Batch(lane()))
    batch = checkpointing.checkpoint()
    batch[0].register_hook(lambda gradient: events.append("gradient"))
    checkpointing.recompute(batch)
    batch.tensor.backward()
    assert events == ["run", "run", "gradient"]


def test_gradients_are_those_without_checkpoint():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(3, 4, requires_grad=True)
    layer(x).exp().sum().backward()
    expected = [x.grad, *(p.grad for p in layer.parameters())]
    x.grad = None
    layer.zero_grad()
    checkpoint(layer, x).exp().sum().backward()
    assert all(map(torch.equal, expected, [x.grad, *(p.grad for p in layer.parameters())]))


def test_tuples_and_results_without_gradients():
    def body(pair):
        a, b = pair
        return b.long(), a * b, a.detach() * 1, b * 3

    a, b = lane(2.0), lane(5.0)
    ids, product, loose, triple = checkpoint(body, (a, b))
    assert ids.tolist() == [5]
    assert not ids.requires_grad
    assert loose.requires_grad
    (product * 10 + triple).sum().backward()
    assert a.grad.item() == 50
    assert b.grad.item() == 23


def test_results_that_are_not_used_give_no_gradient():
    unused = nn.Linear(1, 1)
    result, _ = checkpoint(lambda x: (x * 2, unused(x)), lane())
    result.backward()
    assert unused.weight.grad is None


def test_random_numbers_are_the_same_twice_and_go_on_after():
    drawn = []

    def body(x):
        drawn.append(torch.rand(3))
        return x * drawn[-1]

    torch.manual_seed(1)
    x = torch.ones(3, requires_grad=True)
    result = checkpoint(body, x)
    torch.rand(5)
    state = torch.get_rng_state()
    result.sum().backward()
    assert torch.equal(*drawn)
    assert torch.equal(x.grad, drawn[0])
    assert torch.equal(torch.get_rng_state(), state)


def test_autocast_is_that_of_the_first_run():
    dtypes = []
    layer = nn.Linear(2, 2)

    def body(x):
        result = layer(x)
        dtypes.append(result.dtype)
        return result

    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = [checkpoint(body, torch.ones(1, 2)), layer(torch.ones(1, 2))]
    sum(result.float().sum() for result in results).backward()
    assert dtypes == [torch.bfloat16] * 2
    assert not torch.is_autocast_enabled("cpu")
    assert torch.equal(layer.weight.grad, torch.full((2, 2), 2.0))  # no cast without a gradient was kept


def test_an_input_changed_in_place_is_refused_in_backward():
    result = checkpoint(lambda x: x.relu_(), lane() * 1)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad .* used in an in-place operation"):
        result.backward()


def test_an_input_without_gradient_changed_in_place_is_refused_too():
    def body(pair):
        a, b = pair
        b.add_(1)
        return a * b

    result = checkpoint(body, (lane(), lane(grad=False)))
    with pytest.raises(RuntimeError, match="changed its input in place"):
        result.backward()


def test_an_input_changed_between_the_runs_is_refused():
    x = lane() * 1
    result = checkpoint(torch.exp, x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@pytest.mark.filterwarnings("ignore:Using backward")
def test_second_derivatives_and_autograd_grad_are_refused():
    x = lane()
    with pytest.raises(RuntimeError, match="no second derivative"):
        checkpoint(torch.exp, x).backward(create_graph=True)
    with pytest.raises(RuntimeError, match=r"need .backward\(\)"):
        torch.autograd.grad(checkpoint(torch.exp, x), x)


def test_backward_twice():
    x = lane(0.0)
    result = checkpoint(torch.exp, x)
    result.backward(retain_graph=True)
    result.backward()
    assert x.grad.item() == 2
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_without_grad_mode_it_is_a_call():
    seen = []
    with torch.no_grad():
        result = checkpoint(lambda x: seen.append(flags()) or x * 2, lane())
    assert not result.requires_grad
    assert seen == [(True, False)]


@pytest.mark.parametrize("when", ["first", "second"])
def test_exceptions_of_the_function_come_through(when):
    class Mine(Exception):
        pass

    def body(x):
        if is_recomputing() == (when == "second"):
            raise Mine(when)
        return x * 2

    def both():
        checkpoint(body, lane()).backward()

    with pytest.raises(Mine, match=when) as caught:
        both()
    assert caught.traceback[-1].name == "body"
    assert flags() == (False, False)


def test_checkpoints_in_checkpoints():
    x = lane(0.5)
    checkpoint(lambda y: checkpoint(torch.exp, y) * 3, x).backward()
    assert torch.equal(x.grad, 3 * torch.exp(torch.tensor([0.5])))


def test_nothing_stays():
    class Body:
        def __call__(self, x):
            return x * 2

    body = Body()
    alive = weakref.ref(body)
    result = checkpoint(body, lane())
    del body
    gc.collect()
    assert alive() is not None
    result.backward()
    gc.collect()
    assert alive() is None
    body = Body()
    alive = weakref.ref(body)
    result = checkpoint(body, lane())
    del body, result
    gc.collect()
    assert alive() is None
