"""explain() and fullgraph=True name the innermost line of the program, however deep a break is."""

import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="gramme.explain")
X = torch.ones(2, 4)


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    time.monotonic()  # innermost
    return y * 2


def middle(x: torch.Tensor) -> torch.Tensor:
    return breaks(x.sin()) + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    return middle(x * 3) - 1


class Block(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return breaks(x) + 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), Block()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * 2  # type: ignore[no-any-return]


def by_key(x: torch.Tensor) -> torch.Tensor:
    def key(n: int) -> int:
        time.monotonic()  # innermost
        return -n

    return x * sorted([1, 2], key=key)[0]


def generated(x: torch.Tensor) -> torch.Tensor:
    def pieces() -> Iterator[torch.Tensor]:
        y = x + 1
        time.monotonic()  # innermost
        yield y * 2

    return sum(pieces(), x)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "depth 1": (breaks, ["breaks"]),
    "depth 3": (outer, ["breaks", "middle", "outer"]),
    "module": (Model(), ["breaks", "Block.forward", "Model.forward"]),
    "sort key": (by_key, ["by_key.<locals>.key", "by_key"]),
    "generator": (generated, ["generated.<locals>.pieces", "generated"]),
}


def own(frames: list[traceback.FrameSummary]) -> list[str]:
    return [frame.name for frame in frames if frame.filename == __file__]


@pytest.mark.parametrize("name", PROGRAMS)
def test_breaks_are_named_by_the_innermost_line(name: str) -> None:
    function, calls = PROGRAMS[name]
    explained = gramme.explain(function)(X)
    (first, *_) = explained.break_reasons
    assert first.frames[0].line == "time.monotonic()  # innermost"
    assert own(first.frames) == calls
    assert first.user_stack == first.frames[::-1]
    assert not any("torch/nn/modules" in frame.filename for frame in first.frames)
    assert first.instruction.startswith("CALL")  # since 3.13 one with keywords is another
    assert explained.graph_break_count == len(explained.break_reasons)
    assert explained.graph_count == len(explained.graphs) == len(explained.ops_per_graph)
    text = str(explained)
    assert f"break 1: {first.reason}" in text
    assert f"at {calls[0]} (File" in text
    assert all(f"called from {call} (File" in text for call in calls[1:])


def test_what_a_break_costs() -> None:
    explained = gramme.explain(outer)(X)
    assert (explained.graph_count, explained.graph_break_count) == (2, 1)
    (found,) = explained.break_reasons
    assert (found.instructions, found.pushed) == (1, 2)
    first, second = (segment for segment in explained.segments if segment.graph is not None)
    assert (first.function, first.start) == ("outer", outer.__code__.co_firstlineno)
    assert [frame.name for frame in second.returns_into] == ["middle", "outer"]
    assert "2 frames rebuilt" in str(explained)


def test_the_path_of_the_module() -> None:
    (found, *_) = gramme.explain(Model())(X).break_reasons
    assert found.module == "self.layers.1.1"


@pytest.mark.parametrize("name", PROGRAMS)
def test_fullgraph_names_the_innermost_line(name: str) -> None:
    function, calls = PROGRAMS[name]
    with pytest.raises(gramme.CaptureError) as raised:
        front.compile(function, backend="eager", fullgraph=True)(X)
    error = raised.value
    assert (error.file, error.function) == (__file__, calls[0])
    assert error.source_line == "time.monotonic()  # innermost"
    assert "torch/nn/modules" not in str(error)
    for call in calls:
        assert call.rpartition(".")[2] in str(error)
    assert error.module == ("self.layers.1.1" if name == "module" else "")


def limited(x: torch.Tensor, k: int) -> torch.Tensor:
    if x.shape[0] <= 512:
        return x * k
    return x


def test_what_varies_in_the_words_of_the_program() -> None:
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0, min=2)
    explained = gramme.explain(limited)(x, 3)
    (segment,) = explained.segments
    assert [str(symbol) for symbol in segment.symbols] == ["s77 = x.shape[0], 2 <= s77 <= 512"]
    line = limited.__code__.co_firstlineno + 1
    assert f"x.shape[0] <= 512: if x.shape[0] <= 512:, {__file__}:{line}" in segment.sizes
    assert "s77 = x.shape[0], 2 <= s77 <= 512" in str(explained)


def test_explained_with_all_sizes_varying() -> None:
    (segment,) = gramme.explain(limited, dynamic=True)(torch.ones(4, 3), 3).segments
    assert [symbol.source for symbol in segment.symbols] == ["x.shape[0]", "x.shape[1]", "k"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("L['x'].size()[0] >= 2", "x.shape[0] >= 2"),
        (
            "L['self']._modules['layers']._modules['0']._buffers['keys'].size()[1] == 3",
            "self.layers[0].keys.shape[1] == 3",
        ),
        ("L['xs'][0].stride()[0] == 2*L['k']", "xs[0].stride()[0] == 2*k"),
        ("L['self'].__dict__['rows'] <= 4", "self.rows <= 4"),
    ],
)
def test_words(text: str, words: str) -> None:
    from gramme._words import in_words

    assert in_words(text) == words
