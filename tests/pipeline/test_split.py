"""gramme.pipeline.split: any captured model in stages, equal to the bit to the model."""

import itertools
import random
import sys

import gramme
import gramme.pipeline
import pytest
import torch
from gramme import _C
from gramme.torchgpipe.balance import blockpartition
from sampling import SOAK
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.cases import CASES, Language, UNet, backward, leaves
from pipeline.models import Call, gradients, same


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_model(name, stages, one_thread):
    make, arguments = CASES[name]
    torch.manual_seed(0)
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    example = arguments(7, 5)
    torch.set_rng_state(random_state)
    cut = gramme.pipeline.split(model, example, stages=stages)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert len(cut.stages) == len(cut.plan.stages) == stages
    for n, length in ((4, 5), (3, 7), (6, 2)):
        found = []
        given = arguments(n, length)
        for run in (model, cut):
            model.load_state_dict(before)
            model.zero_grad()
            torch.manual_seed(n)
            result = run(*given)
            backward(result)
            found.append((result, gradients(model), [value.clone() for value in model.buffers()]))
        (result, grads, buffers), (expected, expected_grads, expected_buffers) = found
        assert type(result) is type(expected)
        assert all(map(same, leaves(result), leaves(expected)))
        assert all(map(same, grads, expected_grads))
        assert all(map(same, buffers, expected_buffers))


def test_names_are_the_models():
    model = Language()
    cut = gramme.pipeline.split(model, (torch.ones(2, 3, dtype=torch.long),), stages=3)
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    found = {}
    for stage in cut.stages:
        for name, tensor in (*stage.named_parameters(), *stage.named_buffers()):
            assert own[name] is tensor
            found[name] = tensor
    assert found.keys() == own.keys()


def test_states_are_the_models():
    """Buffers that the model does not save are not in the stages' states either."""

    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.linear.register_buffer("table", torch.ones(4), persistent=False)
            self.register_buffer("shift", torch.ones(4), persistent=False)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x):
            return torch.tanh(self.linear(x) * self.linear.table + self.shift) * self.scale

    model = Tables()
    cut = gramme.pipeline.split(model, (torch.ones(2, 4),), stages=2)
    assert {name for stage in cut.stages for name, _ in stage.named_buffers()} == {"linear.table", "shift", "scale"}
    assert {name for stage in cut.stages for name in stage.state_dict()} == model.state_dict().keys()


def test_stages_alone_cut_at_their_inputs(one_thread):
    """Each stage's backward is a call of its own; gradients of what crosses are handed back."""
    torch.manual_seed(0)
    model = UNet()
    x = torch.randn(4, 6)
    model(x).exp().sum().backward()
    expected = gradients(model)
    model.zero_grad()
    cut = gramme.pipeline.split(model, (x,), stages=4)
    values, runs = {cut.stages[0].takes[0]: x}, []
    for stage in cut.stages:
        taken = {name: values[name].detach().requires_grad_() for name in stage.takes}
        given = dict(zip(stage.gives, stage(*taken.values()), strict=True))
        values.update(given)
        runs.append((taken, given))
    (result,) = runs[-1][1].values()
    (leaf := result.detach().requires_grad_()).exp().sum().backward()
    grads = {next(iter(runs[-1][1])): leaf.grad}
    for taken, given in reversed(runs):
        torch.autograd.backward(list(given.values()), [grads[name] for name in given])
        for name, value in taken.items():
            grads[name] = value.grad if name not in grads else grads[name] + value.grad
    assert all(torch.allclose(a, b) for a, b in zip(gradients(model), expected, strict=True))


def test_far_values_are_portals():
    model = UNet(depth=3)
    plan = gramme.pipeline.split(model, (torch.randn(4, 6),), stages=4).plan
    assert plan.portals
    for portal in plan.portals:
        assert portal.targets[-1] > portal.source + 1
        assert portal.bytes == 4 * 6 * 4
        assert portal.life == len(portal.targets)
        assert portal.saved == portal.bytes * (portal.targets[-1] - portal.source - len(portal.targets))
        assert "cases.py:" in portal.line
    text = str(plan)
    assert len(text.splitlines()) == 5 + len(plan.portals)
    assert f"portal {plan.portals[0].name}: " in text


def test_whole_models_only():
    def broken(x):
        print("break")
        return x.sin() if x.sum() > 0 else x.cos()

    with pytest.raises(gramme.CaptureError, match="test_split.py"):
        gramme.pipeline.split(Call(broken), (torch.ones(2),), stages=1)


