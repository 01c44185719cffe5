"""Nets called with batches and lengths that vary, each with the most captures that it may cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from e2e.models import MODELS, VOCABULARY
from torch import nn

Arguments = dict[str, Any]
TEXTS = [(2, 16), (3, 9), (1, 33), (5, 2), (4, 40), (2, 7)]
IMAGES = [
    (2, 4),
    (3, 6),
    (1, 5),
    (4, 9),
    (2, 3),
    (5, 7),
    (3, 8),
    (6, 2),
    (2, 6),
]  # batch, and side in units of eight pixels


class UNet(nn.Module):
    """Two levels down and up; what goes across is cropped or padded to fit."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.bottom = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ConvTranspose2d(16, 8, 2, stride=2)])
        self.join = nn.ModuleList([nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)])
        self.norms = nn.ModuleList([nn.GroupNorm(4, 8), nn.GroupNorm(4, 16)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        across = []
        for conv, norm in zip(self.down, self.norms, strict=True):
            x = norm(conv(x)).relu()
            across.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x).relu()
        for up, join in zip(self.up, self.join, strict=True):
            other, x = across.pop(), up(x)
            x = F.pad(x, (0, other.shape[3] - x.shape[3], 0, other.shape[2] - x.shape[2]))
            x = join(torch.cat([x, other], 1)).relu()
        return self.head(x)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(VOCABULARY, 8), nn.LSTM(8, 12, 2, batch_first=True)
        self.head = nn.Linear(12, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, (hidden, _) = self.rnn(self.words(ids))
        return self.head(out), hidden[-1]


@dataclass(frozen=True)
class SizedModel:
    """A net, its pairs of sizes, what makes arguments for a pair, and a limit of captures."""

    name: str
    make: Callable[[], nn.Module]
    arguments: Callable[[torch.Generator, int, int], Arguments]
    pairs: list[tuple[int, int]]
    limit: int = 3

    def calls(self) -> list[Arguments]:
        return [self.arguments(torch.Generator().manual_seed(i), *pair) for i, pair in enumerate(self.pairs)]


def ids(g: torch.Generator, batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=g)


def text(g: torch.Generator, batch: int, length: int) -> Arguments:
    return {"input_ids": ids(g, batch, length), "use_cache": False}


def image(g: torch.Generator, batch: int, side: int) -> Arguments:
    return {"pixel_values": torch.randn(batch, 3, 8 * side, 8 * side + 16, generator=g)}


def of_library(name: str, *args: Any, **kwargs: Any) -> SizedModel:
    return SizedModel(name, MODELS[name].make, *args, **kwargs)


def made(kind: type[nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return kind().eval()

    return make


SIZED = {
    model.name: model
    for model in (
        of_library("bert", lambda g, b, n: {"input_ids": ids(g, b, n)}, TEXTS),
        of_library("gpt2", text, TEXTS),
        of_library("llama", text, TEXTS),
        of_library("t5", lambda g, b, n: text(g, b, n) | {"decoder_input_ids": ids(g, b, n // 2 + 1)}, TEXTS),
        of_library("vit", lambda g, b, n: image(g, b, n) | {"interpolate_pos_encoding": True}, IMAGES),
        of_library(
            "whisper",
            lambda g, b, n: {
                "input_features": torch.randn(b, 80, 100, generator=g),
                "decoder_input_ids": ids(g, b, n),
                "use_cache": False,
            },
            TEXTS,
        ),
        of_library("mixtral", text, TEXTS),
        of_library("swin", image, IMAGES, limit=6),
        SizedModel(
            "unet",
            made(UNet),
            lambda g, b, n: {"x": torch.randn(b, 3, 4 * n + b, 5 * n, generator=g)},
            IMAGES,
            limit=5,
        ),
        SizedModel("lstm", made(Lstm), lambda g, b, n: {"ids": ids(g, b, n)}, TEXTS),
    )
}
