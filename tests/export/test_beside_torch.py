"""Programs exported: signature, calls and ranges are torch.export's, results the module's, its state is as before."""

from __future__ import annotations

from unittest import mock

import gramme
import pytest
import torch
from gramme._export import _front

from export.beside_torch import check, export, quietly
from export.programs import PROGRAMS, VARIES


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_exports_it(name: str) -> None:
    check(PROGRAMS[name])


def test_what_no_guard_says_is_for_one_size() -> None:
    """A decision that cannot be computed of symbols holds for this size alone, or is refused if that has to vary."""
    program = PROGRAMS["Fractions"]
    with mock.patch.object(_front, "_of_floats", return_value=None):
        exported = export(program, gramme.export, program.make())
        with pytest.raises(torch._dynamo.exc.UserError, match="rows"), quietly():
            gramme.export(program.make(), program.given()[0], dynamic_shapes=VARIES)
    assert exported.module()(*program.given()[0])[0].shape[0] == 2
    with pytest.raises(AssertionError, match="Guard failed"):
        exported.module()(torch.randn(9, 3))
