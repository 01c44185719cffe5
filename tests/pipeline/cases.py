"""Models whose stages are compared with the uncut model, and what makes their arguments."""

import torch
from torch import nn
from torch.nn import functional


class UNet(nn.Module):
    def __init__(self, depth=3, width=6):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = torch.tanh(layer(x))
            skips.append(x)
        for layer in self.up:
            x = torch.tanh(layer(torch.cat([x, skips.pop()], 1)))
        return self.out(x)


class Language(nn.Module):
    """Tied embeddings, a mask and a table that all layers take, dropout, a dict of results."""

    def __init__(self, layers=3, width=8):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(width) * 0.5)

    def forward(self, ids):
        x = self.embed(ids)
        length = ids.shape[1]
        with torch.no_grad():
            table = torch.arange(length).unsqueeze(-1).cos() * self.scale
        mask = torch.ones(length, length).tril().bool()
        for layer in self.layers:
            y = layer(x + table)
            scores = (y @ y.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1)
            x = self.norm(x + self.dropout(scores @ y))
        return {"logits": self.head(x), "hidden": (x, length)}


class Normed(nn.Module):
    """Statistics written in place, and a buffer that the model writes itself."""

    def __init__(self):
        super().__init__()
        self.a, self.bn, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        x = self.bn(self.a(x * self.seen))
        x.mul_(2)
        return self.b(x.relu()).chunk(2, 1)


class DenseNet(nn.Module):
    """Each layer takes what all before it gave."""

    def __init__(self, layers=7, width=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width * (i + 1), width) for i in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))

    def forward(self, x):
        found = [x]
        for layer, norm in zip(self.layers, self.norms):
            found.append(norm(torch.relu(layer(torch.cat(found, 1)))))
        return found[-1] + found[0]


class Experts(nn.Module):
    """A mixture of experts, each row weighted, and a table that all layers take."""

    def __init__(self, layers=3, width=6, experts=3):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.experts = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(experts)) for _ in range(layers)
        )
        self.register_buffer("table", torch.randn(width))

    def forward(self, x):
        table = self.table.sin()
        for gate, experts in zip(self.gates, self.experts):
            weights, chosen = gate(x).softmax(-1).topk(2)
            each = torch.stack([expert(x * table) for expert in experts], 1)
            taken = each.gather(1, chosen.unsqueeze(-1).expand(-1, -1, x.shape[1]))
            x = x + (weights.unsqueeze(-1) * taken).sum(1)
        return x


class Still(Language):
    """Language without dropout."""

    def __init__(self):
        super().__init__()
        self.dropout.p = 0.0


class Twice(nn.Module):
    """Layers that all stages share, used more than once in each; an input that all take."""

    def __init__(self, layers=6, width=4):
        super().__init__()
        self.a, self.b, self.layers = nn.Linear(width, width), nn.Linear(width, width), layers

    def forward(self, x):
        y = x
        for i in range(self.layers):
            y = torch.tanh(self.a(y) + self.b(self.a(x)) * y + x)
            z = y.contiguous()
            y = y * z + z.sin()
        return y, z


class Statistics(nn.Module):
    """Batch norms whose statistics are read further on: they write them without counting the write."""

    def __init__(self, width=4):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(10))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))

    def forward(self, x):
        for norm, *linears in zip(self.norms, self.linears[:4], self.linears[4:7], self.linears[7:]):
            x = norm(linears[0](x))
            for linear in linears[1:]:
                x = torch.tanh(linear(x))
            x = x * norm.running_mean.exp() + norm.running_var
        for linear in (*self.linears[2:4], self.linears[6], self.linears[9]):
            x = torch.tanh(linear(x))
        return x


class Noisy(nn.Module):
    """Draws in all stages."""

    def __init__(self, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = functional.dropout(torch.tanh(layer(x)), 0.3) + torch.rand_like(x) * 0.1
        return x.clone().bernoulli_(0.5) * x


CASES = {
    "unet": (UNet, lambda n, length: (torch.randn(n, 6),)),
    "language": (Language, lambda n, length: (torch.randint(0, 11, (n, length)),)),
    "normed": (Normed, lambda n, length: (torch.randn(n, 4),)),
    "sequential": (lambda: nn.Sequential(*[nn.Linear(3, 3) for _ in range(9)]), lambda n, length: (torch.randn(n, 3),)),
}

MODELS = dict(
    CASES,
    statistics=(Statistics, CASES["normed"][1]),
    language=(Still, CASES["language"][1]),
    densenet=(DenseNet, CASES["unet"][1]),
    experts=(Experts, CASES["unet"][1]),
    twice=(Twice, CASES["normed"][1]),
)


def leaves(result):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def backward(result):
    sum((leaf.double() ** 2).sum() for leaf in leaves(result) if leaf.requires_grad).backward()
