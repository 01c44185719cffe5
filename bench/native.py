"""backend="native" and PyTorch's backends, in one process and in turns: ratios to eager's time.

    native.py               one call without gradients, guards included
    native.py --single      one call of each front in turn: the others have had the processor's caches meanwhile
    native.py --train       forward and backward, transformers only: a few steps of each front in turn
    native.py --autocast bfloat16   either, with the forward under autocast
    native.py --train --checkpointed   training, with each block checkpointed
    native.py --first       the first call, beside eager's first call and the capture
    native.py --first --train   the first steps of a recorded backward, beside eager's first step and the capture
    native.py --callers     calls a second of 1, 2 and 8 threads that share a model

Columns: native, the same without the caching allocator, in training with PyTorch's engine instead of a recorded
backward; gramme_native and aot_eager behind torch.compile; with --inductor inductor too, whose first call has an empty
cache and a process of its own. Figures are medians of interleaved batches of calls; --names a,b picks programs,
--threads sets the threads of an operator.
"""

import argparse
import gc
import logging
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import corpus
import gramme
import torch
from torch import nn

clock = time.perf_counter
Call = Callable[[], Any]
Case = Callable[[], tuple[Callable[..., Any], dict[str, Any] | tuple[Any, ...]]]
CASES: dict[str, Case] = {}


def from_corpus(name: str) -> Case:
    def make():
        function, arguments = corpus.CAPTURE[name]()
        return function, arguments()

    return make


for each in ("x_plus_1", "add_loop", "deep_calls", "python_heavy", "args_100"):
    CASES[each] = from_corpus(each)


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 10) for _ in range(20))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.layers[i // 2](x) + layer(x)
        return x


@case
def list_of_linears():
    return Linears(), (torch.randn(1, 10),)


class Tree(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.left = Tree(depth - 1) if depth else nn.Linear(8, 8)
        self.right = Tree(depth - 1) if depth else nn.ReLU()

    def forward(self, x):
        return self.right(self.left(x))


@case
def nested_modules():
    return Tree(6), (torch.randn(2, 8),)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        h = self.before(x)
        x = x + self.out(torch.softmax(self.q(h) @ self.k(h).transpose(-1, -2) * 0.5, -1) @ self.v(h))
        return x + self.mlp(self.after(x))


@case
def decoder82():
    return nn.Sequential(*(Layer() for _ in range(82))).eval(), (torch.randn(1, 4, 8),)


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
WHISPER = {
    **dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 128),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 50),
    "d_model": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
MIXTRAL = {**SIZES, "num_hidden_layers": 4, "num_key_value_heads": 2, "intermediate_size": 64, "num_local_experts": 4}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 6, "num_heads": 4}
VIT = {**SIZES, "num_hidden_layers": 12, "image_size": 32, "patch_size": 8}


def tokens(length: int = 16) -> torch.Tensor:
    return torch.arange(length)[None]


def transformer(name: str, model: str, config: str, sizes: dict[str, Any], inputs: Callable[[], Any]) -> None:
    def make():
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(vocab_size=100, **sizes)).eval()
        return made, inputs()

    CASES[name] = make
    TRANSFORMERS.append(name)


