"""Programs as users of libraries write them, around torch.compile. Each gives a function of a step number.

A program calls `torch.compile` itself and nothing of a front end's own: whichever is behind torch.compile serves it.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Step = Callable[[int], Any]
PROGRAMS: dict[str, Callable[[Any], Step]] = {}


def program(make: Callable[[Any], Step]) -> Callable[[Any], Step]:
    PROGRAMS[make.__name__] = make
    return make


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64}
    return LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, **sizes))


def tokens(step: int) -> torch.Tensor:
    return torch.randint(0, 64, (2, 12), generator=seeded(step))


def trained(model: nn.Module, call: Callable[..., Any], optimizer: torch.optim.Optimizer, *args: Any) -> Any:
    loss = call(*args)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), [p.detach().clone() for p in model.parameters()]


@program
def transformers_trainer(backend: Any) -> Step:
    from transformers import Trainer, TrainingArguments

    def run(step: int) -> Any:
        torch.manual_seed(0)
        model = llama()
        data = [{"input_ids": row, "labels": row} for row in tokens(step)]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            given: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "save_strategy": "no"}
            given["remove_unused_columns"] = False  # by the signature of forward, which a compiled module has not
            arguments = TrainingArguments(output_dir=folder, max_steps=3, per_device_train_batch_size=2, **given)
            Trainer(torch.compile(model, backend=backend), arguments, train_dataset=data).train()
        return [p.detach() for p in model.parameters()]

    return run


@program
def transformers_generate(backend: Any) -> Step:
    model = llama().eval()
    model.forward = torch.compile(model.forward, backend=backend)

    def run(step: int) -> Any:
        with torch.no_grad():
            return model.generate(tokens(step), max_new_tokens=4, do_sample=False, pad_token_id=0)

    return run


@program
def accelerate_regional(backend: Any) -> Step:
    from accelerate.utils import compile_regions

    model = llama()
    compiled = compile_regions(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss(ids: torch.Tensor) -> Any:
        return compiled(input_ids=ids, labels=ids).loss

    return lambda step: trained(model, loss, optimizer, tokens(step))


@program
def peft_lora(backend: Any) -> Step:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(target_modules=["q_proj", "v_proj"], r=4, lora_dropout=0.0))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)

    def loss(ids: torch.Tensor) -> Any:
        return compiled(input_ids=ids, labels=ids).loss

    return lambda step: trained(model, loss, optimizer, tokens(step))


@program
def diffusers_unet(backend: Any) -> Step:
    from diffusers import DDIMScheduler, UNet2DModel

    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    unet = UNet2DModel(8, 3, 3, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, **blocks).eval()
    compiled = torch.compile(unet, backend=backend)
    scheduler = DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(3)

    def run(step: int) -> Any:
        image = torch.randn(1, 3, 8, 8, generator=seeded(step))
        with torch.no_grad():
            for time in scheduler.timesteps:
                image = scheduler.step(compiled(image, time).sample, time, image).prev_sample
        return image

    return run


@program
def lightning_trainer(backend: Any) -> Step:
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

        def training_step(self, batch: Any, index: int) -> Any:
            return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    def run(step: int) -> Any:
        torch.manual_seed(step)
        model = Model()
        pairs = torch.utils.data.TensorDataset(torch.randn(12, 8), torch.randn(12, 1))
        quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
        trainer.fit(torch.compile(model, backend=backend), torch.utils.data.DataLoader(pairs, batch_size=4))
        return [p.detach() for p in model.parameters()]

    return run


@program
def lightning_fabric(backend: Any) -> Step:
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    plain = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    model, optimizer = fabric.setup(torch.compile(plain, backend=backend), torch.optim.SGD(plain.parameters(), lr=0.1))

    def run(step: int) -> Any:
        x = torch.randn(4, 8, generator=seeded(step))
        optimizer.zero_grad()
        loss = model(x).square().mean()
        fabric.backward(loss)
        optimizer.step()
        return loss.detach(), [p.detach().clone() for p in plain.parameters()]

    return run


def graph_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    edges = torch.randint(0, 10, (2, 30), generator=seeded(step))
    return torch.randn(10, 8, generator=seeded(step)), edges


@program
def geometric_gcn(backend: Any) -> Step:
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(8, 16), GCNConv(16, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edges).relu(), edges)

    model = Net()
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters())
    return lambda step: trained(model, lambda *a: compiled(*a).square().mean(), optimizer, *graph_of(step))


@program
def geometric_gat(backend: Any) -> Step:
    from torch_geometric.nn import GAT

    model = GAT(8, 16, 2, 4, heads=2)
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters())
    return lambda step: trained(model, lambda *a: compiled(*a).square().mean(), optimizer, *graph_of(step))


@program
def torchrl_ppo_loss(backend: Any) -> Step:
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
    from tensordict.nn import TensorDictModule as Module
    from torchrl.objectives import ClipPPOLoss

    net = nn.Sequential(nn.Linear(4, 2), NormalParamExtractor())
    sampled = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=torch.distributions.Normal)
    actor = ProbabilisticTensorDictSequential(Module(net, ["observation"], ["loc", "scale"]), sampled)
    critic = Module(nn.Linear(4, 1), ["observation"], ["state_value"])
    loss = ClipPPOLoss(actor, critic)
    compiled = torch.compile(loss, backend=backend)

    def run(step: int) -> Any:
        def of(*size: int) -> torch.Tensor:
            return torch.randn(*size, generator=seeded(step))

        names = {"observation": of(6, 4), "action": of(6, 1), "action_log_prob": of(6, 1)}
        data = TensorDict({**names, "advantage": of(6, 1), "value_target": of(6, 1)}, [6])
        return compiled(data)["loss_objective"].detach()

    return run


@program
def tensordict_module(backend: Any) -> Step:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(nn.Linear(4, 8), ["x"], ["hidden"])
    model = TensorDictSequential(first, TensorDictModule(nn.Linear(8, 2), ["hidden"], ["y"]))
    compiled = torch.compile(model, backend=backend)

    def run(step: int) -> Any:
        return compiled(TensorDict({"x": torch.randn(5, 4, generator=seeded(step))}, [5]))["y"].detach()

    return run


@program
def gpytorch_kernel(backend: Any) -> Step:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def covariance(x: torch.Tensor) -> torch.Tensor:
        return kernel(x).to_dense()

    compiled = torch.compile(covariance, backend=backend)
    return lambda step: compiled(torch.randn(6, 2, generator=seeded(step))).detach()


@program
def torchmetrics_update(backend: Any) -> Step:
    import torchmetrics

    metric = torchmetrics.MetricCollection(
        [torchmetrics.classification.MulticlassAccuracy(4), torchmetrics.classification.MulticlassF1Score(4)]
    )

    def update(scores: torch.Tensor, wanted: torch.Tensor) -> Any:
        metric.update(scores, wanted)
        return metric.compute()

    compiled = torch.compile(update, backend=backend)

    def run(step: int) -> Any:
        return compiled(
            torch.randn(8, 4, generator=seeded(step)), torch.randint(0, 4, (8,), generator=seeded(step + 100))
        )

    return run


@program
def einops_attention(backend: Any) -> Step:
    from einops import rearrange, repeat
    from einops.layers.torch import Rearrange

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split = Rearrange("b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
            self.qkv, self.token = nn.Linear(12, 48), nn.Parameter(torch.zeros(1, 1, 12))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            x = self.split(image)
            x = torch.cat([repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0]), x], 1)
            q, k, v = rearrange(self.qkv(x), "b n (k h d) -> k b h n d", k=3, h=4)
            return rearrange((q @ k.transpose(-1, -2)).softmax(-1) @ v, "b h n d -> b n (h d)")

    model = Net()
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters())

    def run(step: int) -> Any:
        image = torch.randn(2, 4, 4, 3, generator=seeded(step))
        return trained(model, lambda x: compiled(x).square().mean(), optimizer, image)

    return run


@program
def kornia_filters(backend: Any) -> Step:
    import kornia

    def enhance(image: torch.Tensor) -> torch.Tensor:
        image = kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0))
        return kornia.color.rgb_to_grayscale(image) + kornia.filters.sobel(image).mean(1, True)

    compiled = torch.compile(enhance, backend=backend)
    return lambda step: compiled(torch.rand(2, 3, 8, 8, generator=seeded(step)))
