"""Equal graphs are compiled once, whoever captured them; graphs that differ in anything are not."""

import gc
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _shared
from torch import nn
from torch._dynamo.utils import counters


class Block(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.layer = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.layer(self.norm(x)))


class Numbered(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.layer(self.norm(x))) * self.number


def compiles() -> int:
    return int(counters["aot_autograd"]["total"])


def net(kind: type[Block] = Block, count: int = 6) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(kind(number) for number in range(count)))


def compile_blocks(model: nn.Sequential, **options: Any) -> None:
    for block in model:
        block.forward = gramme.compile(block.forward, backend="aot_eager", **options)


def step(model: nn.Module) -> list[torch.Tensor]:
    x = torch.linspace(-1, 1, 16).view(2, 8)
    model.zero_grad()
    result = model(x)
    result.square().sum().backward()
    return [result.detach(), *(torch.zeros(()) if p.grad is None else p.grad.clone() for p in model.parameters())]


def assert_as_eager(change: Callable[[nn.Sequential], object], expected: int, kind: type[Block] = Block) -> None:
    """`expected` compiled graphs, results and gradients of eager."""
    gramme.reset()
    _shared._known.clear()
    plain, model = net(kind), net(kind)
    for each in (plain, model):
        change(each)
    compile_blocks(model)
    before = compiles()
    for _ in range(2):
        torch.testing.assert_close(step(model), step(plain), rtol=0, atol=0)
    assert compiles() - before == expected


@pytest.fixture(autouse=True)
def forget() -> None:
    gramme.reset()
    gc.collect()
    _shared._known.clear()


def test_equal_blocks_are_compiled_once() -> None:
    assert_as_eager(lambda model: None, 2)  # the first block's input needs no gradient


def test_twelve_blocks_behind_an_embedding() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.blocks = nn.Embedding(5, 8), net(count=12)

        def forward(self, tokens: torch.Tensor) -> Any:
            return self.blocks(self.embedding(tokens))

    torch.manual_seed(1)
    plain = Model()
    torch.manual_seed(1)
    model = Model()
    compile_blocks(model.blocks)
    before = compiles()
    results = []
    for each in (plain, model):
        result = each(torch.arange(5))
        result.square().sum().backward()
        results.append([result.detach(), *(p.grad for p in each.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert compiles() - before == 1


def run_on_leaf_and_result(
    program: Callable[..., Any], result_first: bool, hooked: bool = True
) -> tuple[list[Any], list[Any], int]:
    """What compiled programs and the program itself give for a leaf and for a result; compiled graphs."""
    before, outcomes, held = compiles(), [], []
    for compiled in (True, False):
        seen: list[Any] = []
        for is_result in (result_first, not result_first):
            x = torch.linspace(-1, 1, 8).requires_grad_()
            given = x * 1 if is_result else x
            if hooked:
                given.register_hook(lambda grad: seen.append(grad.clone()))  # noqa: B023
            run = gramme.compile(lambda x: program(x), backend="aot_eager") if compiled else program
            held.append(run)
            result = run(given)
            if result.requires_grad:
                result.square().sum().backward()
            seen += [result.detach(), given.detach().clone(), x.grad]
        outcomes.append(seen)
    return outcomes[0], outcomes[1], compiles() - before


@pytest.mark.parametrize("result_first", [False, True])
def test_a_leaf_and_the_result_of_an_operation(result_first: bool) -> None:
    weight = torch.ones(8, requires_grad=True)
    programs: list[Callable[..., Any]] = [
        lambda x: x.sin() * 2,
        lambda x: x.detach() * weight,  # no gradient goes to it, and its hook is not called
    ]
    for program in programs:
        actual, wanted, count = run_on_leaf_and_result(program, result_first)
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
        assert count == 1


def test_a_written_leaf_is_compiled_for_itself() -> None:
    weight = torch.ones(8, requires_grad=True)

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.add_(1)
        return weight * 2

    actual, wanted, count = run_on_leaf_and_result(program, result_first=True, hooked=False)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    assert count == 2


def test_what_differs_is_compiled_apart() -> None:
    assert_as_eager(lambda model: None, 6, Numbered)


@pytest.mark.slow
def test_one_block_changed() -> None:
    def tied(model: nn.Sequential) -> None:
        model[3].layer.weight = model[2].layer.weight

    assert_as_eager(tied, 2)
    assert_as_eager(lambda model: model[3].layer.weight.requires_grad_(False), 3)
    assert_as_eager(lambda model: model[4].layer.register_forward_hook(lambda module, given, out: out * 2), 3)
    assert_as_eager(lambda model: model[5].double().register_forward_pre_hook(lambda m, given: given[0].double()), 3)


def test_inputs_of_one_memory() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    def pairs() -> list[tuple[torch.Tensor, torch.Tensor]]:
        x, y, z = torch.ones(8), torch.ones(8), torch.ones(8)
        return [(x[:4], x[4:]), (y[:4], y[2:6]), (z[:4], z[:4]), (torch.ones(4), torch.ones(4))]

    for given, expected in zip(pairs(), pairs(), strict=True):
        compiled = gramme.compile(lambda a, b: program(a, b), backend="aot_eager")
        torch.testing.assert_close(compiled(*given), program(*expected))
        torch.testing.assert_close(given, expected)


def test_modes_and_settings_count() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, x).sin()

    compiled = []

    def run() -> torch.Tensor:
        compiled.append(gramme.compile(lambda x: program(x), backend="aot_eager"))
        return compiled[-1](torch.eye(4))

    held = []
    for expected in (3, 0):
        before = compiles()
        held.append(run())
        with torch.autocast("cpu", torch.bfloat16):
            held.append(run())
        with torch.inference_mode():
            held.append(run())
        assert held[-2].dtype is torch.bfloat16
        assert compiles() - before == expected


def test_what_nobody_runs_is_forgotten() -> None:
    model = net()
    compile_blocks(model)
    step(model)
    assert len(_shared._known) == 2
    model[0].forward, model[1].forward = type(model[0]).forward.__get__(model[0]), None
    del model
    gramme.reset()
    gc.collect()
    assert not _shared._known


def test_backends_of_the_program_see_the_graphs_of_equal_code_once() -> None:
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(graph)
        return graph.forward

    model = net()
    for block in model:
        block.forward = gramme.compile(block.forward, backend=backend)
    step(model)
    assert len(seen) == 2  # of blocks whose input needs a gradient, and of the first


def test_reset_of_one_leaves_the_others() -> None:
    model, plain = net(), net()
    compile_blocks(model)
    expected = step(plain)
    torch.testing.assert_close(step(model), expected, rtol=0, atol=0)
    gramme.reset()
    torch.testing.assert_close(step(model), expected, rtol=0, atol=0)
