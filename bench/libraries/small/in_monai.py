"""MONAI: networks, losses, metrics, layers, transforms, inferers."""

from __future__ import annotations

from typing import Any

import torch
from monai import inferers, losses, metrics, transforms
from monai.data import MetaTensor
from monai.networks import blocks, layers, nets, one_hot
from monai.networks.layers import factories, simplelayers
from torch import Tensor

from .table import add, ints, of, r, u

# Networks
add(
    "UNet",
    lambda: nets.UNet(2, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1),
    of((1, 1, 16, 16), (2, 1, 16, 16), (2, 1, 32, 16)),
)
add("BasicUNet", lambda: nets.BasicUNet(2, 1, 2, features=(4, 4, 8, 8, 8, 4)), of((1, 1, 32, 32), (1, 1, 48, 32)))
add(
    "AttentionUnet",
    lambda: nets.AttentionUnet(2, 1, 2, channels=(4, 8), strides=(2,)),
    of((1, 1, 16, 16), (3, 1, 16, 16)),
)
add(
    "DynUNet",
    lambda: nets.DynUNet(
        2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=(4, 8, 8), deep_supervision=True, deep_supr_num=1
    ),
    of((1, 1, 16, 16), (2, 1, 16, 16)),
)
add(
    "SegResNet",
    lambda: nets.SegResNet(2, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)),
    of((1, 1, 16, 16), (2, 1, 8, 8)),
)
add(
    "SegResNetDS",
    lambda: nets.SegResNetDS(2, 8, 1, 2, blocks_down=(1, 1), dsdepth=2),
    of((1, 1, 16, 16), (2, 1, 16, 16)),
)
add("VNet", lambda: nets.VNet(2, 1, 1), of((1, 1, 32, 32)))
add(
    "UNETR",
    lambda: nets.UNETR(1, 2, (16, 16), feature_size=4, hidden_size=8, mlp_dim=16, num_heads=2, spatial_dims=2),
    of((1, 1, 16, 16), (2, 1, 16, 16)),
)
add(
    "SwinUNETR",
    lambda: nets.SwinUNETR(
        1, 2, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2), spatial_dims=2, patch_size=2, window_size=4
    ),
    of((1, 1, 64, 64)),
)
add(
    "ViT",
    lambda: nets.ViT(1, (16, 16), (8, 8), 16, 32, 2, 2, classification=True, num_classes=3, spatial_dims=2),
    of((1, 1, 16, 16), (3, 1, 16, 16)),
)
add(
    "ViTAutoEnc",
    lambda: nets.ViTAutoEnc(1, (16, 16), (4, 4), 1, 8, 8, 16, 1, 2, spatial_dims=2),
    of((1, 1, 16, 16), (2, 1, 16, 16)),
)
add(
    "DenseNet",
    lambda: nets.DenseNet(2, 1, 3, init_features=4, growth_rate=2, block_config=(2, 2)),
    of((2, 1, 16, 16), (3, 1, 24, 24)),
)
add(
    "ResNet",
    lambda: nets.ResNet("basic", [1, 1, 1, 1], [4, 4, 8, 8], spatial_dims=2, n_input_channels=1, num_classes=2),
    of((2, 1, 32, 32), (3, 1, 32, 32)),
)
add("HighResNet", lambda: nets.HighResNet(2, 1, 2), of((1, 1, 8, 8), (2, 1, 8, 8)))
add("AutoEncoder", lambda: nets.AutoEncoder(2, 1, 1, (2, 4), (2, 2)), of((1, 1, 8, 8), (2, 1, 8, 8)))
add("VarAutoEncoder", lambda: nets.VarAutoEncoder(2, (1, 8, 8), 1, 3, (2, 4), (2, 2)), of((1, 1, 8, 8), (2, 1, 8, 8)))
add("Regressor", lambda: nets.Regressor((1, 16, 16), (2,), (2, 4), (2, 2)), of((1, 1, 16, 16), (4, 1, 16, 16)))
add("Critic", lambda: nets.Critic((1, 8, 8), (2, 4), (2, 2)), of((1, 1, 8, 8), (4, 1, 8, 8)))
add("Generator", lambda: nets.Generator((4,), (2, 4, 4), (4, 2), (2, 2)), of((1, 4), (3, 4)))
add("FullyConnectedNet", lambda: nets.FullyConnectedNet(4, 3, (8, 6), dropout=0.2), of((2, 4), (3, 4), (4, 4)))
add(
    "AutoencoderKL",
    lambda: nets.AutoencoderKL(2, 1, 1, (1, 1), (4, 4), (False, True), latent_channels=2, norm_num_groups=2),
    of((1, 1, 8, 8), (2, 1, 8, 8)),
)
add(
    "DiffusionModelUNet",
    lambda: nets.DiffusionModelUNet(2, 1, 1, (1, 1), (8, 8), (False, True), norm_num_groups=4, num_head_channels=4),
    lambda: [(r(1, 1, 8, 8), torch.tensor([3])), (r(2, 1, 8, 8), torch.tensor([3, 7]))],
)
add(
    "VQVAE",
    lambda: nets.VQVAE(2, 1, 1, (4, 4), 1, (4, 4), ((2, 4, 1, 1),) * 2, ((2, 4, 1, 1, 0),) * 2, 8, 4),
    of((1, 1, 16, 16), (2, 1, 16, 16)),
)
add("PatchDiscriminator", lambda: nets.PatchDiscriminator(2, 4, 1, 1, 1), of((1, 1, 16, 16), (2, 1, 16, 16)))
add(
    "Restormer",
    lambda: nets.restormer.Restormer(2, 1, 1, 4, (1, 1, 1), (1, 1, 2), 1),
    of((1, 1, 16, 16), (1, 1, 24, 16)),
)
add(
    "DecoderOnlyTransformer",
    lambda: nets.DecoderOnlyTransformer(10, 8, 8, 1, 2),
    lambda: [(ints(10, 1, 4),), (ints(10, 2, 6),), (ints(10, 3, 8),)],
)
add("RegUNet", lambda: nets.RegUNet(2, 1, 2, 1, out_channels=2), of((1, 1, 8, 8), (2, 1, 8, 8)))
add("BasicUNetPlusPlus", lambda: nets.BasicUNetPlusPlus(2, 1, 2, (2, 2, 4, 4, 4, 2)), of((1, 1, 32, 32)))

