"""What can be asked of a cut, what is refused, and how a plan is shown."""

import itertools
import random
import xml.etree.ElementTree as ElementTree

import gramme.pipeline
import pytest
import torch
from gramme.pipeline import Schedule, _cut, _order, simulate
from gramme.pipeline._observe import Operation, last_uses, places
from gramme.pipeline._svg import size_of
from gramme.torchgpipe.balance import blockpartition
from torch import fx, nn

from pipeline import zoo
from pipeline.cases import CASES, backward, leaves
from pipeline.models import Call, gradients, same

SVG = "{http://www.w3.org/2000/svg}"


class Layers(nn.Module):
    def __init__(self, count=6, width=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(count))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                gramme.pipeline.cut()
        return x


def parameters_of(cut):
    return [sorted(name for name, _ in stage.named_parameters()) for stage in cut.stages]


def test_markers():
    x = torch.randn(2, 4)
    model = Layers()
    assert same(model(x), Call(lambda y: [y := layer(y) for layer in model.layers][-1])(x))
    cut = gramme.pipeline.split(model, (x,), stages=2)
    assert [stage.operations for stage in cut.plan.stages] == [4, 8]
    assert same(cut(x), model(x))
    cut = gramme.pipeline.split(model, (x,), stages=3)
    assert [stage.operations for stage in cut.plan.stages] == [4, 4, 4]


def test_modules_that_a_stage_begins_with():
    x = torch.randn(2, 4)
    cut = gramme.pipeline.split(Layers(), (x,), stages=3, begin=["layers.5"])
    assert [stage.operations for stage in cut.plan.stages] == [4, 6, 2]
    cut = gramme.pipeline.split(Layers(), (x,), stages=4, begin=["layers.5", "layers.1.1"])
    assert [stage.operations for stage in cut.plan.stages] == [3, 1, 6, 2]


def test_wishes_that_cannot_be():
    x = torch.randn(2, 4)
    with pytest.raises(ValueError, match=r"calls no module layers\.9"):
        gramme.pipeline.split(Layers(), (x,), stages=2, begin=["layers.9"])
    with pytest.raises(ValueError, match="more cuts are pinned"):
        gramme.pipeline.split(Layers(), (x,), stages=2, begin=["layers.4"])
    with pytest.raises(ValueError, match="memory limit"):
        gramme.pipeline.split(Layers(), (x,), stages=2, most_memory=200)
    with pytest.raises(ValueError, match="costs"):
        gramme.pipeline.split(Layers(), (x,), stages=2, costs="guessed")


class Heavy(nn.Module):
    """Much memory at its beginning, much work at its end."""

    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(500, 8) for _ in range(4))
        self.layer = nn.Linear(8, 8)

    def forward(self, ids):
        x = self.embed[0](ids)
        for embed in self.embed[1:]:
            x = x + embed(ids)
        for _ in range(20):
            x = self.layer(x)
        return x


def test_memory_limit():
    ids = torch.randint(0, 500, (2, 3))
    free = gramme.pipeline.split(Heavy(), (ids,), stages=2).plan
    assert free.stages[0].parameters >= 4 * 500 * 8 * 4
    limit = 40_000
    plan = gramme.pipeline.split(Heavy(), (ids,), stages=2, most_memory=limit).plan
    assert all(stage.parameters + stage.results <= limit for stage in plan.stages)


