"""Private names of torch: what tools/check_private_names.py lets pass and what it refuses."""

from pathlib import Path

import check_private_names
import pytest

ROOT = Path(__file__).parents[2]


def refused_in_cpp(source: str) -> list[int]:
    return [finding.line for finding in check_private_names.check_cpp(source)]


def refused_in_python(source: str) -> list[int]:
    return [finding.line for finding in check_private_names.check_python(source)]


@pytest.mark.parametrize(
    "source",
    [
        'imported("torch", "full")',
        "of_torch::object(of_torch::SetGradEnabled)",
        'imported("_operator", "add")',
        'cannot(Reason::CallSkipped, "set torch._dynamo.config.capture_scalar_outputs");',
        '// see imported("torch._C", "x")',
        'intern("__torch_function__")',
        '// no name of torch: a key of ours\nintern("_mine")',
        '#include "torch/names.h"',
    ],
)
def test_allowed_in_cpp(source: str) -> None:
    assert refused_in_cpp(source) == []


@pytest.mark.parametrize(
    "source",
    [
        'imported("torch._C", "TensorBase")',
        'imported("torch", "_assert")',
        'intern("_backward_hooks")',
        'name.ends_with("torch/optim/adam.py")',
        'name.find("torch/optim/")',
        'Option("torch._dynamo.config", "x")',
        'imported("torch.nn.modules._functions", "X");  // why',
        '// no name of torch:\nintern("_mine")',
    ],
)
def test_refused_in_cpp(source: str) -> None:
    assert refused_in_cpp(source) == [source.count("\n") + 1]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.nn.Module()",
        "from ._torch.names import Source",
        "x._base",
        '"""Of torch._dynamo."""',
        'print("torch._dynamo.config says it")',
        "torch.__file__",
    ],
)
def test_allowed_in_python(source: str) -> None:
    assert refused_in_python(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "from torch._guards import Source",
        "from torch.utils import _pytree",
        "from torch.nn.modules.batchnorm import _BatchNorm",
        "import torch._dynamo",
        "torch._C._set_grad_enabled(False)",
        'sys.modules.get("torch._dynamo.config")',
    ],
)
def test_refused_in_python(source: str) -> None:
    assert set(refused_in_python(source)) == {1}


def test_this_repository() -> None:
    assert check_private_names.main([str(ROOT / "src"), str(ROOT / "python/gramme")]) == 0
