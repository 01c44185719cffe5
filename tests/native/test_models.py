"""Models run natively: eager's bits and strides, eager's gradients, and no Python while they run."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.utils._pytree as pytree
from device import placed, streams
from gramme import _C
from gramme._compile import entry_of

pytest.importorskip("transformers")

from e2e.models import MODELS, eagerly, tensors

from native.corpus import CORPUS

# Captured in several segments.
BREAKS_IN_TRAINING = {"wav2vec2", "detr"}
# What a forward calls through Python, and why.
PYTHON = {"mamba": "torch.vmap: its operators see functorch's wrappers"}


pytestmark = pytest.mark.usefixtures("fresh")


class Run:
    """A model beside its parameters, called in one way; every call starts from the same state and seed."""

    def __init__(self, make: Callable[[], Any], arguments: Callable[[int], Any], train: bool, backend: str | None):
        torch.manual_seed(0)
        self.model = placed(make())
        self.module = self.model if isinstance(self.model, torch.nn.Module) else torch.nn.Module()
        self.module.train(train)
        self.call = gramme.compile(self.model, backend=backend) if backend else self.model
        self.arguments, self.train = arguments, train

    def step(self, seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        args, kwargs = pytree.tree_map(placed, self.arguments(seed))
        self.module.zero_grad()
        with torch.set_grad_enabled(self.train):
            output = self.call(*args, **kwargs)
        found = tensors(output)
        leaves = [t for t in args if isinstance(t, torch.Tensor) and t.requires_grad and self.train]
        if self.train:
            loss = sum(t.float().sum() for t in found if t.requires_grad)
            loss.backward()  # type: ignore[union-attr]
        return {
            "outputs": [facts(t) for t in found],
            "grad": [facts(p.grad) for p in (*self.module.parameters(), *leaves)],
            "buffers": [facts(b) for b in self.module.buffers()],
            "random": [stream.tolist() for stream in streams()],
        }

    @property
    def native(self) -> list[dict[str, int]]:
        graphs = [segment["native"] for segment in _C.segments(entry_of(self.call))]
        return [_C.native.counters(graph) for graph in graphs if graph is not None]


def facts(tensor: torch.Tensor | None) -> Any:
    if tensor is None:
        return None
    values = tensor.detach().contiguous().reshape(-1)
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad, values.view(torch.uint8).tolist()


def check(make: Callable[[], Any], arguments: Callable[[int], Any], train: bool) -> Run:
    """Three calls: the recording one, and replays on other data."""
    expected = Run(make, arguments, train, None)
    compiled, by_python = (Run(make, arguments, train, backend) for backend in ("native", "eager"))
    for seed in range(3):
        wanted = by_python.step(seed)
        found = compiled.step(seed)
        for what in wanted:
            assert found[what] == wanted[what], f"{what} of call {seed}"
        with eagerly():
            plain = expected.step(seed)
        assert plain == wanted, f"the captured graph is not the program, call {seed}"
    return compiled


def check_counts(run: Run, name: str) -> None:
    for counted in run.native:
        assert counted["stepwise"] == 0
        assert counted["calls"] == 3
        assert counted["recorded"] == 1
        assert (counted["python"] > 0) == (name in PYTHON)


@pytest.mark.parametrize("train", [False, True], ids=["no_grad", "training"])
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, train: bool) -> None:
    made = CORPUS[name]

    def arguments(seed: int) -> Any:
        torch.manual_seed(seed)
        return made()[1], {}

    run = check(lambda: made()[0], arguments, train)
    assert len(run.native) == 1
    check_counts(run, name)


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["no_grad", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_transformers(name: str, train: bool) -> None:
    case = MODELS[name]
    run = check(case.make, lambda seed: ((), case.arguments(seed)), train)
    if not (train and name in BREAKS_IN_TRAINING):
        assert len(run.native) == 1
        check_counts(run, name)