def test_measured_costs(one_thread):
    model = zoo.UNet()
    (x,), _ = zoo.image(2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    cut = gramme.pipeline.split(model, (x,), stages=3, costs="measured")
    assert all(same(value, before[name]) for name, value in model.state_dict().items())
    assert same(torch.get_rng_state(), state)
    assert sum(stage.cost for stage in cut.plan.stages) > 10_000
    assert same(cut(x), zoo.UNet.forward(model, x))


def test_cheap_values_are_computed_anew(one_thread):
    model = zoo.Tied()
    args, kwargs = zoo.masked(2)
    cut = gramme.pipeline.split(model, args, kwargs, stages=3)
    assert [stage.repeated > 0 for stage in cut.plan.stages] == [False, True, True]
    crossing = {name for stage in cut.stages for name in stage.takes}
    assert "table" not in crossing
    assert not any(name.startswith(("arange", "cos")) for name in crossing)


def test_what_draws_or_is_written_to_is_not_computed_anew(one_thread):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            noise, ones = torch.rand(4), torch.ones(4)
            self.count.add_(1)
            scale = self.count * 2
            ones[0] = 3
            for layer in self.layers:
                x = layer(x * noise + ones * scale)
            return x

    model, x = Model(), torch.randn(2, 4)
    cut = gramme.pipeline.split(model, (x,), stages=2)
    assert not any(stage.repeated for stage in cut.plan.stages)
    results = []
    for run in (model, cut):
        model.count.zero_()
        torch.manual_seed(3)
        results.append(run(x))
    assert same(*results)


def test_lines_between_which_there_is_no_place():
    def written(x):
        y = x.sin()
        z = y.cos() + 1
        y.add_(1)
        return z * y

    def sized(x):
        y = x[x > 0]
        z = y.sin()
        return x.sum() + z.cos().sum()

    with pytest.raises(ValueError, match=r"not enough places to cut: a tensor is used that is written to \(.*:\d+\)"):
        gramme.pipeline.split(Call(written), (torch.randn(3),), stages=4)
    with pytest.raises(ValueError, match=r"whose size depends on data \(.*test_planner.py:\d+\)"):
        gramme.pipeline.split(Call(sized), (torch.randn(3),), stages=5)
    assert gramme.pipeline.split(Call(sized), (torch.randn(3),), stages=2).plan


def test_effects_are_known():
    log = []

    def noted(x):
        log.append(x.shape[0])
        return x.sin().cos()

    class Flagged(nn.Module):
        def forward(self, x):
            self.ran = True
            return x.sin().cos()

    cut = gramme.pipeline.split(Call(noted), (torch.ones(2),), stages=2)
    assert len(cut.effects) == 1
    cut(torch.ones(3))
    assert log == [2, 3]
    assert not gramme.pipeline.split(Flagged(), (torch.ones(2),), stages=2).effects


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_every_order_gives_the_same_bits(name, which, monkeypatch, one_thread):
    make, arguments = CASES[name]
    torch.manual_seed(0)
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    changed = []

    def only(operations):
        found = [list(range(len(operations))), *_order.orders(operations)[1:]]
        changed.append(len(found) > which)
        return [found[min(which, len(found) - 1)]]

    monkeypatch.setattr(_cut, "orders", only)
    cut = gramme.pipeline.split(model, arguments(7, 5), stages=3)
    given, found = arguments(3, 6), []
    for run in (model, cut):
        model.load_state_dict(before)
        model.zero_grad()
        torch.manual_seed(1)
        result = run(*given)
        backward(result)
        found.append((leaves(result), gradients(model), list(map(torch.clone, model.buffers()))))
    for mine, other in zip(*found, strict=True):
        assert all(map(same, mine, other))


def test_uses_of_a_value_stay_in_order(monkeypatch, one_thread):
    """Gradients are added in the opposite order of uses: another order would give other bits."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x):
            parts = [(x * self.weight * 10.0**i).sin() for i in range(6)]
            return parts[4] + parts[1] + parts[5] + parts[0] + parts[3] + parts[2]

    model, x = Shared(), torch.randn(3, 4)
    monkeypatch.setattr(_cut, "orders", lambda operations: [_order.orders(operations)[-1]])
    cut = gramme.pipeline.split(model, (x,), stages=3)
    found = []
    for run in (model, cut):
        model.zero_grad()
        run(x).sum().backward()
        found.append(model.weight.grad.clone())
    assert same(*found)


def test_a_drawing_is_well_formed(tmp_path):
    (x,), _ = zoo.image(2)
    plan = gramme.pipeline.split(zoo.DenseNet(), (x,), stages=4).plan
    plan.save(tmp_path / "plan.svg")
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word.startswith("stage ")] == [f"stage {i}" for i in (*range(4), *range(4))]
    assert plan.portals
    assert len([group for group in root.findall(f"{SVG}g") if group.get("class") != "cell"]) == len(
        {(portal.source, target) for portal in plan.portals for target in portal.targets if target > portal.source + 1}
    )


@pytest.mark.parametrize(
    "schedule",
    [Schedule.gpipe(4, 6), Schedule.zero_bubble(4, 8), Schedule.interleaved(2, 4, 4), Schedule.one_f_one_b(4, 40)],
)
def test_a_drawn_schedule_is_the_simulators(schedule, tmp_path):
    """Boxes stand where the simulator puts them, none over another, all on the paper; bubbles and peaks are told."""
    (x,), _ = zoo.image(2)
    plan = gramme.pipeline.split(zoo.DenseNet(), (x,), stages=4).plan
    plan.save(tmp_path / "plan.svg", schedule)
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    found = plan.simulate(schedule)
    assert max(found.peak_bytes) > max(stage.results for stage in plan.stages)
    width, height = map(float, root.get("viewBox").split()[2:])
    cells = {}
    for group in root.findall(f"{SVG}g"):
        if group.get("class") == "cell":
            box = {key: float(group.find(f"{SVG}rect").get(key)) for key in ("x", "y", "width", "height")}
            cells[group.find(f"{SVG}title").text.split(":")[0]] = box
    assert len(cells) == len(found.spans)
    begin = min(box["x"] for box in cells.values())
    scale = (max(box["x"] + box["width"] for box in cells.values()) - begin) / found.time
    for span in found.spans:
        box = cells[str(span.action)]
        assert box["x"] == pytest.approx(begin + span.start * scale, abs=0.05)
        assert box["width"] == pytest.approx((span.end - span.start) * scale, abs=0.05)
        assert box["x"] + box["width"] < width
        assert box["y"] + box["height"] < height
    assert len({box["y"] for box in cells.values()}) == len(schedule.rows)
    words = [node.text for node in root.iter(f"{SVG}text")]
    for rank in range(len(schedule.rows)):
        own = [span for span in found.spans if span.rank == rank]
        bubble = 1 - sum(span.end - span.start for span in own) / found.time
        held = size_of(sum(found.peak_bytes[stage] for stage in {span.action.stage for span in own}))
        assert f"bubble {bubble:.0%}, peak {held}" in words
    assert any(f"{found.bubble:.0%} of it waiting (bubble)" in word for word in words)


def test_explain_of_sizes_out_of_data():
    def rows(x):
        return x[torch.where(x > 0)[0]].sum()

    cut = gramme.compile(rows, backend="eager", fullgraph=True, dynamic=True)
    assert same(cut(torch.ones(3)), torch.tensor(3.0))
    (row,) = gramme._C.segments(gramme._compile.entry_of(cut))
    assert [text for text, _, _ in row["symbols"]] == ["L['x'].size()[0]"]


def simulated(cut, cuts):
    """A step's length by the schedules' simulator, values counted at the stage that gives and at those that take them.

    Beside the planner: from the graph's nodes, with 1F1B and GPipe.
    """
    bounds = [0, *cuts, len(cut.operations)]
    stage_of = {op.node: stage for stage, (a, b) in enumerate(itertools.pairwise(bounds)) for op in cut.operations[a:b]}
    forward = [0.0] * (len(bounds) - 1)
    for op in cut.operations:
        forward[stage_of[op.node]] += op.cost
        for stage in {stage_of[user] for user in op.node.users if user in stage_of} - {stage_of[op.node]}:
            forward[stage_of[op.node]] += cut._moving(op)
            forward[stage] += cut._moving(op)
    return [
        simulate(make(len(forward), 8), forward=forward, backward=[2 * cost for cost in forward]).time
        for make in (Schedule.one_f_one_b, Schedule.gpipe)
    ]


def check_never_worse(model, args, kwargs, stages):
    """Against blocks in the program's order, which begin at the first place behind theirs where a stage may begin."""
    cut = gramme.pipeline.split(model, args, kwargs, stages=stages, micro_batches=8).cut
    chosen = simulated(cut, cut.bounds[1:-1])
    program = {node: i for i, node in enumerate(cut.module.graph.nodes)}
    cut.operations.sort(key=lambda op: program[op.node])
    last_use = last_uses(cut.operations, cut.output)
    free = [i for i, why in enumerate(places(cut.operations, last_use)) if not why]
    solved = blockpartition.solve([op.cost for op in cut.operations], stages)
    firsts = list(itertools.accumulate(map(len, solved)))[:-1]
    cuts = {min((i for i in free if i >= first), default=free[-1]) for first in firsts} - {0}
    if len(cuts) < stages - 1:
        return False
    assert all(mine <= other for mine, other in zip(chosen, simulated(cut, sorted(cuts)), strict=True))
    return True


@pytest.mark.parametrize("name", zoo.SMALL)
@pytest.mark.parametrize("stages", [2, 4])
def test_never_worse_than_blocks_of_layers(name, stages):
    make, arguments = zoo.SMALL[name]
    check_never_worse(make(), *arguments(2), stages)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.TRANSFORMERS)