class Traced:
    """Python's own tracer while it lasts."""

    def __init__(self, switch):
        self.switch = switch

    def __enter__(self):
        self.switch(lambda *_: None)

    def __exit__(self, *_):
        self.switch(None)


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("around", "reason"),
    [
        (Watching, "a mode of PyTorch is active"),
        (lambda: torch.compiler.set_stance("force_eager"), "capture is switched off"),
    ],
    ids=["mode", "stance"],
)
def test_a_model_that_is_not_captured_is_refused(around, reason):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(gramme.CaptureError, match=reason) as raised, around():
        gramme.pipeline.split(model, (torch.ones(3, 2),), stages=2)
    assert raised.value.file.endswith("container.py")
    assert len(gramme.pipeline.split(model, (torch.ones(3, 2),), stages=2).stages) == 2


@pytest.mark.parametrize("switch", [sys.setprofile, sys.settrace], ids=["profiler", "tracer"])
def test_who_looks_on_changes_nothing(switch):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with Traced(switch):
        split = gramme.pipeline.split(model, (torch.ones(3, 2),), stages=2)
    assert len(split.stages) == 2


@pytest.mark.parametrize("make", [nn.Identity, lambda: Call(lambda x: 3)], ids=["argument", "number"])
def test_a_model_that_computes_nothing_is_refused(make):
    with pytest.raises(gramme.CaptureError, match="computes nothing"):
        gramme.pipeline.split(make(), (torch.ones(2),), stages=1)


@pytest.mark.parametrize("rows", [2, 3])
def test_transforms_inside(rows, one_thread):
    """No cut lies inside of one, and nothing in one is computed anew outside."""

    def body(x):
        x = torch.tanh(x)
        y = torch.func.vmap(lambda row: row.cumsum(0) * row.sum(), in_dims=1, out_dims=1)(x)
        z = torch.func.vmap(torch.func.vmap(torch.sin))(y)
        return torch.sigmoid(z) + x.relu()

    model, x = Call(body), torch.randn(rows, 4)
    cut = gramme.pipeline.split(model, (x,), stages=3)
    found = []
    for run in (model, cut):
        given = x.clone().requires_grad_()
        run = run if run is model else gramme.pipeline.split(model, (given,), stages=3)
        result = run(given)
        result.square().sum().backward()
        found.append((result.detach(), given.grad))
    assert all(same(a, b) for a, b in zip(*found, strict=True))
    assert torch.equal(cut(x), model(x))


def test_too_many_stages():
    with pytest.raises(ValueError, match="fewer operations than stages"):
        gramme.pipeline.split(nn.ReLU(), (torch.ones(2),), stages=2)
    with pytest.raises(ValueError, match="positive"):
        gramme.pipeline.split(nn.ReLU(), (torch.ones(2),), stages=0)


def test_no_cut_between_a_tuple_and_its_items_or_inside_a_mode():
    def body(x):
        a, b = functional.max_pool1d(x, 1, return_indices=True)
        with torch.no_grad():
            c = a * 2
            d = c + 1
        return (a + d, b)

    model = Call(body)
    with pytest.raises(ValueError, match="not enough places"):
        gramme.pipeline.split(model, (torch.randn(1, 4),), stages=8)
    for stages in (1, 2):
        x = torch.randn(1, 4, requires_grad=True)
        cut = gramme.pipeline.split(model, (x,), stages=stages)
        assert all(map(same, cut(x), body(x)))


def test_another_way_through_the_model_is_refused():
    class Two(nn.Module):
        def forward(self, x):
            return x.sin() * 2 if self.training else x.cos() * 2

    model = Two()
    cut = gramme.pipeline.split(model, (torch.ones(2),), stages=2)
    model.eval()
    with pytest.raises(RuntimeError, match="takes another way"):
        cut(torch.ones(2))


# ---- the planner alone


def step_of(cost, moving, last_use, cuts, micro_batches):
    """All micro-batches through all stages, with what each takes and hands over."""
    n = len(cost)
    moved = [sum(size for i, size in enumerate(moving) if i < at <= last_use[i]) for at in range(n + 1)]
    stages = [sum(cost[a:b]) + moved[a] + moved[b] for a, b in itertools.pairwise([0, *cuts, n])]
    return sum(stages) + (micro_batches - 1) * max(stages)


def random_operations(numbers, n):
    last_use = [min(n - 1, i + numbers.choice([0, 1, 1, 2, n])) for i in range(n)]
    return {
        "cost": [numbers.choice([0, 1, 2, 5, 30]) for _ in range(n)],
        "moving": [numbers.choice([0, 1, 3, 10]) for _ in range(n)],
        "last_use": last_use,
        "memory": [numbers.choice([0, 1, 4]) for _ in range(n)],
        "may_cut": [numbers.random() < 0.8 for _ in range(n)],
        "must_cut": [False] * n,
    }


