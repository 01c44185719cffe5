"""What is made of exported programs: files, other dialects, compiled libraries, ONNX."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._export.verifier import SpecViolationError, Verifier
from torch.export import Dim

from export.beside_torch import assert_same, quietly


class Net(nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.LayerNorm(8))
        self.register_buffer("mean", torch.ones(8))

    def forward(self, x: Any, *, scale: float = 2.0) -> Any:
        return {"y": self.layers(x) * scale + self.mean, "sum": x.sum(0)}


class Counts(Net):
    def forward(self, x: Any, *, scale: float = 2.0) -> Any:
        self.mean.add_(x.mean())
        return super().forward(x, scale=scale)


class Chooses(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,)), x.shape[0] * x


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Any) -> Any:
        return self.layers(x).flatten(1)


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c)


N = {"x": {0: Dim("n", min=2, max=64)}}
MADE: dict[str, tuple[Any, Any]] = {
    "Net": (Net, lambda n: torch.randn(n, 3)),
    "Chooses": (Chooses, lambda n: torch.randn(n, 3)),
    "Images": (Images, lambda n: torch.randn(n, 3, 8, 8)),
    "Attends": (Attends, lambda n: torch.randn(n, 5, 8)),
}


def exported(name: str) -> tuple[nn.Module, Any, Any]:
    make, argument = MADE[name]
    torch.manual_seed(0)
    module = make().eval()
    return module, argument, gramme.export(module, (argument(4),), dynamic_shapes=N)


# ---- files


def test_a_file_needs_no_gramme(tmp_path: Path) -> None:
    module, argument, program = exported("Net")
    x = argument(7)
    torch.export.save(program, tmp_path / "net.pt2")
    torch.save((x, module(x)), tmp_path / "expected.pt")
    there = (
        "import sys; sys.modules['gramme'] = None\n"
        "import torch\n"
        f"program = torch.export.load({str(tmp_path / 'net.pt2')!r})\n"
        f"x, expected = torch.load({str(tmp_path / 'expected.pt')!r})\n"
        "got = program.module()(x)\n"
        "assert got.keys() == expected.keys()\n"
        "for name in got: torch.testing.assert_close(got[name], expected[name])\n"
    )
    done = subprocess.run([sys.executable, "-c", there], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- other dialects


class _CoreVerifier(Verifier):
    """As executorch's: core operators of ATen only, and nothing is written to."""

    dialect = "GRAMME_TESTS_CORE"

    def allowed_op_types(self) -> tuple[type, ...]:
        return (torch._ops.OpOverload, torch._ops.HigherOrderOperator)

    def check_valid_op(self, op: Any) -> None:
        if isinstance(op, torch._ops.OpOverload):
            core = torch.Tag.core in op.tags or op.namespace != "aten" or op is torch.ops.aten.sym_size.int
            if not core or op._schema.is_mutable:
                raise SpecViolationError(f"{op} is no core operator")


@pytest.mark.parametrize("name", MADE)
def test_a_verifier_of_another_dialect(name: str) -> None:
    module, argument, program = exported(name)
    core = program.run_decompositions()
    with quietly():
        made = torch.export.ExportedProgram(
            root=core.graph_module,
            graph=core.graph_module.graph,
            graph_signature=core.graph_signature,
            state_dict=core.state_dict,
            range_constraints=core.range_constraints,
            module_call_graph=core.module_call_graph,
            example_inputs=core.example_inputs,
            constants=core.constants,
            verifiers=[_CoreVerifier],
        )
    assert made.dialect == "GRAMME_TESTS_CORE"
    for rows in (2, 9):
        assert_same(made.module()(argument(rows) * 0 + 1), module(argument(rows) * 0 + 1))


def test_a_verifier_finds_what_is_not_allowed() -> None:
    _, _, program = exported("Net")
    with pytest.raises(SpecViolationError, match="no core operator"):
        _CoreVerifier().check(program)


def test_decompositions_of_ones_own() -> None:
    module, argument, program = exported("Net")
    table = torch.export.default_decompositions()
    table[torch.ops.aten.relu.default] = lambda x: torch.where(x > 0, x, torch.zeros_like(x))
    made = program.run_decompositions(table)
    targets = {str(node.target) for node in made.graph.nodes}
    assert "aten.where.self" in targets
    assert not any("relu" in target for target in targets)
    x = argument(5)
    assert_same(made.module()(x), module(x))


def test_unflattened_with_states_of_ones_own() -> None:
    module, argument, program = exported("Net")
    unflattened = torch.export.unflatten(program)
    other = Net().eval()
    unflattened.load_state_dict(other.state_dict())
    x = argument(6)
    assert_same(unflattened(x), other(x))
    assert_same(program.module()(x), module(x))
    assert [name for name, _ in unflattened.layers.named_children()] == ["0", "1", "2"]


# ---- ONNX


def onnx_results(program: Any, x: torch.Tensor) -> list[torch.Tensor]:
    from onnx.reference import ReferenceEvaluator

    model = ReferenceEvaluator(program.model_proto)
    return [torch.as_tensor(value) for value in model.run(None, {model.input_names[0]: x.numpy()})]


@pytest.mark.parametrize("name", MADE)
def test_onnx(name: str) -> None:
    pytest.importorskip(
        "onnxscript", reason="torch.onnx.export(dynamo=True) needs onnx and onnxscript: pip install both"
    )
    module, argument, exported_program = exported(name)
    with quietly():
        made = torch.onnx.export(exported_program, dynamo=True, verbose=False)
    assert made is not None
    for rows in (2, 7):
        for sign in (1, -1):
            x = argument(rows).abs() * sign
            expected = torch.utils._pytree.tree_leaves(module(x))
            torch.testing.assert_close(onnx_results(made, x), expected, rtol=1e-4, atol=1e-5)


# ---- a library


@pytest.mark.slow
def test_aot_inductor(tmp_path: Path) -> None:
    """Its buffers are the library's own, and written at each call."""
    torch.manual_seed(0)
    module = Counts().eval()
    program = gramme.export(copy.deepcopy(module), (torch.randn(4, 3),), dynamic_shapes=N)
    with quietly():
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
        library = torch._inductor.aoti_load_package(path)
    for rows in (2, 7, 4):
        x = torch.randn(rows, 3)
        expected = {name: value.detach() for name, value in module(x).items()}
        assert_same(library(x), expected)
