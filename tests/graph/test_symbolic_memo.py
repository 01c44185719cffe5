"""What is known of a call with varying sizes serves each program that makes the same call, at its own sizes."""

import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from graph.binding import testing
from graph.recorded import Follower, record
from graph.test_symbolic_metadata import tensors
from graph.test_symbolic_rules import described, holds


def counted(do: Callable[[], Any]) -> tuple[Any, tuple[int, int, int]]:
    """Also how often the pattern was known, a rule answered, fakes were asked."""
    before = testing.symbolic_statistics()
    result = do()
    after = testing.symbolic_statistics()
    return result, tuple(after[i] - before[i] for i in range(3))  # type: ignore[return-value]


def shifted(by: int, *sizes: int) -> tuple[Any, Any]:
    """A tensor whose sizes are symbols that come after so many others."""
    made = testing.Sizes()
    for k in range(by):
        made.number(3, k)
    return made, made.tensor(torch.ones(*sizes), {d: by + d for d in range(len(sizes))})


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    """The first inference of a process is not known by its pattern afterwards."""
    sizes, x = shifted(0, 3)
    sizes.infer(torch.special.i1e, x)


def test_one_pattern_for_all_symbols() -> None:
    (sizes, x), (other_sizes, other) = shifted(0, 5, 7), shifted(2, 9, 4)
    first, _ = counted(lambda: sizes.infer(torch.special.i1e, x))
    second, counts = counted(lambda: other_sizes.infer(torch.special.i1e, other))
    assert counts == (1, 0, 0)
    assert second["result"]["record"]["shape"] == ("s2", "s3")
    assert described(second, {"s2": 9, "s3": 4}) == described(first, {"s0": 9, "s1": 4})
    assert counted(lambda: other_sizes.infer(torch.special.i1e, other))[1] == (0, 0, 0)


def test_patterns_tell_equal_sizes_from_others() -> None:
    square, sides = testing.Sizes(), testing.Sizes()
    x = square.tensor(torch.ones(5, 5), {0: 0, 1: 0})
    y = sides.tensor(torch.ones(5, 5), {0: 0, 1: 1})
    assert all("s1" not in guard for guard in square.infer(torch.linalg.det, x)["guards"])
    assert any("s0" in guard and "s1" in guard for guard in sides.infer(torch.linalg.det, y)["guards"])


def test_guards_choose_among_outcomes_of_a_pattern() -> None:
    for by, length, shape in ((0, 9, (3,)), (1, 2, ("s1",)), (3, 8, (3,))):
        sizes, x = shifted(by, length)
        assert sizes.infer(operator.getitem, x, slice(None, 3))["result"]["record"]["shape"] == shape


def test_what_has_no_form_is_known_too() -> None:
    (sizes, x), (other_sizes, other) = shifted(0, 5, 7), shifted(2, 9, 4)
    outcome, _ = counted(lambda: sizes.infer(torch.nonzero, x))
    again, counts = counted(lambda: other_sizes.infer(torch.nonzero, other))
    assert outcome["error"]
    assert (again["error"], counts) == (True, (1, 0, 0))


