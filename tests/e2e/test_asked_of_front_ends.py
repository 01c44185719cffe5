"""What programs ask PyTorch's front end for while it captures: checks, settings, substitutes, operators, stances."""

import bisect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo as dynamo
from gramme._compile import entry_of

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="beside PyTorch's front end")

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    dynamo.reset()
    yield
    torch.compiler.set_stance("default")


def names(module: torch.fx.GraphModule) -> list[str]:
    calls = [node.target for node in module.graph.nodes if node.op.startswith("call_")]
    return [getattr(target, "__name__", str(target)) for target in calls]


def seen(front: Any, function: Any, calls: list[tuple[Any, ...]], **options: Any) -> tuple[Any, list[list[str]]]:
    """Results, or the kind of exception, and the calls in each graph."""
    graphs: list[list[str]] = []

    def backend(module: torch.fx.GraphModule, _: list[Any]) -> Any:
        graphs.append(names(module))
        return module.forward

    dynamo.reset()
    try:
        compiled = front(function, backend=backend, **options)
        return [torch.as_tensor(compiled(*call)).tolist() for call in calls], graphs
    except Exception as error:
        known = (dynamo.exc.Unsupported, dynamo.exc.TorchRuntimeError, ValueError, TypeError, RuntimeError)
        return next((kind for kind in known if isinstance(error, kind)), type(error)), []


def alike(make: Callable[[], Any], *calls: tuple[Any, ...], **options: Any) -> list[list[str]]:
    """Both front ends give eager's results; what graphs gramme had, where each has as many as PyTorch's."""
    expected = [torch.as_tensor(make()(*call)).tolist() for call in calls]
    theirs, their_graphs = seen(torch.compile, make(), list(calls), **options)
    ours, graphs = seen(gramme.compile, make(), list(calls), **options)
    assert theirs == expected
    assert ours == expected
    assert len(graphs) == len(their_graphs), (graphs, their_graphs)
    return graphs


BACKENDS = ["eager", "native", "aot_eager"]

# ---- checks


def sized(x: torch.Tensor, n: int) -> torch.Tensor:
    torch._check_is_size(n)
    return x * n


