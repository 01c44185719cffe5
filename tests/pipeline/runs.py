"""A step of a runtime beside the uncut model, micro-batch by micro-batch."""

import threading

import torch

from pipeline.cases import leaves
from pipeline.models import gradients, same

SETTINGS = [
    {"schedule": "1f1b"},
    {"schedule": "gpipe", "checkpoint": True},
    {"schedule": "1f1b", "checkpoint": True, "backend": "native"},
    {"schedule": "gpipe", "backend": "native"},
    {"schedule": "sequential", "reduction": "sum"},
]


def loss_of(result):
    return sum((leaf.double() ** 2).mean() for leaf in leaves(result) if leaf.is_floating_point())


def pieces(n, parts):
    return [n // parts + (i < n % parts) for i in range(parts)]


def run_uncut(model, args, parts, loss, *, target=None, reduction="mean"):
    """Loss and results, micro-batch by micro-batch; gradients stay in the parameters."""
    rows = pieces(len(args[0]), parts)
    batches = zip(*(arg.split(rows) for arg in (*args, *([target] if target is not None else []))))
    losses, results = [], []
    for number, batch in zip(rows, batches):
        result = model(*batch[: len(args)])
        weight = number / sum(rows) if reduction == "mean" else 1.0
        found = loss(result, *batch[len(args) :]) * weight
        found.backward()
        losses.append(found.detach())
        results.append([leaf.detach() for leaf in leaves(result)])
    return torch.stack(losses).sum(), [torch.cat(column) for column in zip(*results)]


def compare(model, run, args, parts, loss=loss_of, *, target=None, reduction="mean", uncut=None, before=None):
    found = []
    for which in ("uncut", "stages"):
        if before is not None:
            model.load_state_dict(before)
        model.zero_grad()
        if which == "uncut":
            result = run_uncut(model if uncut is None else uncut, args, parts, loss, target=target, reduction=reduction)
        else:
            total, outputs = run.step(*args, target=target)
            assert not total.requires_grad
            result = total, leaves(outputs)
        found.append((*result, gradients(model), [value.clone() for value in model.buffers()]))
    (loss_a, outputs_a, gradients_a, buffers_a), (loss_b, outputs_b, gradients_b, buffers_b) = found
    assert same(loss_a, loss_b)
    assert len(outputs_a) == len(outputs_b)
    assert all(map(same, outputs_a, outputs_b))
    assert all(map(same, gradients_a, gradients_b))
    assert all(map(same, buffers_a, buffers_b))


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gramme")]
