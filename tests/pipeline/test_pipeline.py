"""The schedule: clocks, fences, what is drained and what is raised."""

import random
import threading
import time

import pytest
import torch
from gramme.torchgpipe import GPipe
from gramme.torchgpipe.microbatch import Batch
from gramme.torchgpipe.pipeline import Pipeline, clock_cycles
from gramme.torchgpipe.stream import CPUStream
from torch import nn

from pipeline.models import CPU, Call, cpus, node_names, popper, stasher, workers


@pytest.mark.parametrize(
    ("m", "n", "cycles"),
    [
        (1, 1, [[(0, 0)]]),
        (1, 3, [[(0, 0)], [(0, 1)], [(0, 2)]]),
        (3, 1, [[(0, 0)], [(1, 0)], [(2, 0)]]),
        (3, 3, [[(0, 0)], [(1, 0), (0, 1)], [(2, 0), (1, 1), (0, 2)], [(2, 1), (1, 2)], [(2, 2)]]),
        (2, 3, [[(0, 0)], [(1, 0), (0, 1)], [(1, 1), (0, 2)], [(1, 2)]]),
        (4, 2, [[(0, 0)], [(1, 0), (0, 1)], [(2, 0), (1, 1)], [(3, 0), (2, 1)], [(3, 1)]]),
    ],
)
def test_clock_cycles(m, n, cycles):
    assert list(clock_cycles(m, n)) == cycles


def noting(log, name):
    return Call(lambda x: log.append((int(x[0, 0]), name)) or x)


def test_each_clock_runs_its_cells_and_then_the_next():
    log = []
    batches = [Batch(torch.full((1, 1), float(i))) for i in range(3)]
    partitions = [nn.Sequential(noting(log, j)) for j in range(2)]
    Pipeline(batches, partitions).run()
    clocks = [[(0, 0)], [(1, 0), (0, 1)], [(2, 0), (1, 1)], [(2, 1)]]
    assert log == [cell for clock in clocks for cell in clock]


def test_clocks_are_in_lockstep():
    """A partition waits for all of the clock before, not for its own input alone: two devices are two threads."""
    log, both = [], threading.Barrier(2, timeout=60)

    def slow(x):
        if x[0, 0] == 0:
            both.wait()
            time.sleep(0.1)
            log.append("slow")
        return x

    def quick(x):
        if x[0, 0] == 1:
            both.wait()
        log.append(int(x[0, 0]))
        return x

    batches = [Batch(torch.full((1, 1), float(i))) for i in range(3)]
    partitions = [nn.Sequential(Call(quick)), nn.Sequential(Call(slow))]
    streams = [[CPUStream] * 3] * 2
    pipeline = Pipeline(batches, partitions, [CPU, torch.device("meta")], streams)
    pipeline.run()
    assert log == [0, 1, "slow", 2]


def test_micro_batches_go_backward_in_the_opposite_order():
    order = []

    def note(x):
        i = int(x[0, 0].detach())
        x.register_hook(lambda gradient: order.append(i))
        return x

    model = GPipe(nn.Sequential(nn.Identity(), Call(note)), [1, 1], devices=cpus(2), chunks=4, checkpoint="never")
    x = torch.arange(4.0).unsqueeze(1).requires_grad_()
    model(x).sum().backward()
    assert order == [3, 2, 1, 0]


def test_skips_are_copied_by_source_before_the_main_lane(monkeypatch):
    from gramme.torchgpipe.copy import Copy
    from gramme.torchgpipe.skip.tracker import SkipTrackerThroughPotals

    log = []
    copy, apply = SkipTrackerThroughPotals.copy, Copy.apply

    def note_copy(self, batch, prev_stream, next_stream, ns, name):
        log.append(name)
        copy(self, batch, prev_stream, next_stream, ns, name)

    monkeypatch.setattr(SkipTrackerThroughPotals, "copy", note_copy)
    monkeypatch.setattr(Copy, "apply", staticmethod(lambda *args: log.append("main") or apply(*args)))
    model = nn.Sequential(stasher("first"), stasher("second"), popper("second", "first"))
    GPipe(model, [1, 1, 1], devices=cpus(3))(torch.ones(1, 1))
    assert log == ["main", "first", "second", "main"]


