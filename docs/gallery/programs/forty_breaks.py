"""A simulation that looks at its data all the time: 40 graph breaks in a call."""

import time

import gramme
import torch

torch.manual_seed(0)
torch.set_num_threads(1)


class Cell(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(size, size)
        self.largest = 0.0

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        state = torch.tanh(self.mix(state))
        self.largest = max(self.largest, state.abs().max().item())
        if state.mean() > 0.5:
            state = state - state.mean()
        return state


class Simulation(torch.nn.Module):
    def __init__(self, cells: int, size: int) -> None:
        super().__init__()
        self.cells = torch.nn.ModuleList(Cell(size) for _ in range(cells))
        self.log: list[str] = []

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        began = time.perf_counter()
        for cell in self.cells:
            state = cell(state)
            state = state / state.norm()
        self.note(began, state)
        return state

    def note(self, began: float, state: torch.Tensor) -> None:
        self.log.append(f"{time.perf_counter() - began > 0}: {state.std().item() > 0}")


simulation = gramme.compile(Simulation(18, 32), backend="native")
with torch.no_grad():
    for _ in range(5):
        simulation(torch.randn(8, 32))
