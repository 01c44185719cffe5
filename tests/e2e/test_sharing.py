"""One capture serves all entries of equal code: what another entry has captured is taken where its guards hold."""

import contextlib
import copy
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._report.page import totals_of
from gramme._report.recorder import Recorder
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self, size: int = 4, scale: float = 2.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, size), nn.Linear(size, size)
        self.drop = nn.Dropout(0.0)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.drop(self.second(self.first(x).relu())) * self.scale


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x).sigmoid()


class Counts(nn.Module):
    """Keeps what it saw, in Python and in a buffer."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.calls.append(len(x))
        self.seen += x.sum(0)
        return x * len(self.calls)


def compiled(model: Any, **options: Any) -> Any:
    return gramme.compile(model, **{"backend": "native", **options})


def totals(*entries: Any) -> tuple[int, int]:
    """Captures, and segments taken from others."""
    all_of = [gramme.statistics(entry) for entry in entries]
    return sum(each.captures for each in all_of), sum(each.shared for each in all_of)


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(got, expected)


@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager"])
def test_instances_of_a_class_are_captured_once(backend: str) -> None:
    blocks = [Block() for _ in range(50)]
    entries = [compiled(block, backend=backend) for block in blocks]
    for block, entry in zip(blocks, entries, strict=True):
        for _ in range(2):
            same(entry(X), block(X))
    assert totals(*entries) == (1, 49)
    assert [gramme.statistics(entry).hits for entry in entries] == [1] + [2] * 49


def test_blocks_of_a_model_are_captured_once_a_kind() -> None:
    model = nn.Sequential(*[block for _ in range(6) for block in (Block(), Other())])
    expected = model(X)
    entries = [compiled(block) for block in model]
    same(nn.Sequential(*entries)(X), expected)
    assert totals(*entries) == (3, 9)  # what the first one gets needs no gradient


@pytest.mark.parametrize(
    ("needs_grad", "mode", "kinds"),
    [
        (True, contextlib.nullcontext, 2),  # what the first block gets needs no gradient, what the others get does
        (True, torch.no_grad, 1),
        (False, contextlib.nullcontext, 1),
    ],
    ids=["training", "without gradients", "frozen"],
)
def test_twelve_equal_blocks_are_one_capture_a_kind(needs_grad: bool, mode: Callable[[], Any], kinds: int) -> None:
    blocks = [Block().requires_grad_(needs_grad) for _ in range(12)]
    expected = nn.Sequential(*blocks)(X)
    entries = [compiled(block) for block in blocks]
    for _ in range(3):
        with mode():
            same(nn.Sequential(*entries)(X), expected)
    assert totals(*entries) == (kinds, 12 - kinds)
    hits = [gramme.statistics(entry).hits for entry in entries]
    assert hits == [2 + (entry in entries[kinds:]) for entry in entries]


def test_gradients_are_those_of_the_instance() -> None:
    blocks = [Block() for _ in range(3)]
    twins = copy.deepcopy(blocks)
    for block, twin in zip(blocks, twins, strict=True):
        entry = compiled(block)
        for _ in range(3):
            entry(X).square().sum().backward()
            twin(X).square().sum().backward()
        for got, expected in zip(block.parameters(), twin.parameters(), strict=True):
            assert got.grad is not None
            assert expected.grad is not None
            same(got.grad, expected.grad)


def test_effects_are_those_of_the_instance() -> None:
    models = [Counts() for _ in range(3)]
    twins = copy.deepcopy(models)
    entries = [compiled(model, recompile_limit=20) for model in models]
    for rounds in range(4):
        for index, (entry, twin) in enumerate(zip(entries, twins, strict=True)):
            for _ in range(index + rounds):
                same(entry(X), twin(X))
    for model, twin in zip(models, twins, strict=True):
        assert model.calls == twin.calls
        same(model.seen, twin.seen)


def made(by: torch.Tensor, rows: list[int]) -> Callable[[torch.Tensor], torch.Tensor]:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        rows.append(1)
        return x * by

    return scaled


def test_functions_that_a_function_makes_are_captured_once() -> None:
    lists: list[list[int]] = [[] for _ in range(5)]
    entries = [compiled(made(torch.full((4,), float(i)), lists[i])) for i in range(5)]
    for i, entry in enumerate(entries):
        for _ in range(i + 1):
            same(entry(X), X * i)
    assert [len(rows) for rows in lists] == [1, 2, 3, 4, 5]
    assert totals(*entries) == (1, 4)


def test_a_function_made_anew_is_captured_twice_at_most() -> None:
    by = torch.full((4,), 3.0)
    names = {"by": by, "__name__": __name__}
    code = compile("lambda x: x * by", "made anew", "eval")
    entries = [compiled(eval(code, names)) for _ in range(10)]  # the second tells that there is more than one
    for entry in entries:
        same(entry(X), X * by)
    assert totals(*entries) == (2, 8)


def test_segments_behind_a_break_are_shared(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.inner, self.name = nn.Linear(4, 4), [name]

        def forward(self, x: torch.Tensor) -> Any:
            y = self.inner(x)
            torch._dynamo.graph_break()
            print("".join(self.name))
            return y.relu() + 1

    models = [Broken("one"), Broken("one"), Broken("two")]
    entries = [compiled(model) for model in models]
    for model, entry in zip(models, entries, strict=True):
        same(entry(X), (model.inner(X).relu() + 1))
    assert capsys.readouterr().out == "one\none\ntwo\n"
    first, second, _ = map(gramme.statistics, entries)
    assert (first.captures, second.captures) == (second.shared, 0)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2 + ctx.saved_tensors[0]


@torch.compiler.nested_compile_region  # type: ignore[untyped-decorator]
def region(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Calling(nn.Module):
    def __init__(self, how: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.how = nn.Linear(4, 4), how

    def forward(self, x: torch.Tensor) -> Any:
        return self.how(self.inner, x)


TAKES_FUNCTIONS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "cond": lambda inner, x: torch.cond(x.sum() > 0, lambda y: inner(y), lambda y: inner(y) * 2, (x,)),
    "map": lambda inner, x: torch._higher_order_ops.map(lambda row: inner(row).sin(), x),
    "while_loop": lambda inner, x: while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y + 1), (torch.tensor(0), inner(x).detach())
    )[1],
    "checkpoint": lambda inner, x: checkpoint(lambda y: inner(y).relu(), x, use_reentrant=False),
    "autograd.Function": lambda inner, x: Doubled.apply(inner(x)),
    "vmap": lambda inner, x: torch.vmap(lambda row: inner(row))(x),
    "grad": lambda inner, x: torch.func.grad(lambda y: inner(y).sum())(x),
    "nested_compile_region": lambda inner, x: region(inner(x)),
}


@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager"])
@pytest.mark.parametrize("operator", TAKES_FUNCTIONS)
def test_captures_with_operators_that_take_functions_are_shared(operator: str, backend: str) -> None:
    models = [Calling(TAKES_FUNCTIONS[operator]) for _ in range(3)]
    entries = [compiled(model, backend=backend) for model in models]
    for model, entry in zip(models, entries, strict=True):
        for _ in range(2):
            assert torch.allclose(entry(X), model(X))
    first, *others = [totals(entry) for entry in entries]
    assert first == (1, 0)
    assert others == [(0, 1), (0, 1)]


def tie(block: Block) -> None:
    block.second.weight = block.first.weight


def swap_class(block: Block) -> None:
    block.first = Other()  # type: ignore[assignment]


def add_hook(block: Block) -> None:
    block.first.register_forward_hook(lambda module, args, result: result + 1)


def add_own_hook(block: Block) -> None:
    block.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def put_forward(block: Block) -> None:
    block.first.forward = lambda x: x - 1  # type: ignore[assignment]


def no_bias(block: Block) -> None:
    block.second.bias = None  # type: ignore[assignment]


def delete_scale(block: Block) -> None:
    del block.scale
    Block.scale = 3.0


CHANGES: dict[str, Callable[[Block], Any]] = {
    "eval": lambda block: block.eval(),
    "eval_inside": lambda block: block.drop.eval(),
    "frozen": lambda block: block.requires_grad_(False),
    "frozen_inside": lambda block: block.second.weight.requires_grad_(False),
    "double": lambda block: block.double(),
    "tied": tie,
    "other_class_inside": swap_class,
    "hook_inside": add_hook,
    "hook": add_own_hook,
    "forward_of_an_instance": put_forward,
    "no_bias": no_bias,
    "number": lambda block: setattr(block, "scale", 3.0),
    "type_of_a_number": lambda block: setattr(block, "scale", 2),
    "tensor_for_a_number": lambda block: setattr(block, "scale", torch.tensor(2.5)),
    "class_attribute": delete_scale,
    "transposed": lambda block: setattr(block.first, "weight", nn.Parameter(torch.rand(4, 4).t())),
    "buffer_for_a_parameter": lambda block: (
        block.first.__dict__.update(weight=torch.ones(4, 4)) or block.first._parameters.pop("weight")
    ),
    "more_dropout": lambda block: setattr(block.drop, "p", 1.0),
}


@pytest.fixture
def _class_as_before() -> Iterator[None]:
    yield
    if "scale" in vars(Block):
        delattr(Block, "scale")


@pytest.mark.parametrize("when", ["before the first call", "after it"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("_class_as_before")
def test_one_of_the_instances_is_changed(change: str, when: str) -> None:
    blocks = [Block() for _ in range(4)]
    entries = [compiled(block) for block in blocks]
    if when == "after it":
        for entry in entries:
            entry(X)
    CHANGES[change](blocks[1])
    for _ in range(3):
        for block, entry in zip(blocks, entries, strict=True):
            x = X.to(block.second.weight.dtype)
            got, expected = entry(x), block(x)
            same(got, expected)
            assert got.requires_grad == expected.requires_grad
    if change != "class_attribute":  # which all of them have
        assert totals(entries[0], *entries[2:]) == (1, 2)


def test_each_entry_counts_what_its_calls_needed() -> None:
    def grow(x: torch.Tensor, times: int) -> torch.Tensor:
        return x * len(str(times))

    entries = [compiled(types.FunctionType(grow.__code__, globals()), recompile_limit=2, dynamic=False) for _ in "ab"]
    for times in (1, 22):
        same(entries[0](X, times), X * len(str(times)))
    same(entries[1](X, 1), X)
    same(entries[1](X, 333), X * 3)
    with pytest.warns(RuntimeWarning, match="recompile_limit"):
        same(entries[1](X, 22), X * 2)
    assert totals(entries[0]) == (2, 0)
    assert totals(entries[1]) == (1, 1)


def test_sizes_vary_after_a_segment_that_was_taken() -> None:
    blocks = [Block(), Block()]
    entries = [compiled(block) for block in blocks]
    for entry, block in zip(entries, blocks, strict=True):
        for rows in (2, 3, 4, 5):
            x = torch.ones(rows, 4)
            same(entry(x), block(x))
    assert totals(entries[0]) == (2, 0)
    assert totals(entries[1]) == (0, 2)
    alone = [compiled(Block()), compiled(Block())]
    alone[0](torch.ones(2, 4))
    for rows in (2, 3, 4, 5):  # the second size is this entry's own to learn from
        alone[1](torch.ones(rows, 4))
    assert gramme.statistics(alone[1]).segments <= 2


def test_reset_captures_anew() -> None:
    first, second = compiled(Block()), compiled(Block())
    first(X)
    gramme.reset()
    second(X)
    first(X)
    assert totals(first, second) == (2, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"fullgraph": True},
        {"dynamic": True},
        {"backend": "aot_eager"},
        {"isolate_recompiles": True},
    ],
    ids=str,
)
def test_other_options_share_nothing(options: dict[str, Any]) -> None:
    first, second = compiled(Block()), compiled(Block(), **options)
    first(X)
    second(X)
    assert totals(first, second) == (2, 0)


def test_other_settings_share_nothing() -> None:
    blocks = [compiled(Block()) for _ in range(3)]
    blocks[0](X)
    with torch._dynamo.config.patch(assume_static_by_default=False):
        blocks[1](X)
    blocks[2](X)
    assert totals(*blocks) == (2, 1)


def test_a_backend_of_the_program_sees_equal_code_once() -> None:
    graphs: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(inputs)
        return module.forward

    def another(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return backend(module, inputs)

    for each in (backend, backend, another):
        block = Block()
        same(compiled(block, backend=each)(X), block(X))
    assert len(graphs) == 2


SIZE = 2


@torch.library.custom_op("gramme_sharing::filled", mutates_args=())
def filled(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(SIZE)


@filled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(SIZE)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def size_now() -> int:
    return SIZE


@pytest.mark.parametrize("function", [lambda x: filled(x).shape[0], lambda x: x.new_ones(size_now()).shape[0]])
def test_what_the_program_was_asked_is_asked_again(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (3, 5, 3):
        monkeypatch.setitem(globals(), "SIZE", size)
        entry = compiled(lambda x: (function(x), x + 1))
        assert entry(X)[0] == size


# ---- what becomes of entries


def test_a_segment_outlives_the_entry_that_captured_it() -> None:
    first, second, third = (compiled(Block()) for _ in range(3))
    first(X)
    second(X)
    del first
    gc.collect()
    assert totals(second, third) == (0, 1)
    same(third(X), third._orig_mod(X))
    assert totals(second, third) == (0, 2)


def test_entries_made_in_a_loop_are_captured_once() -> None:
    counts = []
    for _ in range(20):
        entry = compiled(Block())
        same(entry(X), entry._orig_mod(X))
        counts.append(totals(entry))
        del entry
        gc.collect()
    assert counts == [(1, 0)] + [(0, 1)] * 19


def test_the_last_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = []
    for number in range(300):
        names: dict[str, Any] = {"__name__": __name__}
        exec(f"def kept_{number}(x):\n    return x + {number}", names)
        functions.append(names[f"kept_{number}"])
        monkeypatch.setattr(sys.modules[__name__], f"kept_{number}", functions[-1], raising=False)
    for function in functions:
        compiled(function)(X)
    again = [compiled(function) for function in functions[-100:]]
    for entry in again:
        entry(X)
    assert totals(*again) == (0, 100)
    early = compiled(functions[0])
    early(X)
    assert totals(early) == (1, 0)


def test_a_local_function_dies_with_its_entry() -> None:
    def local(x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by

    entry = compiled(local)
    same(entry(X), X * 2)
    ref = weakref.ref(local)
    del local, entry
    gc.collect()
    assert ref() is None


def test_models_die_with_what_compiled_them() -> None:
    kept = compiled(Block())
    kept(X)
    gone = [weakref.ref(each) for _ in range(3) for each in _called()]
    gc.collect()
    assert [ref() for ref in gone] == [None] * 6
    same(kept(X), kept._orig_mod(X))


def _called() -> tuple[Any, Any]:
    block = Block()
    entry = compiled(block)
    entry(X)
    return block, block.first.weight


def test_a_class_made_inside_dies_with_its_entries() -> None:
    """Entries that share, in a cycle through the class that their guards hold: none is counted twice."""

    def make() -> weakref.ref[Any]:
        class Local(nn.Module):
            keeps: list[Any] = []

            def forward(self, x: torch.Tensor) -> Any:
                return x + 1

        entries = [compiled(Local()) for _ in range(3)]
        for entry in entries:
            entry(X)
        assert totals(*entries) == (1, 2)
        Local.keeps.extend(entries)
        return weakref.ref(Local)

    local = make()
    gc.collect()
    assert local() is None


def test_the_collector_takes_only_the_entries_that_are_garbage() -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.cos()

    alive, garbage = compiled(Local()), compiled(Local())
    alive(X)
    garbage(X)
    cycle = [garbage]
    cycle.append(cycle)
    ref = weakref.ref(garbage._orig_mod)
    del garbage, cycle
    gc.collect()
    assert ref() is None
    same(alive(X), X.cos())
    again = compiled(Local())
    same(again(X), X.cos())
    assert totals(again) == (0, 1)


def test_a_backend_of_the_program_dies_with_what_it_made() -> None:
    class Backend:
        def __call__(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
            return module.forward

    backend = Backend()
    ref = weakref.ref(backend)
    entry = compiled(Block(), backend=backend)
    entry(X)
    del entry, backend
    gc.collect()
    assert ref() is None


def test_no_more_references_than_entries_hold() -> None:
    def held(entry: Any) -> int:
        return len(gc.get_referents(gramme._compile.entry_of(entry)))

    entries = [compiled(Block()) for _ in range(3)]
    for entry in entries:
        entry(X)
    guards = {id(o) for e in entries for o in gc.get_referents(gramme._compile.entry_of(e)) if _is_guards(o)}
    assert len(guards) == 1
    assert held(entries[0]) == held(entries[1]) == held(entries[2])


def _is_guards(referent: Any) -> bool:
    return type(referent).__name__ == "Guards"


def test_explain_captures_for_itself() -> None:
    entry = compiled(Block())
    entry(X)
    assert [segment.operations > 0 for segment in gramme.explain(Block())(X).segments] == [True]


def test_a_recording_shows_segments_that_were_taken(tmp_path: Path) -> None:
    entries = [compiled(Block()) for _ in range(4)]
    entries[0](X)
    recorder = Recorder()
    recorder.start()
    try:
        for _ in range(2):
            for entry in entries[1:]:
                entry(X)
        compiled(Other())(X)
    finally:
        recorded = recorder.stop()
    assert totals(*entries) == (1, 3)
    shared = [capture for capture in recorded.captures if capture.shared]
    assert [capture.runs.count for capture in shared] == [2, 2, 2]
    assert [capture.segment.compile_id for capture in shared if capture.segment] == [compile_id(entries[0])] * 3
    assert all(capture.begins and capture.begins[0] is Block.forward.__code__ for capture in shared)
    captured = [capture for capture in recorded.captures if not capture.shared]
    assert [capture.runs.count for capture in captured] == [1]
    recorded.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert ("segments taken from equal code", 3, "time") in totals_of(recorded)
    assert page.count('<tr class="shared">') == 3


def compile_id(entry: Any) -> str:
    first: str = _C.segments(gramme._compile.entry_of(entry))[0]["compile_id"]
    return first
