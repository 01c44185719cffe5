"""Programs run natively do what they do eagerly: at the recording call and at replays on other data."""

import concurrent.futures
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from device import placed

from native.programs import PROGRAMS, Cube, Program
from native.same import difference, outcome, twin, without_bases

native: Any = gramme._C.native


pytestmark = pytest.mark.usefixtures("fresh")


def inputs(seed: int, requires_grad: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        placed(torch.randn(*sizes, generator=generator)).requires_grad_(requires_grad) for sizes in ((3, 4), (4, 4))
    ]


class Collected:
    """A backend that runs graphs natively, without trusting guards, and keeps them."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        self.graphs.append(native.from_graph_module(module))
        return self.graphs[-1]

    def count(self, what: str) -> int:
        return sum(native.counters(graph)[what] for graph in self.graphs)


def check(make: Callable[[], Program], backend: Any, grad: bool, calls: int = 4) -> None:
    expected, compiled = make(), gramme.compile(make(), backend=backend)
    for call in range(calls):
        with torch.set_grad_enabled(grad):
            wanted = outcome(expected, inputs(call % 3, grad), seed=call)
            found = outcome(compiled, inputs(call % 3, grad), seed=call)
        told = difference(without_bases(wanted), without_bases(found))
        assert told is None, f"call {call}: {told}"


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
class TestPrograms:
    def test_guarded(self, make: Callable[[], Program], grad: bool) -> None:
        check(make, "native", grad)

    def test_unguarded(self, make: Callable[[], Program], grad: bool) -> None:
        check(make, Collected(), grad)


def eager_and(compiled: Callable[..., Any], expected: Callable[..., Any], *arguments: Any) -> None:
    """Asserts that both do the same."""
    wanted, found = (without_bases(outcome(call, [twin(a) for a in arguments])) for call in (expected, compiled))
    assert difference(wanted, found) is None, difference(wanted, found)


# ---- sizes that data decides, on graphs as torch.fx traces them


def counts(x: Any) -> Any:
    return x[x > 0] * 2, x.nonzero().float().sum(0)


def reshapes_what_was_selected(x: Any) -> Any:
    y = torch.masked_select(x, x > 0)
    z = y.reshape(-1, 1).contiguous().expand(-1, 2)
    return z, y.view(1, -1).t(), y[:3], y[1:], y[-1], torch.flatten(z), z.to(torch.float64), y.shape


def splits_what_was_selected(x: Any) -> Any:
    y = torch.masked_select(x, x > 0)
    return y.split(2), torch.chunk(y, 2), torch.unbind(y), torch.stack([y, y]), torch.nn.functional.pad(y, (1, 1))


def positions(x: Any) -> Any:
    rows, columns = torch.nonzero(x > 0, as_tuple=True)
    return x[rows, columns], rows + 1, torch.unique(x.round()), torch.bincount(columns)


def numbers(x: Any) -> Any:
    n = x.abs().sum().item()
    k = (x > 0).sum().item()
    return x * n, x.new_zeros(k, 2), x.view(-1)[:k], x.view(-1).narrow(0, 0, k)


def sizes_of_what_was_selected(x: Any) -> Any:
    y = x[x > 0]
    n = y.shape[0]
    return torch.zeros(n), y.numel(), y.size(0), y.expand(2, n), F.adaptive_avg_pool1d(y[None], 2)


def given_back_by_python(x: Any) -> Any:
    y = torch.masked_select(x, x > 0)
    target = y.detach() * 0.5
    losses = [loss(y, target) for loss in (F.mse_loss, F.smooth_l1_loss, F.l1_loss)]
    return losses, y.tanh(), F.huber_loss(target, y) * target


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize(
    "function",
    [
        counts,
        reshapes_what_was_selected,
        splits_what_was_selected,
        positions,
        numbers,
        sizes_of_what_was_selected,
        given_back_by_python,
    ],
)
def test_sizes_that_data_decides(function: Callable[..., Any], grad: bool) -> None:
    compiled = native.from_graph_module(torch.fx.symbolic_trace(function))
    patterns = ([1, 1, -1, 1, -1, 1], [1, 1, 1, 1, 1, 1], [-1, 1, 1, -1, -1, -1], [1, 1, 1, 1, 1, -1], [1, -1] * 3)
    with torch.set_grad_enabled(grad):
        for signs in patterns:
            x = (torch.tensor(signs) * torch.arange(1.0, 7)).reshape(2, 3).requires_grad_(grad)
            eager_and(compiled, function, x)
    assert native.counters(compiled)["recorded"] == 1


# ---- operators and functions of the user


@torch.library.custom_op("gramme_native_tests::scaled", mutates_args={"counter"})
def scaled(x: torch.Tensor, counter: torch.Tensor, by: float) -> torch.Tensor:
    counter.add_(1)
    return torch.from_numpy(x.detach().numpy() * by)


@scaled.register_fake
def _(x: torch.Tensor, counter: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.compiler.allow_in_graph
def opaque(x: torch.Tensor) -> torch.Tensor:
    seen.append(float(x.sum()))
    return x * seen[-1]


seen: list[float] = []


@pytest.mark.parametrize("backend", ["native", "unguarded"])
class TestUsersFunctions:
    def make(self, function: Callable[..., Any], backend: str) -> Callable[..., Any]:
        return gramme.compile(function, backend=backend if backend == "native" else Collected())

    @pytest.mark.parametrize("grad", [True, False])
    def test_custom_operator(self, backend: str, grad: bool) -> None:
        def f(x: Any, counter: Any) -> Any:
            return scaled(x, counter, 2.0) + scaled(x + 1, counter, 0.5), counter + 0

        compiled = self.make(f, backend)
        with torch.set_grad_enabled(grad):
            for seed in range(3):
                eager_and(compiled, f, inputs(seed, False)[0], torch.zeros(2))

    @pytest.mark.parametrize("grad", [True, False])
    def test_function_allowed_in_the_graph(self, backend: str, grad: bool) -> None:
        def f(x: Any) -> Any:
            return opaque(x + 1) - opaque(x)

        compiled = self.make(f, backend)
        with torch.set_grad_enabled(grad):
            for seed in range(3):
                seen.clear()
                eager_and(compiled, f, inputs(seed, grad)[0])
                assert len(seen) == 4
                assert seen[:2] == seen[2:]

    def test_function_that_calls_the_same_program(self, backend: str) -> None:
        depth = [0]

        @torch.compiler.allow_in_graph
        def deeper(x: torch.Tensor) -> torch.Tensor:
            depth[0] += 1
            try:
                return compiled(x + 1) if depth[0] < 4 else x * 1
            finally:
                depth[0] -= 1

        def f(x: Any) -> Any:
            y = x * 2
            return deeper(y) + y

        compiled = self.make(f, backend)
        for seed in range(4):
            x = inputs(seed, False)[0]
            assert torch.equal(compiled(x), nested(x, 0))

    def test_parameter_replaced_and_written(self, backend: str) -> None:
        layer = torch.nn.Linear(4, 2)
        twin_layer = torch.nn.Linear(4, 2)
        compiled = self.make(layer.forward, backend)
        for seed in range(6):
            torch.manual_seed(seed)
            value = torch.randn(2, 4)
            with torch.no_grad():
                for each in (layer, twin_layer):
                    if seed % 3 == 0:
                        each.weight = torch.nn.Parameter(value)
                    elif seed % 3 == 1:
                        each.weight.copy_(value)
                    else:
                        each.weight.data = value
                    each.bias.fill_(seed)
            eager_and(compiled, twin_layer.forward, inputs(seed, True)[0])


def nested(x: torch.Tensor, depth: int) -> torch.Tensor:
    y = x * 2
    return (nested(y + 1, depth + 1) if depth < 3 else y * 1) + y


# ---- what the thread, or an argument, has of its own


class Logged(torch.Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class CountFunctions(torch.overrides.TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class CountOperators(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def chain(x: Any) -> Any:
    y = x.sin() @ x.t()
    return y.relu().view(-1), y


@pytest.fixture(params=["native", "fx"])
def chained(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "native":
        return gramme.compile(chain, backend="native")
    return native.from_graph_module(torch.fx.symbolic_trace(chain))


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
class TestSurroundings:
    @pytest.fixture(autouse=True)
    def mode(self, grad: bool) -> Iterator[None]:
        with torch.set_grad_enabled(grad):
            yield

    @pytest.mark.parametrize("first", [True, False])
    def test_subclass(self, chained: Callable[..., Any], first: bool) -> None:
        plain = inputs(0, False)[0]
        if not first:
            eager_and(chained, chain, plain)
        for seed in range(2):
            x = inputs(seed, False)[0].as_subclass(Logged)
            Logged.calls.clear()
            expected = chain(x)
            calls = list(Logged.calls)
            Logged.calls.clear()
            found = chained(x)
            assert [type(t) for t in found] == [Logged, Logged]
            assert all(
                torch.equal(a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor))
                for a, b in zip(found, expected, strict=True)
            )
            assert set(calls) & set(Logged.calls) == set(calls)
        eager_and(chained, chain, plain)

    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("kind", [CountFunctions, CountOperators])
    def test_mode_is_seen(self, chained: Callable[..., Any], kind: Any, first: bool) -> None:
        x = inputs(0, False)[0]
        if not first:
            eager_and(chained, chain, x)
        for _ in range(2):
            with kind() as expected:
                wanted = chain(x)
            with kind() as found:
                result = chained(x)
            assert found.calls >= expected.calls  # a capture under the mode counts as well
            assert all(torch.equal(a, b) for a, b in zip(wanted, result, strict=True))
        eager_and(chained, chain, x)

    def test_operators_are_seen_by_a_profiler(self, chained: Callable[..., Any]) -> None:
        x = inputs(0, False)[0]
        for _ in range(3):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                chained(x)
            names = {event.key for event in profile.key_averages()}
            assert {"aten::sin", "aten::mm", "aten::relu"} <= names
            eager_and(chained, chain, x)

    def test_other_states_of_the_thread(self, chained: Callable[..., Any], grad: bool) -> None:
        x = inputs(0, grad)[0]
        for _ in range(2):
            eager_and(chained, chain, x)
            with torch.autocast("cpu", torch.bfloat16):
                eager_and(chained, chain, x)
            with torch.inference_mode():
                eager_and(chained, chain, x)
            with torch.set_grad_enabled(not grad):
                eager_and(chained, chain, x)
            eager_and(chained, chain, x.detach().t().contiguous().t())
            eager_and(chained, chain, x.detach().double())

    def test_inside_transforms(self, chained: Callable[..., Any]) -> None:
        x = inputs(0, False)[0]
        for _ in range(2):
            eager_and(chained, chain, x)
            many = torch.stack([x, x + 1])
            assert torch.equal(torch.vmap(lambda a: chained(a)[1])(many), torch.vmap(lambda a: chain(a)[1])(many))
            gradient = torch.func.grad(lambda a: chained(a)[1].sum())(x)
            assert torch.equal(gradient, torch.func.grad(lambda a: chain(a)[1].sum())(x))
            tangents = torch.func.jvp(lambda a: chained(a)[1], (x,), (x * 2,))
            assert torch.equal(tangents[1], torch.func.jvp(lambda a: chain(a)[1], (x,), (x * 2,))[1])

    def test_saved_tensor_hooks(self, chained: Callable[..., Any], grad: bool) -> None:
        x = inputs(0, grad)[0]
        for attempt in range(3):
            eager_and(chained, chain, x)
            counts = []
            for call in (chain, chained):
                packed: list[Any] = []
                with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=packed: kept.append(t) or t, lambda t: t):
                    call(x)
                counts.append(len(packed))
            assert counts[0] == counts[1] or attempt == 0  # a capture under the hooks counts as well


# ---- exceptions and warnings


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
class TestRaising:
    @pytest.fixture(autouse=True)
    def mode(self, grad: bool) -> Iterator[None]:
        with torch.set_grad_enabled(grad):
            yield

    @pytest.mark.parametrize("backend", ["native", "fx"])
    def test_operator_that_raises(self, backend: str, grad: bool) -> None:
        def f(x: Any, i: Any) -> Any:
            y = x + 1
            with torch.no_grad():
                z = y.index_select(0, i)
            return z * 2

        compiled = gramme.compile(f, backend="native" if backend == "native" else Collected())
        good, bad = torch.tensor([0, 2]), torch.tensor([0, 7])
        for i in (bad, good, bad, good, good, bad):
            x = inputs(0, grad)[0]
            eager_and(compiled, f, x, i)
            assert torch.is_grad_enabled() == grad

    def test_note_tells_the_step_and_the_line(self) -> None:
        def f(x: Any, i: Any) -> Any:
            y = x + 1
            return y.index_select(0, i)

        collected = Collected()
        gramme.compile(f, backend=collected)(inputs(0, False)[0], torch.tensor([0, 2]))
        for _ in range(2):
            with pytest.raises(IndexError, match="out of range") as caught:
                collected.graphs[0](inputs(0, False)[0], torch.tensor([0, 9]))
            (note,) = caught.value.__notes__
            assert "in index_select" in note
            assert f'{__file__}", line {f.__code__.co_firstlineno + 2}' in note
        assert native.counters(collected.graphs[0])["recorded"] == 1

    def test_nothing_is_kept_after_an_exception(self) -> None:
        compiled = native.from_graph_module(torch.fx.symbolic_trace(lambda x, i: (x + 1).index_select(0, i)))
        x = inputs(0, False)[0]
        compiled(x, torch.tensor([1]))
        before = x._use_count()
        for _ in range(3):
            with pytest.raises(IndexError):
                compiled(x, torch.tensor([9]))
        assert x._use_count() == before
        assert torch.equal(compiled(x, torch.tensor([1])), x[1:2] + 1)

    def test_first_call_raises(self) -> None:
        def f(x: Any, i: Any) -> Any:
            return (x + 1).index_select(0, i)

        compiled = native.from_graph_module(torch.fx.symbolic_trace(f))
        x = inputs(0, False)[0]
        for i in (torch.tensor([5]), torch.tensor([1]), torch.tensor([5]), torch.tensor([2])):
            eager_and(compiled, f, x, i)

    def test_modes_are_left_after_an_exception(self, grad: bool) -> None:
        graph = torch.fx.Graph()
        x, i = graph.placeholder("x"), graph.placeholder("i")
        graph.call_function(torch._C._set_grad_enabled, (not grad,))
        region = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        y = graph.call_function(torch.index_select, (graph.call_function(torch.mm, (x, x)), 0, i))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (region,))
        graph.call_function(torch._C._set_grad_enabled, (grad,))
        graph.output(y)
        compiled = native.from_graph_module(torch.fx.GraphModule({}, graph))
        w = inputs(0, False)[1]
        for index in (9, 1, 9, 1):
            if index == 9:
                with pytest.raises(IndexError):
                    compiled(w, torch.tensor([index]))
            else:
                assert compiled(w, torch.tensor([index])).dtype == torch.bfloat16
            assert torch.is_grad_enabled() == grad
            assert not torch.is_autocast_enabled("cpu")

    @pytest.mark.parametrize("error", [False, True])
    def test_warnings_of_operators(self, error: bool) -> None:
        compiled = native.from_graph_module(torch.fx.symbolic_trace(lambda x, out: torch.add(x, 1, out=out)))
        for _ in range(3):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("error" if error else "always")
                x = inputs(0, False)[0]
                if error:
                    with pytest.raises(UserWarning, match="resized"):
                        compiled(x, torch.empty(1))
                else:
                    compiled(x, torch.empty(1))
                    assert any("resized" in str(w.message) for w in caught)


def test_warnings_of_functions() -> None:
    """F.softmax without a dimension warns in Python; a later call may make an error of that."""
    compiled = native.from_graph_module(torch.fx.symbolic_trace(lambda x: torch.nn.functional.softmax(x) + 1))
    x, warn = inputs(0, False)[0], warnings.warn
    for action in ("ignore", "always", "error", "always"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            if action == "error":
                with pytest.raises(UserWarning, match="Implicit dimension"):
                    compiled(x)
            else:
                assert torch.equal(compiled(x), torch.softmax(x, 1) + 1)
                assert len(caught) == (action == "always")
    assert native.counters(compiled)["recorded"] == 1
    assert warnings.warn is warn


def test_changing_numbers() -> None:
    def f(x: Any, s: Any, n: Any) -> Any:
        return x * s + s, x.sum() ** n, x.view(-1)[:n]

    for backend in ("native", Collected()):
        compiled = gramme.compile(f, backend=backend)
        for call in range(6):
            eager_and(compiled, f, inputs(call, False)[0], call + 0.5, call + 1)


# ---- several threads


def run_in_threads(count: int, work: Callable[[int], None]) -> None:
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for job in [pool.submit(work, i) for i in range(count)]:
            job.result()


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
class TestThreads:
    def test_recording_and_replay(self, grad: bool) -> None:
        for _ in range(3):
            compiled = native.from_graph_module(torch.fx.symbolic_trace(chain))
            barrier = threading.Barrier(6)

            def work(number: int, compiled: Any = compiled, barrier: Any = barrier) -> None:
                barrier.wait()
                with torch.set_grad_enabled(grad):
                    for call in range(40):
                        x = inputs(number * 100 + call, grad)[0]
                        assert all(torch.equal(a, b) for a, b in zip(compiled(x), chain(x), strict=True))

            run_in_threads(6, work)

    def test_through_python(self, grad: bool) -> None:
        def f(x: Any, w: Any) -> Any:
            y = Cube.apply(x)
            return (y @ w).relu(), y.sum().item()

        compiled = gramme.compile(f, backend="native")

        def work(number: int) -> None:
            with torch.set_grad_enabled(grad):
                for call in range(30):
                    x, w = inputs(number * 100 + call, grad)
                    found, wanted = compiled(x, w), f(x, w)
                    assert torch.equal(found[0], wanted[0])
                    assert found[1] == wanted[1]

        run_in_threads(4, work)

    def test_parameter_replaced_during_runs(self, grad: bool) -> None:
        """Each run sees the old parameter or the new one, and none that was freed."""
        layer = torch.nn.Linear(64, 64, bias=False)
        values = [torch.eye(64) * n for n in (1, 2)]
        layer.weight = torch.nn.Parameter(values[0].clone())
        graph = torch.fx.Graph()
        x, weight = graph.placeholder("x"), graph.get_attr("weight")
        y = x
        for _ in range(10):
            y = graph.call_function(torch.nn.functional.linear, (y, weight))
        graph.output(y)
        module = torch.fx.GraphModule(layer, graph)
        compiled = native.from_graph_module(module)
        stop = threading.Event()

        def replace() -> None:
            while not stop.is_set():
                for value in values:
                    module.weight = torch.nn.Parameter(value.clone())

        thread = threading.Thread(target=replace)
        thread.start()
        try:
            with torch.set_grad_enabled(grad):
                for _ in range(300):
                    assert float(compiled(torch.ones(1, 64))[0, 0]) in (1.0, 2.0**10)
        finally:
            stop.set()
            thread.join()


def test_settings_of_kernels_are_seen() -> None:
    """Attention is taken apart into the kernel that the process' settings choose."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 8, 4)
    compiled = gramme.compile(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), backend="native")
    with torch.no_grad():
        chosen = compiled(q), compiled(q)
        with sdpa_kernel(SDPBackend.MATH):
            plain = torch.nn.functional.scaled_dot_product_attention(q, q, q)
            assert torch.equal(compiled(q), plain)
            assert torch.equal(compiled(q), plain)
        assert torch.equal(chosen[0], chosen[1])
        assert torch.equal(compiled(q), chosen[0])
    (segment,) = (row["native"] for row in gramme._C.segments(compiled))
    assert gramme._C.native.counters(segment)["recorded"] == 2


