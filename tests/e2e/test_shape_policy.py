"""Who says which sizes and ints vary, and what becomes of segments: beside torch.compile."""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo
from gramme import _C
from gramme._compile import entry_of
from torch import nn

Calls = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")


def rows(n: int, *dims: int, mark: Callable[..., None] = torch._dynamo.mark_dynamic) -> torch.Tensor:
    made = torch.arange(3.0 * n).reshape(n, 3)
    for dim in dims:
        mark(made, dim)
    return made


def captures(compiled: Any) -> int:
    return int(gramme.statistics(compiled).captures)


class Both:
    """A function compiled by PyTorch's front end and by gramme."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.theirs = 0

        def count(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
            self.theirs += 1
            return graph.forward

        self.compiled = (
            torch.compile(function, backend=count, **options),
            gramme.compile(function, backend="eager", **options),
        )

    def __call__(self, make: Callable[[], Any]) -> tuple[int, int]:
        """How many captures each has made after a call."""
        expected = self.function(make())
        for compiled in self.compiled:
            assert torch.equal(compiled(make()), expected)
        return self.theirs, captures(self.compiled[1])


# ---- marks


MARKS = {
    "a mark after none": ([(4,), (4, 0), (9,)], 2),
    "fewer marks": ([(4, 0, 1), (4, 0), (9, 1), (5,)], 1),
    "more marks": ([(4, 0), (4, 0, 1), (4, 1)], 2),
    "another mark": ([(4, 0), (4, 1)], 2),
}


@pytest.mark.parametrize("name", MARKS)
def test_marks_are_guarded(name: str) -> None:
    calls, made = MARKS[name]
    both = Both(lambda x: x * 2 + 1)
    for call in calls:
        counts = both(lambda call=call: rows(*call))  # type: ignore[misc]
    assert counts == (made, made)


@pytest.mark.parametrize(
    "mark", [torch._dynamo.maybe_mark_dynamic, torch._dynamo.mark_static], ids=lambda mark: mark.__name__
)
def test_other_marks_are_guarded(mark: Callable[..., None]) -> None:
    both = Both(lambda x: x * 2)
    assert both(lambda: rows(4)) == (1, 1)
    assert both(lambda: rows(4, 0, mark=mark)) == (2, 2)
    assert both(lambda: rows(4, 0, mark=mark)) == (2, 2)
    assert both(lambda: rows(4)) == (2, 2)


def test_a_mark_on_a_tensor_in_a_list() -> None:
    kept = [rows(4), rows(5)]
    compiled = gramme.compile(lambda xs: xs[0].sum() + xs[1].sum(), backend="eager")
    for _ in range(4):
        compiled(kept)
    assert captures(compiled) == 1
    torch._dynamo.mark_dynamic(kept[1], 0)
    compiled(kept)
    compiled(kept)
    assert captures(compiled) == 2
    assert torch.equal(compiled([rows(4), rows(7)]), rows(4).sum() + rows(7).sum())
    assert captures(compiled) == 2


def test_other_attributes_are_no_marks() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    compiled(rows(4))
    x = rows(4)
    x.label = "x"  # type: ignore[attr-defined]
    compiled(x)
    compiled(rows(4))
    vars(x)
    compiled(x)
    assert captures(compiled) == 1


def test_hints_reach_the_compiler() -> None:
    seen: list[dict[Any, int]] = []

    def look(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append({str(k): v for k, v in inputs[0].node.shape_env.var_to_hint_override.items()})
        return graph.forward

    for front in (torch.compile, gramme.compile):
        x = rows(4)
        torch._dynamo.mark_dynamic(x, 0, hint_override=64)
        front(lambda x: x * 2, backend=look)(x)
    assert seen == [{"s77": 64}, {"s77": 64}]


SPECIAL: dict[str, list[Callable[[Any], Any]]] = {
    "numbers": [lambda n: n == 8, lambda n: n == 16],
    "a divisor": [lambda n: n % 8 == 0],
    "decided on the way": [lambda n: n == 8 or n > 100],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_sizes_told_apart(name: str) -> None:
    """PyTorch compiles one graph for each predicate, when it holds for the first time."""
    predicates = SPECIAL[name]
    compiled = gramme.compile(lambda x: x * 2 + x.shape[0], backend="eager")
    answers = set()
    for n in (9, 8, 16, 10, 9, 8, 16, 11):
        x = rows(n)
        torch._dynamo.mark_dynamic(x, 0, specialize_on=predicates)
        assert torch.equal(compiled(x), x * 2 + n)
        answers.add(tuple(bool(p(n)) for p in predicates))
        assert captures(compiled) == len(answers)
    segments = _C.segments(entry_of(compiled))
    assert sum(row["runs"] for row in segments) == 8


# ---- torch.compiler.config


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        return x * self.scale * k


SOURCES = {
    "a name": ("L['x']", 1),
    "a dimension": ("L['x']:0", 1),
    "another dimension": ("L['x']:1", 3),
    "a regex": ("L.*x.*, L.'other'.", 1),
    "nothing that is there": ("L['y']", 3),
}


@pytest.mark.parametrize("dynamic", [None, False])
@pytest.mark.parametrize("name", SOURCES)
def test_sources_named_dynamic(name: str, dynamic: bool | None) -> None:
    sources, made = SOURCES[name]
    with torch.compiler.config.patch(dynamic_sources=sources):
        both = Both(lambda x: x * 2, dynamic=dynamic)
        for n in (4, 5, 6):
            counts = both(lambda n=n: rows(n))  # type: ignore[misc]
    assert counts == ((made, made) if dynamic is False else (min(made, 2), min(made, 2)))


@pytest.mark.parametrize("sources", ["L['k']", "L['x']"])
def test_ints_named_dynamic(sources: str) -> None:
    counts = []
    with torch.compiler.config.patch(dynamic_sources=sources):
        for front in (torch.compile, gramme.compile):
            graphs: list[Any] = []
            compiled = front(lambda x, k: x * k, backend=lambda g, _, graphs=graphs: graphs.append(g) or g.forward)
            for k in (2, 3, 5):
                assert torch.equal(compiled(rows(4), k), rows(4) * k)
            counts.append(len(graphs))
    assert counts == ([1, 1] if "k" in sources else [2, 2])


@pytest.mark.skipif("static_sources" not in torch.compiler.config._config, reason="torch 2.15")  # type: ignore[attr-defined]
@pytest.mark.parametrize("sources", ["L['x']", "L['x']:0", "L['x']:1", "L['k']", "L\\['.*'\\]", "L['y']"])
def test_sources_named_static(sources: str) -> None:
    with torch.compiler.config.patch(static_sources=sources):
        graphs: list[list[Any]] = [[], []]
        for front, mine in zip((torch.compile, gramme.compile), graphs, strict=True):
            compiled = front(lambda x, k: x * k, backend=lambda g, _, mine=mine: mine.append(g) or g.forward)
            for n, k in ((4, 2), (5, 2), (6, 3), (6, 4), (7, 5)):
                assert torch.equal(compiled(rows(n), k), rows(n) * k)
    torch_graphs, ours = map(len, graphs)
    assert ours == torch_graphs


@pytest.mark.parametrize(("values", "made"), [("4", 1), ("9, 4", 1), ("5", 2), ("9", 3)])
def test_sizes_dynamic_by_value(values: str, made: int) -> None:
    with torch.compiler.config.patch(dynamic_values=values):
        both = Both(lambda x: x * 2, dynamic=False)
        for n in (4, 5, 6):
            counts = both(lambda n=n: rows(n))  # type: ignore[misc]
    assert counts == (made, made)


def test_ints_dynamic_by_value() -> None:
    for values, made in (("7", 1), ("8", 2)):
        graphs: list[list[Any]] = [[], []]
        with torch.compiler.config.patch(dynamic_values=values):
            for front, mine in zip((torch.compile, gramme.compile), graphs, strict=True):
                compiled = front(lambda x, k: x * k, backend=lambda g, _, mine=mine: mine.append(g) or g.forward)
                for k in (7, 3, 5):
                    assert torch.equal(compiled(rows(4), k), rows(4) * k)
        assert [len(mine) for mine in graphs] == [made, made]


def test_sizes_named_unbacked() -> None:
    with torch.compiler.config.patch(unbacked_sources="L['x']:0"):
        both = Both(lambda x: x * 2 + x.shape[0], fullgraph=True)
        for n in (4, 1, 0, 6):
            counts = both(lambda n=n: rows(n))  # type: ignore[misc]
        assert counts == (1, 1)
        asks = gramme.compile(lambda x: x * 2 if x.shape[0] > 3 else x, backend="eager", fullgraph=True)
        with pytest.raises(gramme.CaptureError, match=r"size\(\)\[0\]"):
            asks(rows(4))
    assert torch.equal(asks(rows(4)), rows(4) * 2)


def test_ints_named_unbacked() -> None:
    with torch.compiler.config.patch(unbacked_sources="L['k']"):
        compiled = gramme.compile(lambda x, k: x * k + k, backend="eager", fullgraph=True)
        for k in (2, 0, 1, -3):
            assert torch.equal(compiled(rows(4), k), rows(4) * k + k)
        assert captures(compiled) == 1
        asks = gramme.compile(lambda x, k: x if k > 0 else -x, backend="eager", fullgraph=True)
        with pytest.raises(gramme.CaptureError):
            asks(rows(4), 2)


def test_bounds_of_unbacked_sizes_decide() -> None:
    def few_or_many(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if 4 <= x.shape[0] <= 8 else x

    def bounded(n: int) -> torch.Tensor:
        x = rows(n)
        torch._dynamo.decorators.mark_unbacked(x, 0, min=4, max=8)
        return x

    both = Both(few_or_many, fullgraph=True)
    for n in (5, 4, 8):
        assert both(lambda n=n: bounded(n)) == (1, 1)  # type: ignore[misc]
    violated = torch.fx.experimental.symbolic_shapes.ConstraintViolationError
    with pytest.raises(violated, match="unbacked, at least 4 and at most 8, but it is 9"):
        both.compiled[1](bounded(9))
    with pytest.raises(violated, match="but it is 3"):
        gramme.compile(few_or_many, backend="native")(bounded(3))
    assert torch.equal(both.compiled[1](bounded(6)), rows(6) * 2)


def test_unbacked_sizes_of_one_id() -> None:
    def pair(n: int, m: int, shape_id: str | None = "batch") -> tuple[torch.Tensor, torch.Tensor]:
        x, y = rows(n), rows(m)
        for tensor in (x, y):
            torch._dynamo.decorators.mark_unbacked(tensor, 0, shape_id=shape_id)
        return x, y

    def same_length(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if x.shape[0] == y.shape[0] else x

    for front in (torch.compile, gramme.compile):
        graphs: list[torch.fx.GraphModule] = []
        compiled = front(same_length, backend=lambda g, _, graphs=graphs: graphs.append(g) or g.forward, fullgraph=True)
        for n in (5, 1, 7):
            assert torch.equal(compiled(*pair(n, n)), rows(n) * 2)
        assert len(graphs) == 1
    violated = torch.fx.experimental.symbolic_shapes.ConstraintViolationError
    with pytest.raises(violated, match=r"marked as equal to .*, 5, but it is 4"):
        compiled(*pair(5, 4))
    with pytest.raises(gramme.CaptureError):
        gramme.compile(same_length, backend="eager", fullgraph=True)(*pair(5, 5, None))


def test_parameters_named_dynamic() -> None:
    seen: list[list[str]] = []

    def look(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        seen.append([n.name for n in graph.graph.find_nodes(op="placeholder")])
        return graph.forward

    with torch.compiler.config.patch(dynamic_sources=".*"):
        for front in (torch.compile, gramme.compile):
            front(Scaled(), backend=look)(rows(4), 2)
    assert seen[0][:2] == seen[1][:2] == ["s18", "l_self_parameters_scale_"]


def test_ints_of_modules_are_no_symbols() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.MaxPool2d(2))
    seen: list[list[Any]] = []

    def look(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        seen.append([n for n in graph.graph.find_nodes(op="placeholder") if n.type is torch.SymInt])
        return graph.forward

    for front in (torch.compile, gramme.compile):
        front(net, backend=look, dynamic=True)(torch.ones(20, 3, 16, 18))
    assert [len(symbols) for symbols in seen] == [3, 3]


# ---- torch.compiler.set_stance


def test_force_eager() -> None:
    both = Both(lambda x: x * 2)
    torch.compiler.set_stance("force_eager")
    assert both(lambda: rows(4)) == (0, 0)
    torch.compiler.set_stance("default")
    assert both(lambda: rows(4)) == (1, 1)
    with torch.compiler.set_stance("force_eager"):
        assert both(lambda: rows(5)) == (1, 1)
        hits = gramme.statistics(both.compiled[1]).hits
        both(lambda: rows(4))
        assert gramme.statistics(both.compiled[1]).hits == hits
    assert both(lambda: rows(5)) == (2, 2)


def test_eager_on_recompile() -> None:
    both = Both(lambda x: x * 2)
    assert both(lambda: rows(4)) == (1, 1)
    with torch.compiler.set_stance("eager_on_recompile"):
        for n in (4, 5, 6):
            assert both(lambda n=n: rows(n)) == (1, 1)  # type: ignore[misc]
        other = Both(lambda x: x * 3)
        assert other(lambda: rows(4)) == (0, 0)
    assert both(lambda: rows(5)) == (2, 2)
    assert both(lambda: rows(6)) == (2, 2)


def test_fail_on_recompile() -> None:
    both = Both(lambda x: x * 2)
    assert both(lambda: rows(4, 0)) == (1, 1)
    with torch.compiler.set_stance("fail_on_recompile"):
        for n in (4, 5, 6):
            assert both(lambda n=n: rows(n)) == (1, 1)  # type: ignore[misc]
        for compiled in both.compiled:
            with pytest.raises(
                RuntimeError, match="Detected recompile when torch.compile stance is 'fail_on_recompile'"
            ):
                compiled(rows(4).double())
        with pytest.raises(RuntimeError, match="Detected recompile"):
            gramme.compile(lambda x: x * 3, backend="eager")(rows(4))
    assert both(lambda: rows(4).double()) == (2, 2)


@pytest.mark.parametrize(
    ("stance", "counts"), [("eager_then_compile", [0, 1, 1, 1]), ("aot_eager_then_compile", [1, 2, 2, 2])]
)
def test_eager_then_compile(stance: str, counts: list[int]) -> None:
    compiled = gramme.compile(lambda x, k: x * k[0], backend="eager")
    with torch.compiler.set_stance(stance):
        for n, count in zip((4, 5, 6, 7), counts, strict=True):
            assert torch.equal(compiled(rows(n), (n, "a")), rows(n) * n)
            assert captures(compiled) == count


def test_eager_then_compile_beside_pytorch() -> None:
    both = Both(lambda x: x * 2)
    with torch.compiler.set_stance("eager_then_compile"):
        assert [both(lambda n=n: rows(n)) for n in (4, 5, 6)] == [(0, 0), (1, 1), (1, 1)]  # type: ignore[misc]


def test_guards_are_looked_at_whatever_the_stance() -> None:
    both = Both(lambda x: x * 2)
    both(lambda: rows(4))
    both(lambda: rows(5))
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
        assert both(lambda: rows(7)) == (2, 2)


def test_a_stance_as_a_decorator() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")

    @torch.compiler.set_stance("force_eager")
    def plainly(x: torch.Tensor) -> Any:
        return compiled(x)

    plainly(rows(4))
    assert captures(compiled) == 0
    compiled(rows(4))
    assert captures(compiled) == 1


def test_an_unknown_stance() -> None:
    gramme.compile(lambda x: x)  # from now on
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        torch.compiler.set_stance("sometimes")


# ---- several segments


def test_fixed_sizes_come_first() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    for n in (4, 5, 6, 7, 4, 8, 4, 4):
        assert torch.equal(compiled(rows(n)), rows(n) * 2)
    assert captures(compiled) == 2
    static, dynamic = sorted(_C.segments(entry_of(compiled)), key=lambda row: row["number"])
    assert not static["symbols"]
    assert dynamic["symbols"]
    assert (static["runs"], dynamic["runs"]) == (4, 4)


def bits(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    return y[: x.shape[0] & 6] * 2


def test_at_the_limit_one_segment_serves_all_sizes() -> None:
    compiled = gramme.compile(bits, backend="eager", recompile_limit=4)
    for n in (*range(4, 30), 4, 17):
        assert torch.equal(compiled(rows(n)), bits(rows(n)))
    statistics = gramme.statistics(compiled)
    assert statistics.plain_runs == 0
    assert statistics.captures <= 9
    assert statistics.hits >= 18


# ---- many numbers


@pytest.mark.parametrize("count", [20, 200])
def test_runs_of_a_capture_do_not_grow_with_its_numbers(count: int) -> None:
    ran = []

    @torch.compiler.assume_constant_result
    def note_run() -> int:
        ran.append(1)
        return 1

    def scaled(x: torch.Tensor, sizes: list[int], factors: list[float]) -> torch.Tensor:
        x = x * note_run()
        for n, k in zip(sizes, factors, strict=True):
            x = x + torch.zeros(n).numel() * k if f"{n}" else x
        return x

    compiled = gramme.compile(scaled, backend="eager")
    for shift in (2, 3, 5, 9):
        sizes, factors = [i + shift for i in range(count)], [i + shift / 2 for i in range(count)]
        ran.clear()
        before = captures(compiled)
        got = compiled(torch.ones(3), sizes, factors)
        assert len(ran) <= 3 * (captures(compiled) - before)
        assert torch.allclose(got, scaled(torch.ones(3), sizes, factors))


# ---- a size of one


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x.shape[0]


def centred(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.instance_norm(x[None])


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_size_of_one_that_has_been_another_is_any_size(backend: str) -> None:
    compiled = gramme.compile(doubled, backend=backend)
    for count, sizes in enumerate([(4, 3), (1, 3), (7, 3), (1, 3), (9, 3)]):
        assert torch.equal(compiled(torch.ones(sizes)), doubled(torch.ones(sizes)))
        assert captures(compiled) == min(count + 1, 2)


@pytest.mark.parametrize("strides", [(5, 1), (1, 1), (1, 7), (5, 2)])
@pytest.mark.parametrize("sizes", [(1, 5), (5, 1), (1, 1)])
def test_strides_at_a_size_of_one(sizes: tuple[int, int], strides: tuple[int, int]) -> None:
    def told(x: torch.Tensor) -> Any:
        return x + 1, x.stride(), x.is_contiguous(), x.reshape(-1), x.t() @ x

    def calls() -> list[torch.Tensor]:
        few = torch.arange(99.0).as_strided(sizes, strides, 1)
        return [torch.ones(3, 4), few, torch.ones(6, 7), torch.ones(7, 6).t(), torch.arange(60.0).view(6, 10)[:, ::2]]

    for backend in ("eager", "native"):
        compiled = gramme.compile(told, backend=backend)
        for x, again in zip(calls(), calls(), strict=True):
            expected, found = told(x), compiled(again)
            assert [torch.equal(expected[i], found[i]) for i in (0, 3, 4)] == [True] * 3
            assert [t.stride() for t in (expected[0], expected[3])] == [t.stride() for t in (found[0], found[3])]
            assert (expected[1], expected[2]) == (found[1], found[2])
            assert (expected[3].data_ptr() == x.data_ptr()) == (found[3].data_ptr() == again.data_ptr())


def test_what_raises_at_one_ends_no_segment_of_other_sizes() -> None:
    compiled = gramme.compile(centred, backend="eager")
    compiled(torch.ones(3, 4))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        compiled(torch.ones(3, 1))
    before = captures(compiled)
    for n in (5, 6, 7):
        assert torch.equal(compiled(torch.ones(3, n)), centred(torch.ones(3, n)))
    assert captures(compiled) == before + 1
