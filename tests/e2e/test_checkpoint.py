"""torch.utils.checkpoint: captured whole, with eager's values, gradients, random numbers and statistics."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from e2e.nested_text import Shown, assert_alike

AS_IT_IS = ["eager", "native"]
BACKENDS = [*AS_IT_IS, "aot_eager"]


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(x))) * scale


class Stack(nn.Module):
    """Blocks that are checkpointed as the options say."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.options = {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x.sin()


def save_products(_: Any, operator: Any, *args: Any, **keywords: Any) -> CheckpointPolicy:
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if operator in products else CheckpointPolicy.PREFER_RECOMPUTE


def selective() -> Any:
    return create_selective_checkpoint_contexts(save_products)


class Closure(Stack):
    def forward(self, x: torch.Tensor) -> Any:
        y, block = x.exp(), self.blocks[0]
        z, word = checkpoint(lambda a: (block(a) * y, "word"), x, use_reentrant=False)
        return z + y, word


class Keywords(Stack):
    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.blocks[0], x, scale=x.sum(), **self.options)


class Nested(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def outer(a: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.blocks[0], a.sin(), **self.options) * a

        return checkpoint(outer, x, **self.options)


class Autocast(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


class AutocastInside(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def body(a: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.blocks[1](a)

        return checkpoint(body, x, **self.options).float() * 2


class NoGradInside(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def body(a: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                shift = self.blocks[1](a)
            return self.blocks[0](a) + shift

        return checkpoint(body, x, **self.options)


class Results(Stack):
    def forward(self, x: torch.Tensor) -> Any:
        def body(a: torch.Tensor) -> Any:
            y = self.blocks[0](a)
            return {"view": y.t(), "twice": [y, y], "input": a, "count": 3, "indices": y.argmax(0)}

        result = checkpoint(body, x, **self.options)
        return result["view"], result["twice"][0] is result["twice"][1], result["input"] is x, result["indices"]


class Several(Stack):
    def forward(self, x: torch.Tensor) -> Any:
        a, b = checkpoint(lambda a: (self.blocks[0](a), self.blocks[1](a).argmax()), x, **self.options)
        return a * 2, b


class InPlace(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a: torch.relu_(self.blocks[0](a)).sin(), x, **self.options)


class SameTwice(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a, b: self.blocks[0](a) * b * x, x, x, **self.options)


class UnusedArgument(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a, b: self.blocks[0](a), x, x * 3, **self.options)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "plain": Stack,
    "reentrant": lambda: Stack(use_reentrant=True),
    "reentrant several": lambda: Several(use_reentrant=True),
    "reentrant nested": lambda: Nested(use_reentrant=True),
    "options": lambda: Stack(preserve_rng_state=False, determinism_check="none", early_stop=False),
    "selective function": lambda: Stack(context_fn=selective),
    "selective partial": lambda: Stack(
        context_fn=functools.partial(create_selective_checkpoint_contexts, save_products)
    ),
    "selective list": lambda: Stack(
        context_fn=functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    ),
    "closure": Closure,
    "keywords": Keywords,
    "nested": Nested,
    "autocast": Autocast,
    "autocast inside": AutocastInside,
    "no grad inside": NoGradInside,
    "results": Results,
    "several": Several,
    "in place": InPlace,
    "same twice": SameTwice,
    "unused argument": UnusedArgument,
}


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []


class Operators(TorchDispatchMode):
    """Counts operators by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[str(function)] = self.names.get(str(function), 0) + 1
        return function(*args, **(kwargs or {}))


def run(
    make: Callable[[], nn.Module], backend: str | None, fullgraph: bool = True, records: bool = False, calls: int = 2
) -> Any:
    """What the module gives, its gradients and buffers, and the operators of each backward."""
    torch.manual_seed(0)
    module = make()
    options = {"recorded_backward": records} if backend == "native" else None
    called = gramme.compile(module, backend=backend, fullgraph=fullgraph, options=options) if backend else module
    seen: list[Any] = []
    for i in range(calls):
        x = torch.linspace(-1, 1, 16).view(4, 4).add(i).requires_grad_()
        result = called(x)
        loss = sum((tensor.float().sum() for tensor in tensors_in(result) if tensor.requires_grad), torch.zeros(()))
        count = Operators()
        with count:
            loss.backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        seen.append((result, x.grad, gradients, dict(module.named_buffers()), torch.rand(1)))
        seen.append(count.names if backend in (None, *AS_IT_IS) else None)
    return seen


def detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: detached(item) for key, item in value.items()}
    return [detached(item) for item in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODULES)
def test_captured_whole(name: str, backend: str) -> None:
    want, got = run(MODULES[name], None), run(MODULES[name], backend)
    exact = {"rtol": 0.0, "atol": 0.0} if backend != "aot_eager" else {"rtol": 1e-5, "atol": 1e-5}
    if "autocast" in name and backend == "aot_eager":
        exact = {"rtol": 2e-2, "atol": 2e-2}
    assert_alike(detached(got[::2]), detached(want[::2]), **exact)
    if backend in AS_IT_IS:
        assert got[1::2] == want[1::2]


@pytest.mark.parametrize("name", MODULES)
def test_recorded_backwards_are_eagers(name: str) -> None:
    """A mode entered for the backward alone does not see that a recorded one runs the forward again."""
    want, got = run(MODULES[name], None, calls=5), run(MODULES[name], "native", records=True, calls=5)
    assert_alike(detached(got[::2]), detached(want[::2]), rtol=0, atol=0)


class Dropout(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def body(a: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(self.blocks[0](a), 0.5).sin()

        return checkpoint(body, x, **self.options) + torch.rand_like(x)


@pytest.mark.parametrize("backend", AS_IT_IS)
@pytest.mark.parametrize("options", [{}, {"use_reentrant": True}, {"preserve_rng_state": False}])
def test_random_numbers_are_eagers(options: dict[str, Any], backend: str) -> None:
    make = functools.partial(Dropout, **options)
    want, got = run(make, None), run(make, backend)
    assert_alike(detached(got), detached(want), rtol=0, atol=0)


def test_recomputation_draws_the_same_numbers() -> None:
    compiled = gramme.compile(
        lambda x: checkpoint(lambda a: torch.nn.functional.dropout(a, 0.5) * a, x, use_reentrant=False),
        backend="aot_eager",
    )
    x = torch.ones(64, requires_grad=True)
    result = compiled(x)
    result.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, result.detach() * 2)


class Statistics(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.options = {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a: self.norm(a).sin(), x, **self.options) * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_statistics_are_updated_as_often_as_in_eager(reentrant: bool, backend: str) -> None:
    make = functools.partial(Statistics, use_reentrant=reentrant)
    want = run(make, None, fullgraph=False)
    got = run(make, backend, fullgraph=False)
    assert_alike(detached(got[::2]), detached(want[::2]))
    assert got[0][3]["norm.num_batches_tracked"] == 4  # twice a call


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_without_gradients(backend: str) -> None:
    module = Statistics()
    x = torch.randn(5, 4)
    with torch.no_grad():
        gramme.compile(module, backend=backend, fullgraph=True)(x)
    assert module.norm.num_batches_tracked == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True])
def test_effects_happen_as_often_as_in_eager(grad: bool, backend: str) -> None:
    def run(compiler: Callable[..., Any]) -> tuple[int, torch.Tensor]:
        log: list[int] = []

        def body(a: torch.Tensor) -> torch.Tensor:
            log.append(1)
            return a.sin()

        def program(x: torch.Tensor) -> torch.Tensor:
            return checkpoint(body, x, use_reentrant=False) * 2

        compiled, x = compiler(program), torch.ones(3, requires_grad=True)
        with torch.set_grad_enabled(grad):
            for _ in range(2):
                result = compiled(x)
                if grad:
                    result.sum().backward()
        return len(log), result.detach()

    want = run(lambda program: program)
    got = run(lambda program: gramme.compile(program, backend=backend, fullgraph=not grad))
    assert got[0] == want[0] == (4 if grad else 2)
    torch.testing.assert_close(got[1], want[1])


def test_effects_that_are_skipped_in_backward() -> None:
    log: list[torch.Tensor] = []

    def body(a: torch.Tensor) -> torch.Tensor:
        log.append(a * 2)
        return a.sin()

    compiled = gramme.compile(lambda x: checkpoint(body, x, use_reentrant=False), backend="eager", fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    with torch._dynamo.config.patch(skip_fwd_side_effects_in_bwd_under_checkpoint=True):
        compiled(x).sum().backward()
    torch.testing.assert_close(log, [x * 2])


@pytest.mark.parametrize("backend", AS_IT_IS)
def test_hooks_of_saved_tensors_hear_what_eager_tells_them(backend: str) -> None:
    def run(compiled: Callable[..., Any]) -> list[str]:
        heard: list[str] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            heard.append(f"pack {tuple(tensor.shape)}")
            return tensor

        def unpack(tensor: torch.Tensor) -> torch.Tensor:
            heard.append("unpack")
            return tensor

        x = torch.ones(4, 4, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = compiled(x)
        result.sum().backward()
        return heard

    torch.manual_seed(0)
    module = Stack()
    assert run(gramme.compile(module, backend=backend)) == run(module)


@pytest.mark.parametrize("backend", AS_IT_IS)
def test_gradients_of_gradients(backend: str) -> None:
    def run(compiled: Callable[..., Any]) -> list[torch.Tensor]:
        x = torch.linspace(0, 1, 16).view(4, 4).requires_grad_()
        (first,) = torch.autograd.grad(compiled(x).pow(2).sum(), x, create_graph=True)
        return [first, *torch.autograd.grad(first.pow(2).sum(), x)]

    torch.manual_seed(0)
    module = Stack()
    got = run(gramme.compile(module, backend=backend, fullgraph=True))
    torch.testing.assert_close(got, run(module), rtol=0, atol=0)


@pytest.mark.parametrize("backend", AS_IT_IS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_errors_of_backward_are_eagers(reentrant: bool, backend: str) -> None:
    def error_of(compiled: Callable[..., Any]) -> str:
        x = torch.linspace(0, 1, 16).view(4, 4).requires_grad_()
        result = compiled(x)
        try:
            torch.autograd.grad(result.sum(), x)
            torch.autograd.grad(result.sum(), x)
        except RuntimeError as error:
            return str(error)[:60]
        return ""

    module = Stack(use_reentrant=reentrant)
    want = error_of(module)
    assert want
    assert error_of(gramme.compile(module, backend=backend, fullgraph=True)) == want


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a function that breaks": lambda x: checkpoint(
        lambda a: (gramme.graph_break(), a.sin())[1], x, use_reentrant=False
    ),
    "reentrant without a gradient": lambda x: checkpoint(lambda a: a * x, x.detach(), use_reentrant=True),
    "reentrant with a detached result": lambda x: checkpoint(lambda a: (a, a.detach() * 2), x, use_reentrant=True),
    "debug": lambda x: checkpoint(torch.sin, x, use_reentrant=False, debug=True),
    "contexts of the program": lambda x: checkpoint(
        torch.sin, x, use_reentrant=False, context_fn=lambda: (torch.no_grad(), torch.no_grad())
    ),
    "raises": lambda x: checkpoint(lambda a: a * [][0], x, use_reentrant=False),
    "unknown keyword": lambda x: checkpoint(torch.sin, x, use_reentrant=True, unknown=1),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_captured_is_called_for_real(name: str) -> None:
    def answer(called: Callable[..., Any]) -> Any:
        x = torch.linspace(0, 1, 4).requires_grad_()
        try:
            result = called(x + 0)
            tensors = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
            return detached(result), [t.requires_grad for t in tensors_in(result)], len(tensors)
        except Exception as error:
            return type(error), str(error)

    assert_alike(answer(gramme.compile(REFUSED[name], backend="eager")), answer(REFUSED[name]))
    with pytest.raises(gramme.CaptureError) as caught:
        gramme.compile(REFUSED[name], backend="eager", fullgraph=True)(torch.ones(4, requires_grad=True) + 0)
    assert caught.value.file == __file__


def test_settings_of_the_module_are_heard() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.utils.checkpoint.set_checkpoint_early_stop(False):
            return checkpoint(lambda a: a.sin().cos() + 1, x, use_reentrant=False)

    def sines(compiled: Callable[..., Any]) -> dict[str, int]:
        with Operators() as count:
            result = torch.zeros(())
        result = compiled(torch.ones(3, requires_grad=True))
        with count:
            result.sum().backward()
        return count.names

    assert sines(gramme.compile(program, backend="eager")) == sines(program)


@pytest.mark.parametrize("name", ["plain", "reentrant", "options", "selective function", "nested", "no grad inside"])
def test_graph_is_pytorchs(name: str) -> None:
    module, texts = MODULES[name](), []
    for front in (gramme.compile, torch.compile):
        shown = Shown()
        torch._dynamo.reset()
        front(module, backend=shown, fullgraph=True)(torch.ones(4, 4, requires_grad=True))
        texts.append(shown.graphs)
    assert texts[0] == texts[1]


def test_random_numbers_where_nothing_needs_a_gradient() -> None:
    def program(x: torch.Tensor, p: float) -> Any:
        out = checkpoint(lambda y: torch.nn.functional.dropout(y * 2, p).sin(), x, use_reentrant=False)
        return out, torch.rand(2)

    compiled = gramme.compile(program, backend="aot_eager")
    for requires_grad in (False, True, False):
        outcomes = []
        for function in (program, compiled):
            torch.manual_seed(0)
            outcomes.append(function(torch.ones(6, requires_grad=requires_grad), 0.5))
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=0, atol=0)


def masked(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.5) * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use", [lambda y: y.detach() * 3, lambda y: y > 1, lambda y: y.int()])
def test_random_numbers_whose_result_is_used_without_a_gradient(use: Any, backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        return use(checkpoint(masked, x, use_reentrant=False)), torch.rand(2)

    found = []
    for compiler in (lambda f: f, gramme.compile(backend=backend, fullgraph=True)):
        torch.manual_seed(3)
        found.append(compiler(program)(torch.ones(8, requires_grad=True)))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_beside_statistics(backend: str) -> None:
    found = []
    for compiler in (lambda f: f, gramme.compile(backend=backend, fullgraph=True)):
        torch.manual_seed(3)
        norm = nn.BatchNorm1d(4)

        def program(x: torch.Tensor, norm: nn.Module = norm) -> Any:
            return norm(checkpoint(masked, x, use_reentrant=False)).detach()

        found.append([compiler(program)(torch.ones(8, 4, requires_grad=True)), norm.running_mean])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "transform",
    [
        lambda a: torch.func.grad(lambda v: (v.sin() * a).sum())(a),
        lambda a: torch.func.vjp(torch.sin, a)[1](a)[0],
        lambda a: torch.func.jacrev(torch.sin)(a),
        lambda a: checkpoint(torch.func.grad(lambda v: v.sum()), a, use_reentrant=True),
    ],
)
def test_transforms_that_take_no_hooks_raise_as_in_eager(transform: Any, backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        return checkpoint(transform, x, use_reentrant=False)

    x = torch.ones(3, requires_grad=True)
    for function in (program, gramme.compile(program, backend=backend)):
        with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks") as error:
            function(x)
        assert type(error.value) is RuntimeError


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_mode_and_vmap_in_a_checkpoint(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        mapped = checkpoint(lambda a: torch.func.vmap(torch.sin)(a), x, use_reentrant=False)
        return mapped, checkpoint(lambda a: torch.func.jvp(torch.sin, (a,), (a,))[1], x, use_reentrant=False)

    x = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(gramme.compile(program, backend=backend)(x), program(x))
