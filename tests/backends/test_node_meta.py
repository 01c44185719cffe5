"""What nodes and modules say of themselves in `meta`, beside PyTorch's own front end: to any backend, at any time."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.traceback import annotate, annotate_fn

X = torch.arange(12.0).reshape(3, 4)

# Keys of PyTorch's that gramme does not write. The set may only shrink.
MISSING = {
    "grapharg",  # PyTorch's own, for as long as its front end traces
}
# Where else the two differ: program, node, key. The set may only shrink.
DIFFERENT = {
    ("module", "l_self_buffers_scale_", "stack_trace"),  # columns within the line
    ("attention", "multi_head_attention_forward", "example_value"),  # PyTorch's has None for weights not asked for
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2), nn.LayerNorm(2))
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x)) * self.scale


class Around(nn.Module):
    """A module of the program's around one of PyTorch's, which its own front end calls by a wrapper."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x.relu()
    z = torch.cond(y.sum() > 0, lambda t: t.sin() + y, lambda t: t.cos(), (y,))
    return torch.cond(z.sum() > 0, lambda t: t.tan(), lambda t: t.tanh(), (z,))


def pieces(x: torch.Tensor) -> Any:
    a, b = x.split(2, -1)
    values, indices = torch.max(x, 0)
    return a * b, values, torch.topk(x, 2)[0], indices


def written(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.mul_(2)
    y[0] = 3
    return y.t()


def sized(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1) * x.shape[0]


PROGRAMS: dict[str, tuple[Callable[[], Callable[..., Any]], bool | None]] = {
    "module": (Net, None),
    "recurrent": (lambda: Around(nn.GRUCell(4, 3)), None),
    "attention": (lambda: Around(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)), None),
    "branches": (lambda: branches, None),
    "pieces": (lambda: pieces, None),
    "written": (lambda: written, None),
    "sized": (lambda: sized, True),
    "nested_branches": (lambda: nested_branches, None),
    "annotated": (lambda: annotated, None),
    "annotated_and_raises": (lambda: annotated_and_raises, None),
    "annotated_branches": (lambda: annotated_branches, None),
    "modes": (lambda: in_modes, None),
    "of_no_grad": (lambda: torch.no_grad()(lambda x: x * 2), None),
}


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(map(str, value.shape)), tuple(map(str, value.stride())), value.dtype, value.requires_grad)
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return str(value)


def annotated(x: torch.Tensor) -> torch.Tensor:
    with annotate({"stage": 1}):
        y = x.sin()
        with annotate({"part": "inner"}):
            y = y.cos()
        y = y + 1
    return in_stage(y * 2) - 3


@annotate_fn({"stage": 2})
def in_stage(x: torch.Tensor) -> torch.Tensor:
    return x.tan()


def annotated_and_raises(x: torch.Tensor) -> torch.Tensor:
    try:
        with annotate({"stage": 1}):
            y = x.sin()
            raise ValueError
    except ValueError:
        return y.cos()


def nested_branches(x: torch.Tensor) -> torch.Tensor:
    def inner(t: torch.Tensor) -> torch.Tensor:
        return torch.cond(t.sum() > 1, lambda u: u.tan(), lambda u: u.tanh(), (t * 2,))

    return torch.cond(x.sum() > 0, inner, lambda t: t.cos(), (x,))


