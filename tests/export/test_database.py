"""Every public example of torch.export: exported, or refused, as PyTorch's own front end does it."""

from __future__ import annotations

import copy
from typing import Any

import gramme
import pytest
import torch
from torch._export.db.examples import all_examples

from export.beside_torch import assert_same, calls, module_calls, quietly, ranges, run, shapes, signature

EXAMPLES = all_examples()
# The default of a parameter is no attribute of the module: its name in the program is each front end's own.
UNNAMED = {"optional_input"}


def exported(case: Any, by: Any, **more: Any) -> Any:
    args, kwargs = copy.deepcopy((case.example_args, case.example_kwargs))
    with quietly():
        return by(copy.deepcopy(case.model), args, kwargs, dynamic_shapes=case.dynamic_shapes, **more)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example(name: str) -> None:
    case = EXAMPLES[name]
    try:
        theirs = exported(case, torch.export.export, strict=True)
    except torch._dynamo.exc.UserError as refusal:
        with pytest.raises(type(refusal)):
            exported(case, gramme.export)
        return
    ours = exported(case, gramme.export)
    assert signature(ours, name not in UNNAMED) == signature(theirs, name not in UNNAMED)
    assert calls(ours) == calls(theirs)
    assert ranges(ours) == ranges(theirs)
    assert shapes(ours) == shapes(theirs)
    assert module_calls(ours) == module_calls(theirs)
    given = (case.example_args, case.example_kwargs)
    module = copy.deepcopy(case.model)
    assert_same(run(ours.module(), given), run(module, given))
    if case.extra_args is not None:
        assert_same(run(ours.module(), (case.extra_args, {})), run(module, (case.extra_args, {})))
