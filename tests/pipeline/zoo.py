"""Small models whose values go far: what pipelines in several processes are tested with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

SHORT, BATCH, LENGTH = 2, 8, 6


class UNet(nn.Module):
    def __init__(self, depth: int = 3, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(width, width, 3, stride=2, padding=1) for _ in range(depth))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, stride=2) for _ in range(depth))
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        x, skips = self.norm(self.first(x)), []
        for layer in self.down:
            x = layer(x).relu()
            skips.append(x)
        for layer in self.up:
            x = layer(torch.cat([x, skips.pop()], 1)).relu()
        return x


class DenseNet(nn.Module):
    """Each layer takes the results of all before it."""

    def __init__(self, layers: int = 6, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(width * (i + 1), width, 3, padding=1) for i in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width * (i + 1)) for i in range(layers))
        self.out = nn.Linear(width * (layers + 1), 3)

    def forward(self, x: Tensor) -> Tensor:
        found = [x.expand(-1, 4, -1, -1)]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            found.append(layer(norm(torch.cat(found, 1)).relu()))
        return self.out(torch.cat(found, 1).mean((2, 3)))


class Experts(nn.Module):
    """A mixture of experts: each row goes to the best two, whose number of rows depends on data."""

    def __init__(self, layers: int = 3, width: int = 8, experts: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.gates = nn.ModuleList(nn.Linear(width, experts, bias=False) for _ in range(layers))
        self.experts = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(experts)) for _ in range(layers)
        )

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids).flatten(0, 1)
        balance = x.new_zeros(())
        for gate, experts in zip(self.gates, self.experts, strict=True):
            weights, chosen = gate(x).softmax(-1).topk(2)
            balance = balance + weights.pow(2).mean()
            y = torch.zeros_like(x)
            for i, expert in enumerate(experts):
                row, place = torch.where(chosen == i)
                y = y.index_add(0, row, expert(x[row]).tanh() * weights[row, place].unsqueeze(-1))
            x = x + y
        return x.view(*ids.shape, -1), balance.expand(ids.shape[0], 1)


class Tied(nn.Module):
    """An embedding that is the head too, a mask, a table, and a number that the caller gives."""

    def __init__(self, layers: int = 4, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("scale", torch.linspace(0.5, 1, width))

    def forward(self, ids: Tensor, mask: Tensor, *, power: int = 2) -> dict[str, Any]:
        x, length = self.embed(ids), ids.shape[1]
        table = torch.arange(length).unsqueeze(-1).cos() * self.scale
        causal = torch.ones(length, length, dtype=torch.bool).tril() & mask.unsqueeze(1)
        for layer in self.layers:
            y = layer(x + table)
            scores = (y @ y.transpose(1, 2)).masked_fill(~causal, -1e4).softmax(-1)
            x = self.norm(x + (scores @ y) ** power)
        return {"logits": nn.functional.linear(x, self.embed.weight), "length": length, "hidden": x}


class Named(nn.Module):
    """A value under two names, used in turns, a value in two layouts, and one given back that the first layers made."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.first(x).sin()
        b, turned = a.contiguous(), a.unflatten(1, (2, 4)).transpose(1, 2)
        y = a
        for i, layer in enumerate(self.layers):
            y = layer(y + (b if i % 2 else a) * 3.0**i + turned.flatten(1)).tanh()
        return y, turned


def _model(cls: str, config: str, **values: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        return getattr(transformers, cls)(getattr(transformers, config)(**values))

    return make


def image(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(n, 1, 8, 8),), {}


def rows(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(n, 8),), {}


def ids(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randint(0, 20, (n, LENGTH)),), {}


def masked(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mask = torch.ones(n, LENGTH, dtype=torch.bool)
    mask[:, -1] = torch.rand(n) > 0.5
    return (torch.randint(0, 20, (n, LENGTH)), mask), {"power": 3}


def attended(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (own, mask), _ = masked(n)
    return (own,), {"attention_mask": mask.long()}


def both(n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_ids": ids(n)[0][0], "decoder_input_ids": ids(n)[0][0]}


SMALL: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "unet": (UNet, image),
    "densenet": (DenseNet, image),
    "experts": (Experts, ids),
    "tied": (Tied, masked),
    "named": (Named, rows),
}
_WIDTH = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TRANSFORMERS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "distilbert": (
        _model(
            "DistilBertModel",
            "DistilBertConfig",
            vocab_size=20,
            dim=16,
            n_layers=4,
            n_heads=2,
            hidden_dim=16,
            dropout=0.0,
            attention_dropout=0.0,
        ),
        attended,
    ),
    "bert": (_model("BertForMaskedLM", "BertConfig", **_WIDTH, **_NO_DROPOUT), attended),
    "llama": (_model("LlamaForCausalLM", "LlamaConfig", **_WIDTH, use_cache=False), attended),
    "t5": (
        _model(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=20,
            d_model=16,
            d_kv=8,
            d_ff=16,
            num_layers=2,
            num_heads=2,
            dropout_rate=0.0,
            use_cache=False,
        ),
        both,
    ),
}
