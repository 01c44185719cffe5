"""Stages in threads that fail, are interrupted or refused: told with the place, and no thread stays."""

import signal
import time

import pytest
import torch
from gramme.pipeline import Runtime, Schedule, ScheduleError, split
from gramme.torchgpipe.pipe import NoChunk
from torch import nn

from pipeline.cases import UNet
from pipeline.failing import Failing, MayFail, Oops, stage_of
from pipeline.models import Call
from pipeline.runs import compare, loss_of, threads


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
                assert "failing.py:" in notes
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
        assert f"failing.py:{line}" in caught.value.__notes__[-1]
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
