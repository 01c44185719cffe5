"""First calls and steady state with PyTorch's backends: gramme and torch.compile, in one process and in turns.

    backends.py --backend inductor|aot_eager [--names a,b] [--rounds 3] [--train]

A first call is cold in a warm process: the caches of AOTAutograd and Inductor are off, what PyTorch keeps in memory is
dropped before each call, modules are imported. The shared objects of Inductor's C++ kernels are on disk from a round
that does not count, so that the C++ compiler, the same for both, is left out. With --train the gradients are part of a
call. The steady state is a call thereafter, both in turns. Each figure is the median of the rounds with the least and
the greatest; one thread.
"""

import argparse
import gc
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
import corpus
import gramme
import torch
import torch._functorch.config
import torch._inductor.config

clock = time.perf_counter
Call = Callable[[], Any]
Case = Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


def transformer(model: str, config: str, sizes: dict[str, Any], **inputs: Any) -> tuple[Any, tuple[()], dict[str, Any]]:
    import transformers

    made = getattr(transformers, model)(getattr(transformers, config)(vocab_size=100, **sizes)).eval()
    return made, (), {"input_ids": torch.arange(16)[None], **inputs}


BERT = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}


@case
def bert():
    return transformer("BertModel", "BertConfig", {**BERT, "num_hidden_layers": 12})


@case
def gpt2():
    return transformer("GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 12, "n_head": 4}, use_cache=False)


@case
def llama():
    return transformer("LlamaForCausalLM", "LlamaConfig", {**BERT, "num_hidden_layers": 16}, use_cache=False)


@case
def convnet():
    nn = torch.nn
    layers = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32)]
    return (
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
        (torch.randn(2, 3, 16, 16),),
        {},
    )


def from_corpus(name: str) -> Case:
    def make():
        function, arguments = corpus.CAPTURE[name]()
        return function, arguments(), {}

    return make


CASES.update({name: from_corpus(name) for name in ("x_plus_1", "list_of_linears", "tree_of_blocks", "deep_calls")})


def forget() -> None:
    torch._dynamo.reset()
    gramme.reset()


def scalar(result: Any) -> torch.Tensor:
    if isinstance(result, torch.Tensor):
        return result.float().sum()
    values = result.values() if isinstance(result, dict) else result
    return sum(scalar(v) for v in values if isinstance(v, torch.Tensor | dict | tuple))


def calls(front: Callable[..., Any], backend: str, name: str, train: bool) -> Call:
    torch.manual_seed(0)
    function, args, kwargs = CASES[name]()
    compiled = front(function, backend=backend)
    if not train:
        return lambda: compiled(*args, **kwargs)
    return lambda: scalar(compiled(*args, **kwargs)).backward()


def first(call: Call) -> float:
    start = clock()
    call()
    return clock() - start


def steady(pair: list[Call], seconds: float = 0.05, turns: int = 7) -> list[float]:
    """The median call of each, in turns."""
    times = [max(2, int(seconds / min(first(call) for _ in range(3)))) for call in pair]
    batches: list[list[float]] = [[], []]
    for _ in range(turns):
        for batch, call, n in zip(batches, pair, times, strict=True):
            batch.append(first(lambda call=call, n=n: [call() for _ in range(n)]) / n)
    return [statistics.median(batch) for batch in batches]


def tell(what: str, name: str, left: list[float], right: list[float]) -> None:
    def figures(values: list[float]) -> str:
        return f"{1e3 * statistics.median(values):10.3f} ({1e3 * min(values):.3f} to {1e3 * max(values):.3f})"

    ratio = statistics.median(left) / statistics.median(right)
    print(f"{name:16} {what:7} torch {figures(left):36} gramme {figures(right):36} ratio {ratio:5.2f}", flush=True)


def compare(name: str, backend: str, rounds: int, train: bool) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    firsts: tuple[list[float], list[float]] = ([], [])
    steadies: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        forget()
        pair = [calls(front, backend, name, train) for front in (torch.compile, gramme.compile)]
        for i in (0, 1) if turn % 2 else (1, 0):
            FakeTensorMode.cache_clear()
            gc.collect()
            taken = first(pair[i])
            if turn:
                firsts[i].append(taken)
        if turn:
            for figures, figure in zip(steadies, steady(pair), strict=True):
                figures.append(figure)
    tell("first", name, *firsts)
    tell("steady", name, *steadies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--names", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", action="store_true")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.fx_graph_cache = False
    warm_up = torch.nn.Linear(2, 2)
    for front in (torch.compile, gramme.compile):
        front(warm_up, backend=chosen.backend)(torch.ones(1, 2)).sum().backward()
    print(f"{chosen.backend}, ms, {'with backward' if chosen.train else 'no_grad'}; torch {torch.__version__}")
    with torch.set_grad_enabled(chosen.train):
        for name in [n for n in chosen.names.split(",") if n] or CASES:
            compare(name, chosen.backend, chosen.rounds, chosen.train)


if __name__ == "__main__":
    main()
