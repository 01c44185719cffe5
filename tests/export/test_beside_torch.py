"""Programs exported: the signature, calls and ranges of torch.export's, the results of the module, its state as before."""

from __future__ import annotations

import pytest
from export.beside_torch import check
from export.programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_exports_it(name: str) -> None:
    check(PROGRAMS[name])
