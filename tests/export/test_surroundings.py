"""What surrounds an export: arguments without data, other forms of modules, what is done with programs."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import warnings
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.export import Dim

from export.beside_torch import assert_same, assert_untouched, loaded, quietly, snapshot
from export.programs import Outside


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, k: int = 1) -> Any:
        return self.linear(x) * k, {"sum": x.sum()}


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()
        self.last = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        y, sums = self.part(x)
        self.mean.add_(y.mean(0))
        return self.last(y) + self.part(y)[1]["sum"] + self.mean


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


def calls(exported: Any) -> list[str]:
    return [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]


def test_preserved_signatures_and_unflatten() -> None:
    module, x = Whole(), rows()
    with quietly():
        ours = gramme.export(module, (x,), preserve_module_call_signature=("part",))
        theirs = torch.export.export(module, (x,), strict=True, preserve_module_call_signature=("part",))
        unflattened = torch.export.unflatten(ours)
    assert [(e.fqn, str(e.signature)) for e in ours.module_call_graph] == [
        (e.fqn, str(e.signature)) for e in theirs.module_call_graph
    ]
    expected = copy.deepcopy(module)(x)
    torch.testing.assert_close(unflattened(x), expected)
    assert type(unflattened.part(x)) is tuple


def test_decompositions_name_the_buffers_that_are_written() -> None:
    exported = gramme.export(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), (rows(),)).run_decompositions()
    written = set(exported.graph_signature.buffers_to_mutate.values())
    assert written == {"1.num_batches_tracked", "1.running_mean", "1.running_var"}
    assert not any("batch_norm.default" in target for target in calls(exported))


class Counts(nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total = self.total + x.sum(0)
        return self.total


def test_an_assigned_buffer_is_a_mutation() -> None:
    module = Counts()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exported = gramme.export(module, (rows(),)).run_decompositions()
    assert list(exported.graph_signature.buffers_to_mutate.values()) == ["total"]
    assert torch.equal(module.total, torch.zeros(3))


class Stores(nn.Module):
    last: Any

    def __init__(self) -> None:
        super().__init__()
        self.last = None
        self.inner = Part()
        self.register_buffer("grows", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.last = x * 2
        self.inner.seen = True
        self.grows = torch.cat([self.grows, x[0, :1]])
        return x + self.grows.sum()


def test_other_attributes_are_named_by_a_warning() -> None:
    module = Stores()
    with pytest.warns(UserWarning, match=r"self\.last, self\.inner\.seen, self\.grows"):
        exported = gramme.export(module, (rows(),))
    assert module.last is None
    assert not hasattr(module.inner, "seen")
    assert module.grows.shape == (1,)
    x = rows()
    torch.testing.assert_close(exported.module()(x), Stores()(x))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: Any) -> Any:
        self.count += 1
        return x + self.count


def test_what_a_program_counts_is_a_constant_of_the_first_call() -> None:
    module = Counter()
    with pytest.warns(UserWarning, match=r"self\.count"):
        exported = gramme.export(module, (rows(),))
    assert module.count == 0
    x = rows()
    for _ in range(2):
        torch.testing.assert_close(exported.module()(x), x + 1)


def bert() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99
    )
    torch.manual_seed(0)
    ids = torch.randint(0, 99, (2, 7))
    return transformers.BertModel(config).eval(), (ids,), {"attention_mask": torch.ones(2, 7, dtype=torch.long)}


@pytest.mark.slow
def test_bert() -> None:
    module, args, kwargs = bert()
    before = snapshot(module)
    with quietly():
        exported = gramme.export(module, args, kwargs)
        theirs = torch.export.export(module, args, kwargs, strict=True)
    assert_untouched(before, module)
    assert sorted(calls(exported)) == sorted(calls(theirs))
    result, expected = exported.module()(*args, **kwargs), module(*args, **kwargs)
    assert type(result) is type(expected)
    torch.testing.assert_close(result.last_hidden_state, expected.last_hidden_state)


@pytest.mark.parametrize("export", [gramme.export, torch.export.export])
def test_without_data(export: Any) -> None:
    """On the meta device, and fakes: the graph is that of real tensors, and their device."""
    real = calls(gramme.export(Whole(), (rows(),)))
    more = {} if export is gramme.export else {"strict": True}
    with quietly():
        meta = export(Whole().to("meta"), (rows().to("meta"),), **more)
        with FakeTensorMode():
            module, x = Whole(), rows()
        fake = export(module, (x,), **more)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode:
            x = rows()
        mixed = export(Whole(), (x,), **more)
    assert calls(meta) == calls(fake) == calls(mixed) == real
    placeholders = [node.meta["val"] for node in fake.graph.nodes if node.op == "placeholder"]
    assert {value.device.type for value in placeholders} == {"cpu"}


class Makes(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + torch.ones(3, device=x.device) + x.new_zeros(3), isinstance(x, torch.Tensor), x.device.type


def test_fakes_are_what_they_stand_for() -> None:
    with FakeTensorMode():
        x = rows()
    exported = gramme.export(Makes(), (x,))
    x = rows()
    assert_same(exported.module()(x), Makes()(x))


def test_gradients_flow_through_what_was_exported() -> None:
    module, x = Whole(), rows()
    exported = loaded(gramme.export(module, (x,))).module()
    exported(x).sum().backward()
    module(x).sum().backward()
    expected = {name: parameter.grad for name, parameter in module.named_parameters()}
    for name, parameter in exported.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])


@dataclasses.dataclass
class Both:
    x: Any
    y: Any


torch.export.register_dataclass(Both, serialized_type_name="gramme.tests.Both")


class Swaps(nn.Module):
    def forward(self, both: Both) -> Any:
        return Both(both.y * 2, both.x + both.y)


def test_registered_classes() -> None:
    given = Both(rows(), rows())
    exported = gramme.export(Swaps(), (given,))
    result, expected = exported.module()(given), Swaps()(given)
    assert type(result) is Both
    torch.testing.assert_close((result.x, result.y), (expected.x, expected.y))


@pytest.mark.parametrize(
    "make",
    [
        lambda: (nn.LSTM(3, 4, num_layers=2), (torch.randn(5, 2, 3),)),
        lambda: (nn.GRU(3, 4, bidirectional=True), (torch.randn(5, 2, 3),)),
        lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.randn(2, 4, 8),)),
        lambda: (nn.MultiheadAttention(8, 2), (torch.randn(4, 2, 8),) * 3),
    ],
    ids=["LSTM", "GRU", "TransformerEncoderLayer", "MultiheadAttention"],
)
def test_layers(make: Any) -> None:
    module, args = make()
    before = snapshot(module)
    with quietly():
        exported = gramme.export(module, args)
        theirs = torch.export.export(module, args, strict=True)
    assert_untouched(before, module)
    assert calls(exported) == calls(theirs)
    assert_same(exported.module()(*args), module(*args))


def test_marks_of_tensors_stay() -> None:
    x = rows()
    torch._dynamo.mark_dynamic(x, 0, min=2)
    before = {name: copy.copy(value) for name, value in vars(x).items()}
    gramme.export(Part(), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert vars(x) == before


def test_what_nodes_say_of_the_program() -> None:
    exported = gramme.export(Whole(), (rows(),))
    first = next(node for node in exported.graph.nodes if node.op == "call_function")
    assert [path for path, _ in first.meta["nn_module_stack"].values()] == ["", "part", "part.linear"]
    lines = [line for line in first.meta["stack_trace"].splitlines() if line.startswith("  File ")]
    assert all(__file__ in line for line in lines)
    assert len(lines) == 2
    assert first.meta["source_fn_stack"][-1][1] is nn.Linear


@pytest.mark.parametrize("args", [[torch.ones(2)], torch.ones(2)])
def test_arguments_are_a_tuple(args: Any) -> None:
    with pytest.raises(torch._dynamo.exc.UserError, match="Expecting `args` to be a tuple"):
        gramme.export(nn.ReLU(), args)


def test_a_module_is_needed() -> None:
    with pytest.raises(ValueError, match="nn.Module"):
        gramme.export(lambda x: x, (torch.ones(2),))  # type: ignore[arg-type]


def test_no_warning_tells_of_settings_that_nobody_set() -> None:
    """In a process of its own: gramme warns of each setting once."""
    program = "import gramme, torch; gramme.export(torch.nn.Linear(3, 3), (torch.ones(2, 3),))"
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_constants_are_named_as_the_program_says() -> None:
    """torch.export's front end has names of its own for them."""
    program = gramme.export(Outside(), (torch.ones(3),))
    assert sorted(program.constants) == ["OUTSIDE", "listed_0", "named_a_b"]
