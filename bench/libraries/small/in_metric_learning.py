"""pytorch-metric-learning: losses, miners, distances, reducers."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from pytorch_metric_learning.utils import inference
from torch import Tensor, nn

from .table import add, r


def pairs() -> Any:
    labels = torch.arange(6) % 3, torch.arange(8) % 3, torch.tensor([0, 0, 1, 1, 2, 2])
    return [(r(len(label), 4, grad=True), label) for label in labels]


PAIRS: Any = pairs

for make in (
    losses.AngularLoss,
    losses.CircleLoss,
    losses.ContrastiveLoss,
    losses.DynamicSoftMarginLoss,
    lambda: losses.FastAPLoss(4),
    lambda: losses.HistogramLoss(5),
    losses.IntraPairVarianceLoss,
    losses.LiftedStructureLoss,
    losses.GeneralizedLiftedStructureLoss,
    losses.MultiSimilarityLoss,
    losses.NCALoss,
    losses.NTXentLoss,
    losses.PNPLoss,
    lambda: losses.RankedListLoss(0.4, 5.0),
    losses.SignalToNoiseRatioContrastiveLoss,
    losses.SupConLoss,
    losses.TripletMarginLoss,
    losses.TupletMarginLoss,
    losses.InstanceLoss,
    losses.SmoothAPLoss,
    losses.ThresholdConsistentMarginLoss,
    lambda: losses.NPairsLoss(),
    lambda: losses.MarginLoss(learn_beta=True, num_classes=3),
    lambda: losses.ArcFaceLoss(3, 4),
    lambda: losses.CosFaceLoss(3, 4),
    lambda: losses.LargeMarginSoftmaxLoss(3, 4),
    lambda: losses.NormalizedSoftmaxLoss(3, 4),
    lambda: losses.ProxyAnchorLoss(3, 4),
    lambda: losses.ProxyNCALoss(3, 4),
    lambda: losses.SoftTripleLoss(3, 4, centers_per_class=2),
    lambda: losses.SphereFaceLoss(3, 4),
    lambda: losses.SubCenterArcFaceLoss(num_classes=3, embedding_size=4),
):
    add(type(make()).__name__, make, PAIRS)


def mined(loss: Any, miner: Any) -> Any:
    def run(embeddings: Tensor, labels: Tensor) -> Any:
        pairs = miner(embeddings, labels)
        return loss(embeddings, labels, pairs), [part.shape for part in pairs]

    run.state = nn.ModuleList([loss, miner])  # type: ignore[attr-defined]
    return run


add("mined.MultiSimilarity", lambda: mined(losses.TripletMarginLoss(), miners.MultiSimilarityMiner()), PAIRS)
add("mined.BatchHard", lambda: mined(losses.TripletMarginLoss(), miners.BatchHardMiner()), PAIRS)
add("mined.TripletMargin", lambda: mined(losses.TripletMarginLoss(), miners.TripletMarginMiner(0.2, "semihard")), PAIRS)
add(
    "mined.UniformHistogram",
    lambda: mined(losses.ContrastiveLoss(), miners.UniformHistogramMiner(5, 5, distance=distances.CosineSimilarity())),
    PAIRS,
)
add(
    "reduced",
    lambda: losses.ContrastiveLoss(
        reducer=reducers.MultipleReducers(
            {"pos_loss": reducers.ThresholdReducer(low=0), "neg_loss": reducers.MeanReducer()}
        ),
        distance=distances.SNRDistance(),
        embedding_regularizer=regularizers.LpRegularizer(),
    ),
    PAIRS,
)
add("CrossBatchMemory", lambda: losses.CrossBatchMemory(losses.NTXentLoss(), 4, memory_size=10), PAIRS)
add(
    "VICRegLoss",
    lambda: lambda a, b: losses.VICRegLoss()(a, ref_emb=b),
    lambda: [(r(5, 4, grad=True), r(5, 4)), (r(6, 4, grad=True), r(6, 4))],
)
add(
    "SelfSupervisedLoss",
    lambda: losses.SelfSupervisedLoss(losses.NTXentLoss()),
    lambda: [(r(5, 4, grad=True), r(5, 4)), (r(6, 4, grad=True), r(6, 4))],
)


def batched(queries: Tensor, references: Tensor, size: int) -> Any:
    seen: list[Any] = []
    distance = distances.BatchedDistance(
        distances.LpDistance(), iter_fn=lambda mat, s, e: seen.append((mat, s, e)), batch_size=size
    )
    distance(queries, references)
    return seen


add(
    "BatchedDistance",
    lambda: batched,
    lambda: [(r(5, 4), r(3, 4), 2), (r(5, 4), r(3, 4), 3)],
)
add(
    "MatchFinder",
    lambda: lambda a, b: inference.MatchFinder(distances.CosineSimilarity(), threshold=0.1).is_match(a, b),
    lambda: [(r(5, 4), r(5, 4)), (r(3, 4), r(3, 4))],
)