def bounded(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    n = t.item()
    torch._check_is_size(n, max=10)
    return x.sum() + torch.ones(n).sum()


def all_positive(x: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all(x >= 0, lambda: "below zero")
    return x + 1


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_checks_of_sizes() -> None:
    alike(lambda: sized, (X, 3), (X, 4), (X, 5), fullgraph=True)
    alike(lambda: bounded, (X, torch.tensor(3)), (X, torch.tensor(7)), fullgraph=True)
    for backend in BACKENDS:
        compiled = gramme.compile(bounded, backend=backend, fullgraph=True)
        assert compiled(X, torch.tensor(3)) == 9
        for n in (-1, 11):
            with pytest.raises(RuntimeError):
                compiled(X, torch.tensor(n))
        compiled = gramme.compile(sized, backend=backend)
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            compiled(X, -1)


def test_a_check_that_is_deprecated_says_so() -> None:
    compiled = gramme.compile(sized, backend="eager")
    for _ in range(2):
        with pytest.warns(FutureWarning, match="_check_is_size will be removed") as told:
            compiled(X, 3)
        assert len(told) == 1
        assert told[0].filename == __file__


def test_checks_of_tensors() -> None:
    alike(lambda: all_positive, (X,), (X + 1,), fullgraph=True)
    for backend in BACKENDS:
        for fullgraph in (False, True):
            compiled = gramme.compile(all_positive, backend=backend, fullgraph=fullgraph)
            assert torch.equal(compiled(X), X + 1)
            with pytest.raises(RuntimeError, match="below zero"):
                compiled(X - 1)
            assert torch.equal(compiled(X), X + 1)
    with pytest.raises(TypeError, match="dtype torch.bool"):
        gramme.compile(lambda x: torch._check_tensor_all(x), backend="eager")(X)


SYMBOLIC: dict[str, Callable[[int], Any]] = {
    "sym_int": lambda n: torch.sym_int(n / 2),
    "sym_float": lambda n: torch.sym_float(n),
    "sym_max": lambda n: torch.sym_max(n, 4),
    "sym_min": lambda n: torch.sym_min(n, 4),
    "sym_not": lambda n: torch.sym_not(n > 4),
    "sym_ite": lambda n: torch.sym_ite(n > 4, n, 7),
    "sym_sum": lambda n: torch.sym_sum([n, 2, n]),
    "sym_sqrt": lambda n: torch.sym_sqrt(n),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SYMBOLIC)
def test_functions_of_symbols(name: str, backend: str) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        n = SYMBOLIC[name](x.shape[0])
        return x * n, n

    compiled = gramme.compile(f, backend=backend, fullgraph=True)
    for n in (3, 4, 5, 6):
        x = torch.arange(float(n))
        expected, number = f(x)
        found, found_number = compiled(x)
        assert torch.equal(found, expected)
        assert (found_number, type(found_number)) == (number, type(number))


# ---- settings that the program changes for a while


def item_in_block(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    with dynamo.patch_dynamo_config(capture_scalar_outputs=True):
        n = t.item()
    return x + n


@dynamo.patch_dynamo_config({"capture_scalar_outputs": True})
def item_in_decorated(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return x + t.item()


def calls_decorated(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return item_in_decorated(x, t) * 2


def item_behind(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    with dynamo.patch_dynamo_config("capture_scalar_outputs", True):
        y = x + 1
    return y + t.item()


def raises_within(x: torch.Tensor) -> torch.Tensor:
    try:
        with dynamo.patch_dynamo_config(verbose=True):
            y = x * 2
            raise ValueError
    except ValueError:
        return y + 1


@dynamo.dont_skip_tracing
def not_skipped(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@dynamo.disable_nested_graph_breaks
def without_nested_breaks(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 2


@pytest.mark.parametrize("fullgraph", [False, True])
def test_settings_within_a_block(fullgraph: bool) -> None:
    calls = [(X, torch.tensor(3)), (X, torch.tensor(4))]
    for function in (item_in_block, item_in_decorated, calls_decorated):
        assert len(alike(lambda function=function: function, *calls, fullgraph=fullgraph)) == 1
    alike(lambda: raises_within, (X,), fullgraph=fullgraph)
    alike(lambda: lambda x: not_skipped(x) + without_nested_breaks(x), (X,), fullgraph=fullgraph)


def test_settings_end_with_their_block() -> None:
    assert len(alike(lambda: item_behind, (X, torch.tensor(3)))) == 2
    assert dynamo.config.capture_scalar_outputs is False


def reads_setting(x: torch.Tensor) -> Any:
    with dynamo.patch_dynamo_config(verbose=True):
        y = x * 2
        if dynamo.config.verbose:
            y = y + 1
    return y


def breaks_within_setting(x: torch.Tensor) -> Any:
    with dynamo.patch_dynamo_config(verbose=True):
        y = x * 2
        dynamo.graph_break()
        y = y * 3 if dynamo.config.verbose else y
    return y + 1


def leaves_by_exception(x: torch.Tensor, log: list[bool]) -> Any:
    try:
        with dynamo.patch_dynamo_config(verbose=True):
            log.append(dynamo.config.verbose)
            raise KeyError(1)
    except KeyError:
        log.append(dynamo.config.verbose)
    return x * 2


def test_settings_are_really_changed_for_who_looks() -> None:
    for _ in range(2):
        for function in (reads_setting, breaks_within_setting):
            for backend in ("eager", "native"):
                assert torch.equal(gramme.compile(function, backend=backend)(X), function(X))
                assert dynamo.config.verbose is False
    log: list[bool] = []
    compiled = gramme.compile(leaves_by_exception, backend="eager")
    for _ in range(2):
        compiled(X, log)
    assert log == [True, False] * 2


def recurses(x: torch.Tensor, depth: int) -> torch.Tensor:
    manager = dynamo.patch_dynamo_config(verbose=True)
    with manager:
        if depth:
            x = recurses(x, depth - 1)
        dynamo.graph_break()
    return x * 2


def gives_manager(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return x + 1, dynamo.patch_dynamo_config(verbose=True)


def test_managers_of_settings_are_the_programs() -> None:
    """Each call makes its own: one that is entered twice refuses."""
    for backend in ("eager", "native"):
        compiled = gramme.compile(recurses, backend=backend)
        for _ in range(3):
            assert torch.equal(compiled(X, 2), X * 8)
        compiled = gramme.compile(gives_manager, backend=backend)
        managers = [compiled(X)[1] for _ in range(3)]
        assert len({id(manager) for manager in managers}) == 3
        with managers[0], managers[1]:
            assert dynamo.config.verbose is True
        assert dynamo.config.verbose is False


def test_settings_that_may_not_be_changed() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with dynamo.patch_dynamo_config(recompile_limit=3):
            return x * 2

    with pytest.raises(ValueError, match="does not support patching config recompile_limit"):
        gramme.compile(f, backend="eager")(X)


@dynamo.error_on_graph_break(False)
def may_break(x: torch.Tensor) -> torch.Tensor:
    dynamo.graph_break()
    return x + 1


@dynamo.error_on_graph_break(True)
def calls_what_may_break(x: torch.Tensor) -> torch.Tensor:
    return may_break(x * 2) * 2


def whole_within(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    with dynamo.error_on_graph_break(True):
        y = y * 2
        with dynamo.error_on_graph_break(False):
            y = y - 3
    return y.sin()


def breaks_behind(x: torch.Tensor) -> torch.Tensor:
    with dynamo.error_on_graph_break(True):
        y = x * 2
    with dynamo.error_on_graph_break(False):
        dynamo.graph_break()
        y = y + 1
    return y


def test_breaks_are_errors_for_a_while() -> None:
    assert len(alike(lambda: whole_within, (X,))) == 1
    assert len(alike(lambda: breaks_behind, (X,))) == 2
    assert torch.equal(gramme.compile(calls_what_may_break, backend="eager")(X), calls_what_may_break(X))
    with pytest.raises(dynamo.exc.Unsupported):
        gramme.compile(breaks_behind, backend="eager", fullgraph=True)(X)


# ---- substitutes


def counted(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k + 0 * sys.getrefcount(None)


@torch.compiler.substitute_in_graph(counted)
def counted_in_graph(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


def told(x: torch.Tensor) -> torch.Tensor:
    print("told")
    return x


@torch.compiler.substitute_in_graph(told)
def untold(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.compiler.substitute_in_graph(bisect.insort_right, skip_signature_check=True)
def insort(a: list[int], x: int, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.append(x)
    a.sort()


def asks_substitutes(x: torch.Tensor) -> torch.Tensor:
    known = [1, 5]
    bisect.insort_right(known, 3)
    return counted(x, known[1]) + counted_in_graph(x, 2)


def test_substitutes_are_traced() -> None:
    for fullgraph in (False, True):
        assert alike(lambda: asks_substitutes, (X,), fullgraph=fullgraph) == [["mul", "mul", "add"]]
    theirs = seen(torch.compile, lambda x: told(x) + untold(x), [(X,)], fullgraph=True)
    assert seen(gramme.compile, lambda x: told(x) + untold(x), [(X,)], fullgraph=True) == theirs


def original(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.compiler.substitute_in_graph(original)
def broken_substitute(x: torch.Tensor) -> torch.Tensor:
    y = x + 10
    dynamo.graph_break()
    return y


def test_where_a_substitute_breaks_the_function_itself_is_called() -> None:
    compiled = gramme.compile(lambda x: original(x * 2) * 3, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(X), (X * 2 + 1) * 3)


# ---- operators at their first touch


def test_operators_at_their_first_touch() -> None:
    with torch.library._scoped_library("gramme_touched", "DEF") as lib:
        for name in ("one", "two", "three", "four"):
            lib.define(f"{name}(Tensor x) -> Tensor")
            lib.impl(name, lambda x: x + 1, "CompositeExplicitAutograd")
            lib.impl(name, lambda x: torch.empty_like(x), "Meta")
        programs = [
            lambda x: torch.ops.gramme_touched.one(x) * 2,
            lambda x: torch.ops.gramme_touched.two.default(x) * 2,
            lambda x: getattr(torch.ops.gramme_touched, "three")(x) * 2,  # noqa: B009
            lambda x: torch.ops.gramme_touched.four(torch.ops.aten.sin.default(x)) * 2,
        ]
        for program in programs:
            compiled = gramme.compile(program, backend="eager", fullgraph=True)
            found = compiled(X)
            assert gramme.statistics(compiled).captures == 1
            assert torch.equal(found, program(X))
            assert torch.equal(compiled(X), found)
            assert gramme.statistics(compiled).captures == 1


def test_operators_that_do_not_exist() -> None:
    compiled = gramme.compile(lambda x: torch.ops.gramme_nowhere.nothing(x), backend="eager")
    with pytest.raises(AttributeError, match="nothing"):
        compiled(X)
    compiled = gramme.compile(lambda x: x + hasattr(torch.ops.aten, "no_such_operator"), backend="eager")
    assert torch.equal(compiled(X), X)


# ---- stances


def counting() -> tuple[Callable[..., Any], list[int]]:
    graphs: list[int] = []

    def backend(module: torch.fx.GraphModule, _: list[Any]) -> Any:
        graphs.append(len(graphs))
        return module.forward

    return backend, graphs


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2


@pytest.mark.parametrize("make", [lambda: lambda x: x.sin() * 2, Scaled], ids=["function", "module"])
def test_another_backend_is_forced(make: Any) -> None:
    counts = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        (own, own_graphs), (other, other_graphs) = counting(), counting()
        compiled = front(make(), backend=own)
        for stance in ({}, {"force_backend": other}, {"force_backend": "eager"}, {"force_backend": other}, {}):
            with torch.compiler.set_stance("default", **stance):
                for n in (4, 4, 5):
                    x = torch.arange(float(n))
                    assert torch.equal(compiled(x), x.sin() * 2)
        counts.append((len(own_graphs), len(other_graphs)))
    assert counts == [(2, 1), (2, 2)]  # PyTorch learns once for all backends which sizes vary


def test_a_forced_backend_breaks_as_any() -> None:
    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        y = x + 1
        dynamo.graph_break()
        log.append(1)
        return y * 2

    (own, own_graphs), (other, other_graphs) = counting(), counting()
    compiled = gramme.compile(f, backend=own)
    log: list[int] = []
    with torch.compiler.set_stance("default", force_backend=other):
        for _ in range(2):
            assert torch.equal(compiled(X, log), (X + 1) * 2)
    assert (len(own_graphs), len(other_graphs), len(log)) == (0, 2, 2)
    with pytest.raises(RuntimeError, match="non-default stance"):
        torch.compiler.set_stance("force_eager", force_backend="eager")


def test_guards_are_checked_where_nobody_asks_for_it() -> None:
    """PyTorch then runs only guards that tell its captures apart; what none serves raises in both."""
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        backend, graphs = counting()
        compiled = front(lambda x, k: x * k, backend=backend, dynamic=False)
        for k in (1, 2):
            compiled(X, k)
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            assert [compiled(X, k).tolist() for k in (2, 1)] == [(X * 2).tolist(), X.tolist()]
            with pytest.raises(RuntimeError, match="Recompilation triggered with skip_guard_eval_unsafe stance"):
                compiled(X.double(), 1)
        assert len(graphs) == 2
        assert torch.equal(compiled(X.double(), 1), X.double())


@pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
@pytest.mark.parametrize("sizes", [(3, 4, 5, 3), (3, 3, 4, 3)])
def test_the_second_call_compiles(stance: str, sizes: tuple[int, ...]) -> None:
    """With aot_eager the first capture lasts, so that the compiler is called where none serves."""
    orders = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        order: list[str] = []

        def backend(module: torch.fx.GraphModule, inputs: list[Any], order: list[str] = order) -> Any:
            order.append("dynamic" if any(isinstance(value, torch.SymInt) for value in inputs) else "fixed")
            return module.forward

        scope: dict[str, Any] = {}
        source = "def f(x): return x.cos() * 2"
        place = f"<{stance} {sizes} {front.__module__}>"  # PyTorch knows functions by their place
        exec(compile(source, place, "exec"), scope)
        compiled = front(scope["f"], backend=backend)
        with torch.compiler.set_stance(stance):
            for n in sizes:
                x = torch.arange(float(n))
                assert torch.equal(compiled(x), x.cos() * 2)
                order.append(f"call of {n}")
        assert torch.equal(compiled(x), x.cos() * 2)
        orders.append(order)
    assert orders[0] == orders[1]


def test_a_rehearsal_is_for_aot_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients, a break, and one graph: what the first captures give is what aot_eager gives, as under PyTorch."""
    from torch._dynamo.backends import registry

    def counted(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append("aot_eager")
        return aot_eager(module, inputs)

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append("the compiler")
        return module.forward

    aot_eager, seen = dynamo.lookup_backend("aot_eager"), list[str]()
    monkeypatch.setitem(registry._COMPILER_FNS, "aot_eager", counted)
    monkeypatch.setattr(gramme._policy, "rehearsal", gramme._policy.rehearsal.__wrapped__)
    counts = []
    for fullgraph in (False, True):
        for front in (torch.compile, gramme.compile):
            dynamo.reset()
            seen.clear()
            scope: dict[str, Any] = {"dynamo": dynamo}
            broken = "" if fullgraph else "    dynamo.graph_break()\n"
            source = f"def f(x, k):\n    y = x.exp() * k\n{broken}    return y.sin()\n"
            exec(compile(source, f"<rehearsed {fullgraph} {front.__module__}>", "exec"), scope)
            compiled = front(scope["f"], backend=backend, fullgraph=fullgraph)
            with torch.compiler.set_stance("aot_eager_then_compile"):
                for n in (3, 3, 4):
                    x, y = (torch.arange(float(n), requires_grad=True) for _ in range(2))
                    compiled(x, 2).sum().backward()
                    (y.exp() * 2).sin().sum().backward()
                    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]
            counts.append(seen.copy())
    assert counts[0] == counts[1] == ["aot_eager", "aot_eager", "the compiler", "the compiler"]
    assert counts[2] == counts[3] == ["aot_eager", "the compiler"]


# ---- settings that are not followed


def test_effects_take_place_whatever_is_said() -> None:
    """With replay_side_effects=False PyTorch loses what the program wrote; gramme warns and keeps it."""
    logs: list[list[Any]] = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        log: list[Any] = []
        with warnings.catch_warnings(record=True), dynamo.config.patch(replay_side_effects=False):
            warnings.simplefilter("always")
            front(lambda x, log=log: (log.append(1), x + 1)[1], backend="eager")(X)
        logs.append(log)
    assert logs == [[], [1]]


# ---- guards


def test_captures_for_one_address() -> None:
    def marked(guard: bool) -> torch.Tensor:
        made = torch.ones(4)
        dynamo.mark_static_address(made, guard=guard)
        return made

    for backend in BACKENDS:
        for guard, captures in ((True, 3), (False, 1)):
            gramme.reset()
            compiled = gramme.compile(lambda x, w: x.sin() * w, backend=backend)
            first, second = marked(guard), marked(guard)
            for w in (first, first, second, first, torch.ones(4), torch.ones(4), second):
                assert torch.equal(compiled(X, w), X.sin())
            assert gramme.statistics(compiled).captures == captures
    counts = []
    for front in (torch.compile, gramme.compile):
        made, graphs = counting()
        compiled = front(lambda x, w: x.sin() * w, backend=made)
        for w in (first := marked(True), marked(True), first, torch.ones(4), torch.ones(4)):
            compiled(X, w)
        counts.append(len(graphs))
    assert counts == [3, 3]


SCALE = 2.0


class Held:
    factor = 3.0


def guarded_by_much(x: torch.Tensor, k: int, held: Any) -> torch.Tensor:
    return x * k * SCALE * held.factor


FILTERS: dict[str, Callable[..., Any]] = {
    "all": torch.compiler.skip_all_guards_unsafe,
    "globals": torch.compiler.skip_guard_on_globals_unsafe,
    "tensors": torch.compiler.keep_tensor_guards_unsafe,
    "portable": torch.compiler.keep_portable_guards_unsafe,
    "inbuilt": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe,
    "modules": torch.compiler.skip_guard_on_all_nn_modules_unsafe,
    "ints": lambda entries: [not (entry.has_value and type(entry.value) is int) for entry in entries],
    "none": lambda entries: [True] * len(entries),
}


def after_changes(front: Any, filter_: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], int]:
    """Results where what guards are about changes, and the number of graphs."""
    backend, graphs = counting()
    dynamo.reset()
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        compiled = front(guarded_by_much, backend=backend, dynamic=False, options={"guard_filter_fn": filter_})
        held = Held()
        for k, scale in ((2, 2.0), (5, 2.0), (5, 7.0)):
            with monkeypatch.context() as patch:
                patch.setitem(globals(), "SCALE", scale)
                results.append(compiled(torch.ones(1), k, held).item())
    return results, len(graphs)


@pytest.mark.parametrize("name", FILTERS)
def test_guards_that_the_program_does_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def strip(found: tuple[list[float], int]) -> tuple[list[float], int]:
        return found

    def with_options(function: Any, backend: Any, **given: Any) -> Any:
        """PyTorch gives options to the backend; this one takes none."""
        options = given.pop("options")
        return torch.compile(function, backend=lambda m, i, **_: backend(m, i), options=options, **given)

    theirs = strip(after_changes(with_options, FILTERS[name], monkeypatch))
    assert strip(after_changes(gramme.compile, FILTERS[name], monkeypatch)) == theirs


def test_guards_that_captures_need_stay() -> None:
    compiled = gramme.compile(lambda xs: xs[0] * 2, backend="native", options={"guard_filter_fn": FILTERS["all"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(compiled([X]), X * 2)
        for other in (X.double(), torch.ones(2, 3), torch.arange(8.0)[::2], torch.ones(4, dtype=torch.int32)):
            assert torch.equal(compiled([other]), other * 2)
        assert torch.equal(compiled((X,)), X * 2)


def test_kept_guards_are_named() -> None:
    def nothing(entries: Any) -> list[bool]:
        return [False] * len(entries)

    compiled = gramme.compile(guarded_by_much, backend="eager", options={"guard_filter_fn": nothing})
    with pytest.warns(RuntimeWarning, match=r"guard_filter_fn nothing: gramme keeps guards .*L\['x'\]") as told:
        assert [compiled(x, 2, Held()).shape for x in (X, X.double())] == [X.shape] * 2
    assert len(told) == 1


def test_what_filters_are_asked() -> None:
    rows: list[tuple[str, str, Any, bool]] = []

    def look(entries: Any) -> list[bool]:
        rows.extend((e.name, e.guard_type, e.value, e.is_global) for e in entries)
        assert all(e.orig_guard.name == e.name or e.orig_guard.source is not None for e in entries)
        return [True] * len(entries)

    gramme.compile(guarded_by_much, backend="eager", dynamic=False, options={"guard_filter_fn": look})(X, 2, Held())
    assert ("L['k']", "EQUALS_MATCH", 2, False) in rows
    assert ("G['SCALE']", "EQUALS_MATCH", 2.0, True) in rows
    assert [row[1] for row in rows if row[0] == "L['x']"][:1] == ["TENSOR_MATCH"]


@pytest.mark.parametrize(("filter_", "kind"), [(lambda e: [True], RuntimeError), (lambda e: [1] * len(e), TypeError)])
def test_filters_that_answer_wrongly(filter_: Any, kind: type[Exception]) -> None:
    compiled = gramme.compile(guarded_by_much, backend="eager", options={"guard_filter_fn": filter_})
    with pytest.raises(kind, match="guard_filter_fn"):
        compiled(X, 2, Held())
    with pytest.raises(TypeError, match="guard_filter_fn"):
        gramme.compile(guarded_by_much, options={"guard_filter_fn": 3})


# ---- effects and breaks, told

KEPT: list[int] = []


def keeps(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(1)
    return x + 1


@pytest.mark.parametrize("policy", ["silent", "info", "warn", "error"])
def test_effects_are_told_of(policy: str) -> None:
    outcomes = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        KEPT.clear()
        with dynamo.config.patch(side_effect_replay_policy=policy), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled, text = front(keeps, backend="eager"), ""
            try:
                compiled(X)
                compiled(X)
            except RuntimeError as error:
                text = str(error)
        message = "found certain side effects happened"
        outcomes.append((list(KEPT), any(message in str(w.message) for w in caught), message in text))
    assert outcomes[0] == outcomes[1] == (([] if policy == "error" else [1, 1]), policy == "warn", policy == "error")


def breaks_twice(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    dynamo.graph_break()
    y = y * 2
    dynamo.graph_break()
    return y - 3


def test_reasons_of_breaks_are_kept() -> None:
    counts = []
    for front in (torch.compile, gramme.compile):
        dynamo.reset()
        assert dynamo.utils.graph_break_reasons == []
        front(breaks_twice, backend="eager")(X)
        reasons = dynamo.utils.graph_break_reasons
        counts.append([(reason.graph_break, reason.user_stack[-1].name) for reason in reasons])
        assert all(isinstance(reason, dynamo.output_graph.GraphCompileReason) for reason in reasons)
    assert counts[0] == counts[1] == [(True, "breaks_twice")] * 2


def test_forms_with_a_forced_backend_die_with_the_function() -> None:
    compiled = gramme.compile(lambda x: x + 1, backend="eager")
    with torch.compiler.set_stance("default", force_backend="aot_eager"):
        compiled(X)
    assert list(entry_of(compiled)._gramme_forced) == ["aot_eager"]
    assert gramme.statistics(compiled).captures == 0


@pytest.mark.parametrize("front", [torch.compile, gramme.compile])
def test_recompiles_are_isolated(front: Any) -> None:
    """What one compiled form of a function captured does not count for another."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    graphs: list[list[Any]] = [[], []]
    forms = [
        front(
            program,
            backend=lambda graph, _, mine=mine: mine.append(graph) or graph.forward,
            dynamic=False,
            isolate_recompiles=True,
        )
        for mine in graphs
    ]
    for form, sizes in zip(forms, ((2, 3, 4), (4, 5)), strict=True):
        for n in sizes:
            assert torch.equal(form(torch.ones(n)), torch.full((n,), 2.0))
    assert [len(mine) for mine in graphs] == [3, 2]
