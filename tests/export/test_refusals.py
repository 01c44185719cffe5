"""What cannot be exported as it is said: the class that torch.export raises, the user's name, and a fix that works."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.export import Dim

from export import lines
from export.beside_torch import assert_untouched, quietly, snapshot


@dataclass(frozen=True)
class Refusal:
    """A function that cannot be exported like this.

    Attributes:
        said: is in gramme's message, as in torch's.
        line: the text of the line that gramme names; where torch names sizes it names none.
        fixed: dynamic_shapes with which it can.
        differs: torch raises another class.

    """

    forward: Callable[..., Any]
    arguments: tuple[Any, ...]
    dynamic_shapes: Any = None
    said: str = ""
    line: str = ""
    fixed: Any = None
    differs: bool = False


def x(*size: int) -> torch.Tensor:
    return torch.randn(*size)


n, m = Dim("n", min=2), Dim("m", min=2)
A, D = Dim.AUTO, Dim.DYNAMIC

REFUSALS = {
    # ---- sizes that the program does not let vary
    "branch": Refusal(lines.branch, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: Dim("n", min=4)}}),
    "branch_below": Refusal(
        lines.branch_below, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: Dim("n", min=2, max=7)}}
    ),
    "even": Refusal(lines.even, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: 2 * Dim("_n", min=1)}}),
    "unrolled": Refusal(lines.unrolled, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": None}),
    "unrolled_dynamic": Refusal(lines.unrolled, (x(4, 3),), {"x": {0: D}}, "L['x'].size()[0]", fixed={"x": {0: A}}),
    "compared": Refusal(lines.compared, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: A}}),
    "indexed": Refusal(lines.indexed, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: A}}),
    "as_key": Refusal(lines.as_key, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": None}),
    "view": Refusal(lines.view, (x(4, 3),), {"x": {0: n}}, "n", fixed={"x": {0: A}}),
    "added": Refusal(
        lines.added, (x(4, 3), x(4, 3)), {"x": {0: n}, "y": {0: m}}, "m", fixed={"x": {0: n}, "y": {0: n}}
    ),
    "added_static": Refusal(
        lines.added, (x(4, 3), x(4, 3)), {"x": {0: n}, "y": None}, "n", fixed={"x": None, "y": None}
    ),
    "multiplied": Refusal(
        lines.multiplied, (x(4, 3), x(3, 4)), {"x": {1: n}, "y": {0: m}}, "m", fixed={"x": {1: n}, "y": {0: n}}
    ),
    "derived": Refusal(
        lines.shifted, (x(4, 3), x(5, 3)), {"x": {0: n}, "y": {0: m}}, "m", fixed={"x": {0: n}, "y": {0: n + 1}}
    ),
    "linear": Refusal(lines.linear, (x(4, 3),), {"x": {1: n}}, "n", fixed={"x": {0: n}}),
    "stacked": Refusal(
        lines.stacked, (x(4, 3), x(4, 3)), {"x": {0: D}, "y": None}, "x", fixed={"x": {0: A}, "y": {0: A}}
    ),
    "one": Refusal(lines.doubled, (x(1, 3),), {"x": {0: n}}, "n", fixed={"x": {0: A}}),
    "one_dynamic": Refusal(lines.doubled, (x(1, 3),), {"x": {0: D}}, "", fixed={"x": {0: A}}),
    "outside_of_range": Refusal(lines.doubled, (x(4, 3),), {"x": {0: Dim("n", min=5)}}, "n", fixed={"x": {0: n}}),
    "int": Refusal(lines.counted, (x(4, 3), 3), {"x": None, "k": D}, "", fixed={"x": None, "k": None}),
    "equal_wrongly": Refusal(
        lines.added, (x(4, 3), x(1, 3)), {"x": {0: n}, "y": {0: n}}, "n", fixed={"x": {0: n}, "y": None}
    ),
    # ---- dynamic_shapes that do not fit
    "unknown_name": Refusal(lines.doubled, (x(4, 3),), {"z": {0: n}}, "z", fixed={"x": {0: n}}),
    "another_form": Refusal(lines.nested, ([x(4), x(4)],), {"xs": {0: n}}, "", fixed={"xs": [{0: n}, {0: n}]}),
    "of_a_number": Refusal(lines.counted, (x(4, 3), 3), {"x": None, "k": {0: n}}, "", fixed=None),
    # ---- arguments and results
    "result": Refusal(lines.object_out, (x(4, 3),), None, "object", differs=True),
    "argument": Refusal(lines.doubled_first, (x(4, 3), object()), None, "object"),
    "set_argument": Refusal(lines.doubled_first, (x(4, 3), {1, 2}), None, "set"),
    # ---- what is no graph
    "data": Refusal(lines.data, (x(4, 3),), None, "", "if x.sum() > 0:"),
    "data_loop": Refusal(lines.data_loop, (x(4, 3),), None, "", "while x.sum() < 0:"),
    "item_branch": Refusal(lines.item_branch, (torch.tensor(3),), None, "", "if k > 2:"),
    "graph_break": Refusal(lines.graph_break, (x(4, 3),), None, "", "torch._dynamo.graph_break()"),
    "opened": Refusal(lines.opened, (x(4, 3),), None, "", "with open(__file__) as file:"),
    "slept": Refusal(lines.slept, (x(4, 3),), None, "", "time.sleep(0)"),
    "disabled": Refusal(lines.disabled, (x(4, 3),), None, "", "return kept_plain(x)"),
    "another_error": Refusal(lines.another_error, (x(4, 3),), None, "", 'return {"a": x}["b"]'),
    "divided": Refusal(lines.divided, (x(4, 3),), None, "", "return x / (1 // (x.dim() - 2))"),
    "unbound": Refusal(lines.unbound, (x(4, 3),), None, "", "return y  # noqa: F821"),
    "wrong_call": Refusal(lines.wrong_call, (x(4, 3),), None, "", "return lines_of(x, 2)"),
    "raises": Refusal(lines.raises, (x(4, 3),), None, "not 3", 'raise ValueError("not 3")'),
    "asserts": Refusal(lines.asserts, (x(4, 3),), None, "", 'assert x.shape[0] == 3, "three rows"'),
    "mismatch": Refusal(lines.mismatch, (x(4, 3),), None, "", "return x @ x", differs=True),
    "cond_of_two_shapes": Refusal(lines.cond_of_two_shapes, (x(4, 3),), None, "", "torch.cond(", differs=True),
    "cond_with_effect": Refusal(lines.cond_with_effect, (x(4, 3),), None, "", "self.log.append(1)"),
    "missing_attribute": Refusal(lines.missing_attribute, (x(4, 3),), None, "nothing", "return self.nothing(x)"),
}


def module_of(forward: Callable[..., Any]) -> nn.Module:
    return type("Refused", (nn.Module,), {"forward": forward, "log": [], "__module__": __name__})()


def raised_by(export: Callable[..., Any], refusal: Refusal, **more: Any) -> BaseException:
    module = module_of(refusal.forward)
    before = snapshot(module)
    marks = [vars(value).copy() for value in refusal.arguments if isinstance(value, torch.Tensor)]
    with quietly(), pytest.raises(Exception) as raised:  # noqa: PT011
        export(module, refusal.arguments, dynamic_shapes=refusal.dynamic_shapes, **more)
    if export is gramme.export:
        assert_untouched(before, module)
        assert marks == [vars(value) for value in refusal.arguments if isinstance(value, torch.Tensor)]
    return raised.value


def classes(error: BaseException) -> set[type]:
    """Those that callers catch."""
    exc = torch._dynamo.exc
    known = {exc.UserError, exc.Unsupported, exc.TorchRuntimeError, exc.UncapturedHigherOrderOpError}
    return {cls for cls in type(error).__mro__ if cls in known} or {type(error)}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_as_torch_refuses_it(name: str) -> None:
    refusal = REFUSALS[name]
    arguments = copy.deepcopy(refusal.arguments)
    theirs = raised_by(torch.export.export, Refusal(**{**vars(refusal), "arguments": arguments}), strict=True)
    ours = raised_by(gramme.export, refusal)
    assert (classes(ours) != classes(theirs)) is refusal.differs, (ours, theirs)
    assert refusal.said in str(theirs)
    assert refusal.said in str(ours)
    if refusal.line:
        assert refusal.line in str(ours)


@pytest.mark.parametrize("name", [name for name, refusal in REFUSALS.items() if refusal.fixed])
def test_the_fix_works(name: str) -> None:
    refusal = REFUSALS[name]
    module = module_of(refusal.forward)
    with quietly():
        exported = gramme.export(module, refusal.arguments, dynamic_shapes=refusal.fixed)
    arguments = copy.deepcopy(refusal.arguments)
    expected = module(*refusal.arguments)
    torch.testing.assert_close(exported.module()(*arguments), expected)


def test_the_fix_that_is_said_is_the_one_that_works() -> None:
    refusal = REFUSALS["branch"]
    said = re.search(r"n = Dim\('n', min=(\d+)\)", str(raised_by(gramme.export, refusal)))
    assert said is not None
    shapes = {"x": {0: Dim("n", min=int(said[1]))}}
    exported = gramme.export(module_of(refusal.forward), refusal.arguments, dynamic_shapes=shapes)
    for rows in (4, 5, 9):
        value = x(rows, 3)
        torch.testing.assert_close(exported.module()(value), value + 1)
