"""Portals: lives, order of backward, what comes back where."""

import gc
import weakref

import pytest
import torch
from gramme.torchgpipe import GPipe, is_checkpointing, is_recomputing
from gramme.torchgpipe.checkpoint import Checkpointing
from gramme.torchgpipe.dependency import fork, join
from gramme.torchgpipe.microbatch import Batch
from gramme.torchgpipe.skip import pop, skippable, stash
from gramme.torchgpipe.skip.layout import SkipLayout
from gramme.torchgpipe.skip.portal import Portal, PortalBlue, PortalCopy, PortalOrange
from gramme.torchgpipe.skip.tracker import SkipTrackerThroughPotals, use_skip_tracker
from gramme.torchgpipe.stream import CPUStream
from torch import nn

from pipeline.models import Call, atomic, cpus, node_names, popper, stasher

ROUTES = SkipLayout(2, {(None, "far"): (0, 1), (None, "near"): (0, 0)})


def leaf(*values):
    return torch.tensor(values or (1.0,), requires_grad=True)


# ---- one portal


def test_without_checkpoint_two_lives():
    x = leaf()
    portal = Portal(x * 2, tensor_life=2)
    phony = portal.blue()
    assert portal.tensor_life == 1
    assert portal.tensor is not None
    main, phony = fork(join(x * 1, phony))
    portal.orange(phony)
    assert portal.tensor_life == 0
    assert portal.tensor is None


def test_with_checkpoint_three_lives_and_one_more():
    x = leaf()
    portal = Portal(x * 2, tensor_life=3)
    portal.blue()
    assert portal.tensor_life == 2
    _, phony = fork(x * 1)
    portal.orange(phony)
    assert portal.tensor_life == 1
    assert portal.tensor is not None
    portal.orange(phony)  # recomputed
    assert portal.tensor_life == 0
    assert portal.tensor is None
    portal.put_tensor(x * 2, tensor_life=1)  # stashed again
    portal.blue()
    assert portal.tensor_life == 0
    assert portal.tensor is None


def test_a_dead_portal_says_so():
    portal = Portal(leaf(), tensor_life=1)
    portal.blue()
    for use in (portal.blue, portal.use_tensor, portal.check_tensor_life, lambda: portal.orange(leaf())):
        with pytest.raises(RuntimeError, match="tensor in portal has been removed"):
            use()


def test_a_gradient_is_taken_once():
    portal = Portal(leaf(), tensor_life=1)
    with pytest.raises(RuntimeError, match="grad in portal has been removed or never set"):
        portal.use_grad()
    gradient = torch.ones(1)
    portal.put_grad(gradient)
    assert portal.grad is gradient
    assert portal.use_grad() is gradient
    assert portal.grad is None
    with pytest.raises(RuntimeError, match="grad in portal"):
        portal.use_grad()


def test_blue_gives_a_phony_and_takes_the_gradient():
    x = leaf(1.0, 2.0)
    portal = Portal(x, tensor_life=1)
    phony = PortalBlue.apply(portal, x)
    assert phony.shape == (0,)
    assert phony.requires_grad
    assert type(phony.grad_fn) is PortalBlue._backward_cls
    portal.put_grad(torch.tensor([3.0, 4.0]))
    phony.sum().backward()
    assert x.grad.tolist() == [3, 4]
    assert portal.grad is None


def test_orange_gives_the_tensor_detached_and_puts_the_gradient():
    x = leaf(1.0, 2.0)
    portal = Portal(x, tensor_life=2)
    phony = torch.empty(0, requires_grad=True)
    popped = PortalOrange.apply(portal, phony)
    assert popped is not x
    assert popped.data_ptr() == x.data_ptr()
    assert type(popped.grad_fn) is PortalOrange._backward_cls
    popped.backward(torch.tensor([3.0, 4.0]))
    assert portal.grad.tolist() == [3, 4]
    assert x.grad is None
    assert phony.grad is None


