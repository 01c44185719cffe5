"""Small models of transformers, from configs."""

import gramme
import torch
from torch.nn import functional

SMALL = dict(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=50)


def llama(transformers):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, use_cache=False))


def bert(transformers):
    none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, **none))


def distilbert(transformers):
    sizes = dict(dim=32, n_layers=4, n_heads=4, hidden_dim=64, vocab_size=50, dropout=0.0, attention_dropout=0.0)
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**sizes))


def gpt2(transformers):
    """Its embeddings are the head's, too."""
    sizes = dict(n_embd=32, n_layer=4, n_head=4, vocab_size=50, bos_token_id=0, eos_token_id=0)
    none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **none))


def t5(transformers):
    """What the encoder gives goes to all layers of the decoder."""
    sizes = dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=3, num_heads=4, vocab_size=50)
    config = transformers.T5Config(**sizes, dropout_rate=0.0, use_cache=False, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def mixtral(transformers):
    sizes = dict(SMALL, num_local_experts=4, num_key_value_heads=2)
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, use_cache=False))


def uncut(make, model):
    """The model, but Mixtral compiled: it asks whether it is, and sums its experts in another order then."""
    return gramme.compile(model, backend="eager", fullgraph=True, dynamic=True) if make is mixtral else model


def token_loss(result, target):
    return functional.cross_entropy(result.logits.flatten(0, 1), target.flatten())


def tokens(make, n, length):
    ids = torch.randint(0, 50, (n, length))
    return (ids, torch.ones_like(ids), torch.randint(0, 50, (n, length))) if make is t5 else (ids,)
