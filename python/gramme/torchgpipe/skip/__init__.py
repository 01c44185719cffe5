"""Skip connections between stages that are not neighbours.

>>> import torch
>>> from torch import nn
>>> @skippable(stash=["x"])
... class Stash(nn.Module):
...     def forward(self, input):
...         yield stash("x", input)
...         return input * 2
>>> @skippable(pop=["x"])
... class Pop(nn.Module):
...     def forward(self, input):
...         x = yield pop("x")
...         return input + x
>>> model = nn.Sequential(Stash(), Pop())
>>> verify_skippables(model)
>>> model(torch.ones(2))
tensor([3., 3.])
"""

from .namespace import Namespace
from .skippable import pop, skippable, stash, verify_skippables

__all__ = ["Namespace", "pop", "skippable", "stash", "verify_skippables"]
