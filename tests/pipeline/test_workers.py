"""Worker threads: who shares one, what a task carries over, that none stays."""

import contextvars
import threading

import pytest
import torch
from gramme.torchgpipe.microbatch import Batch
from gramme.torchgpipe.stream import CPUStream
from gramme.torchgpipe.worker import Task, spawn_workers

from pipeline.models import CPU, workers


def ask(compute, finalize=None, devices=(CPU,)):
    """What a worker answers."""
    with spawn_workers(devices) as (in_queues, out_queues):
        in_queues[0].put(Task(CPUStream, compute=compute, finalize=finalize))
        return out_queues[0].get()


def test_one_worker_a_device_under_all_its_names():
    names = [CPU, torch.device("cpu"), torch.device("cpu:0"), torch.device("meta"), torch.device("cpu:7")]
    with spawn_workers(names) as (in_queues, out_queues):
        assert len(in_queues) == len(out_queues) == 5
        assert len(set(map(id, in_queues))) == len(set(map(id, out_queues))) == 2
        assert in_queues[0] is in_queues[2] is in_queues[4]
        assert sorted(workers()) == ["gramme-stage-cpu", "gramme-stage-meta"]
    assert workers() == []


def test_compute_in_a_daemon_thread_and_finalize_in_the_callers():
    seen = []

    def compute():
        seen.append(threading.current_thread())
        return Batch(torch.ones(1))

    ok, (task, batch) = ask(compute, lambda batch: seen.append(threading.current_thread()))
    assert ok
    assert batch.tensor.item() == 1
    task.finalize(batch)
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon
    assert seen[1] is threading.current_thread()


def test_tasks_of_one_worker_keep_their_order():
    with spawn_workers([CPU]) as (in_queues, out_queues):
        for i in range(5):
            in_queues[0].put(Task(CPUStream, compute=lambda i=i: Batch(torch.tensor(i)), finalize=None))
        assert [out_queues[0].get()[1][1].tensor.item() for _ in range(5)] == [0, 1, 2, 3, 4]


variable = contextvars.ContextVar("variable", default=0)


@pytest.mark.parametrize("on", [False, True])
def test_modes_are_those_of_the_thread_that_made_the_task(on):
    def compute():
        return Batch(
            (
                torch.tensor(torch.is_grad_enabled()),
                torch.tensor(torch.is_autocast_enabled("cpu")),
                torch.tensor(torch.is_inference_mode_enabled()),
                torch.tensor(variable.get()),
            )
        )

    token = variable.set(int(on))
    with torch.set_grad_enabled(on), torch.autocast("cpu", enabled=on):
        _, (_, batch) = ask(compute)
    variable.reset(token)
    assert [bool(tensor) for tensor in batch] == [on, on, False, on]


def test_inference_mode_is_carried_over():
    with torch.inference_mode():
        _, (_, batch) = ask(lambda: Batch(torch.ones(1)))
    assert batch.tensor.is_inference()


def test_hooks_of_saved_tensors_are_carried_over():
    packed = []
    x = torch.ones(1, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(1) or tensor, lambda tensor: tensor):
        ask(lambda: Batch(x.exp()))
    assert packed


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_of_every_kind_are_answers(kind):
    def broken():
        raise kind("mine")

    ok, (found, error, traceback) = ask(broken)
    assert not ok
    assert found is kind
    assert error.args == ("mine",)
    while traceback.tb_next:
        traceback = traceback.tb_next
    assert traceback.tb_frame.f_code.co_name == "broken"


def test_workers_end_when_the_caller_raises():
    with pytest.raises(ZeroDivisionError), spawn_workers([CPU, torch.device("meta")]):
        1 / (len(workers()) - 2)
    assert workers() == []
