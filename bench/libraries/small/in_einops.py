"""Networks written with einops: x-transformers, vit-pytorch and smaller packages around them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from conformer import Conformer
from local_attention import LocalMHA
from mlp_mixer_pytorch import MLPMixer
from nystrom_attention import NystromAttention
from perceiver_pytorch import Perceiver, PerceiverIO
from vector_quantize_pytorch import FSQ, VectorQuantize
from x_transformers import ContinuousTransformerWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

from .table import add, ints, of


def tokens() -> list[tuple[torch.Tensor]]:
    return [(ints(32, 2, length),) for length in (8, 8, 12, 10)]


def decoder(**options: Any) -> Callable[[], torch.nn.Module]:
    return lambda: TransformerWrapper(
        num_tokens=32, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, **options)
    )


add("Decoder", decoder(), tokens)
add("Decoder, rotary", decoder(rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True), tokens)
add("Decoder, alibi", decoder(alibi_pos_bias=True, alibi_num_heads=2), tokens)
add(
    "Encoder",
    lambda: ContinuousTransformerWrapper(
        dim_in=8, dim_out=8, max_seq_len=16, attn_layers=Encoder(dim=16, depth=2, heads=2)
    ),
    of((2, 8, 8), (2, 8, 8), (2, 12, 8), (2, 10, 8)),
)
add(
    "ViTransformerWrapper",
    lambda: ViTransformerWrapper(
        image_size=16, patch_size=8, num_classes=5, attn_layers=Encoder(dim=16, depth=2, heads=2)
    ),
    of((2, 3, 16, 16), (2, 3, 16, 16), (3, 3, 16, 16), (4, 3, 16, 16)),
)

PLAIN = {"image_size": 32, "patch_size": 8, "dim": 16, "depth": 2, "heads": 2, "mlp_dim": 32}
VISION: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViT", PLAIN),
    "simple_vit": ("SimpleViT", PLAIN),
    "deepvit": ("DeepViT", PLAIN),
    "cait": ("CaiT", {**PLAIN, "cls_depth": 1}),
    "t2t": (
        "T2TViT",
        {"image_size": 32, "dim": 16, "depth": 2, "heads": 2, "mlp_dim": 32, "t2t_layers": ((7, 4), (3, 2))},
    ),
    "cct": (
        "CCT",
        {
            "img_size": (32, 32),
            "embedding_dim": 16,
            "n_conv_layers": 1,
            "num_layers": 2,
            "num_heads": 2,
            "mlp_ratio": 2.0,
        },
    ),
    "cvt": ("CvT", {}),
    "max_vit": ("MaxViT", {"dim_conv_stem": 8, "dim": 8, "dim_head": 4, "depth": (1, 1), "window_size": 4}),
    "nest": (
        "NesT",
        {"image_size": 32, "patch_size": 4, "dim": 8, "heads": 1, "num_hierarchies": 3, "block_repeats": (1, 1, 1)},
    ),
    "pit": ("PiT", {"image_size": 32, "patch_size": 8, "dim": 8, "depth": (1, 1), "heads": 2, "mlp_dim": 16}),
    "regionvit": (
        "RegionViT",
        {"dim": (8, 8, 8, 8), "depth": (1, 1, 1, 1), "window_size": 2, "tokenize_local_3_conv": False},
    ),
    "xcit": ("XCiT", {**PLAIN, "cls_depth": 1}),
    "simple_flash_attn_vit": ("SimpleViT", PLAIN),
    "vit_with_patch_dropout": ("ViT", {**PLAIN, "patch_dropout": 0.25}),
    "learnable_memory_vit": ("ViT", PLAIN),
    "vit_for_small_dataset": ("ViT", PLAIN),
    "parallel_vit": ("ViT", PLAIN),
}


def vision(module: str, name: str, options: dict[str, Any]) -> Callable[[], torch.nn.Module]:
    return lambda: getattr(importlib.import_module(f"vit_pytorch.{module}"), name)(num_classes=5, **options)


for module, (name, options) in VISION.items():
    add(module, vision(module, name, options), of(*((batch, 3, 32, 32) for batch in (2, 2, 3, 4))))

add(
    "Perceiver",
    lambda: Perceiver(
        input_channels=3,
        input_axis=2,
        num_freq_bands=2,
        max_freq=4.0,
        depth=2,
        num_latents=8,
        latent_dim=16,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
        num_classes=5,
    ),
    of((2, 8, 8, 3), (2, 8, 8, 3), (3, 8, 8, 3), (4, 8, 8, 3)),
)
add(
    "PerceiverIO",
    lambda: PerceiverIO(
        dim=8,
        queries_dim=8,
        logits_dim=5,
        depth=2,
        num_latents=8,
        latent_dim=16,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
    ),
    of((2, 10, 8), (2, 10, 8), (3, 10, 8), (4, 10, 8)),
)
add("VectorQuantize", lambda: VectorQuantize(dim=8, codebook_size=16), of((2, 10, 8), (2, 10, 8), (3, 10, 8)))
add("FSQ", lambda: FSQ(levels=[4, 4, 3]), of((2, 10, 3), (2, 10, 3), (3, 10, 3), (4, 10, 3)))
add(
    "MLPMixer",
    lambda: MLPMixer(image_size=32, channels=3, patch_size=8, dim=16, depth=2, num_classes=5),
    of((2, 3, 32, 32), (2, 3, 32, 32), (3, 3, 32, 32), (4, 3, 32, 32)),
)
add(
    "Conformer",
    lambda: Conformer(dim=16, depth=2, dim_head=8, heads=2),
    of((2, 10, 16), (2, 10, 16), (3, 10, 16), (4, 10, 16)),
)
add(
    "NystromAttention",
    lambda: NystromAttention(dim=16, dim_head=8, heads=2, num_landmarks=4),
    of((2, 12, 16), (2, 12, 16), (3, 12, 16), (4, 12, 16)),
)
add(
    "LocalMHA",
    lambda: LocalMHA(dim=16, window_size=4, dim_head=8, heads=2, causal=True),
    of((2, 16, 16), (2, 16, 16), (3, 16, 16), (4, 16, 16)),
)
