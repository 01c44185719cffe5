"""Which backend compile's arguments stand for, and what it is told."""

import subprocess
import sys
from typing import Any

import gramme
import pytest
import torch

X = torch.arange(4.0)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


class Recorder:
    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any], **given: Any) -> Any:
        self.given.append(given)
        return graph.forward


@pytest.mark.parametrize("name", ["eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept"])
def test_names_of_the_registry(name: str) -> None:
    compiled = gramme.compile(double, backend=name)
    for _ in range(2):
        assert torch.equal(compiled(X), double(X))
    assert gramme.statistics(compiled).captures == 1


def test_a_registered_backend_is_found_by_name() -> None:
    recorder = Recorder()
    torch._dynamo.register_backend(name="registered_for_a_test")(lambda graph, inputs: recorder(graph, inputs))
    assert torch.equal(gramme.compile(double, backend="registered_for_a_test")(X), double(X))
    assert len(recorder.given) == 1


def test_mode_and_options_reach_the_backend() -> None:
    recorder = Recorder()
    gramme.compile(double, backend=recorder, mode="fast")(X)
    gramme.compile(double, backend=recorder, options={"level": 3})(X)
    gramme.compile(double, backend=recorder, mode="default")(X)
    assert recorder.given == [{"mode": "fast"}, {"options": {"level": 3}}, {}]


def test_the_default_backend_is_torchs() -> None:
    recorder = Recorder()
    torch.compiler.set_default_backend(recorder)
    try:
        gramme.compile(double)(X)
        assert len(recorder.given) == 1
    finally:
        torch.compiler.set_default_backend(None)
    assert gramme._backends.resolve(None).__name__ == "inductor"


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"backend": "no_such"}, torch._dynamo.exc.InvalidBackend, "no_such"),
        ({"backend": 3}, TypeError, "backend"),
        ({"mode": "default", "options": {}}, RuntimeError, "both"),
        ({"mode": "no_such"}, RuntimeError, "no_such"),
        ({"options": {"no_such": 1}}, RuntimeError, "no_such"),
        ({"options": {"max_autotune": "yes"}}, RuntimeError, "max_autotune"),
        ({"backend": "eager", "options": {"guard_filter_fn": 3}}, TypeError, "guard_filter_fn"),
    ],
)
def test_bad_values_are_named_at_once(given: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        gramme.compile(double, **given)


def test_options_of_inductor_are_its_configuration() -> None:
    backend = gramme._backends.resolve("inductor", options={"max-autotune": True, "epilogue_fusion": False})
    assert backend.compiler.config == {"max_autotune": True, "epilogue_fusion": False}
    assert gramme._backends.resolve("inductor", mode="max-autotune").compiler.config["max_autotune"] is True


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_marks_change_no_result(backend: str) -> None:
    marked, unbacked, hinted = X.clone(), X.clone(), X.clone()
    torch._dynamo.mark_dynamic(marked, 0)
    torch._dynamo.decorators.mark_unbacked(unbacked, 0)
    torch._dynamo.maybe_mark_dynamic(hinted, 0)
    compiled = gramme.compile(double, backend=backend)
    assert torch.equal(compiled(marked), double(X))
    assert torch.equal(compiled(unbacked), double(X))
    assert torch.equal(compiled(hinted), double(X))


PROGRAM = """
import sys, torch, gramme
for backend in (None, "inductor", "eager", print):
    gramme.compile(lambda x: x + 1, backend=backend, mode="default")
loaded = [name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules]
assert not loaded, loaded
"""


def test_compilers_of_torch_are_imported_when_they_compile() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
