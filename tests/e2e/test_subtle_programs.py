"""Programs in which a front end may easily give another result than eager: gramme gives eager's."""

from typing import Any

import gramme
import pytest
import torch
import torch._inductor.config

from e2e.front import GRAMME
from e2e.subtle_programs import PROGRAMS

pytestmark = [pytest.mark.skipif(not GRAMME, reason="compares gramme"), pytest.mark.slow]

# Called for real, torch.cond refuses it; in a graph it is what Python does.
BETTER = {"cond_none_output": "([1.5, 2.0, 3.0], None)"}
# AOTAutograd's node is one for the whole graph, without a gradient of its own.
OF_COMPILERS = {"double_backward", "once_differentiable_message", "node_arity", "grad_fn_name"}


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [round(float(each), 3) for each in value.detach().flatten()]
    if isinstance(value, tuple | list):
        return type(value)(plain(each) for each in value)
    return value


def outcome(name: str, compiler: Any) -> str:
    torch._dynamo.reset()
    try:
        return str(plain(PROGRAMS[name](compiler)))
    except Exception as error:
        return f"{type(error).__name__}: " + " ".join(str(error).split())[:100]


@pytest.mark.sampled(100)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str, backend: str) -> None:
    if backend == "aot_eager" and name in OF_COMPILERS:
        pytest.skip("told by the node")
    assert_like_eager(name, backend)


# Whether a tensor is a view of one that nobody has is the compiler's.
@pytest.mark.sampled(10)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - OF_COMPILERS - {"view_output"}))
def test_like_eager_under_inductor(name: str) -> None:
    with torch._inductor.config.patch(fallback_random=True):
        assert_like_eager(name, "inductor")


def assert_like_eager(name: str, backend: str) -> None:
    want = BETTER.get(name) or outcome(name, lambda function: function)
    assert outcome(name, gramme.compile(backend=backend)) == want
    whole = outcome(name, gramme.compile(backend=backend, fullgraph=True))
    assert whole == want or whole.startswith(("CaptureError", "UncapturedControlFlowError"))
