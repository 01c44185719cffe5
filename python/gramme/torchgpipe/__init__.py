"""Pipeline parallelism with the interface of torchgpipe: code written for it runs after changing the import.

>>> import torch
>>> from torch import nn
>>> from gramme.torchgpipe import GPipe
>>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
>>> model = GPipe(model, balance=[2, 1], devices=["cpu", "cpu"], chunks=2)
>>> model(torch.ones(8, 4)).shape
torch.Size([8, 2])

docs/pipeline.md says what holds, sentence by sentence, and where it differs from its predecessors.
"""

from .checkpoint import is_checkpointing, is_recomputing
from .gpipe import GPipe
from .pipe import NoChunk, Pipe, PipeSequential, WithDevice

__all__ = ["GPipe", "NoChunk", "Pipe", "PipeSequential", "WithDevice", "is_checkpointing", "is_recomputing"]
