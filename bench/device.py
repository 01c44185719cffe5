"""Models at real sizes on a GPU: eager, native and inductor by both front ends. Needs CUDA, transformers.

    device.py [--names bert,gpt2] [--no-inductor]

Columns: the first call in seconds (a warm process; inductor's caches empty), then milliseconds a call, the median of
batches of ten between two synchronisations, and the speed in times eager's. Sizes stand in the rows.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import gramme
import torch
from real_sizes import model as made_of

clock = time.perf_counter
Model = Callable[[], tuple[torch.nn.Module, dict[str, Any]]]
MODELS: dict[str, Model] = {}
FRONTS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "native": lambda f: gramme.compile(f, backend="native"),
    "recorded": lambda f: gramme.compile(f, backend="native", options={"recorded_backward": True}),
    "torch.compile": lambda f: torch.compile(f),
    "gramme, inductor": lambda f: gramme.compile(f),
}


def model(name: str, cls: str, config: str, sizes: dict[str, Any], batch: int, length: int) -> None:
    def make() -> tuple[torch.nn.Module, dict[str, Any]]:
        made = made_of(cls, config, **sizes)
        ids = torch.randint(100, (batch, length))
        more = {} if cls.startswith("Bert") else {"use_cache": False}
        return made.cuda(), {"input_ids": ids.cuda(), **more}

    MODELS[f"{name} {batch}x{length}"] = make


LLAMA = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048}
for batch, length in ((1, 16), (1, 128), (16, 256)):
    model("bert-base", "BertModel", "BertConfig", {}, batch, length)
    model("gpt2", "GPT2LMHeadModel", "GPT2Config", {}, batch, length)
    model("llama-160m", "LlamaForCausalLM", "LlamaConfig", {**LLAMA, "vocab_size": 32000}, batch, length)


def first_tensor(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else next(iter(result.values()))


def call_of(front: str, network: torch.nn.Module, inputs: Any, train: bool) -> Callable[[], Any]:
    compiled = FRONTS[front](network)

    def call() -> Any:
        with torch.set_grad_enabled(train), torch.autocast("cuda", torch.bfloat16, enabled=train):
            result = first_tensor(compiled(**inputs))
        if train:
            result.float().sum().backward()
            network.zero_grad()
        return result

    return call


def timed(call: Callable[[], Any], count: int) -> float:
    torch.cuda.synchronize()
    start = clock()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (clock() - start) / count


def measure(name: str, fronts: list[str], train: bool) -> None:
    eager = 0.0
    cells = []
    for front in fronts:
        torch._dynamo.reset()
        gramme.reset()
        network, inputs = MODELS[name]()
        network = network.train(train) if train else network.eval().to(torch.bfloat16)
        call = call_of(front, network, inputs, train)
        first = timed(call, 1)
        timed(call, 5)
        taken = statistics.median(timed(call, 10) for _ in range(5))
        eager = eager or taken
        cells.append(f"{first:6.1f} s {1e3 * taken:8.2f} ({eager / taken:4.2f})")
        del network, call
        torch.cuda.empty_cache()
    print(f"{name:20} {'train' if train else 'bf16':6} " + " ".join(f"{cell:>26}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(MODELS))
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--train", action="store_true")
    given = parser.parse_args()
    fronts = [f for f in FRONTS if given.train or f != "recorded"]
    fronts = [f for f in fronts if not given.no_inductor or f in ("eager", "native", "recorded")]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; first call, ms a call (times eager)")
    print(f"{'':27} " + " ".join(f"{front:>26}" for front in fronts))
    warm, inputs = MODELS[next(iter(MODELS))]()
    for front in fronts[:2]:
        call_of(front, warm, inputs, given.train)()
    for name in given.names.split(","):
        measure(name, fronts, given.train)


if __name__ == "__main__":
    main()
