"""Stages in threads: how much of two cores a pipeline of two stages uses, and what portals move and hold.

    python bench/pipeline.py [micro-batches]

Throughput: forward and backward, operators on one thread each. The measure is two threads that each train a copy of one
stage with nothing between them, in the same rounds. Where other programs use the machine it gives two copies no more
than one thread has, which is printed beside. Bytes are counted: what stages hand over and hold with portals, and if far
values went from stage to stage.

Planning: 10,000 operations are cut into 8 stages, and a schedule of 10,000 cells is simulated.

Splitting: seconds of the CPU that `split` takes for models of transformers (only if it is installed), in a fresh
process each.
"""

import importlib.util
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from gramme import _C
from gramme.pipeline import Runtime, Schedule, Split, simulate, split
from torch import Tensor, fx, nn

ROUNDS, ROWS, WIDTH = 11, 64, 384


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class UNet(nn.Module):
    def __init__(self, depth: int = 6, width: int = 64) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for layer in self.down:
            x = torch.tanh(layer(x))
            skips.append(x)
        for layer in self.up:
            x = torch.tanh(layer(torch.cat([x, skips.pop()], 1)))
        return x


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def copies(stages: Split, backend: str, micro_batches: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two threads, each with a copy of a stage, that have nothing to do with each other; and one such thread's work."""

    def train(stage: fx.GraphModule) -> Callable[[], None]:
        run = _C.native.from_graph_module(stage) if backend == "native" else stage
        x, gradient = torch.randn(ROWS, WIDTH), torch.ones(ROWS, WIDTH)

        def work() -> None:
            torch.get_num_threads()
            for _ in range(micro_batches):
                (y,) = run(x.detach().requires_grad_())
                y.backward(gradient)

        return work

    work = [train(stage) for stage in stages.stages]

    def both() -> None:
        threads = [threading.Thread(target=one) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return both, work[0]


def rates(backend: str, blocks: int, micro_batches: int) -> str:
    """Medians of one pipeline's rounds, and of what the machine gives beside."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(blocks)))
    stages = split(model, (torch.randn(ROWS, WIDTH),), stages=2)
    x = torch.randn(ROWS * micro_batches, WIDTH)
    settings = {"micro_batches": micro_batches, "loss": Tensor.sum, "reduction": "sum", "backend": backend}
    pipeline, alone = Runtime(stages, **settings), Runtime(stages, schedule="sequential", **settings)
    apart, single = copies(stages, backend, micro_batches)
    found = []
    for _ in range(ROUNDS + 2):
        before, step, after = seconds(apart), seconds(lambda: pipeline.step(x)), seconds(apart)
        found.append(((before + after) / 2, step, seconds(lambda: alone.step(x)), seconds(single)))
    found = found[2:]
    step = statistics.median(step for _, step, _, _ in found)
    raw = statistics.median(both / step for both, step, _, _ in found)
    whole = raw * (micro_batches + 1) / micro_batches
    faster = statistics.median(one / step for _, step, one, _ in found)
    gain = statistics.median(2 * one / both for both, _, _, one in found)
    return (
        f"{backend:6s} {blocks} blocks: step {step * 1000:6.1f} ms"
        f"   of two copies {raw:4.2f}, bubble subtracted {whole:4.2f}"
        f"   against one thread {faster:4.2f} (the machine gives two copies {gain:4.2f})"
    )


def throughput(micro_batches: int) -> None:
    print(f"two stages, {micro_batches} micro-batches of {ROWS} rows; bubble: {1 / micro_batches:.1%} of the work")
    for backend in ("eager", "native"):
        for blocks in (2, 8):
            print(rates(backend, blocks, micro_batches))


def traffic(micro_batches: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(ROWS * micro_batches, 64)
    for number in (4, 8):
        run = Runtime(split(UNet(), (x[:ROWS],), stages=number), micro_batches=micro_batches, loss=Tensor.sum)
        run.step(x)
        direct = simulate(run.schedule, values=run.values)
        relayed = simulate(run.schedule, values=[value.relayed for value in run.values])
        for name, a, b in (
            ("moved in a step", direct.moved_bytes, relayed.moved_bytes),
            ("held at most by one stage", max(direct.peak_bytes), max(relayed.peak_bytes)),
            ("held at most by all", sum(direct.peak_bytes), sum(relayed.peak_bytes)),
        ):
            print(f"U-Net in {number} stages, bytes {name}: portals {a}, relayed {b} ({a / b:4.2f})")


def planning() -> None:
    n, numbers = 10_000, random.Random(0)
    operations = {
        "cost": [numbers.choice([0, 1, 2, 5, 30]) for _ in range(n)],
        "moving": [numbers.choice([0, 1, 3, 10]) for _ in range(n)],
        "last_use": [min(n - 1, i + numbers.choice([0, 1, 1, 2, n])) for i in range(n)],
        "memory": [numbers.choice([0, 1, 4]) for _ in range(n)],
        "may_cut": [numbers.random() < 0.8 for _ in range(n)],
        "must_cut": [False] * n,
    }
    began = time.perf_counter()
    _C.pipeline.plan_cuts(**operations, stages=8, micro_batches=32)
    planned = time.perf_counter()
    simulate(Schedule.one_f_one_b(8, n // 16))
    simulated = time.perf_counter()
    print(f"planning: {n:,} operations in 8 stages {1e3 * (planned - began):.0f} ms, ", end="")
    print(f"a schedule of {n:,} cells simulated in {1e3 * (simulated - planned):.0f} ms")


BERT = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64}
IMAGE, IDS = (2, 3, 64, 64), None
MODELS: dict[str, tuple[dict[str, Any], tuple[int, ...] | None]] = {
    "BertModel": (BERT, IDS),
    "GPT2LMHeadModel": ({"n_embd": 32, "n_layer": 4, "n_head": 4, "use_cache": False}, IDS),
    "LlamaForCausalLM": ({**BERT, "use_cache": False}, IDS),
    "MambaForCausalLM": ({"hidden_size": 32, "num_hidden_layers": 4, "state_size": 4, "use_cache": False}, IDS),
    "ViTForImageClassification": ({**BERT, "image_size": 64, "patch_size": 8}, IMAGE),
    "ResNetForImageClassification": ({"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1]}, IMAGE),
    "ConvNextForImageClassification": ({"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 2, 1]}, IMAGE),
    "MobileViTForImageClassification": ({"image_size": 64}, IMAGE),
    "PvtV2ForImageClassification": ({"image_size": 64, "hidden_sizes": [16, 32, 40, 64]}, IMAGE),
    "SegformerForImageClassification": ({"hidden_sizes": [8, 16, 32, 64], "num_attention_heads": [1, 2, 2, 4]}, IMAGE),
    "SwinForImageClassification": (
        {"image_size": 64, "embed_dim": 16, "depths": [2, 2, 2, 2], "num_heads": [2, 2, 4, 4], "window_size": 2},
        IMAGE,
    ),
    "Swinv2ForImageClassification": (
        {"image_size": 64, "embed_dim": 16, "depths": [2, 2, 2, 2], "num_heads": [2, 2, 4, 4], "window_size": 2},
        IMAGE,
    ),
}


def split_of(name: str) -> None:
    """Prints the seconds of the CPU for one model."""
    import transformers

    sizes, image = MODELS[name]
    kind = getattr(transformers, name)
    vocabulary = {} if image else {"vocab_size": 64}
    model = kind(kind.config_class(**sizes, **vocabulary)).train()
    given = torch.randn(image) if image else torch.randint(0, 64, (2, 12))
    began = time.process_time()
    split(model, (given,), stages=3)
    print(f"split of {name}: {time.process_time() - began:.2f} s of the CPU")


def splitting() -> None:
    if importlib.util.find_spec("transformers"):
        for name in MODELS:
            subprocess.run([sys.executable, __file__, "--split", name], check=False)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--split"]:
        split_of(sys.argv[2])
        return
    planning()
    splitting()
    micro_batches = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    throughput(micro_batches)
    traffic(micro_batches)


if __name__ == "__main__":
    main()
