"""What torch.distributed.pipelining.pipeline(), PyTorch's own front end, does with the models of tests/pipeline/zoo.py.

    python bench/pipeline_torch.py [model ...]

Prints the rows of a table in docs/pipeline.md. Stages are marked by hand, since it finds none: in 2 stages the model is
split; in 4 (experts: 3) one step of ScheduleGPipe is trained over gloo, a process a stage, and compared with the uncut
model. A step that raises is told by the errors of all processes.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from pipeline import zoo

MICRO_BATCHES, SECONDS, MORE_SECONDS = 4, 60, 10
#: Modules that a stage begins with; in 2 stages the one in the middle.
MARKS = {
    "unet": ("down.1", "up.0", "up.2"),
    "densenet": ("layers.1", "layers.3", "layers.5"),
    "experts": ("gates.1", "gates.2"),
    "tied": ("layers.1", "layers.2", "layers.3"),
    "distilbert": ("transformer.layer.1", "transformer.layer.2", "transformer.layer.3"),
    "bert": ("bert.encoder.layer.1", "bert.encoder.layer.2", "bert.encoder.layer.3"),
    "llama": ("model.layers.1", "model.layers.2", "model.layers.3"),
    "t5": ("encoder.block.1", "decoder.block.0", "decoder.block.1"),
}


def cut(name: str, marks: tuple[str, ...]) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    make, arguments = (zoo.SMALL | zoo.TRANSFORMERS)[name]
    model = make().train()
    args, kwargs = arguments(zoo.SHORT)
    return model, pipeline(model, args, kwargs, dict.fromkeys(marks, SplitPoint.BEGINNING))


def loss_of(output: Any, target: Tensor) -> Tensor:
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    return sum(((tensor.flatten(1).double() * target).pow(2).mean() for tensor in tensors), torch.zeros(()))


def train(name: str, marks: tuple[str, ...]) -> str:
    """A step of this process's stage; names the gradients that differ from the uncut model's."""
    rank = dist.get_rank()
    model, pipe = cut(name, marks)
    torch.manual_seed(0)
    make, arguments = (zoo.SMALL | zoo.TRANSFORMERS)[name]
    twin = make().train()
    twin.load_state_dict(model.state_dict())
    stage = pipe.build_stage(rank, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=loss_of, scale_grads=False)
    args, kwargs = arguments(zoo.SHORT * MICRO_BATCHES)
    target = torch.rand(zoo.SHORT * MICRO_BATCHES, 1)
    for i in range(MICRO_BATCHES):
        micro_batch, named, wanted = pytree.tree_map(
            lambda leaf, i=i: leaf[i * zoo.SHORT : (i + 1) * zoo.SHORT] if isinstance(leaf, Tensor) else leaf,
            (args, kwargs, target),
        )
        loss_of(twin(*micro_batch, **named), wanted).backward()
    takes = {node.target for node in stage.submod.graph.nodes if node.op == "placeholder"}
    own = {key: value for key, value in kwargs.items() if key in takes}
    schedule.step(*(args if rank == 0 else ()), **own, target=target)
    parameters = dict(twin.named_parameters())
    differ = []
    for key, value in stage.submod.named_parameters():
        mine, other = value.grad, parameters[key].grad if key in parameters else None
        if mine is None or other is None or not torch.equal(mine, other):
            differ.append(key)
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, differ)
    names = sorted(set().union(*found))
    return f"runs; gradients differ: {', '.join(names)}" if names else "equal"


def split_only(name: str, marks: tuple[str, ...]) -> str:
    cut(name, marks)
    return "split"


def process(rank: int, size: int, folder: str, work: Callable[..., str], name: str, marks: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=SECONDS))
    try:
        told = work(name, marks)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        told = "error: " + (str(cause).strip().splitlines() or [type(cause).__name__])[0]
    temporary = Path(folder, f"{rank}.part")
    temporary.write_text(told)
    temporary.rename(Path(folder, f"{rank}.txt"))
    if told.startswith("error"):
        time.sleep(SECONDS)  # others would tell that this one has gone


def outcome(work: Callable[..., str], size: int, name: str, marks: tuple[str, ...]) -> str:
    """What the processes say; when one has failed the others have some seconds more."""
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        arguments = (size, folder, work, name, marks)
        processes = [context.Process(target=process, args=(rank, *arguments)) for rank in range(size)]
        for each in processes:
            each.start()
        try:
            end = float("inf")
            while any(each.is_alive() for each in processes) and time.monotonic() < end:
                for each in processes:
                    each.join(0.1)
                if any(file.read_text().startswith("error") for file in Path(folder).glob("*.txt")):
                    end = min(end, time.monotonic() + MORE_SECONDS)
        finally:
            for each in processes:
                each.terminate()
        told = [file.read_text() for file in Path(folder).glob("*.txt")]
        errors = sorted({words.removeprefix("error: ") for words in told if words.startswith("error")})
        return f"error: {'; '.join(errors)}" if errors else told[0] if told else "error: a process died"


def main() -> None:
    print("| model | in 2 stages | in 4 stages, trained |\n|---|---|---|")
    for name in sys.argv[1:] or MARKS:
        marks = MARKS[name]
        middle = (marks[len(marks) // 2],)
        words = outcome(split_only, 1, name, middle), outcome(train, len(marks) + 1, name, marks)
        print(f"| {name}{' (3 stages)' if len(marks) == 2 else ''} | {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
