"""Models at the sizes that people run: eager, gramme's native backend and torch.compile with Inductor, in turns.

    .venv/bin/python bench/real_sizes.py                     # all models, a row of Markdown each; minutes of compiling
    .venv/bin/python bench/real_sizes.py bert t5 --no-inductor --seconds 2
    .venv/bin/python bench/real_sizes.py --train             # forward and backward

Float32 on the CPU, all cores, batches of one, random weights; no gradients, or with --train the gradients of a mean
square. Times are medians; a first call counts what capture and compiler take, in a process that has captured before.
"""

import argparse
import logging
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import torch

clock = time.perf_counter
Inputs = dict[str, torch.Tensor | bool]
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT2_WITHOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def model(name: str, config: str, **sizes: Any) -> torch.nn.Module:
    import transformers

    torch.manual_seed(0)
    made: torch.nn.Module = getattr(transformers, name)(getattr(transformers, config)(**sizes))
    return made.eval()


def tokens(count: int) -> torch.Tensor:
    return torch.arange(count)[None] % 1000


def bert() -> tuple[torch.nn.Module, Inputs]:
    return model("BertModel", "BertConfig", **NO_DROPOUT), {"input_ids": tokens(128)}


def gpt2(count: int) -> tuple[torch.nn.Module, Inputs]:
    return model("GPT2LMHeadModel", "GPT2Config", **GPT2_WITHOUT), {"input_ids": tokens(count), "use_cache": False}


def llama() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    made = model("LlamaForCausalLM", "LlamaConfig", vocab_size=8000, **sizes)
    return made, {"input_ids": tokens(32), "use_cache": False}


def t5() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"d_model": 512, "num_layers": 6, "num_heads": 8, "d_ff": 2048, "vocab_size": 8000}
    made = model("T5ForConditionalGeneration", "T5Config", dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    return made, {"input_ids": tokens(64), "labels": tokens(16)}


def vit() -> tuple[torch.nn.Module, Inputs]:
    return model("ViTModel", "ViTConfig", **NO_DROPOUT), {"pixel_values": torch.randn(1, 3, 224, 224)}


def resnet() -> tuple[torch.nn.Module, Inputs]:
    return model("ResNetModel", "ResNetConfig"), {"pixel_values": torch.randn(1, 3, 224, 224)}


MODELS: dict[str, tuple[str, Callable[[], tuple[torch.nn.Module, Inputs]]]] = {
    "bert": ("BERT-base, 128 tokens", bert),
    "gpt2": ("GPT-2 small, 64 tokens", lambda: gpt2(64)),
    "gpt2_decode": ("GPT-2 small, 1 token", lambda: gpt2(1)),
    "llama": ("Llama of 160 million, 32 tokens", llama),
    "t5": ("T5-small layers, 64 tokens", t5),
    "vit": ("ViT-base, 224 x 224", vit),
    "resnet50": ("ResNet-50, 224 x 224", resnet),
}


def call_without_gradients(call: Callable[..., Any], inputs: Inputs) -> None:
    with torch.no_grad():
        call(**inputs)


def train(call: Callable[..., Any], inputs: Inputs) -> None:
    """Forward and backward. Gradients are not kept from step to step."""
    outputs = call(**inputs).values()
    loss = next(output for output in outputs if isinstance(output, torch.Tensor) and output.is_floating_point())
    loss.square().mean().backward()


def measured(name: str, inductor: bool, trains: bool, seconds: float) -> dict[str, tuple[float, float]]:
    """By front end: seconds of the first call, and of a later one."""
    made, inputs = MODELS[name][1]()
    step = train if trains else call_without_gradients
    made.train(trains)
    fronts: dict[str, Callable[..., Any]] = {"eager": made, "native": gramme.compile(made, backend="native")}
    if inductor:
        fronts["inductor"] = torch.compile(made, backend="inductor")
    first, times = {}, {front: [] for front in fronts}
    for front, call in fronts.items():
        start = clock()
        step(call, inputs)
        first[front] = clock() - start
        for _ in range(2):
            made.zero_grad()
            step(call, inputs)
    end = clock() + seconds * len(fronts)
    while clock() < end:
        for front, call in fronts.items():
            made.zero_grad()
            start = clock()
            step(call, inputs)
            times[front].append(clock() - start)
    torch._dynamo.reset()
    gramme.reset()
    return {front: (first[front], statistics.median(times[front])) for front in fronts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="model", help="models; all of them without")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a front end's turns")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    fronts = ["native"] if chosen.no_inductor else ["native", "inductor"]
    print("| model | eager, ms |" + "".join(f" {front} | first call |" for front in fronts))
    print("|---|---|" + "---|---|" * len(fronts))
    gains: dict[str, list[float]] = {front: [] for front in fronts}
    gramme.compile(lambda x: x + 1, backend="native")(torch.ones(2))  # imports
    for name in chosen.names or MODELS:
        found = measured(name, not chosen.no_inductor, chosen.train, chosen.seconds)
        eager = found["eager"][1]
        cells = ""
        for front in fronts:
            first, later = found[front]
            gains[front].append(eager / later)
            cells += f" {eager / later:.2f} | {first:.1f} s |"
        print(f"| {MODELS[name][0]} | {1e3 * eager:.1f} |{cells}", flush=True)
    means = (f"{front} {math.exp(statistics.mean(map(math.log, values))):.2f}" for front, values in gains.items())
    print(f"Geometric means, in times eager's speed: {', '.join(means)}.")


if __name__ == "__main__":
    main()
