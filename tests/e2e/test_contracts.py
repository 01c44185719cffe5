"""What a capture counts on from its backend is a row of contract.def; a backend that names none gets the closed one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._export._call import _Keep as Keep

CONTRACTS = Path(__file__).parents[2] / "src/trace/contract.def"
SIZES = ((3, 4), (5, 4), (6, 4))


def rows(x: torch.Tensor) -> torch.Tensor:
    first, second = x.sin()[:2]
    return first + second


def entry(**how: Any) -> tuple[Any, list[torch.fx.GraphModule]]:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    made = _C.make_entry(rows, backend=backend, fullgraph=True, recompile_limit=None, keep_graphs=False, **how)
    return made, graphs


@pytest.mark.parametrize(
    ("contract", "as_is", "symbols"),
    [("", False, False), ("compiler", False, True), ("eager", True, True)],
)
def test_rows_differ_in_what_they_promise(contract: str, as_is: bool, symbols: bool) -> None:
    """Rows of a tensor are the program's own unbind where graphs run as they are; sizes may be inputs."""
    made, graphs = entry(contract=contract) if contract else entry()
    for size in SIZES:
        x = torch.randn(*size)
        torch.testing.assert_close(made(x), rows(x), rtol=0, atol=0)
    targets = {getattr(node.target, "__name__", node.target) for node in graphs[0].graph.nodes}
    assert ("unbind" in targets) is as_is
    assert len(graphs) == (2 if symbols else len(SIZES))


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"contract: no row of contract\.def: 'eagre'"):
        entry(contract="eagre")


NAMED = {"eager": "eager", "native": "native", "aot_eager": "compiler", "inductor": "compiler"}


def test_each_row_has_a_backend() -> None:
    rows = re.findall(r'^CONTRACT\(\w+, +"(\w*)"', CONTRACTS.read_text(), re.M)
    assert rows[-1] == ""  # of backends that name none
    assert set(rows[:-1]) == {*NAMED.values(), Keep.contract}


@pytest.mark.parametrize(("backend", "contract"), NAMED.items())
def test_backends_name_their_rows(backend: str, contract: str) -> None:
    from gramme._backends import resolve

    assert resolve(backend).contract == contract  # type: ignore[attr-defined]
    assert resolve(lambda graph, inputs: graph.forward).contract == "compiler"  # type: ignore[attr-defined]
    assert gramme.compile(rows, backend=backend) is not None