# Losses
SEG: Any = lambda: [(r(2, 3, 8, 8, grad=True), ints(3, 2, 1, 8, 8)), (r(1, 3, 6, 6, grad=True), ints(3, 1, 1, 6, 6))]  # noqa: E731
add("DiceLoss", lambda: losses.DiceLoss(to_onehot_y=True, softmax=True), SEG)
add("DiceCELoss", lambda: losses.DiceCELoss(to_onehot_y=True, softmax=True), SEG)
add("DiceFocalLoss", lambda: losses.DiceFocalLoss(to_onehot_y=True, softmax=True, include_background=False), SEG)
add("GeneralizedDiceLoss", lambda: losses.GeneralizedDiceLoss(to_onehot_y=True, softmax=True), SEG)
add(
    "GeneralizedWassersteinDiceLoss",
    lambda: losses.GeneralizedWassersteinDiceLoss(torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.5], [1.0, 0.5, 0.0]])),
    lambda: [(r(2, 3, 4, 4, grad=True), ints(3, 2, 4, 4)), (r(1, 3, 5, 4, grad=True), ints(3, 1, 5, 4))],
)
add("FocalLoss", lambda: losses.FocalLoss(to_onehot_y=True, weight=[1.0, 2.0, 0.5]), SEG)
add("TverskyLoss", lambda: losses.TverskyLoss(to_onehot_y=True, sigmoid=True), SEG)
add(
    "ContrastiveLoss",
    lambda: losses.ContrastiveLoss(),
    lambda: [(r(4, 6, grad=True), r(4, 6)), (r(5, 6, grad=True), r(5, 6))],
)
add(
    "BarlowTwinsLoss",
    lambda: losses.BarlowTwinsLoss(),
    lambda: [(r(4, 6, grad=True), r(4, 6)), (r(7, 6, grad=True), r(7, 6))],
)
add(
    "SoftclDiceLoss",
    lambda: losses.SoftclDiceLoss(),
    lambda: [(u(1, 2, 8, 8), u(1, 2, 8, 8)), (u(2, 2, 6, 8), u(2, 2, 6, 8))],
)
add(
    "SSIMLoss",
    lambda: losses.SSIMLoss(2, win_size=5),
    lambda: [(u(1, 1, 12, 12, grad=True), u(1, 1, 12, 12)), (u(2, 1, 9, 9), u(2, 1, 9, 9))],
)
add(
    "LocalNormalizedCrossCorrelationLoss",
    lambda: losses.LocalNormalizedCrossCorrelationLoss(2),
    lambda: [(u(1, 1, 8, 8, grad=True), u(1, 1, 8, 8)), (u(2, 1, 6, 6, grad=True), u(2, 1, 6, 6))],
)
add(
    "GlobalMutualInformationLoss",
    lambda: losses.GlobalMutualInformationLoss(num_bins=6),
    lambda: [(u(1, 1, 8, 8, grad=True), u(1, 1, 8, 8)), (u(2, 1, 6, 6, grad=True), u(2, 1, 6, 6))],
)
add("BendingEnergyLoss", lambda: losses.BendingEnergyLoss(normalize=True), of((1, 2, 8, 8), (2, 2, 9, 8), grad=True))
add(
    "UnifiedFocal",
    lambda: losses.AsymmetricUnifiedFocalLoss(),
    lambda: [(u(2, 2, 6, 6, grad=True), ints(2, 2, 2, 6, 6))],
)
add(
    "JukeboxLoss",
    lambda: losses.JukeboxLoss(2),
    lambda: [(u(1, 1, 8, 8, grad=True), u(1, 1, 8, 8)), (u(1, 1, 8, 6), u(1, 1, 8, 6))],
)
add(
    "PatchAdversarialLoss",
    lambda: losses.PatchAdversarialLoss(),
    lambda: [
        (r(2, 1, 4, 4, grad=True), True, True),
        (r(2, 1, 4, 4, grad=True), False, True),
        ([r(2, 1, 4, 4), r(2, 1, 2, 2)], True, False),
    ],
)
add("NACLLoss", lambda: losses.NACLLoss(3, 2), lambda: [(r(2, 3, 6, 6, grad=True), ints(3, 2, 6, 6))])
add(
    "BoxGIoULoss",
    lambda: losses.BoxGIoULoss(),
    lambda: [(u(3, 4).cumsum(1), u(3, 4).cumsum(1)), (u(5, 4).cumsum(1), u(5, 4).cumsum(1))],
)

