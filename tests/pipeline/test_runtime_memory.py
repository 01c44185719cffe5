"""What steps of stages in threads leave and keep, and what is told of them."""

import gc
import weakref

import torch
from gramme.pipeline import Runtime, simulate, split
from gramme.pipeline._worker import Worker
from torch import nn

from pipeline.cases import Language, Noisy, UNet
from pipeline.failing import Failing, Oops, stage_of
from pipeline.runs import loss_of, threads


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
        assert sum(type(thing).__name__ == "Step" for thing in gc.get_objects()) == before
    finally:
        gc.enable()


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
