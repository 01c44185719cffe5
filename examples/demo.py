"""BERT, GPT-2, Llama and small programs: run by the native executor, then captured beside PyTorch's own front end."""

import contextlib
import io
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gramme
import torch
from rich.console import Console
from rich.table import Table

clock = time.perf_counter


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


def transformer(name: str, **sizes: int) -> Callable[..., Any]:
    """A model of transformers with random weights; nothing is downloaded."""
    import transformers

    config = getattr(
        transformers, name.replace("Model", "Config").replace("LMHead", "").replace("ForCausalLM", "Config")
    )
    return getattr(transformers, name)(config(vocab_size=100, **sizes)).eval()


@dataclass
class Program:
    title: str
    make: Callable[[], Callable[..., Any]]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def ids() -> torch.Tensor:
    return torch.arange(16)[None]


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
PROGRAMS = [
    Program("x + 1", lambda: x_plus_1, (torch.ones(4),)),
    Program("python_heavy", lambda: python_heavy, (torch.ones(4),)),
    Program("loop_with_print", lambda: loop_with_print, (torch.randn(8),)),
    Program("BERT, 12 layers", lambda: transformer("BertModel", num_hidden_layers=12, **SIZES), (ids(),)),
    Program(
        "GPT-2, 12 layers",
        lambda: transformer("GPT2LMHeadModel", n_embd=64, n_layer=12, n_head=4),
        (ids(),),
        {"use_cache": False},
    ),
    Program(
        "Llama, 16 layers",
        lambda: transformer("LlamaForCausalLM", num_hidden_layers=16, **SIZES),
        (ids(),),
        {"use_cache": False},
    ),
]


@dataclass
class Run:
    """What one front end made of one program."""

    capture: float = 0.0
    hit: float = 0.0
    graphs: list[int] = field(default_factory=list)
    guards: int = 0
    equal: bool = False


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


def native_row(table: Table, program: Program) -> None:
    function = program.make()
    compiled = gramme.compile(function, backend="native")

    def run(target: Callable[..., Any]) -> Any:
        return target(*program.args, **program.kwargs)

    run(function)
    start = clock()
    result = run(compiled)
    first = clock() - start
    eager, native = medians([lambda: run(function), lambda: run(compiled)])
    equal = same(result, run(function)) and same(run(compiled), result)
    table.add_row(
        program.title,
        f"{1e6 * eager:,.1f}",
        f"{1e3 * first:,.1f}",
        f"{1e6 * native:,.1f}",
        f"[bold]{eager / native:,.1f}",
        "[green]yes" if equal else "[red]NO",
    )


def native_table() -> Table:
    table = Table(title='gramme.compile(…, backend="native"): no compiler, the bits of eager')
    for column in ("program", "eager, us", "first call, ms", "native, us", "times faster", "equal bits"):
        table.add_column(column, justify="left" if column == "program" else "right")
    native_row(Table(), Program("", lambda: lambda x: x * 2, (torch.ones(2),)))  # imports
    for program in PROGRAMS:
        native_row(table, program)
    return table


def count_guards(front: Callable[..., Any], function: Callable[..., Any], program: Program) -> int:
    if front is gramme.compile:
        return sum(len(s.guards) for s in gramme.explain(function)(*program.args, **program.kwargs).segments)
    return len(torch._dynamo.explain(function)(*program.args, **program.kwargs).out_guards or ())


def measure(front: Callable[..., Any], program: Program) -> Run:
    run, function, in_graphs = Run(), program.make(), [0.0]

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        run.graphs.append(sum(node.op.startswith("call_") for node in graph.graph.nodes))
        graph.real_recompile()
        forward = graph.forward

        def timed(*args: Any) -> Any:
            start = clock()
            result = forward(*args)
            in_graphs[0] += clock() - start
            return result

        return timed

    def call() -> Any:
        return compiled(*program.args, **program.kwargs)

    compiled = front(function, backend=backend)
    start = clock()
    result = call()
    run.capture = clock() - start - in_graphs[0]
    run.equal = same(result, function(*program.args, **program.kwargs)) and same(call(), result)
    hits = []
    for _ in range(200):
        in_graphs[0] = 0.0
        start = clock()
        call()
        hits.append(clock() - start - in_graphs[0])
    run.hit = statistics.median(hits)
    run.guards = count_guards(front, function, program)
    return run


def add_rows(table: Table, program: Program, theirs: Run, ours: Run) -> None:
    for title, run in (("torch.compile", theirs), ("gramme", ours)):
        table.add_row(
            program.title if run is theirs else "",
            title,
            f"{1e3 * run.capture:,.2f}",
            f"{1e6 * run.hit:,.1f}",
            str(len(run.graphs)),
            str(sum(run.graphs)),
            str(run.guards),
            "[green]yes" if run.equal else "[red]NO",
        )
    table.add_row(
        "",
        "[bold]times faster",
        f"{theirs.capture / ours.capture:,.0f}",
        f"{theirs.hit / ours.hit:,.1f}",
        end_section=True,
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    console = Console(width=max(Console().width, 120))
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        native = native_table()
    console.print(native)
    table = Table(title=f"gramme beside torch.compile, torch {torch.__version__}, backend that runs the graph as it is")
    columns = (
        "program",
        "front end",
        "first call less its graph, ms",
        "a hit less its graph, us",
        "graphs",
        "ops",
        "guards",
    )
    for column in (*columns, "as eager"):
        table.add_column(column, justify="left" if column in columns[:2] else "right")
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for front in (torch.compile, gramme.compile):
            measure(front, Program("", lambda: lambda x: x * 2, (torch.ones(2),)))  # imports
        for program in PROGRAMS:
            add_rows(table, program, measure(torch.compile, program), measure(gramme.compile, program))
    console.print(table)


if __name__ == "__main__":
    main()