class Broken(Exception):
    pass


def failing(counts, at, chunk=0, kind=Broken):
    def layer(j):
        def run(x):
            counts[j] += 1
            if j == at and int(x[0, 0].detach()) == chunk:
                raise kind(f"stage {j}")
            return x

        return Call(run)

    return layer


def test_a_failing_last_stage_stops_the_clocks():
    counts = [0] * 4
    model = GPipe(nn.Sequential(*map(failing(counts, 3), range(4))), [1] * 4, devices=cpus(4), chunks=3)
    with pytest.raises(Broken, match="stage 3") as caught:
        model(torch.arange(3.0).unsqueeze(1))
    assert counts == [3, 3, 2, 1]  # the clock under way is drained, no other begins
    assert caught.traceback[-1].name == "run"
    assert workers() == []


@pytest.mark.parametrize("checkpoint", ["always", "never"])
@pytest.mark.parametrize("kind", [Broken, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_stage_and_micro_batch_may_fail(at, kind, checkpoint):
    for chunk in range(3):
        layers = map(failing([0] * 3, at, chunk, kind), range(3))
        model = GPipe(nn.Sequential(*layers), [1] * 3, devices=cpus(3), chunks=3, checkpoint=checkpoint)
        with pytest.raises(kind, match=f"stage {at}"):
            model(torch.arange(3.0).unsqueeze(1))
        assert workers() == []
        assert model(torch.full((3, 1), 7.0)).shape == (3, 1)  # it can go on


def test_the_first_failing_partition_wins():
    def fails(x):
        raise Broken("both")

    def late(x):
        if x[0, 0] == 0:
            raise Broken("second partition")
        return x

    def early(x):
        if x[0, 0] == 1:
            raise Broken("first partition")
        return x

    model = GPipe(nn.Sequential(Call(early), Call(late)), [1, 1], devices=cpus(2), chunks=2)
    with pytest.raises(Broken, match="first partition"):
        model(torch.arange(2.0).unsqueeze(1))


def test_an_exception_in_backward_comes_through():
    def refuse(gradient):
        raise Broken("in backward")

    def stage(x):
        if x.requires_grad:
            x.register_hook(refuse)
        return x * 2

    for checkpoint in ("always", "never"):
        model = GPipe(nn.Sequential(Call(stage), nn.Tanh()), [1, 1], devices=cpus(2), chunks=2, checkpoint=checkpoint)
        result = model(torch.ones(2, 1, requires_grad=True))
        with pytest.raises(Broken, match="in backward"):
            result.sum().backward()


def test_no_thread_stays():
    model = GPipe(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), [1, 1], devices=cpus(2), chunks=2)
    model(torch.ones(2, 1)).sum().backward()
    for _ in range(50):
        model(torch.ones(2, 1)).sum().backward()
    assert workers() == []


@pytest.mark.parametrize(("checkpoint", "count"), [("always", 2), ("except_last", 1), ("never", 0)])
def test_number_of_checkpoints(checkpoint, count):
    model = GPipe(nn.Sequential(nn.Linear(1, 1)), [1], devices=cpus(1), chunks=2, checkpoint=checkpoint)
    assert node_names(model(torch.ones(2, 1))).count("CheckpointBackward") == count
    model.eval()
    assert node_names(model(torch.ones(2, 1))).count("CheckpointBackward") == 0


def test_random_delays_change_nothing():
    torch.manual_seed(0)
    plain = nn.Sequential(stasher("a"), nn.Linear(3, 3), stasher("b"), nn.Tanh(), popper("b", "a"))
    delays = random.Random(0)

    def wait(*args):
        time.sleep(delays.random() * 0.002)

    for layer in plain:
        layer.register_forward_pre_hook(wait)
    model = GPipe(plain, [1, 1, 1, 1, 1], devices=cpus(5), chunks=3)
    x = torch.randn(7, 3, requires_grad=True)
    found = []
    for _ in range(5):
        plain.zero_grad()
        x.grad = None
        model(x).sum().backward()
        found.append((x.grad, plain[1].weight.grad.clone()))
    assert all(torch.equal(a, found[0][0]) and torch.equal(b, found[0][1]) for a, b in found)
