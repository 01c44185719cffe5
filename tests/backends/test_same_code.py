"""Where PyTorch's front end hands over the same graph, its compilers make the same text of it."""

import re
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.nn import functional as F

from backends.support import tensors

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def t(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).requires_grad_(grad)


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        scale = w.abs().mean()
    return (x * w).sum() / scale


PROGRAMS: dict[str, Program] = {
    "pointwise": (lambda x, y: (x.sin() + y * 2).relu(), lambda: (t(3, 4), t(4))),
    "linear": (lambda x, w, b: F.linear(x, w, b).tanh().sum(), lambda: (t(3, 4), t(4, 4, grad=True), t(4, grad=True))),
    "attention": (
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v,
        lambda: (t(2, 3, 4), t(2, 3, 4), t(2, 3, 4)),
    ),
    "written": (written, lambda: (t(3), t(3))),
    "views": (lambda x: (x.view(-1)[1:], x.t() + 1), lambda: (t(3, 4),)),
    "norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), lambda: (t(2, 4), t(4, grad=True), t(4, grad=True))),
    "convolution": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2),
        lambda: (t(1, 2, 6, 6), t(3, 2, 3, 3)),
    ),
    "part without grad": (scaled, lambda: (t(3, 4), t(3, 4, grad=True))),
    "split": (lambda x: torch.cat([part * i for i, part in enumerate(x.chunk(2))], 1), lambda: (t(4, 4),)),
    "embedding": (lambda i, w: F.embedding(i, w).mean(1), lambda: (torch.tensor([[1, 2], [0, 3]]), t(5, 4, grad=True))),
    "reductions": (lambda x: x[:, 1:].max(1).values + x.argmin(1), lambda: (t(4, 4),)),
}
WITH_INDUCTOR = ["pointwise", "linear", "written"]


def without_comments(code: str) -> str:
    return re.sub(r"\n\s*(?=\n)", "", re.sub(r"#.*", "", code))


@pytest.fixture(autouse=True)
def no_caches() -> Any:
    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._inductor.config.patch(fx_graph_cache=False),
    ):
        yield


def run(front: Callable[..., Any], name: str, backend: Any) -> None:
    torch._dynamo.reset()
    function, make = PROGRAMS[name]
    roots = [r for r in tensors(front(function, backend=backend)(*make())) if r.requires_grad]
    if roots:
        sum((r.sum() for r in roots), torch.zeros(())).backward()


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_aot_autograd(name: str) -> None:
    def texts(front: Callable[..., Any]) -> list[str]:
        made: list[str] = []

        def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            made.append(without_comments(graph.print_readable(print_output=False)))
            return make_boxed_func(graph.forward)

        run(front, name, aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
        return made

    expected = texts(torch.compile)
    assert expected
    assert texts(gramme.compile) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_INDUCTOR)
def test_code_of_inductor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.graph import GraphLowering

    made: list[str] = []
    monkeypatch.setattr(GraphLowering, "save_output_code", staticmethod(made.append))

    def codes(front: Callable[..., Any]) -> list[str]:
        made.clear()
        run(front, name, "inductor")
        return [without_comments(code) for code in made]

    expected = codes(torch.compile)
    assert expected
    assert codes(gramme.compile) == expected
