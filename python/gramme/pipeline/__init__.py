"""Any captured model cut into stages.

>>> import torch
>>> from torch import nn
>>> import gramme.pipeline
>>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
>>> cut = gramme.pipeline.split(model, (torch.ones(8, 4),), stages=2)
>>> [list(stage.state_dict()) for stage in cut.stages]
[['0.weight', '0.bias'], ['2.weight', '2.bias']]
>>> torch.equal(cut(torch.ones(3, 4)), model(torch.ones(3, 4)))
True
"""

from ._observe import cut
from ._peers import PeerError, watched
from ._plan import Plan, PlannedStage, Portal
from ._runtime import Runtime
from ._schedule import Action, Schedule, ScheduleError
from ._simulate import Simulation, Span, Value, simulate
from ._split import Split, split

__all__ = [
    "Action",
    "PeerError",
    "Plan",
    "PlannedStage",
    "Portal",
    "Runtime",
    "Schedule",
    "ScheduleError",
    "Simulation",
    "Span",
    "Split",
    "Value",
    "cut",
    "simulate",
    "split",
    "watched",
]
