"""Phonies, fork and join: the order of backward."""

import gc
import threading
import weakref

import pytest
import torch
from gramme.torchgpipe.dependency import Fork, Join, fork, join
from gramme.torchgpipe.phony import get_phony

from pipeline.models import CPU


def lane(value=1.0, *, grad=True):
    return torch.tensor([value], requires_grad=grad)


def test_phonies_are_made_once():
    assert get_phony(CPU, requires_grad=False) is get_phony(CPU, requires_grad=False)
    assert get_phony(CPU, requires_grad=True) is get_phony(CPU, requires_grad=True)
    for flag in (False, True):
        phony = get_phony(CPU, requires_grad=flag)
        assert phony.shape == (0,)
        assert phony.device == CPU
        assert phony.requires_grad is flag
        assert phony.is_leaf


def test_phonies_are_one_for_all_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(get_phony(CPU, requires_grad=True))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_functions_give_phonies_detached():
    _, one = fork(lane())
    _, two = fork(lane())
    shared = get_phony(CPU, requires_grad=False)
    assert one is not two
    assert one is not shared
    assert not shared.requires_grad


def test_a_phony_made_in_inference_mode_serves_outside():
    with torch.inference_mode():
        get_phony(torch.device("meta"), requires_grad=True)
    assert not get_phony(torch.device("meta"), requires_grad=True).is_inference()


def test_fork_and_join_make_nodes():
    x = lane()
    forked, phony = fork(x)
    assert forked is not x
    assert forked.data_ptr() == x.data_ptr()
    assert phony.requires_grad
    assert type(forked.grad_fn) is Fork._backward_cls
    assert forked.grad_fn is phony.grad_fn
    joined = join(forked, phony)
    assert joined is not forked
    assert type(joined.grad_fn) is Join._backward_cls


@pytest.mark.parametrize("mode", ["no_grad", "no gradient wanted"])
def test_without_gradients_the_lane_itself(mode, monkeypatch):
    def refuse(*args):
        raise AssertionError("a node was made")

    monkeypatch.setattr(torch.autograd.Function, "apply", refuse)
    x = lane(grad=mode == "no_grad")
    with torch.set_grad_enabled(mode != "no_grad"):
        forked, phony = fork(x)
        assert forked is x
        assert not phony.requires_grad
        assert phony.shape == (0,)
        assert join(x, phony) is x


def test_join_makes_the_lane_need_a_gradient():
    _, phony = fork(lane())
    x = lane(grad=False)
    joined = join(x, phony)
    assert joined.requires_grad
    assert joined.data_ptr() == x.data_ptr()
    assert not x.requires_grad


def test_join_of_a_lane_without_gradients_is_the_lane():
    _, phony = fork(lane())
    ids = torch.tensor([1])
    assert join(ids, phony) is ids


def test_gradients_pass_and_phonies_get_none():
    x, y = lane(2.0), lane(3.0)
    forked, phony = fork(x)
    got = []
    phony.register_hook(got.append)
    (join(y, phony) * forked).backward()
    assert x.grad.item() == 3
    assert y.grad.item() == 2
    assert got in ([], [None])


@pytest.mark.parametrize("late", [False, True])
def test_backward_of_the_join_comes_before_that_of_the_fork(late):
    """Whichever lane was made first, and whichever is the longer one."""
    order = []
    a, b = lane() * 1, lane() * 1
    if late:
        a, b = b, a
    a, phony = fork(a)
    a.register_hook(lambda gradient: order.append("fork"))
    b = join(b, phony)
    b.register_hook(lambda gradient: order.append("join"))
    for _ in range(5 if late else 0):
        b = b + 0
    (a + b).backward()
    assert order == ["join", "fork"]


def test_the_phonys_edge_counts_although_it_has_no_gradient():
    order = []
    first = lane() * 1
    first.register_hook(lambda gradient: order.append("first"))
    forked, phony = fork(first)
    second = join(lane() * 1, phony)
    second.register_hook(lambda gradient: order.append("second"))
    (forked.exp() * second.sin()).backward()
    assert order == ["second", "first"]


def test_nothing_stays_after_backward():
    kept = torch.ones(10, requires_grad=True)
    storage = weakref.ref((temporary := kept * 2).untyped_storage())
    x, phony = fork(temporary)
    y = join(x, phony)
    y.sum().backward()
    node = weakref.ref(y.grad_fn.next_functions[0][0]) if hasattr(y.grad_fn, "__weakref__") else lambda: None
    del temporary, x, phony, y
    gc.collect()
    assert storage() is None
    assert node() is None


def test_writes_are_seen_through_fork_and_join():
    x = lane() * 1
    kept = x.exp()
    forked, phony = fork(kept)
    joined = join(forked, phony)
    with torch.no_grad():
        joined.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()