def test_copy_gives_a_phony_and_keeps_the_tensor():
    x = leaf()
    portal = Portal(x, tensor_life=2)
    phony = PortalCopy.apply(portal, CPUStream, CPUStream, torch.empty(0, requires_grad=True))
    assert phony.shape == (0,)
    assert type(phony.grad_fn) is PortalCopy._backward_cls
    assert portal.tensor_life == 2
    assert portal.tensor.data_ptr() == x.data_ptr()


def test_none_makes_no_nodes():
    portal = Portal(None, tensor_life=2)
    main = leaf() * 1
    blue = portal.blue()
    main, phony = fork(join(main, blue))
    copied = portal.copy(CPUStream, CPUStream, phony)
    assert portal.orange(phony) is None
    assert not blue.requires_grad
    assert not copied.requires_grad
    assert not [name for name in node_names(main) if name.startswith("Portal")]


def test_neither_lane_needs_a_gradient():
    portal = Portal(torch.ones(1), tensor_life=2)
    main, phony = fork(join(torch.ones(1), portal.blue()))
    result = main + portal.orange(phony)
    assert not result.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        result.backward()


@pytest.mark.parametrize("main_grad", [False, True])
def test_the_skip_alone_makes_the_lane_need_a_gradient(main_grad):
    skip = leaf(2.0)
    portal = Portal(skip, tensor_life=2)
    main = join(torch.tensor([5.0], requires_grad=main_grad), portal.blue())
    assert main.requires_grad
    main, phony = fork(main)
    (main * portal.orange(phony)).backward()
    assert skip.grad.item() == 5


def test_main_lane_alone_needs_a_gradient():
    x, skip = leaf(5.0), torch.tensor([2.0])
    portal = Portal(skip, tensor_life=2)
    phony = portal.blue()
    assert not phony.requires_grad  # no node, no gradient
    main, phony = fork(join(x, phony))
    popped = portal.orange(phony)
    assert not popped.requires_grad  # as it was stashed
    (main * popped).backward()
    assert x.grad.item() == 2
    assert skip.grad is None


@pytest.mark.parametrize("value", [torch.tensor([3]), torch.tensor([True])])
def test_whole_numbers_have_no_gradient_lane(value):
    x = leaf(5.0)
    portal = Portal(value, tensor_life=2)
    main, phony = fork(join(x * 1, portal.blue()))
    main = join(main, portal.copy(CPUStream, CPUStream, phony))
    main, phony = fork(main)
    popped = portal.orange(phony)
    assert torch.equal(popped, value)
    assert not popped.requires_grad
    (main * popped).backward()
    assert x.grad.item() == value.item()


def test_a_pop_that_the_loss_does_not_use():
    x, skip = leaf(5.0), leaf(2.0)
    portal = Portal(skip * 3, tensor_life=2)
    main, phony = fork(join(x * 1, portal.blue()))
    main = join(main, portal.copy(CPUStream, CPUStream, phony))
    main, phony = fork(main)
    portal.orange(phony)
    main.backward()
    assert x.grad.item() == 1
    assert skip.grad is None


def test_a_lane_that_cannot_carry_gradients_leaves_the_tensor_its_history():
    skip = leaf(2.0)
    portal = Portal(skip * 3, tensor_life=2)
    ids = torch.tensor([7])
    assert join(ids, portal.blue()) is ids
    _, phony = fork(ids)
    phony = portal.copy(CPUStream, CPUStream, phony)
    portal.orange(phony).backward()
    assert skip.grad.item() == 3


def test_a_stash_changed_in_place_is_refused():
    x = leaf(2.0)
    kept = x * 3
    portal = Portal(kept, tensor_life=2)
    main, phony = fork(join(x * 1, portal.blue()))
    kept.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place after it was stashed"):
        portal.orange(phony)


def test_without_gradients_a_change_in_place_shows_as_it_does_eagerly():
    kept = torch.ones(1)
    with torch.no_grad():
        portal = Portal(kept, tensor_life=2)
        portal.blue()
        kept.mul_(2)
        assert portal.orange(torch.empty(0)).item() == 2


def test_gradients_of_gradients_pass_a_portal():
    x = leaf(2.0)
    portal = Portal(x**3, tensor_life=2)
    main, phony = fork(join(x * 1, portal.blue()))
    result = main * portal.orange(phony)  # x**4
    (first,) = torch.autograd.grad(result, x, create_graph=True)
    assert first.item() == 32
    (second,) = torch.autograd.grad(first, x)
    assert second.item() == 48


