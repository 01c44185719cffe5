"""Tapes take sizes and numbers from where the program has them, not from what they were when the tape was recorded."""

from collections.abc import Callable, Iterable
from typing import Any

import gramme
import pytest
import torch
import torch.utils._pytree as pytree

from native import varying_programs
from native.same import values_of

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore:torch.range is deprecated")]

MODES: dict[str, dict[str, Any]] = {"at first fixed": {}, "dynamic": {"dynamic": True}}
TRAINS = {**MODES, "recorded backward": {"options": {"recorded_backward": True}}}
SIZES = (3, 3, 4, 2, 6, 1, 8, 5)


def facts(result: Any) -> Any:
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    seen = [(x.dtype, x.shape, x.stride() if x.numel() > 1 else None, x.requires_grad) for x in tensors]
    return seen, [values_of(x.detach()) for x in tensors], pytree.tree_structure(result)


def outcome(function: Callable[..., Any], argument: Any) -> Any:
    """Results and gradient, or what was raised."""
    torch.manual_seed(0)
    try:
        result = function(argument)
        seen = facts(result)
        losses = [x.abs().sum() for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
        if losses:
            torch.stack(losses).sum().backward()
            return *seen, values_of(argument.grad)
    except Exception as error:
        return type(error)
    return seen


def check(program: Callable[..., Any], make: Callable[[Any], Any], values: Iterable[Any], **options: Any) -> None:
    compiled = gramme.compile(program, backend="native", **options)
    for value in values:
        assert outcome(compiled, make(value)) == outcome(program, make(value)), value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", varying_programs.OF_SIZES)
def test_sizes(name: str, mode: str) -> None:
    with torch.no_grad():
        check(varying_programs.OF_SIZES[name], lambda n: torch.arange(1.0, n + 1) / 7, SIZES, **MODES[mode])


@pytest.mark.sampled(200)
@pytest.mark.parametrize("mode", TRAINS)
@pytest.mark.parametrize("name", varying_programs.OF_SIZES)
def test_sizes_with_gradients(name: str, mode: str) -> None:
    def make(n: int) -> torch.Tensor:
        return (torch.arange(1.0, n + 1) / 7).requires_grad_()

    check(varying_programs.OF_SIZES[name], make, SIZES, **TRAINS[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", varying_programs.OF_INTS)
def test_ints(name: str, mode: str) -> None:
    check(varying_programs.OF_INTS[name], lambda k: k, SIZES, **MODES[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", varying_programs.OF_FLOATS)
def test_floats(name: str, mode: str) -> None:
    check(varying_programs.OF_FLOATS[name], lambda f: f, (3.0, 3.0, 4.5, 2.0, 6.25, 1.0, 8.0, 3.0), **MODES[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", varying_programs.EQUAL_ONCE)
def test_numbers_that_were_equal_when_the_tape_was_recorded(name: str, mode: str) -> None:
    """What an argument is was guessed by its value, and the two were exchanged."""
    program = varying_programs.EQUAL_ONCE[name]
    for values in ((4.5, 4.5, 3.0, 2.0, 5.5), (4, 4, 3, 2, 5)):
        gramme.reset()
        check(program, lambda f: f, values if mode == "at first fixed" else values[2:], **MODES[mode])


@pytest.mark.parametrize("name", ["arange_f", "arange_half", "arange_reshape", "fe_mul", "fe_add_c", "minmaxf"])
def test_graphs_of_torch_compile(name: str) -> None:
    """Nobody has recorded their sizes."""
    program = varying_programs.OF_SIZES[name]
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="gramme_native", dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 2, 8, 4):
            x = torch.arange(1.0, n + 1) / 7
            assert outcome(compiled, x) == outcome(program, x), n


def test_views_past_the_dispatcher_stay_in_their_storage() -> None:
    """An operator that breaks its word about sizes is an error, and nothing else in memory is looked at."""
    size = [8]
    library = torch.library.Library("gramme_reach", "DEF")
    library.define("made(Tensor x) -> Tensor")
    library.impl("made", lambda x: torch.arange(float(size[0])), "CPU")
    module = torch.fx.symbolic_trace(lambda x: torch.ops.gramme_reach.made(x)[4:] * x)
    graph = gramme._C.native.from_graph_module(module)
    x = torch.ones(4)
    with torch.no_grad():
        for _ in range(2):
            assert graph(x).tolist() == [4.0, 5.0, 6.0, 7.0]
        assert "view(" in gramme._C.native.tape(graph)
        size[0] = 2
        with pytest.raises(RuntimeError, match="from the start of its storage, which has 8"):
            graph(x)


def test_views_of_storages_that_are_empty() -> None:
    """As sharded parameters are, between their uses."""
    module = torch.fx.symbolic_trace(lambda x: torch.ones_like(x.view(2, 2)))
    graph = gramme._C.native.from_graph_module(module)
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    with torch.no_grad():
        for _ in range(3):
            assert graph(x).tolist() == module(x).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert "view(" in gramme._C.native.tape(graph)
