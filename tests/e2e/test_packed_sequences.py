"""Recurrent layers over packed sequences: packing and the layer run for real, in one piece each; what is around them is
captured."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

LENGTHS = ([6, 3, 2], [5, 6, 1], [2, 2, 2])
KINDS: dict[str, Callable[[], nn.RNNBase]] = {
    "LSTM": lambda: nn.LSTM(4, 5, batch_first=True),
    "GRU": lambda: nn.GRU(4, 5, batch_first=True, bidirectional=True),
    "RNN": lambda: nn.RNN(4, 5, num_layers=2, batch_first=True),
    "projected": lambda: nn.LSTM(4, 5, batch_first=True, proj_size=3),
}


class Packed(nn.Module):
    def __init__(self, layer: nn.RNNBase, hidden: bool) -> None:
        super().__init__()
        self.layer, self.hidden = layer, hidden

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=False)
        state = self.state(x) if self.hidden else None
        out, last = self.layer(packed, state)
        padded, sizes = pad_packed_sequence(out, batch_first=True)
        return torch.tanh(padded).sum(1) * 3, sizes, last

    def state(self, x: torch.Tensor) -> Any:
        rows = self.layer.num_layers * (1 + self.layer.bidirectional)
        size = self.layer.proj_size or self.layer.hidden_size
        made = torch.full((rows, x.shape[0], size), 0.5)
        if not isinstance(self.layer, nn.LSTM):
            return made
        return made, torch.full((rows, x.shape[0], self.layer.hidden_size), 0.25)


def told(model: nn.Module, call: Callable[..., Any], lengths: list[int], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    x = torch.randn(3, 6, 4, requires_grad=True)
    model.zero_grad()
    out, sizes, last = call(x, torch.tensor(lengths))
    parts = last if isinstance(last, tuple) else (last,)
    (out.sum() + sum(part.sum() for part in parts)).backward()
    grads = [parameter.grad.tolist() for parameter in model.parameters() if parameter.grad is not None]
    assert x.grad is not None
    return [out.tolist(), sizes.tolist(), [part.tolist() for part in parts], x.grad.tolist(), grads]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_graphs_around_the_layer(kind: str, backend: str, hidden: bool) -> None:
    torch.manual_seed(0)
    model = Packed(KINDS[kind](), hidden)
    compiled = gramme.compile(model, backend=backend)
    with gramme.meter() as meter:
        for seed, lengths in enumerate(LENGTHS):
            expected = told(model, model, lengths, seed)
            assert told(model, compiled, lengths, seed) == expected
    # Before packing, and behind: the state, tanh and sum. Lengths are data, so the padded result has another size.
    assert meter.captures <= 8
    assert gramme.explain(model)(torch.randn(3, 6, 4), torch.tensor(LENGTHS[0])).graph_count <= 2 + hidden


def test_the_break_names_the_sequence() -> None:
    report = gramme.explain(Packed(nn.LSTM(4, 5, batch_first=True), False))(
        torch.randn(3, 6, 4), torch.tensor([6, 3, 2])
    )
    texts = " ".join(str(each.reason) for each in report.break_reasons)
    assert "a recurrent layer over a PackedSequence" in texts
    assert "pack_padded_sequence" in texts


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_is_one_graph(kind: str) -> None:
    layer = KINDS[kind]()
    x = torch.randn(2, 3, 4)
    compiled = gramme.compile(lambda x: layer(x * 2)[0] + 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), layer(x * 2)[0] + 1)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.filterwarnings("ignore:gramme captured no operation")
def test_a_layer_compiled_by_itself(backend: str) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(4, 5, batch_first=True)
    compiled = gramme.compile(layer, backend=backend)
    for lengths in LENGTHS:
        packed = pack_padded_sequence(
            torch.randn(3, 6, 4), torch.tensor(lengths), batch_first=True, enforce_sorted=False
        )
        got, expected = compiled(packed), layer(packed)
        assert isinstance(got[0], PackedSequence)
        assert [part.tolist() for part in got[0] if part is not None] == [
            part.tolist() for part in expected[0] if part is not None
        ]
        assert [part.tolist() for part in got[1]] == [part.tolist() for part in expected[1]]