@pytest.mark.parametrize("stages", [2, 4, 8])
def test_never_worse_than_blocks_of_transformers(name, stages):
    pytest.importorskip("transformers")
    make, arguments = zoo.TRANSFORMERS[name]
    assert check_never_worse(make(), *arguments(2), stages)


class Operations:
    """A random graph, as the planner asks for it; what is told of each operation is drawn, too."""

    def __init__(self, numbers):
        graph = fx.Graph()
        nodes = [graph.placeholder("x")]
        for _ in range(numbers.randint(6, 60)):
            taken = {numbers.choice(nodes[-4:] if numbers.random() < 0.8 else nodes) for _ in range(2)}
            nodes.append(graph.call_function(torch.add, tuple(taken)))
        self.output = graph.output(nodes[-1])
        self.module = fx.GraphModule(nn.Module(), graph)
        self.operations = [
            Operation(node, numbers.choice([0, 500, 5_000, 90_000]), numbers.choice([0, 4_000, 200_000]))
            for node in nodes[1:]
        ]


def test_never_worse_than_blocks_on_random_graphs(soak):
    """All orders are tried: values keep no order here."""
    numbers, better = random.Random(2), 0
    for _ in range(1000 if soak else 25):
        made = Operations(numbers)
        stages = numbers.randint(2, 5)
        cut = _cut.Cut.__new__(_cut.Cut)
        cut.module, cut.output, cut.operations, cut.again = made.module, made.output, made.operations, {}
        cut.wishes, cut.micro_batches, cut.attributes = _cut.Wishes(stages), 8, {}
        cut._choose([])
        chosen = simulated(cut, cut.bounds[1:-1])
        cut.operations = made.operations
        solved = blockpartition.solve([op.cost for op in cut.operations], stages)
        other = simulated(cut, list(itertools.accumulate(map(len, solved)))[:-1])
        assert all(mine <= theirs for mine, theirs in zip(chosen, other, strict=True))
        better += chosen < other
    assert better > 10