TRANSFORMERS: list[str] = []
IDS, NO_CACHE = (lambda: {"input_ids": tokens()}), (lambda: {"input_ids": tokens(), "use_cache": False})
LLAMA = ("LlamaForCausalLM", "LlamaConfig", {**SIZES, "num_hidden_layers": 16})
TEXTS = lambda: {"input_ids": tokens(), "decoder_input_ids": tokens(8), "use_cache": False}  # noqa: E731
SPEECH = lambda: {"input_features": torch.randn(1, 80, 100), "decoder_input_ids": tokens(8), "use_cache": False}  # noqa: E731
transformer("bert", "BertModel", "BertConfig", {**SIZES, "num_hidden_layers": 12}, IDS)
transformer("gpt2", "GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 12, "n_head": 4}, NO_CACHE)
transformer("llama", *LLAMA, NO_CACHE)
transformer("llama_cache", *LLAMA, lambda: {"input_ids": tokens(), "use_cache": True})
transformer("t5", "T5ForConditionalGeneration", "T5Config", T5, TEXTS)
transformer("vit", "ViTModel", "ViTConfig", VIT, lambda: {"pixel_values": torch.randn(1, 3, 32, 32)})
transformer("whisper", "WhisperModel", "WhisperConfig", WHISPER, SPEECH)
transformer("mixtral", "MixtralForCausalLM", "MixtralConfig", MIXTRAL, NO_CACHE)


# ---- fronts

Front = Callable[[Callable[..., Any]], Callable[..., Any]]
FRONTS: dict[str, Front] = {
    "eager": lambda f: f,
    "native": lambda f: gramme.compile(f, backend="native"),
    "no cache": lambda f: gramme.compile(f, backend="native", options={"caching_allocator": False}),
    "engine": lambda f: gramme.compile(f, backend="native", options={"recorded_backward": False}),
    "dynamo": lambda f: torch.compile(f, backend=gramme.gramme_native),
    "aot_eager": lambda f: torch.compile(f, backend="aot_eager"),
    "inductor": lambda f: torch.compile(f),
}


def forget() -> None:
    torch._dynamo.reset()
    gramme.reset()
    gc.collect()


def scalar(result: Any) -> torch.Tensor:
    if isinstance(result, torch.Tensor):
        return result.float().sum()
    values = result.values() if isinstance(result, dict) else result
    return sum(scalar(v) for v in values if isinstance(v, torch.Tensor | dict | tuple))


def call_of(front: Front, function: Callable[..., Any], inputs: Any, train: bool, cast: str = "") -> Call:
    compiled = front(function)
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    if not cast:
        plain: Call = lambda: compiled(*args, **kwargs)  # noqa: E731
        return (lambda: scalar(plain()).backward()) if train else plain

    def step() -> None:
        with torch.autocast("cpu", dtype=getattr(torch, cast)):
            result = compiled(*args, **kwargs)
            loss = scalar(result) if train else None
        if loss is not None:
            loss.backward()

    return step


def timed(call: Call) -> float:
    start = clock()
    call()
    return clock() - start


BATCH, OF_STEPS = 3e-4, 2e-2


def in_turns(calls: list[Call], seconds: float, batch: float) -> list[float]:
    """The median call of each: one batch of each in turn, a call that takes longer is a batch."""
    times = [max(1, int(batch / min(timed(call) for _ in range(3)))) for call in calls]
    taken: list[list[float]] = [[] for _ in calls]
    end = clock() + seconds
    while clock() < end or len(taken[0]) < 15:
        for call, n, batches in zip(calls, times, taken, strict=True):
            batches.append(timed(lambda call=call, n=n: [call() for _ in range(n)]) / n)
    return [statistics.median(batches) for batches in taken]


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def checkpointed(module: Any) -> None:
    """Checkpoints each block, in training mode. Dropout is off, so that all fronts do the same work."""
    module.train().gradient_checkpointing_enable({"use_reentrant": False})
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0


def steady(
    names: list[str], fronts: list[str], train: bool, blocks: bool, cast: str, seconds: float, batch: float
) -> None:
    print(f"{'us a call':16} " + " ".join(f"{front:>18}" for front in fronts))
    ratios: dict[str, list[float]] = {front: [] for front in fronts}
    for name in names:
        forget()
        torch.manual_seed(0)
        function, inputs = CASES[name]()
        if blocks:
            checkpointed(function)
        with torch.set_grad_enabled(train):
            calls = [call_of(FRONTS[front], function, inputs, train, cast) for front in fronts]
            taken = in_turns(calls, seconds, batch)
        for front, time_ in zip(fronts, taken, strict=True):
            ratios[front].append(taken[0] / time_)
        cells = [f"{1e6 * t:10.1f} ({taken[0] / t:5.2f})" for t in taken]
        print(f"{name:16} " + " ".join(f"{cell:>18}" for cell in cells), flush=True)
    print(f"{'geometric mean':16} " + " ".join(f"{mean(ratios[front]):17.2f} " for front in fronts))
    print(f"{'least':16} " + " ".join(f"{min(ratios[front]):17.2f} " for front in fronts))


# ---- first calls


def capture_time(name: str) -> float:
    """Until a backend that does nothing has the graph."""
    entered: list[float] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        list(graph.graph.nodes)
        entered.append(clock())
        return graph.forward

    function, inputs = CASES[name]()
    start = clock()
    call_of(lambda f: gramme.compile(f, backend=backend), function, inputs, False)()
    return entered[0] - start


def first_time(name: str, front: str) -> float:
    function, inputs = CASES[name]()
    return timed(call_of(FRONTS[front], function, inputs, False))


def first(names: list[str], rounds: int, inductor: bool) -> None:
    print(f"{'ms':16} {'native':>9} {'eager':>9} {'capture':>9} {'above both':>11} {'dynamo':>9} {'inductor':>10}")
    for name in names:
        rows: list[list[float]] = []
        for _ in range(rounds + 1):
            row = []
            for measure in ("native", "eager", "", *(["dynamo"] if inductor else [])):
                forget()
                row.append(1e3 * (first_time(name, measure) if measure else capture_time(name)))
            rows.append(row)
        native, eager, capture, *dynamo = (statistics.median(column) for column in zip(*rows[1:], strict=True))
        others = f"{dynamo[0]:9.1f} {alone(name):10.0f}" if inductor else ""
        above = native - eager - capture
        print(f"{name:16} {native:9.2f} {eager:9.2f} {capture:9.2f} {above:11.2f} {others}", flush=True)


def alone(name: str) -> float:
    """Inductor's first call in a process of its own, the cache empty; its imports are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [sys.executable, __file__, "--cold", name]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return 1e3 * float(run.stdout.split()[-1])


def cold(name: str) -> None:
    import torch._inductor.compile_fx

    function, inputs = CASES[name]()
    call_of(FRONTS["aot_eager"], nn.Linear(2, 2), (torch.ones(1, 2),), False)()
    print(timed(call_of(FRONTS["inductor"], function, inputs, False)))


def first_steps(names: list[str], rounds: int) -> None:
    """The first step records the forward, the second one the backward; from the third on both are tapes."""
    columns = ("first", "eager", "capture", "above both", "second", "third", "fourth")
    print(f"{'ms':16} " + " ".join(f"{column:>11}" for column in columns))
    for name in names:
        rows: list[list[float]] = []
        for _ in range(rounds + 1):
            row = []
            for front, count in (("native", 4), ("eager", 1)):
                forget()
                torch.manual_seed(0)
                function, inputs = CASES[name]()
                with torch.enable_grad():
                    call = call_of(FRONTS[front], function, inputs, True)
                    row += [1e3 * timed(call) for _ in range(count)]
            forget()
            with torch.enable_grad():
                rows.append([*row, 1e3 * capture_time(name)])
        one, two, three, four, eager, capture = (statistics.median(column) for column in zip(*rows[1:], strict=True))
        cells = (one, eager, capture, one - eager - capture, two, three, four)
        print(f"{name:16} " + " ".join(f"{cell:11.2f}" for cell in cells), flush=True)


# ---- several callers


def throughput(call: Call, callers: int, seconds: float) -> float:
    done, stop = [0] * callers, threading.Event()

    def run(i: int) -> None:
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        while not stop.is_set():
            call()
            done[i] += 1

    threads = [threading.Thread(target=run, args=(i,)) for i in range(callers)]
    start = clock()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(done) / (clock() - start)


def callers(names: list[str], seconds: float, rounds: int) -> None:
    print(f"{'calls a second':16} " + " ".join(f"{f'{n} threads':>26}" for n in (1, 2, 8)))
    for name in names:
        forget()
        function, inputs = CASES[name]()
        pair = [call_of(FRONTS[front], function, inputs, False) for front in ("eager", "native")]
        cells = []
        for count in (1, 2, 8):
            found: list[list[float]] = [[], []]
            for _ in range(rounds):
                for rates, call in zip(found, pair, strict=True):
                    call()
                    rates.append(throughput(call, count, seconds))
            eager, native = (statistics.median(rates) for rates in found)
            cells.append(f"{eager:8.0f} {native:8.0f} ({native / eager:5.2f})")
        print(f"{name:16} " + " ".join(f"{cell:>26}" for cell in cells), flush=True)


def chosen_names(given: str, default: list[str]) -> Iterator[str]:
    yield from [name for name in given.split(",") if name] or default


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a program's turns")
    parser.add_argument("--threads", type=int, default=1)
    for flag in ("--single", "--train", "--checkpointed", "--first", "--callers", "--inductor"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--autocast", default="", help="dtype")
    parser.add_argument("--cold", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(chosen.threads)
    if chosen.cold:
        with torch.no_grad():
            return cold(chosen.cold)
    names = list(chosen_names(chosen.names, TRANSFORMERS if chosen.train or chosen.callers else list(CASES)))
    load = os.getloadavg()[0]
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {chosen.threads} threads, load at the start {load:.1f}")
    with torch.no_grad():
        if chosen.first and chosen.train:
            return first_steps(names, chosen.rounds)
        if chosen.first:
            return first(names, chosen.rounds, chosen.inductor)
        if chosen.callers:
            return callers(names, chosen.seconds, chosen.rounds)
    left_out = {name for name, wanted in (("inductor", chosen.inductor), ("engine", chosen.train)) if not wanted}
    if chosen.autocast or chosen.checkpointed:
        left_out |= {"no cache", "dynamo", "aot_eager"}
    fronts = [name for name in FRONTS if name not in left_out]
    batch = 0.0 if chosen.single else OF_STEPS if chosen.train else BATCH
    return steady(names, fronts, chosen.train, chosen.checkpointed, chosen.autocast, chosen.seconds, batch)


if __name__ == "__main__":
    main()