# ---- version counters


def makes_tensors(x: Any) -> Any:
    buffer = torch.zeros(3)
    torch.rand(3, out=buffer)
    torch.add(torch.ones(3), 1, out=buffer)
    return torch.rand(3), torch.arange(3), torch.full((2,), 3.0), torch.zeros(2), torch.randn_like(x), buffer


def makes_and_writes_tensors(x: Any) -> Any:
    made = [torch.ones(3), torch.linspace(0, 1, 4), torch.randperm(5), torch.eye(2), x.new_full((2,), 1.0)]
    return *made, made[0].add_(1), torch.empty(3).normal_(), torch.tensor([1, 2]), torch.arange(4.0).view(2, 2).mul_(2)


def makes_tensors_for_autograd(x: Any) -> Any:
    noise = torch.rand(3, 4, requires_grad=True)
    return noise, noise * x, torch.zeros(4, requires_grad=True), torch.bernoulli(torch.ones(3)), torch.rand_like(x)


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize(
    "program", [makes_tensors, makes_and_writes_tensors, makes_tensors_for_autograd], ids=lambda p: p.__name__
)
def test_version_counters_of_what_is_made(program: Callable[..., Any], grad: bool) -> None:
    for backend in ("native", Collected()):
        compiled = gramme.compile(program, backend=backend)
        with torch.set_grad_enabled(grad):
            for _ in range(3):
                versions = [
                    [made._version for made in call(x)] + [x._version]
                    for call in (program, compiled)
                    for x in [torch.ones(3, 4, requires_grad=grad)]
                ]
                assert versions[0] == versions[1]