def in_modes(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    torch.set_grad_enabled(False)
    z = y.float() * 2
    torch.set_grad_enabled(True)
    return z


def annotated_branches(x: torch.Tensor) -> torch.Tensor:
    with annotate({"stage": 1}):
        return torch.cond(x.sum() > 0, lambda t: t.tan(), lambda t: t.tanh(), (x,))


Row = tuple[str, str, dict[str, Any]]


def of_nodes(module: torch.fx.GraphModule) -> list[Row]:
    """Operation, name and metadata of each node, bodies behind the node that names them."""
    rows: list[Row] = []
    for node in module.graph.nodes:
        said = {key: described(value) for key, value in node.meta.items() if key not in MISSING}
        if node.op == "output":
            said.pop("example_value", None)  # what bodies return has a value in gramme's graphs
        rows.append((node.op, node.name, said))
        body = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(body, torch.fx.GraphModule):
            rows += of_nodes(body)
    return rows


def captured_by(front: Any, function: Any, dynamic: bool | None, *, late: bool) -> tuple[list[Row], dict[str, str]]:
    modules: list[torch.fx.GraphModule] = []
    found: list[Row] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        modules.append(module)
        if not late:
            found.extend(of_nodes(module))
        return module.forward

    torch._dynamo.reset()
    front(function, backend=backend, dynamic=dynamic)(X)
    (module,) = modules
    return found or of_nodes(module), module.meta["dynamo_flat_name_to_original_fqn"]


@pytest.mark.parametrize("late", [False, True], ids=["while_it_compiles", "afterwards"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_metadata_is_pytorchs(name: str, late: bool) -> None:
    make, dynamic = PROGRAMS[name]
    function = make()
    expected, names = captured_by(torch.compile, function, dynamic, late=False)
    found, names_found = captured_by(gramme.compile, function, dynamic, late=late)
    assert names_found == names
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    different = {
        (name, node, key)
        for (_, node, mine), (_, _, theirs) in zip(found, expected, strict=True)
        for key in mine.keys() | theirs.keys()
        if mine.get(key) != theirs.get(key)
    }
    assert different == {row for row in DIFFERENT if row[0] == name}


def one_graph(function: Any, *args: Any) -> torch.fx.GraphModule:
    modules: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        modules.append(module)
        return module.forward

    gramme.compile(function, backend=backend)(*args)
    return modules[0]


def test_every_way_to_look() -> None:
    ways: list[Callable[[Any], Any]] = [
        lambda meta: meta["example_value"],
        lambda meta: meta.get("example_value"),
        lambda meta: "example_value" in meta and meta["example_value"],
        lambda meta: dict(meta)["example_value"],
        lambda meta: {**meta}["example_value"],
        lambda meta: copy.copy(meta)["example_value"],
        lambda meta: meta.copy()["example_value"],
        lambda meta: dict(meta.items())["example_value"],
        lambda meta: [value for key, value in meta.items() if key == "example_value"][0],
        lambda meta: (meta | {})["example_value"],
        lambda meta: ({} | meta)["example_value"],
        lambda meta: meta.pop("example_value"),
        lambda meta: meta.setdefault("example_value", None),
    ]
    for way in ways:
        graph = one_graph(lambda x: x.sin(), X).graph
        for node in list(graph.nodes)[:2]:
            assert way(node.meta).shape == (3, 4)
    graph = one_graph(lambda x: x.sin(), X).graph
    lengths = [len(node.meta) for node in graph.nodes]
    assert lengths == [len(list(node.meta)) for node in graph.nodes]
    assert "example_value" in repr(next(iter(graph.nodes)).meta)


def test_what_a_backend_writes_stays() -> None:
    node = list(one_graph(lambda x: x.sin(), X).graph.nodes)[1]
    node.meta["mine"] = 1
    del node.meta["source_fn_stack"]
    assert node.meta["mine"] == 1
    assert "source_fn_stack" not in node.meta
    with pytest.raises(KeyError, match="nothing"):
        node.meta["nothing"]
    assert pickle.loads(pickle.dumps({k: v for k, v in node.meta.items() if k == "mine"})) == {"mine": 1}


def test_copies_of_the_module_have_it() -> None:
    module = one_graph(Net(), X)
    twin = copy.deepcopy(module)
    assert [n.meta.get("example_value") is None for n in twin.graph.nodes].count(True) == 1  # the output's
    assert twin.meta["dynamo_flat_name_to_original_fqn"]["L__self___first_weight"] == "first.weight"
    again = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    assert again.graph.find_nodes(op="placeholder")[0].meta["example_value"].shape == (4, 4)


def test_a_graph_changed_before_the_look() -> None:
    found: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        sin = next(node for node in module.graph.nodes if node.target == "sin")
        sin.replace_all_uses_with(sin.args[0])
        module.graph.erase_node(sin)
        module.recompile()
        found.extend((node.name, node.meta["example_value"].shape) for node in list(module.graph.nodes)[:-1])
        return module.forward

    assert torch.equal(gramme.compile(lambda x: x.sin() + x[0], backend=backend)(X), X + X[0])
    assert found == [("l_x_", (3, 4)), ("getitem", (4,)), ("add", (3, 4))]


def test_two_nodes_share_no_example() -> None:
    graph = one_graph(lambda x: (x.sin(), x.cos()), X).graph
    sin, cos = (node.meta["example_value"] for node in list(graph.nodes)[1:3])
    assert sin is not cos
    assert sin.untyped_storage()._cdata != cos.untyped_storage()._cdata


def test_why_a_graph_ends() -> None:
    reasons = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        reasons.append(module.compile_subgraph_reason)
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    gramme.compile(f, backend=backend)(X)
    broken, whole = reasons
    assert broken.graph_break
    assert "graph_break() was called" in broken.reason
    assert [frame.name for frame in broken.user_stack] == [f.__qualname__]
    assert (whole.reason, whole.graph_break) == ("return_value", False)


def test_annotations_over_breaks() -> None:
    """Those around a break, and around the call, are there in every graph."""
    customs: list[list[Any]] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        customs.append([node.meta.get("custom") for node in module.graph.nodes if node.op.startswith("call_")])
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        with annotate({"stage": 1}):
            y = x + 1
            torch._dynamo.graph_break()
            y = y * 2
        return y - 3

    compiled = gramme.compile(f, backend=backend)
    assert torch.equal(compiled(X), (X + 1) * 2 - 3)
    assert [each for graph in customs for each in graph] == [{"stage": 1}, {"stage": 1}, None]
    assert "custom" not in torch.fx.traceback.current_meta
    customs.clear()
    with annotate({"outside": 0}):
        gramme.compile(lambda x: x.sin() + 1, backend=backend)(X)
    assert customs == [[{"outside": 0}] * 2]


@torch._dynamo.override_cudagraphs(bwd=False)
def without_backward(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def no_cudagraphs(x: torch.Tensor) -> torch.Tensor:
    with torch._dynamo.override_cudagraphs(fwd=False):
        y = x.sin() * 2
    return y + 1


def test_what_is_said_of_cudagraphs() -> None:
    for function in (no_cudagraphs, lambda x: without_backward(x) + 1, lambda x: x + 1):
        said = []
        for front in (torch.compile, gramme.compile):

            def backend(module: torch.fx.GraphModule, inputs: list[Any], said: list[Any] = said) -> Any:
                said.append(module.meta.get("cudagraph_annotation"))
                return module.forward

            torch._dynamo.reset()
            assert torch.equal(front(function, backend=backend, fullgraph=True)(X), function(X))
        assert len(said) == 2
        assert said[0] == said[1]
    assert said == [None, None]


def test_names_of_parameters() -> None:
    """Of what the graph takes; PyTorch's front end also knows of parts of the module that nobody uses."""
    sources = []
    for front in (torch.compile, gramme.compile):

        def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            sources.append(dict(module._param_name_to_source))
            return module.forward

        torch._dynamo.reset()
        front(Net(), backend=backend)(X)
    theirs, ours = sources
    assert set(ours) <= set(theirs)
    assert {"self.first.weight", "self.rest.1.bias", "self.scale"} <= set(ours)


def test_a_graph_has_one_number(caplog: pytest.LogCaptureFixture) -> None:
    module = one_graph(lambda x: x.sin(), X)
    number = module.meta["dynamo_compile_id"]
    assert module.meta["backend_id"] == f"__compiled_fn_{number}"
    numbers = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        numbers.append((module.meta["backend_id"], torch._guards.CompileContext.current_compile_id()))
        return module.forward

    torch._logging.set_logs(graph_code=True)
    try:
        gramme.compile(lambda x: x.cos(), backend=backend)(X)
    finally:
        torch._logging.set_logs()
    ((name, current),) = numbers
    assert name == f"__compiled_fn_{current}"
    assert any(f"===== {name} =====" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager", "callable"])
def test_regions_in_profiles(backend: str) -> None:
    """Each run of a graph is a region, by the graph's number, as under PyTorch's front end."""
    known: list[str] = []

    def called(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        known.append(f"Torch-Compiled Region: {module.meta['dynamo_compile_id']}")
        return module.forward

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    runs = []
    for front in (torch.compile, gramme.compile):
        torch._dynamo.reset()
        known.clear()
        is_unknown = front is torch.compile and backend == "native"
        chosen = called if backend == "callable" else "eager" if is_unknown else backend
        compiled = [front(f, backend=chosen) for f in (broken, torch.tan)]
        compiled[0](X)
        compiled[1](X)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for call in (*compiled, *compiled):
                call(X)
        regions = [event.name for event in profile.events() if event.name.startswith("Torch-Compiled Region")]
        assert regions[:3] == regions[3:]
        assert len(set(regions)) == 3
        assert not known or known == regions[:3]
        assert all(event.name != "aten::sin" or event.cpu_parent is not None for event in profile.events())
        runs.append(len(regions))
    assert runs[0] == runs[1]


class Traced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.layer(x.sin())
        return torch.softmax(y, -1), nn.functional.relu(y.cos() + x)


@pytest.mark.parametrize("ends_in_module", [False, True])
def test_metadata_of_a_graph_module_stays(ends_in_module: bool) -> None:
    """What a pass wrote on its nodes is there in the graph that is captured of it."""
    kept = ("custom", "nn_module_stack", "stack_trace", "partitioner_tag")
    module = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)) if ends_in_module else Traced())
    for node in module.graph.nodes:
        node.meta.update(custom={"tag": node.name}, partitioner_tag=node.op, unknown=1, nn_module_stack={"a": "b"})
        node.meta["stack_trace"] = f'  File "of_a_pass.py", line {len(node.name)}, in {node.name}\n'
    module.recompile()
    found = []
    for front in (torch.compile, gramme.compile):
        torch._dynamo.reset()
        rows: list[Any] = []

        def backend(graph: torch.fx.GraphModule, inputs: Any, rows: list[Any] = rows) -> Any:
            for node in graph.graph.nodes:
                assert "unknown" not in node.meta
                is_kept = "custom" in node.meta
                rows.append((node.op, {key: described(node.meta[key]) for key in kept} if is_kept else {}))
            return graph.forward

        front(module, backend=backend)(X)
        found.append(rows)
    assert found[0] == found[1]
    assert any("custom" in said for _, said in found[0]) != ends_in_module


def test_an_unread_graph_keeps_no_input_alive() -> None:
    inputs: list[weakref.ref[torch.Tensor]] = []
    modules = []

    def backend(module: torch.fx.GraphModule, given: list[Any]) -> Any:
        inputs.extend(map(weakref.ref, given))
        modules.append(module)
        return module.forward

    compiled = gramme.compile(lambda x: x + 1, backend=backend)
    compiled(torch.ones(3))
    gc.collect()
    assert [each() for each in inputs] == [None]
    assert modules[0].graph.find_nodes(op="placeholder")[0].meta["example_value"].shape == (3,)


def test_passes_of_others() -> None:
    """ShapeProp, FX's drawer and a profile by module read and write the nodes."""
    module = one_graph(Net(), X)
    inputs = [
        torch.empty_like(node.meta["example_value"], device="cpu") for node in module.graph.find_nodes(op="placeholder")
    ]
    ShapeProp(module).propagate(*(torch.ones(value.shape) for value in inputs))
    by_module: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        assert node.meta["tensor_meta"].shape == node.meta["example_value"].shape
        for path, _ in node.meta.get("nn_module_stack", {}).values():
            by_module[path] = by_module.get(path, 0) + (node.op == "call_function")
    assert by_module == {
        "L['self'].first": 1,
        "L['self'].rest": 3,
        "L['self'].rest.0": 1,
        "L['self'].rest.1": 1,
        "L['self'].rest.2": 1,
    }