# Metrics
ONE: Any = lambda: [(one_hot(ints(3, n, 1, 6, 6), 3), one_hot(ints(3, n, 1, 6, 6), 3)) for n in (2, 3, 1)]  # noqa: E731


def metric(made: Any) -> Any:
    def run(a: Tensor, b: Tensor) -> Any:
        return made(a, b), made.aggregate()

    run.state = made  # type: ignore[attr-defined]
    return run


add("DiceMetric", lambda: metric(metrics.DiceMetric(include_background=False, reduction="mean_batch")), ONE)
add("MeanIoU", lambda: metric(metrics.MeanIoU(get_not_nans=True)), ONE)
add("GeneralizedDiceScore", lambda: metric(metrics.GeneralizedDiceScore()), ONE)
add("ConfusionMatrixMetric", lambda: metric(metrics.ConfusionMatrixMetric(metric_name=["f1 score", "precision"])), ONE)
add(
    "SSIMMetric",
    lambda: metric(metrics.SSIMMetric(2, win_size=5)),
    lambda: [(u(1, 1, 8, 8), u(1, 1, 8, 8)), (u(2, 1, 8, 8), u(2, 1, 8, 8))],
)
add("MMDMetric", lambda: metrics.MMDMetric(), lambda: [(r(4, 1, 3, 3), r(4, 1, 3, 3)), (r(5, 1, 3, 3), r(5, 1, 3, 3))])

# Layers and blocks
add("GaussianFilter", lambda: layers.GaussianFilter(2, 1.5, requires_grad=True), of((1, 1, 8, 8), (2, 3, 8, 9)))
add("SavitzkyGolayFilter", lambda: layers.SavitzkyGolayFilter(5, 2), of((1, 1, 12), (2, 1, 15)))
add(
    "AffineTransform", lambda: layers.AffineTransform(), lambda: [(r(1, 1, 6, 6), torch.eye(3) * s) for s in (1.0, 0.5)]
)
add(
    "Warp",
    lambda: blocks.Warp(),
    lambda: [(r(1, 1, 6, 6), r(1, 2, 6, 6, grad=True)), (r(2, 1, 5, 6), r(2, 2, 5, 6, grad=True))],
)
add("SABlock", lambda: blocks.SABlock(8, 2, qkv_bias=True), of((1, 4, 8), (2, 6, 8)))
add(
    "CrossAttentionBlock",
    lambda: blocks.CrossAttentionBlock(8, 2),
    lambda: [(r(1, 4, 8), r(1, 3, 8)), (r(2, 4, 8), r(2, 5, 8))],
)
add("ASPP", lambda: blocks.SimpleASPP(2, 4, 4), of((1, 4, 8, 8), (2, 4, 12, 8)))
add("DropPath", lambda: layers.DropPath(0.5), of((4, 3), (5, 3)))


def morphology(image: Tensor, kind: int) -> Tensor:
    mask = image > image.mean()
    out = simplelayers.median_filter(image, kernel_size=(kind, kind), spatial_dims=2) if kind > 1 else image
    return torch.where(mask, out, factories.Act["RELU"]()(image))


add("median_filter", lambda: morphology, lambda: [(r(1, 6, 6), 3), (r(1, 6, 6), 1), (r(1, 8, 6), 3)])


# Transforms and inferers
def chain(image: Tensor) -> Any:
    steps = transforms.Compose(
        [transforms.NormalizeIntensity(), transforms.ScaleIntensity(0.0, 1.0), transforms.Flip(1)]
    )
    return steps(image) + 1


add("transforms", lambda: chain, of((1, 6, 6), (1, 6, 7)))


def meta(image: Tensor, scale: float) -> Any:
    tensor = MetaTensor(image, meta={"scale": scale})
    out = tensor * scale + 1
    out.meta["seen"] = len(out.meta)
    return out.as_tensor(), sorted(out.meta), type(out).__name__


add("MetaTensor", lambda: meta, lambda: [(r(1, 4, 4), 2.0), (r(1, 5, 4), 0.5)])


def sliding() -> Any:
    net = torch.nn.Conv2d(1, 2, 3, padding=1)
    return lambda image, overlap: inferers.sliding_window_inference(
        image, (6, 6), 2, net, overlap=overlap, mode="gaussian"
    )


add("sliding_window_inference", sliding, lambda: [(r(1, 1, 10, 10), 0.5), (r(1, 1, 12, 9), 0.25)])
