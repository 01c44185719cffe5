"""BERT, four layers of it, on three sentences of one length and one that is longer."""

import gramme
import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
torch.set_num_threads(1)
config = BertConfig(num_hidden_layers=4, hidden_size=128, num_attention_heads=4, intermediate_size=256, vocab_size=1000)
model = BertModel(config).eval()
compiled = gramme.compile(model, backend="native")


def encode(length: int) -> torch.Tensor:
    tokens = torch.randint(0, config.vocab_size, (2, length))
    return compiled(input_ids=tokens).pooler_output


with torch.no_grad():
    for length in (16, 16, 16, 24, 32):
        encode(length)
