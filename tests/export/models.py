"""Transformers and nets that are exported with batches and lengths that vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from e2e.models import MODELS, SIZES, VOCABULARY, Model
from pipeline.zoo import DenseNet, Experts
from shapes.models import Lstm, UNet
from torch import nn
from torch.export import Dim

A = Dim.AUTO
TEXT = {0: A, 1: A}
Pair = tuple[int, int]


@dataclass(frozen=True)
class Exported:
    """A model and its arguments for a batch and a length.

    Attributes:
        pairs: the first is exported with, and all are called.

    """

    make: Callable[[], nn.Module]
    arguments: Callable[[int, int], dict[str, Any]]
    shapes: dict[str, Any]
    pairs: tuple[Pair, ...] = ((2, 16), (3, 9), (5, 20), (4, 33))


def ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def text(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": ids(batch, length), "use_cache": False}


def masked(batch: int, length: int) -> dict[str, Any]:
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[:, : length // 3] = 0
    return {"input_ids": ids(batch, length), "attention_mask": mask}


def both(batch: int, length: int) -> dict[str, Any]:
    return text(batch, length) | {"decoder_input_ids": ids(batch, length // 2 + 1)}


def image(batch: int, side: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


def waves(batch: int, length: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 400 + 25 * length)}


def heard(batch: int, length: int) -> dict[str, Any]:
    spoken = {"input_features": torch.randn(batch, 80, 100), "decoder_input_ids": ids(batch, length)}
    return spoken | {"use_cache": False}


def described(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": ids(batch, length), "pixel_values": torch.randn(batch, 3, 32, 32)}


def of_library(name: str, arguments: Any, shapes: dict[str, Any], **more: Any) -> Exported:
    return Exported(MODELS[name].make, arguments, shapes, **more)


ROBERTA = Model("roberta", "RobertaModel", "RobertaConfig", SIZES)
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": VOCABULARY}
ONE, TWO = {"input_ids": TEXT, "use_cache": None}, {"input_ids": TEXT, "attention_mask": TEXT}
PAIR = {"input_ids": TEXT, "use_cache": None, "decoder_input_ids": TEXT}

TRANSFORMERS = {
    "bert": of_library("bert", masked, TWO),
    "roberta": Exported(ROBERTA.make, masked, TWO),
    "distilbert": Exported(Model("", "DistilBertModel", "DistilBertConfig", DISTILBERT).make, masked, TWO),
    "gpt2": of_library("gpt2", text, ONE),
    "llama": of_library("llama", text, ONE),
    "mistral": of_library("mistral", text, ONE),
    "qwen2": of_library("qwen2", text, ONE),
    "mixtral": of_library("mixtral", text, ONE),
    "gpt_neox": of_library("gpt_neox", text, ONE),
    "opt": of_library("opt", text, ONE),
    "t5": of_library("t5", both, PAIR),
    "bart": of_library("bart", both, PAIR),
    "whisper": of_library("whisper", heard, {"input_features": {0: A}, "decoder_input_ids": TEXT, "use_cache": None}),
    "vit": of_library("vit", image, {"pixel_values": {0: A}}),
    "swin": of_library("swin", image, {"pixel_values": {0: A}}),
    "clip": of_library("clip", described, {"input_ids": TEXT, "pixel_values": {0: A}}),
    "wav2vec2": of_library("wav2vec2", waves, {"input_values": {0: A, 1: A}}),
}


class Residual(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(8, width, 3, stride, 1), nn.Conv2d(width, 8, 3, 1, 1)
        self.norm, self.short = nn.BatchNorm2d(width), nn.Conv2d(8, 8, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.last(self.norm(self.first(x)).relu()) + self.short(x))


class ResNet(nn.Module):
    """It trains: statistics are written."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.blocks = nn.Sequential(Residual(8, 1), Residual(16, 2), Residual(16, 2))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 16)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2)

    def forward(self, ids: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.layers(self.words(ids), mask=mask, is_causal=True)


def square(batch: int, side: int) -> dict[str, Any]:
    return {"x": torch.randn(batch, 1, 8, 8)}


SQUARE, GRID = {"x": {0: A}}, {"x": {0: A, 2: A, 3: A}}
NETS = {
    "resnet": Exported(ResNet, square, SQUARE),
    "densenet": Exported(DenseNet, square, SQUARE),
    "unet": Exported(
        UNet, lambda n, s: {"x": torch.randn(n, 3, 4 * s, 4 * s + 8)}, GRID, ((2, 4), (3, 6), (5, 5), (4, 9))
    ),
    "lstm": Exported(lambda: Lstm().eval(), lambda n, s: {"ids": ids(n, 12)}, {"ids": {0: A}}),  # it is unrolled
    "encoder": Exported(Sequences, lambda n, s: {"ids": ids(n, s)}, {"ids": TEXT}),
    "experts": Exported(Experts, lambda n, s: {"ids": ids(n, s) % 20}, {"ids": TEXT}),
}
