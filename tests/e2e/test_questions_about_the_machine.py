"""Questions about the processor, and about what torch was built with: constants of a graph, as in eager."""

import gramme
import pytest
import torch

QUESTIONS = [
    "torch.cpu.is_available",
    "torch.cpu.is_initialized",
    "torch.cpu.device_count",
    "torch.cpu.current_device",
    "torch.cpu._is_avx2_supported",
    "torch.cpu._is_avx512_supported",
    "torch.cpu._is_avx512_bf16_supported",
    "torch.cpu._is_vnni_supported",
    "torch.cpu._is_amx_tile_supported",
    "torch.cpu._is_amx_fp16_supported",
    "torch.backends.cpu.get_cpu_capability",
    "torch.backends.mkl.is_available",
    "torch.backends.openmp.is_available",
]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_graph_goes_on(name: str) -> None:
    program: dict = {"torch": torch}
    exec(
        f"def ask(x):\n    y = x + 1\n    answer = {name}()\n    return (y * 2 if answer else y * 3), answer\n", program
    )
    x = torch.ones(3)
    expected, answer = program["ask"](x)
    result, found = gramme.compile(program["ask"], backend="eager", fullgraph=True)(x)
    assert torch.equal(result, expected)
    assert found == answer
    assert type(found) is type(answer)


def test_wrong_arguments_raise_as_in_eager() -> None:
    def ask(x: torch.Tensor) -> object:
        try:
            return torch.cpu.device_count(x)  # type: ignore[call-arg]
        except TypeError as error:
            return str(error)

    x = torch.ones(3)
    assert gramme.compile(ask, backend="eager")(x) == ask(x)
