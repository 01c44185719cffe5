"""Split models under torch.distributed.pipelining's schedules, equal to the bit to the uncut model."""

import gramme.pipeline
import pytest
import torch
from gramme.pipeline._distributed import _relay
from sampling import some
from torch.distributed.pipelining._backward import stage_backward

from pipeline import tensor_parallel, zoo
from pipeline.data_parallel import trained
from pipeline.processes import check_gradient, compare, loss_of, refused, run_processes, wrapped_and_saved

SCHEDULES = {"ScheduleGPipe": 1, "Schedule1F1B": 1, "ScheduleInterleaved1F1B": 2}  # stages a process


def check(size, folder, names, schedules):
    cases = [(name, schedule, size * stages) for name in names for schedule, stages in schedules.items()]
    check_told(cases, run_processes(size, folder, compare, cases))


def check_told(cases, found):
    for case, told in zip(cases, found, strict=True):
        assert set(told) == {"equal"}, f"{case}\n" + "\n".join(told)


@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("name", zoo.SMALL)
def test_stages_in_a_row(name, number, one_thread):
    """What the engine does, without it: each stage's backward is cut at what it takes."""
    make, arguments = zoo.SMALL[name]
    torch.manual_seed(0)
    model, twin = make(), make()
    twin.load_state_dict(model.state_dict())
    args, kwargs = arguments(zoo.SHORT)
    cut = gramme.pipeline.split(model, args, kwargs, stages=number)
    relay = _relay(cut, args, kwargs, torch.device("cpu"))
    values = cut.bind(*args, **kwargs).values
    given, runs = tuple(values[node.name] for node in relay.arguments), []
    for stage in map(relay.stage, range(number)):
        taken = tuple(
            value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
            for value in given
        )
        given = stage.module(*taken)
        runs.append((taken, given))
        if len(runs) < number:
            assert [same_kind(value) for value in given] == [same_kind(value) for value in stage.outputs]
    target = torch.rand(zoo.SHORT, 1)
    loss, wanted = loss_of(given, target), loss_of(twin(*args, **kwargs), target)
    wanted.backward()
    assert loss.item() == wanted.item()
    gradients = stage_backward(loss, None, runs[-1][0])
    for taken, gives in reversed(runs[:-1]):
        gradients = stage_backward(gives, gradients, taken)
    for (key, value), (_, other) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        check_gradient(key, value.grad, other.grad, exact=True)


def same_kind(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad


def test_two_processes(tmp_path):
    check(2, tmp_path, ["tied"], SCHEDULES)


@pytest.mark.slow
def test_small_models_in_two_processes(tmp_path):
    check(2, tmp_path, zoo.SMALL, SCHEDULES)


MORE = {"ScheduleLoopedBFS": 2, "ScheduleInterleavedZeroBubble": 2, "ScheduleZBVZeroBubble": 2}


@pytest.mark.slow
def test_other_schedules(tmp_path):
    check(2, tmp_path, ["unet", "tied"], MORE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_other_schedules_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    check(2, tmp_path, some(zoo.TRANSFORMERS, 1, "other schedules"), MORE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_transformers_in_two_processes(tmp_path):
    pytest.importorskip("transformers")
    check(2, tmp_path, some(zoo.TRANSFORMERS, 2, "two processes"), SCHEDULES)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_small_models_in_four_processes(tmp_path):
    check(4, tmp_path, some(zoo.SMALL, 2, "four processes"), SCHEDULES)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_transformers_in_four_processes(tmp_path):
    pytest.importorskip("transformers")
    check(4, tmp_path, some(zoo.TRANSFORMERS, 1, "four processes"), SCHEDULES)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_replicas_of_stages(way, tmp_path):
    """Two stages, or four in turns, of two replicas each, in DistributedDataParallel or FSDP's fully_shard."""
    cases = [
        ("tied", "Schedule1F1B", way, 1),
        ("unet", "ScheduleGPipe", way, 1),
        ("densenet", "ScheduleInterleaved1F1B", way, 2),
    ]
    check_told(cases, run_processes(4, tmp_path, trained, cases))


@pytest.mark.slow
def test_replicas_of_a_transformers_stages(tmp_path):
    pytest.importorskip("transformers")
    every = [(name, "Schedule1F1B", way, 1) for name in zoo.TRANSFORMERS for way in ("ddp", "fsdp")]
    cases = some(every, 1, "replicas")
    check_told(cases, run_processes(4, tmp_path, trained, cases))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tensor_parallel_stages(tmp_path):
    """A pair of processes has each stage, half of the parallel matrices each."""
    cases = [(name, "Schedule1F1B", 1) for name in tensor_parallel.MODELS]
    cases += [(name, "ScheduleInterleaved1F1B", 2) for name in ("tensor parallel", "sequence parallel")]
    check_told(cases, run_processes(4, tmp_path, tensor_parallel.trained, cases))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tensor_parallel_stages_with_replicas(tmp_path):
    cases = ["tensor parallel", "a sharded value"]
    check_told(cases, run_processes(8, tmp_path, tensor_parallel.sharded, cases))


@pytest.mark.slow
def test_distributed_tensors_that_are_not_handed_over(tmp_path):
    cases = list(tensor_parallel.REFUSED)
    check_told(cases, run_processes(4, tmp_path, tensor_parallel.refused_in_words, cases))


@pytest.mark.parametrize("run", [wrapped_and_saved, refused])
def test_more_in_two_processes(run, tmp_path):
    assert run_processes(2, tmp_path, run, [""]) == [["equal", "equal"]]
