"""Each message of PyTorch's that decides something, provoked: rows MESSAGE of torch_names.def, and of gramme._torch."""

import re
from pathlib import Path

import gramme
import pytest
import torch
from gramme._torch import names
from torch._subclasses.fake_tensor import FakeTensorMode

TABLE = (Path(__file__).parents[2] / "src/torch/2_13/torch_names.def").read_text()
MESSAGES = dict(re.findall(r'^MESSAGE\((\w+), "(.*)"\)$', TABLE, re.MULTILINE))


def test_all_are_provoked_here() -> None:
    assert set(MESSAGES) == {"NoViewOfShape", "NoViewOfStrides", "NoData"}


def test_no_view_of_a_shape() -> None:
    """In the words of the decomposition, which fakes run."""
    with FakeTensorMode(), pytest.raises((ValueError, RuntimeError)) as caught:
        torch.empty(4, 3).t().view(12)
    assert MESSAGES["NoViewOfShape"] in str(caught.value) or MESSAGES["NoViewOfStrides"] in str(caught.value)


def test_no_view_of_strides() -> None:
    with pytest.raises(RuntimeError, match=MESSAGES["NoViewOfStrides"]):
        torch.empty(4, 3).t().view(12)


def test_no_data() -> None:
    with FakeTensorMode():
        fake = torch.empty(3)
        with pytest.raises(RuntimeError, match=MESSAGES["NoData"]):
            torch.tensor([fake[0]])


def test_an_assertion_fails() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.ops.aten._assert_scalar.default(False, f"{names.ASSERTION_FAILED} for expression u0 > 1")
    assert str(caught.value).startswith(names.ASSERTION_FAILED)


def test_out_of_bounds() -> None:
    """As Inductor's code says it."""
    from torch._inductor.codegen import wrapper

    source = Path(wrapper.__file__).read_text()
    assert "raise RuntimeError(" in source
    assert names.OUT_OF_BOUNDS.fullmatch("u0 <= 5")
    assert names.OUT_OF_BOUNDS.fullmatch("u12 >= -3")
    assert not names.OUT_OF_BOUNDS.fullmatch("u0 <= 5: the program's")


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_a_program_that_makes_no_view(backend: str) -> None:
    """At sizes that vary, too: the exception is the program's own."""

    @gramme.compile(backend=backend, dynamic=True)
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).t().view(-1)

    for n in (3, 4, 5):
        with pytest.raises(RuntimeError, match=MESSAGES["NoViewOfStrides"]):
            program(torch.zeros(n, 2))
    assert torch.equal(program(torch.zeros(5, 1)), torch.ones(5))