@pytest.fixture
def failing_on_numbers(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What the next inferences on tensors of plain sizes raise."""
    dispatch, errors = FakeTensorMode.dispatch, []

    def failing(mode: Any, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensor = args[0] if args else None
        plain = isinstance(tensor, torch.Tensor) and not any(isinstance(n, torch.SymInt) for n in tensor.shape)
        if errors and plain and op.namespace == "aten":
            raise errors.pop()
        return dispatch(mode, op, types, args, kwargs)

    monkeypatch.setattr(FakeTensorMode, "dispatch", failing)
    return errors


@pytest.mark.parametrize(
    ("error", "op"),
    [
        (MemoryError("none left"), torch.special.i0e),
        (RecursionError("too deep"), torch.special.erfcx),
        (UserWarning("an error here"), torch.special.bessel_j0),
    ],
    ids=["memory", "recursion", "warning"],
)
def test_what_fails_in_passing_is_asked_again(
    failing_on_numbers: list[Exception], error: Exception, op: Callable[..., Any]
) -> None:
    sizes, x = shifted(0, 5, 17)
    failing_on_numbers.append(error)
    assert sizes.infer(op, x)["error"]
    assert not failing_on_numbers
    again = sizes.infer(op, x)
    assert not again["error"]
    assert again["result"]["record"]["shape"] == ("s0", "s1")


def test_what_fails_at_some_sizes_says_nothing_of_others(failing_on_numbers: list[Exception]) -> None:
    (sizes, x), (other_sizes, other) = shifted(0, 5, 17), shifted(2, 9, 14)
    failing_on_numbers.append(RuntimeError("not at these"))
    assert sizes.infer(torch.special.log_ndtr, x)["error"]
    assert sizes.infer(torch.special.log_ndtr, x)["error"]
    assert not failing_on_numbers
    found = other_sizes.infer(torch.special.log_ndtr, other)
    assert not found["error"]
    assert found["result"]["record"]["shape"] == ("s2", "s3")


def test_a_number_of_which_only_the_type_matters() -> None:
    sizes, x = shifted(0, 5, 7)
    outcome = sizes.infer(operator.mul, x, sizes.number(5, 0))
    assert outcome["result"]["record"]["shape"] == ("s0", "s1")
    assert set(outcome["guards"]) == {"s0 >= 1", "s1 >= 1"}


def test_a_size_found_to_be_a_number_is_no_write() -> None:
    sizes, x = shifted(0, 5, 7)
    outcome = sizes.fill("reshape", x, 7, 5)
    assert not outcome["error"]
    assert outcome["mutations"] == {}


def points() -> Iterator[dict[str, int]]:
    choice = random.Random(0)
    for _ in range(12):
        yield {f"s{k}": choice.choice((1, 2, 3, 4, 8, 16, 17)) for k in range(64)}


def follow(graph: Any, inputs: list[Any]) -> int:
    """Each outcome is right at the graph's own sizes, and what fakes give at others."""
    calls = 0
    for call in Follower().run(graph, inputs):
        assert not call.outcome["error"], (call.target, call.outcome["message"])
        real = [(tuple(t.shape), t.stride(), t.storage_offset(), t.dtype) for t in tensors(call.real)]
        if not real:
            continue
        calls += 1
        now = {f"s{k}": hint for k, hint in enumerate(call.sizes.hints())}
        where = f"{call.target} {call.outcome['guards']}"
        assert described(call.outcome, now) == real, where
        assert holds(call.outcome, now), where
        filled = call.sizes.fill(call.target, *call.args, **call.kwargs)
        for point in points():
            if holds(call.outcome, point) and holds(filled, point):
                assert described(call.outcome, point) == described(filled, point), where
    return calls


class Block(nn.Module):
    """Attention as models write it."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape[0], x.shape[1], x.shape[2]
        split = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        half = key.shape[-1] // 2
        turned = torch.cat((-key[..., half:], key[..., :half]), dim=-1)
        mask = torch.arange(length)[None, :] <= torch.arange(length)[:, None]
        found = F.scaled_dot_product_attention(query, turned, value, attn_mask=mask[None, None])
        y = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return y + self.down(F.gelu(self.up(y))) * y.pow(2).mean(-1, keepdim=True)


def test_a_block_without_fakes() -> None:
    torch.manual_seed(0)
    graph, inputs = record(Block(), {"x": torch.randn(3, 7, 32)})
    calls, (_, rules, fills) = counted(lambda: sum(1 for _ in Follower().run(graph, inputs)))
    assert calls > 20
    assert fills == 0
    assert follow(graph, inputs) > 20


def test_what_fakes_copy_and_operators_do_not() -> None:
    sizes, x = shifted(0, 5, 7)
    outcome = sizes.infer(torch.feature_dropout, x, 0.5, False)
    expected = testing.infer(torch.feature_dropout, torch.ones(5, 7), 0.5, False)
    assert outcome["error"] or outcome["result"]["same_as"] == expected["result"]["same_as"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_models_one_after_another() -> None:
    """Few calls need fakes, and none when a model comes again at other sizes."""
    from e2e.models import MODELS

    models = MODELS
    most = {"llama": 6, "gpt2": 2, "bert": 0}
    for name, fills in most.items():
        for length in (16, 9):
            arguments = {
                key: value[:, :length] for key, value in models[name].arguments(0).items() if key == "input_ids"
            }
            graph, inputs = record(
                models[name].make(), {**arguments, "use_cache": False} if name != "bert" else arguments
            )
            _, counts = counted(lambda: sum(1 for _ in Follower().run(graph, inputs)))
            assert counts[2] <= (fills if length == 16 else 0), (name, counts)
            assert follow(graph, inputs) > 50
