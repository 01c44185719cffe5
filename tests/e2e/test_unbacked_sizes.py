"""Sizes marked unbacked: what is captured once holds for every size, zero and one too."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.decorators import mark_unbacked
from torch.nn import functional

from e2e.test_unbacked import assert_same

ROW, ROWS = torch.arange(1.0, 5.0).reshape(1, 4), torch.ones(2, 4)
CONVOLUTION, NORM, LINEAR = nn.Conv1d(1, 3, 2), nn.LayerNorm(4), nn.Linear(4, 3)
# Of x with any number of rows and four columns. Whether the number may be left open is for the capture to find out.
CALLS: dict[str, Callable[[Tensor], Any]] = {
    "elementwise": lambda x: x.sin() * 2 + x,
    "row_added": lambda x: x + ROW,
    "two_rows_added": lambda x: x + ROWS,
    "rows_from_one": lambda x: ROW.expand(x.shape[0], 4) + x,
    "linear": lambda x: LINEAR(x).relu(),
    "layer_norm": lambda x: NORM(x),
    "softmax": lambda x: x.softmax(0),
    "convolution": lambda x: CONVOLUTION(x.unsqueeze(1)),
    "transposed": lambda x: x.t().contiguous().t(),
    "contiguous": lambda x: (x.contiguous() is x, x.contiguous().view(-1)),
    "squeezed": lambda x: x.squeeze(0),
    "squeezed_everywhere": lambda x: x.squeeze() + 1,
    "by_eight": lambda x: x.view(-1, 8),
    "halves": lambda x: x.reshape(2, -1),
    "flattened": lambda x: x.flatten() * 2,
    "chunks": lambda x: [part + 1 for part in x.chunk(2)],
    "split": lambda x: [part + 1 for part in x.split(3)],
    "rows": lambda x: [row + 1 for row in x],
    "unbound": lambda x: x.unbind(0),
    "first": lambda x: x[0] + 1,
    "behind_the_first": lambda x: x[1:] + 1,
    "narrow": lambda x: x.narrow(0, 0, 2) * 2,
    "last": lambda x: x[-1:] * 2,
    "flipped": lambda x: x.flip(0) + x,
    "doubled": lambda x: torch.cat([x, x]).sum(0),
    "stacked": lambda x: torch.stack([x, x], 1).mean((0, 1)),
    "maximum": lambda x: x.max(0).values,
    "mean": lambda x: x.mean(0),
    "square": lambda x: x @ x.t(),
    "rolled": lambda x: x.roll(1, 0),
    "repeated": lambda x: x.repeat(2, 1),
    "zeros": lambda x: x.new_zeros(x.shape[0] * 2, 3) + x.shape[0],
    "padded": lambda x: functional.pad(x, (0, 0, 1, 0)),
    "windows": lambda x: x.unfold(0, 2, 1),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "diagonal": lambda x: x.diagonal(),
    "written": lambda x: x.clone().add_(1).mul_(x),
    "decided": lambda x: x + 1 if x.shape[0] > 2 else x - 1,
    "heads": lambda x: x.view(x.shape[0], 2, 2).transpose(1, 2).reshape(x.shape[0], 4),
    "pooled": lambda x: functional.avg_pool1d(x, 2),
    "strided": lambda x: x.as_strided((2, 2), (1, 1)),
}


def outcome(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    try:
        return function(x)
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_holds_for_every_size_or_is_refused(name: str, least: int) -> None:
    function, graphs = CALLS[name], []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def rows(n: int) -> Tensor:
        x = torch.arange(4.0 * n).reshape(n, 4).cos()
        mark_unbacked(x, 0, min=least)
        return x

    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    raising = 0
    for n in (6, *range(least, 6)):
        expected = outcome(function, rows(n))
        if isinstance(expected, tuple) and isinstance(expected[0], type):
            raising += 1
            with pytest.raises((expected[0], gramme.CaptureError)):
                compiled(rows(n))
            continue
        try:
            assert_same(compiled(rows(n)), expected)
        except gramme.CaptureError:
            assert not graphs
            return
    assert len(graphs) == 1 or raising


def test_most_calls_are_the_same_for_every_size() -> None:
    def block(x: Tensor, y: Tensor) -> Tensor:
        x = functional.conv2d(x.view(-1, 4, 2, 2), torch.ones(4, 1, 1, 1), groups=4).flatten(1)
        return torch.cat([functional.linear(x, torch.ones(4, 16)), y], 1).softmax(1)

    def marked(n: int) -> tuple[Tensor, Tensor]:
        given = torch.randn(n, 16), torch.randn(n, 2)
        for tensor in given:
            mark_unbacked(tensor, 0, shape_id="rows", min=1)
        return given

    compiled = gramme.compile(block, backend="eager", fullgraph=True)
    for n in (3, 1, 2, 6):
        given = marked(n)
        assert_same(compiled(*given), block(*given))
    assert gramme.statistics(compiled).captures == 1
