"""A training run: batches of other sizes, a learning rate that changes, a loss that is logged."""

import gramme
import torch

torch.manual_seed(0)
torch.set_num_threads(1)


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        )
        self.head = torch.nn.Linear(8 * 8 * 8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images).flatten(1))


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
history: list[float] = []


@gramme.compile(backend="native")
def loss_of(images: torch.Tensor, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
    scores = model(images)
    loss = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=smoothing)
    history.append(loss.item())
    return loss


def step(batch: int, smoothing: float) -> None:
    images, labels = torch.randn(batch, 1, 16, 16), torch.randint(0, 10, (batch,))
    loss = loss_of(images, labels, smoothing)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for epoch in range(4):
    for batch in (32, 32, 32, 32, 20):
        step(batch, 0.1 * epoch)
