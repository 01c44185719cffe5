"""A graph that was captured for one backend is handed over to another one without a capture."""

import contextlib
import gc
import io
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._report.recorder import Recorder
from portable.test_graphs import rows
from programs import Program, programs
from torch import nn

from e2e.front import GRAMME
from e2e.harness import observe
from e2e.test_sharing import TAKES_FUNCTIONS, Block, Calling, X, compiled, same, totals

# Addresses of modules, whose paths tell which they are, and what the compile is called.
APART = re.compile(r"\b\d{12,}\b|0x[0-9a-f]+|CompileId at \d+|__compiled_fn_\d+/\d+")

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")


def count() -> tuple[int, int]:
    """Graphs that are kept, and bytes."""
    found: tuple[int, int] = _C.testing.testing_portable.kept_graphs()  # type: ignore[attr-defined]
    return found


class Keeps:
    """A backend that runs graphs as they are, and notes all that it sees of each."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.inputs: list[list[Any]] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.graphs.append(rows(module))
        self.inputs.append(inputs)
        return module.forward


def first_of(function: Any, *args: Any, **options: Any) -> Any:
    """An entry that has captured a call for another backend, and stays."""
    entry = compiled(function, backend=Keeps(), **options)
    entry(*args)
    return entry


@pytest.mark.parametrize(
    ("first", "second"),
    [("native", "eager"), ("eager", "native"), ("aot_eager", Keeps()), (Keeps(), "aot_eager"), (Keeps(), Keeps())],
    ids=["native-eager", "eager-native", "aot_eager-own", "own-aot_eager", "own-own"],
)
def test_a_second_backend_captures_nothing(first: Any, second: Any) -> None:
    block = Block()
    entries = [compiled(block, backend=backend) for backend in (first, second)]
    for entry in entries:
        for _ in range(3):
            same(entry(X), block(X))
    assert [totals(entry) for entry in entries] == [(1, 0), (0, 1)]
    assert [gramme.statistics(entry).hits for entry in entries] == [2, 3]


def test_gradients_are_the_same() -> None:
    block = Block()
    for backend in ("native", "eager"):
        entry = compiled(block, backend=backend)
        expected = torch.autograd.grad(block(X).square().sum(), list(block.parameters()))
        found = torch.autograd.grad(entry(X).square().sum(), list(block.parameters()))
        assert all(map(torch.equal, found, expected))
    assert totals(entry) == (0, 1)


def test_other_instances_get_the_graph_for_their_own_objects() -> None:
    kept = first_of(Block(), X)
    blocks = [Block() for _ in range(3)]
    entries = [compiled(block, backend="aot_eager") for block in blocks]
    for entry, block in zip(entries, blocks, strict=True):
        same(entry(X), block(X))
    assert totals(*entries) == (0, 3)
    assert totals(kept) == (1, 0)


def test_the_options_of_a_backend_are_another_backend() -> None:
    block = Block()
    first, second = compiled(block), compiled(block, options={"recorded_backward": False})
    for entry in (first, second):
        same(entry(X), block(X))
    assert totals(second) == (0, 1)


@pytest.mark.parametrize("operator", TAKES_FUNCTIONS)
def test_operators_that_take_functions(operator: str) -> None:
    model = Calling(TAKES_FUNCTIONS[operator])
    entries = [compiled(model, backend=backend) for backend in ("native", "eager")]
    for entry in entries:
        for _ in range(2):
            assert torch.allclose(entry(X), model(X))
    assert [totals(entry) for entry in entries] == [(1, 0), (0, 1)]


def test_segments_behind_a_break(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("between")
        return y.relu() + 1

    entries = [compiled(broken, backend=backend) for backend in ("native", "eager")]
    for entry in entries:
        same(entry(X), (X * 2).relu() + 1)
    assert capsys.readouterr().out == "between\n" * 2
    captures, shared = totals(entries[0])
    assert totals(entries[1]) == (0, captures)
    assert shared == 0


def test_effects_happen_once_a_call() -> None:
    class Notes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(len(x))
            self.total += x.sum(0)
            return x + self.total

    model, twin = Notes(), Notes()
    for backend in ("native", "eager"):
        same(compiled(model, backend=backend, recompile_limit=20)(X), twin(X))
        model.seen.clear()
    same(model.total, twin.total)


def test_sizes_that_vary_are_handed_over_as_symbols() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * x.shape[0], x.shape[0]

    keeps = Keeps()
    entries = [compiled(f, backend=backend, dynamic=True) for backend in (Keeps(), keeps, "aot_eager")]
    for entry in entries:
        for size in (4, 5, 6):
            got, number = entry(torch.ones(size))
            same(got, torch.full((size,), float(size)))
            assert number == size
    assert [totals(entry) for entry in entries] == [(1, 0), (0, 1), (0, 1)]
    alone = Keeps()
    compiled(f, backend=alone, dynamic=True, isolate_recompiles=True)(torch.ones(4))
    assert list(map(_apart, alone.graphs)) == list(map(_apart, keeps.graphs))


def test_what_each_backend_made_outlives_its_entries() -> None:
    backends = [Keeps(), Keeps()]
    for _ in range(3):
        entries = [compiled(Block(), backend=backend) for backend in backends]
        for entry in entries:
            same(entry(X), entry._orig_mod(X))
        del entry, entries
        gc.collect()
    assert [len(backend.graphs) for backend in backends] == [1, 1]


# ---- what the backend gets


@pytest.mark.sampled(60)
@pytest.mark.parametrize("program", programs(), ids=lambda p: f"{p.category}-{p.name}")
def test_a_backend_gets_what_its_own_capture_would_give(program: Program) -> None:
    runs: dict[str, tuple[str, list[Any]]] = {}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = str(observe(program.function, program, plain=True))
        first = compiled(program.function, backend=Keeps())
        assert str(observe(first, program, plain=True)) == expected
        for name in ("handed over", "alone"):
            backend = Keeps()
            entry = compiled(program.function, backend=backend, isolate_recompiles=name == "alone")
            runs[name] = (str(observe(entry, program, plain=True)), backend.graphs)
    assert runs["handed over"][0] == expected
    assert [_apart(graph) for graph in runs["handed over"][1]] == [_apart(graph) for graph in runs["alone"][1]]


def _apart(graph: list[Any]) -> str:
    return APART.sub("…", str(graph))


# ---- when a capture is needed


CHANGES: dict[str, Callable[[Block], Any]] = {
    "number": lambda block: setattr(block, "scale", 3.0),
    "double": lambda block: block.double(),
    "eval": lambda block: block.eval(),
    "hook": lambda block: block.first.register_forward_hook(lambda module, args, result: result + 1),
    "frozen": lambda block: block.requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_is_captured(change: str) -> None:
    block = Block()
    kept = first_of(block, X)
    CHANGES[change](block)
    entry = compiled(block, backend=Keeps())
    x = X.to(block.first.weight.dtype)
    got = entry(x)
    same(got, block(x))
    assert got.requires_grad == block(x).requires_grad
    assert totals(entry) == (1, 0)
    assert totals(kept) == (1, 0)


@pytest.mark.parametrize(
    "options",
    [{"fullgraph": True}, {"dynamic": True}, {"backend": "native"}, {"isolate_recompiles": True}],
    ids=str,
)
def test_captures_that_are_told_other_things_hand_nothing_over(options: dict[str, Any]) -> None:
    block = Block()
    kept = first_of(block, X)
    entry = compiled(block, **{"backend": Keeps(), **options})
    same(entry(X), block(X))
    assert totals(kept, entry) == (2, 0)


def test_settings_that_captures_read_count() -> None:
    block = Block()
    kept = first_of(block, X)
    entry = compiled(block, backend=Keeps())
    with torch._dynamo.config.patch(assume_static_by_default=False):
        entry(X)
    assert totals(kept, entry) == (2, 0)


def test_an_input_that_autograd_knows_otherwise_is_captured() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    keeps = Keeps()
    with torch.no_grad():
        kept = first_of(f, X)
        entry = compiled(f, backend=keeps)
        entry(X.clone().requires_grad_())
    assert totals(kept, entry) == (2, 0)
    assert keeps.inputs[0][0].requires_grad


def test_nothing_is_handed_over_after_a_reset() -> None:
    block = Block()
    kept = first_of(block, X)
    gramme.reset()
    entry = compiled(block, backend=Keeps())
    entry(X)
    assert totals(kept, entry) == (2, 0)


def test_a_backend_that_raises_is_named() -> None:
    def raises(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise ValueError("not this one")

    block = Block()
    kept = first_of(block, X)
    entry = compiled(block, backend=raises)
    for _ in range(2):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="not this one"):
            entry(X)
    assert totals(kept) == (1, 0)
    assert totals(entry)[1] == 0


def test_a_backend_that_takes_no_such_graph_runs_uncompiled() -> None:
    def refuses(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise torch._dynamo.exc.SkipFrame("not this one")

    block = Block()
    kept = first_of(block, X)
    entry = compiled(block, backend=refuses)
    for _ in range(3):
        same(entry(X), block(X))
    assert totals(kept) == (1, 0)


def test_numbers_that_one_backend_takes_are_captured_for_the_other() -> None:
    def f(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    entries = [compiled(f, backend=backend) for backend in (Keeps(), "aot_eager")]
    for entry in entries:
        for by in (1.5, 2.5, 3.5):
            same(entry(X, by), X * by)


# ---- who hears of it


def test_a_recording_says_whose_capture_it_was() -> None:
    block = Block()
    kept = first_of(block, X)
    recorder = Recorder()
    recorder.start()
    try:
        entry = compiled(block, backend=Keeps())
        for _ in range(3):
            entry(X)
    finally:
        recorded = recorder.stop()
    assert totals(entry) == (0, 1)
    assert totals(kept) == (1, 0)
    (capture,) = recorded.captures
    assert capture.shared
    assert capture.runs.count == 3
    assert capture.graph


# ---- what is kept


def test_graphs_are_kept_as_long_as_their_segments() -> None:
    before = count()
    entry = first_of(Block(), X)
    made, size = count()
    assert made == before[0] + 1
    assert size - before[1] < 16 * 1024
    del entry
    gramme.reset()
    gc.collect()
    assert count() == before


def test_what_a_graph_holds_dies_with_its_entry() -> None:
    def make() -> list[weakref.ref[Any]]:
        class Local(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.sin() + entries[0]

        entries: list[Any] = [1]
        model = Local()
        entry = first_of(model, X)
        model.itself = entry  # type: ignore[assignment]
        return [weakref.ref(model), weakref.ref(Local)]

    gone = make()
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_the_oldest_graphs_go_first() -> None:
    entries = []
    for number in range(400):
        names: dict[str, Any] = {"torch": torch}
        lines = "\n".join(f"    x = x.sin() + {number}" for _ in range(60))
        exec(f"def f(x):\n{lines}\n    return x", names)
        entries.append(first_of(names["f"], X))
    kept, size = count()
    assert kept < 400
    assert size <= 4 * 1024 * 1024
    for entry, captured in ((entries[0], 1), (entries[-1], 0)):
        again = compiled(entry.__wrapped__, backend=Keeps())
        again(X)
        assert totals(again) == (captured, 1 - captured)
