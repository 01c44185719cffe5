"""Transformers built from small configurations, with inputs made from a seed."""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

transformers.logging.set_verbosity_error()

VOCABULARY = 100
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    **TOKENS,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, **TOKENS}
PIXELS = {**SIZES, "image_size": 32, "patch_size": 8}
SEQUENCES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "max_source_positions": 50,
    "max_target_positions": 50,
    "decoder_start_token_id": 1,
    **TOKENS,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
AUDIO = {
    **SIZES,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 2,
    "apply_spec_augment": False,  # masks are drawn with numpy
    "layerdrop": 0.0,
}

Inputs = Callable[[torch.Generator], dict[str, Any]]


def ids(length: int = 16, name: str = "input_ids", batch: int = 2) -> Inputs:
    return lambda g: {name: torch.randint(3, VOCABULARY, (batch, length), generator=g)}


def random(name: str, *shape: int) -> Inputs:
    return lambda g: {name: torch.randn(*shape, generator=g)}


def together(*parts: Inputs, **constants: Any) -> Inputs:
    return lambda g: {name: value for part in parts for name, value in part(g).items()} | constants


def eagerly() -> contextlib.AbstractContextManager[Any]:
    """For runs that captured ones are compared with: libraries are told that they are being compiled.

    transformers makes masks then that it leaves out otherwise, and other kernels give other bits.
    """
    return mock.patch.object(torch.compiler, "is_compiling", return_value=True)


@dataclass
class Model:
    """A model class with its configuration and the arguments of a call."""

    name: str
    model: str
    config: str
    sizes: dict[str, Any]
    inputs: Inputs = field(default_factory=ids)

    def make(self, seed: int = 0) -> Any:
        torch.manual_seed(seed)
        sizes = self.sizes() if callable(self.sizes) else self.sizes
        return getattr(transformers, self.model)(getattr(transformers, self.config)(**sizes)).eval()

    def arguments(self, seed: int) -> dict[str, Any]:
        return self.inputs(torch.Generator().manual_seed(seed))


def detr() -> dict[str, Any]:
    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"], layer_type="basic"
    )
    sizes = {k: v for k, v in SEQUENCES.items() if k.startswith(("d_", "encoder_", "decoder_")) and "token" not in k}
    return {
        **sizes,
        "use_timm_backbone": False,
        "backbone_config": backbone,
        "backbone": None,
        "use_pretrained_backbone": False,
        "num_queries": 5,
    }


GROUPED = {**SIZES, "num_key_value_heads": 2}
NO_CACHE = together(ids(), use_cache=False)
CACHE = together(ids(), use_cache=True)
TWO_TEXTS = together(ids(), ids(8, "decoder_input_ids"), use_cache=False)
IMAGE = random("pixel_values", 2, 3, 32, 32)
MODELS = {
    model.name: model
    for model in (
        Model("bert", "BertModel", "BertConfig", SIZES),
        Model("gpt2", "GPT2LMHeadModel", "GPT2Config", GPT2, NO_CACHE),
        Model("llama", "LlamaForCausalLM", "LlamaConfig", SIZES, NO_CACHE),
        Model("llama_cache", "LlamaForCausalLM", "LlamaConfig", SIZES, CACHE),
        Model("t5", "T5ForConditionalGeneration", "T5Config", T5, TWO_TEXTS),
        Model("vit", "ViTModel", "ViTConfig", PIXELS, IMAGE),
        Model(
            "whisper",
            "WhisperModel",
            "WhisperConfig",
            SEQUENCES,
            together(random("input_features", 2, 80, 100), ids(8, "decoder_input_ids"), use_cache=False),
        ),
        Model(
            "mixtral",
            "MixtralForCausalLM",
            "MixtralConfig",
            {**GROUPED, "num_local_experts": 4},
            NO_CACHE,
        ),
        Model("mistral", "MistralForCausalLM", "MistralConfig", GROUPED, NO_CACHE),
        Model("qwen2", "Qwen2ForCausalLM", "Qwen2Config", GROUPED, NO_CACHE),
        Model(
            "opt",
            "OPTForCausalLM",
            "OPTConfig",
            {**SIZES, "ffn_dim": 64, "word_embed_proj_dim": 32},
            NO_CACHE,
        ),
        Model("bart", "BartModel", "BartConfig", SEQUENCES, TWO_TEXTS),
        Model(
            "clip",
            "CLIPModel",
            "CLIPConfig",
            {"text_config": SIZES, "vision_config": PIXELS, "projection_dim": 16},
            together(ids(), IMAGE),
        ),
        Model("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config", AUDIO, random("input_values", 2, 400)),
        Model(
            "swin",
            "SwinModel",
            "SwinConfig",
            {
                "image_size": 32,
                "patch_size": 2,
                "embed_dim": 16,
                "depths": [2, 2],
                "num_heads": [2, 4],
                "window_size": 4,
            },
            IMAGE,
        ),
        Model(
            "mamba_loop",
            "MambaForCausalLM",
            "MambaConfig",
            {**SIZES, "state_size": 4, "use_associative_scan": False},
            NO_CACHE,
        ),
        Model(  # as it is by default: with torch.vmap, and only where it is compiled
            "mamba",
            "MambaForCausalLM",
            "MambaConfig",
            {**SIZES, "state_size": 4},
            NO_CACHE,
        ),
        Model("detr", "DetrModel", "DetrConfig", detr, random("pixel_values", 1, 3, 64, 64)),
        Model("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES, NO_CACHE),
        Model("gemma2_cache", "Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "head_dim": 8}, CACHE),
        Model(
            "t5_cache",
            "T5ForConditionalGeneration",
            "T5Config",
            T5,
            together(ids(), ids(8, "decoder_input_ids"), use_cache=True),
        ),
    )
}


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors of an output in order, those of its cache too."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return [tensor for item in vars(value).values() for tensor in tensors(item)]
    return []


def same(left: Any, right: Any) -> bool:
    """Equal types, keys and bits."""
    if type(left) is not type(right) or (isinstance(left, dict) and list(left) != list(right)):
        return False
    a, b = tensors(left), tensors(right)
    return len(a) == len(b) and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))