def fits(operations, cuts, most_memory):
    n = len(operations["cost"])
    return (
        all(operations["may_cut"][at] for at in cuts)
        and all(at in cuts for at in range(1, n) if operations["must_cut"][at])
        and all(sum(operations["memory"][a:b]) <= most_memory for a, b in itertools.pairwise([0, *cuts, n]))
    )


def test_cuts_are_the_best():
    numbers = random.Random(0)
    refused = 0
    for _ in range(500):
        n = numbers.randint(1, 8)
        operations = random_operations(numbers, n)
        stages, micro_batches = numbers.randint(1, n), numbers.choice([1, 2, 8])
        most_memory = numbers.choice([3, 6, 100])
        if n > 1 and numbers.random() < 0.3:
            operations["must_cut"][numbers.randrange(1, n)] = True
        rows = operations["cost"], operations["moving"], operations["last_use"]
        ways = [way for way in itertools.combinations(range(1, n), stages - 1) if fits(operations, way, most_memory)]
        wanted = {"stages": stages, "micro_batches": micro_batches, "most_memory": most_memory}
        if not ways:
            refused += 1
            with pytest.raises(ValueError, match="enough places|pinned|memory limit"):
                _C.pipeline.plan_cuts(**operations, **wanted)
            continue
        cuts, step = _C.pipeline.plan_cuts(**operations, **wanted)
        assert tuple(cuts) in ways
        assert step == step_of(*rows, cuts, micro_batches)
        assert step == min(step_of(*rows, way, micro_batches) for way in ways)
    assert 50 < refused < 350


def test_ten_thousand_operations():
    operations = random_operations(random.Random(0), 10_000)
    cuts, _ = _C.pipeline.plan_cuts(**operations, stages=8, micro_batches=32)
    assert len(cuts) == 7


def test_never_worse_than_blocks():
    numbers = random.Random(1)
    for _ in range(1000 if SOAK else 200):
        n, stages, micro_batches = numbers.randint(2, 60), numbers.randint(2, 6), numbers.choice([2, 4, 16])
        stages = min(stages, n)
        operations = random_operations(numbers, n)
        operations["may_cut"] = [True] * n
        blocks = itertools.accumulate(map(len, blockpartition.solve(operations["cost"], stages)))
        rows = operations["cost"], operations["moving"], operations["last_use"]
        _, step = _C.pipeline.plan_cuts(**operations, stages=stages, micro_batches=micro_batches)
        assert step <= step_of(*rows, list(blocks)[:-1], micro_batches)


def test_rows_of_different_lengths():
    with pytest.raises(ValueError, match="each operation needs"):
        _C.pipeline.plan_cuts(
            cost=[1],
            moving=[1],
            last_use=[],
            memory=[0],
            may_cut=[True],
            must_cut=[False],
            stages=1,
            micro_batches=1,
        )


def llama(transformers):
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=50, use_cache=False
    )
    return transformers.LlamaForCausalLM(config).train()


def bert(transformers):
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=50
    )
    return transformers.BertModel(config).eval()


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("make", [llama, bert])
def test_transformers(make, stages, one_thread):
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers"))
    cut = gramme.pipeline.split(model, (torch.randint(0, 50, (3, 7)),), stages=stages)
    for size in ((3, 7), (5, 9), (2, 4)):
        ids, found = torch.randint(0, 50, size), []
        for run in (model, cut):
            model.zero_grad()
            result = run(ids)
            backward(result)
            found.append((leaves(result), gradients(model)))
        assert all(map(same, found[0][0], found[1][0]))
        assert all(map(same, found[0][1], found[1][1]))


def bert_for_training(transformers):
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, vocab_size=50
    )
    return transformers.BertForMaskedLM(config)


def gpt2(transformers):
    config = transformers.GPT2Config(n_embd=32, n_layer=4, n_head=4, vocab_size=50, n_positions=32, use_cache=False)
    return transformers.GPT2LMHeadModel(config)


def t5(transformers):
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4, vocab_size=50, use_cache=False
    )
    return transformers.T5ForConditionalGeneration(config)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("make", [bert_for_training, gpt2, t5])
def test_training_with_dropout(make, stages, one_thread):
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers")).train()

    def arguments(n, length):
        ids = torch.randint(0, 50, (n, length))
        return {"input_ids": ids} | ({"decoder_input_ids": ids.flip(0)} if make is t5 else {})

    cut = gramme.pipeline.split(model, (), arguments(3, 7), stages=stages)
    for size in ((3, 7), (5, 9), (2, 4)):
        given, found = arguments(*size), []
        for run in (model, cut):
            model.zero_grad()
            torch.manual_seed(size[0])
            result = run(**given)
            backward(result)
            found.append((leaves(result), gradients(model)))
        assert all(map(same, found[0][0], found[1][0]))
        assert all(map(same, found[0][1], found[1][1]))