# ---- the tracker through portals


def test_names_of_one_partition_stay_in_the_dict():
    tracker = SkipTrackerThroughPotals(ROUTES)
    batch, value = atomic(), torch.ones(2)
    main = batch.tensor
    tracker.save(batch, None, "near", value)
    assert batch.tensor is main
    assert tracker.tensors == {(None, "near"): value}
    assert not tracker.portals
    assert tracker.load(batch, None, "near") is value


def test_lives_that_the_tracker_gives():
    tracker = SkipTrackerThroughPotals(ROUTES)
    tracker.save(atomic(), None, "far", torch.ones(1))
    assert tracker.portals[None, "far"].tensor_life == 1  # 2, and blue took one

    tracker = SkipTrackerThroughPotals(ROUTES)
    seen = []

    def body(x):
        batch = Batch(x)
        tracker.save(batch, None, "far", x * 2)
        seen.append((is_checkpointing(), tracker.portals[None, "far"].tensor_life))
        return batch.tensor

    checkpointing = Checkpointing(body, atomic())
    batch = checkpointing.checkpoint()
    checkpointing.recompute(batch)
    portal = tracker.portals[None, "far"]
    batch.tensor.backward()
    assert seen == [(True, 2), (False, 0)]  # 3 and blue; put back with 1, and blue took it
    assert tracker.portals[None, "far"] is portal


def test_the_lane_is_the_first_tensor_that_can_have_a_gradient():
    tracker = SkipTrackerThroughPotals(ROUTES)
    ids, x, skip = torch.tensor([1]), torch.ones(1), leaf(2.0)
    batch = Batch((ids, x))
    tracker.save(batch, None, "far", skip * 1)
    assert batch[0] is ids
    assert batch[1].requires_grad
    tracker.copy(batch, CPUStream, CPUStream, None, "far")
    popped = tracker.load(batch, None, "far")
    (batch[1] * 0 + popped * 4).backward()
    assert skip.grad.item() == 4


def test_orange_then_copy_then_blue_in_backward():
    order = []
    tracker = SkipTrackerThroughPotals(ROUTES)

    def note(tensor, text):
        tensor.register_hook(lambda gradient: order.append(text))

    x, skip = leaf(), leaf(2.0)
    stashed = skip * 1
    note(stashed, "blue")
    batch = Batch(x * 1)
    tracker.save(batch, None, "far", stashed)
    batch[0] = batch[0] * 1
    note(batch[0], "lane before copy")
    tracker.copy(batch, CPUStream, CPUStream, None, "far")
    batch[0] = batch[0] * 1
    note(batch[0], "lane before pop")
    popped = tracker.load(batch, None, "far")
    note(popped, "orange")
    (batch[0] + popped).backward()
    assert order == ["orange", "lane before pop", "lane before copy", "blue"]


# ---- in a pipeline


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_no_tensor_stays_when_backward_comes_to_earlier_layers(checkpoint):
    alive, seen = [], []

    def watch(x):
        if x.requires_grad:
            x.register_hook(lambda gradient: seen.append([ref() is not None for ref in alive]))
        return x

    @skippable(stash=["a"])
    class Stash(nn.Module):
        def forward(self, x):
            kept = x + 1  # its backward keeps nothing
            alive.append(weakref.ref(kept.untyped_storage()))
            yield stash("a", kept)
            return x * 2

    @skippable(pop=["a"])
    class Pop(nn.Module):
        def forward(self, x):
            kept = yield pop("a")
            return x + kept

    model = GPipe(
        nn.Sequential(Call(watch), Stash(), nn.Identity(), Pop()),
        [1, 1, 1, 1],
        devices=cpus(4),
        chunks=2,
        checkpoint=checkpoint,
    )
    result = model(torch.ones(2, 1, requires_grad=True))
    gc.collect()
    result.sum().backward()
    assert seen
    assert not any(map(any, seen))


