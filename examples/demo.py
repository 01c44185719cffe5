"""A report of a training run; BERT, GPT-2, Llama and small programs, run natively and captured beside torch.compile."""

import contextlib
import io
import logging
import runpy
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gramme
import torch
from gramme._report.summary import text_of
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "build" / "demo.html"
clock = time.perf_counter
Call = Callable[..., Any]


def x_plus_1(x):
    return x + 1


def python_heavy(x):
    table = {}
    for i in range(3000):
        table[i] = (i * 3, str(i))
    return x + sum(v[0] for v in table.values())


def loop_with_print(x):
    for i in range(10):
        x = torch.tanh(x) * 0.5 + i
        print("step", i)
        x = x - x.mean()
    return x


def transformer(name: str, **sizes: int) -> Call:
    """A model of transformers with random weights; nothing is downloaded."""
    import transformers

    config = getattr(
        transformers, name.replace("Model", "Config").replace("LMHead", "").replace("ForCausalLM", "Config")
    )
    return getattr(transformers, name)(config(vocab_size=100, **sizes)).eval()


@dataclass
class Program:
    title: str
    make: Callable[[], Call]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def run(self, function: Call) -> Any:
        return function(*self.args, **self.kwargs)


IDS = torch.arange(16)[None]
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
NO_CACHE = {"use_cache": False}
PROGRAMS = [
    Program("x + 1", lambda: x_plus_1, (torch.ones(4),)),
    Program("3,000 Python iterations", lambda: python_heavy, (torch.ones(4),)),
    Program("a loop that prints", lambda: loop_with_print, (torch.linspace(-1, 1, 8),)),
    Program("BERT, 12 layers", lambda: transformer("BertModel", num_hidden_layers=12, **SIZES), (IDS,)),
    Program(
        "GPT-2, 12 layers",
        lambda: transformer("GPT2LMHeadModel", n_embd=64, n_layer=12, n_head=4),
        (IDS,),
        NO_CACHE,
    ),
    Program(
        "Llama, 16 layers",
        lambda: transformer("LlamaForCausalLM", num_hidden_layers=16, **SIZES),
        (IDS,),
        NO_CACHE,
    ),
]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    return all(same(left[key], right[key]) for key in left)


def medians(calls: list[Callable[[], Any]]) -> list[float]:
    """Seconds a call, in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(50):
        for call, taken in zip(calls, times, strict=True):
            start = clock()
            call()
            taken.append(clock() - start)
    return [statistics.median(taken) for taken in times]


def captured(front: Call, program: Program) -> tuple[float, int]:
    """Seconds of a first call without those of its graphs, and the number of graphs."""
    graphs, inside = 0, 0.0

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Call:
        nonlocal graphs
        graphs += 1

        def timed(*args: Any) -> Any:
            nonlocal inside
            start = clock()
            result = graph.forward(*args)
            inside += clock() - start
            return result

        return timed

    compiled = front(program.make(), backend=backend)
    start = clock()
    program.run(compiled)
    return clock() - start - inside, graphs


def row(program: Program) -> tuple[str, ...]:
    function = program.make()
    native = gramme.compile(function, backend="native")
    equal = same(program.run(native), program.run(function)) and same(program.run(native), program.run(function))
    eager_time, native_time = medians([lambda: program.run(function), lambda: program.run(native)])
    theirs, their_graphs = captured(torch.compile, program)
    ours, our_graphs = captured(gramme.compile, program)
    return (
        program.title,
        f"{1e6 * eager_time:,.0f} / {1e6 * native_time:,.0f}",
        f"[bold]{eager_time / native_time:,.1f}x",
        "[green]yes" if equal else "[red]NO",
        f"{1e3 * theirs:,.1f} / {1e3 * ours:,.1f}",
        f"[bold]{theirs / ours:,.0f}x",
        f"{their_graphs} / {our_graphs}",
    )


def speed() -> Table:
    table = Table(title=f"Small programs on one thread, PyTorch {torch.__version__}", box=None, header_style="dim")
    table.add_column("program")
    for column in (
        "a call, µs:\neager / native",
        "\nfaster",
        "equal\nbits",
        "capture, ms:\ntorch.compile / gramme",
        "\nfaster",
        "\ngraphs",
    ):
        table.add_column(column, justify="right")
    warm = Program("", lambda: lambda x: x * 2, (torch.ones(2),))
    row(warm)  # imports
    for program in PROGRAMS:
        table.add_row(*row(program))
    return table


def report() -> str:
    """Records a training run; what the page says first."""
    PAGE.parent.mkdir(exist_ok=True)
    recording = gramme.record(PAGE)
    with recording:
        runpy.run_path(str(ROOT / "docs" / "gallery" / "programs" / "training.py"), run_name="__main__")
    return text_of(recording.recorded)


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    console = Console(width=max(Console().width, 110), highlight=False)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        table = speed()
    console.print(table)
    console.print("\nA training run, recorded:")
    console.print(report(), markup=False, end="", soft_wrap=True)
    console.print(f"The whole report: [bold]{PAGE.relative_to(Path.cwd())}", soft_wrap=True)


if __name__ == "__main__":
    main()