def test_lives_end_in_a_pipeline(monkeypatch):
    portals = []
    before = Portal.__init__

    def noting(self, tensor, tensor_life):
        portals.append(self)
        before(self, tensor, tensor_life)

    monkeypatch.setattr(Portal, "__init__", noting)
    model = GPipe(nn.Sequential(stasher("a"), nn.Tanh(), popper("a")), [1, 1, 1], devices=cpus(3), chunks=2)
    result = model(torch.ones(2, 1, requires_grad=True))
    assert [portal.tensor_life for portal in portals] == [1, 0]  # the first one will be recomputed
    result.sum().backward()
    assert [(portal.tensor_life, portal.tensor, portal.grad) for portal in portals] == [(0, None, None)] * 2


def test_none_through_a_pipeline_makes_no_nodes():
    ran = []

    @skippable(stash=["a"])
    class Stash(nn.Module):
        def forward(self, x):
            ran.append("stash")
            yield stash("a", None)
            return x

    @skippable(pop=["a"])
    class Pop(nn.Module):
        def forward(self, x):
            ran.append((yield pop("a")))
            return x * 2

    result = GPipe(nn.Sequential(Stash(), Pop()), [1, 1], devices=cpus(2))(torch.ones(1, 1, requires_grad=True))
    assert ran == ["stash", None]
    assert not [name for name in node_names(result) if name.startswith("Portal")]


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_whole_numbers_and_unused_pops_through_a_pipeline(checkpoint):
    @skippable(stash=["ids", "unused"])
    class Stash(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.other = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            yield stash("ids", x.long())
            yield stash("unused", self.other(x))
            return self.linear(x)

    @skippable(pop=["ids", "unused"])
    class Pop(nn.Module):
        def forward(self, x):
            ids = yield pop("ids")
            yield pop("unused")
            return x * ids

    torch.manual_seed(0)
    plain = nn.Sequential(Stash(), nn.Identity(), Pop())
    model = GPipe(plain, [1, 1, 1], devices=cpus(3), chunks=2, checkpoint=checkpoint)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    model(x).sum().backward()
    linear, other = plain[0].module.linear, plain[0].module.other
    assert linear.weight.grad.tolist() == [[1 + 9 + 25, 2 + 12 + 30], [2 + 12 + 30, 4 + 16 + 36]]
    assert other.weight.grad is None


def test_skip_past_a_stage_of_whole_numbers():
    """The main lane is whole numbers between the stages; the skip has the only gradient."""

    @skippable(stash=["x"])
    class Stash(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(4, 2)

        def forward(self, ids):
            yield stash("x", self.embedding(ids))
            return ids

    @skippable(pop=["x"])
    class Pop(nn.Module):
        def forward(self, ids):
            x = yield pop("x")
            return x * ids.unsqueeze(-1)

    plain = nn.Sequential(Stash(), nn.Identity(), Pop())
    ids = torch.tensor([1, 2, 3, 3])
    model = GPipe(plain, [1, 1, 1], devices=cpus(3), chunks=2, checkpoint="never")
    model(ids).sum().backward()
    assert plain[0].module.embedding.weight.grad[:, 0].tolist() == [0, 1, 2, 6]
    model = GPipe(plain, [1, 1, 1], devices=cpus(3), chunks=2, checkpoint="always")
    with pytest.raises(RuntimeError, match="nothing carries the gradient back"):
        model(ids)


def test_recomputed_stage_finds_its_tracker_on_the_engines_thread():
    seen = []

    def note(x):
        seen.append((is_checkpointing(), is_recomputing()))
        return x

    model = GPipe(nn.Sequential(stasher("a"), Call(note), popper("a")), [1, 1, 1], devices=cpus(3), checkpoint="always")
    outer = SkipTrackerThroughPotals(SkipLayout(0, {}))
    x = torch.ones(1, 1, requires_grad=True)
    with use_skip_tracker(outer):
        result = model(x)
        result.sum().backward()
    assert seen == [(True, False), (False, True)]
    assert not outer.portals
    assert not outer.tensors
    assert torch.allclose(x.grad, 2 + 1 - torch.tanh(torch.ones(1, 1)) ** 2)
