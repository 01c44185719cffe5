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
from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

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
        hint: what gramme's message tells to do.
        repaired: the function and arguments when that is done.

    """

    forward: Callable[..., Any]
    arguments: tuple[Any, ...]
    dynamic_shapes: Any = None
    said: str = ""
    line: str = ""
    fixed: Any = None
    differs: bool = False
    hint: str = ""
    repaired: tuple[Callable[..., Any], tuple[Any, ...]] | None = None


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
    "of_a_number": Refusal(lines.counted, (x(4, 3), 3), {"x": None, "k": {0: n}}, "", fixed={"x": None, "k": None}),
    # ---- arguments and results
    "result": Refusal(
        *(lines.object_out, (x(4, 3),), None, "object"),
        differs=True,
        hint="Exported graphs outputs can only contain",
        repaired=(lines.doubled, (x(4, 3),)),
    ),
    "argument": Refusal(
        *(lines.doubled_first, (x(4, 3), object()), None, "object"),
        hint="torch.export.register_dataclass",
        repaired=(lines.doubled_first, (x(4, 3), lines.Registered(x(3), 2))),
    ),
    "set_argument": Refusal(
        *(lines.doubled_first, (x(4, 3), {1, 2}), None, "set"),
        hint="Exported graphs inputs can only contain",
        repaired=(lines.doubled_first, (x(4, 3), [1, 2])),
    ),
    # ---- what is no graph
    "data": Refusal(
        *(lines.data, (x(4, 3),), None, "", "if x.sum() > 0:"),
        hint="torch.where",
        repaired=(lines.data_chosen, (x(4, 3),)),
    ),
    "data_by_cond": Refusal(
        *(lines.data, (x(4, 3),), None, "", "if x.sum() > 0:"),
        hint="torch.cond with two functions",
        repaired=(lines.data_cond, (x(4, 3),)),
    ),
    "data_loop": Refusal(
        *(lines.data_loop, (x(4, 3),), None, "", "while x.sum() < 0:"),
        hint="for a loop, torch.while_loop",
        repaired=(lines.data_loop_captured, (-x(4, 3).abs(),)),
    ),
    "item_branch": Refusal(
        *(lines.item_branch, (torch.tensor(3),), None, "", "if k > 2:"),
        hint="State the condition or its opposite before this line by torch._check",
        repaired=(lines.item_stated, (torch.tensor(3),)),
    ),
    "item_branch_by_cond": Refusal(
        *(lines.item_branch, (torch.tensor(3),), None, "", "if k > 2:"),
        hint="torch.cond",
        repaired=(lines.item_cond, (torch.tensor(3),)),
    ),
    "listed_data": Refusal(
        *(lines.listed_data, (torch.tensor([1.0, 0.0, 2.0]),), None, "u0", "for row in x.nonzero()[:, 0])"),
        hint="Keep it in a tensor",
        repaired=(lines.of_tensor, (torch.tensor([1.0, 0.0, 2.0]),)),
    ),
    "printed_data": Refusal(
        *(lines.printed_data, (x(4, 3),), None, "", 'float(f"{x.sum().item():.1f}")'),
        differs=True,
        hint="Keep it in a tensor",
        repaired=(lines.whole_numbers, (x(4, 3),)),
    ),
    "graph_break": Refusal(
        *(lines.graph_break, (x(4, 3),), None, "", "torch._dynamo.graph_break()"),
        hint="Remove the call",
        repaired=(lines.doubled, (x(4, 3),)),
    ),
    "opened": Refusal(
        *(lines.opened, (x(4, 3),), None, "", "with open(__file__) as file:"),
        hint="Read and write files outside",
        repaired=(lines.read_before, (x(4, 3), 7)),
    ),
    "slept": Refusal(
        *(lines.slept, (x(4, 3),), None, "", "time.sleep(0)"),
        hint="Measure time around",
        repaired=(lines.doubled, (x(4, 3),)),
    ),
    "pointed": Refusal(
        *(lines.pointed, (x(4, 3),), None, "", "return x + x.data_ptr()"),
        hint="read them outside",
        repaired=(lines.read_before, (x(4, 3), 7)),
    ),
    "backward": Refusal(
        *(lines.backward, (torch.ones(3, requires_grad=True),), None, "", "x.sum().backward()"),
        hint="call backward() after",
        repaired=(lines.doubled, (torch.ones(3, requires_grad=True),)),
    ),
    "disabled": Refusal(
        *(lines.disabled, (x(4, 3),), None, "", "return kept_plain(x)"),
        hint="Remove the mark",
        repaired=(lines.unmarked, (x(4, 3),)),
    ),
    "another_error": Refusal(
        *(lines.another_error, (x(4, 3),), None, "", 'return {"a": x}["b"]'),
        hint="correct it",
        repaired=(lines.right_key, (x(4, 3),)),
    ),
    "divided": Refusal(
        *(lines.divided, (x(4, 3),), None, "", "return x / (1 // (x.dim() - 2))"),
        hint="arguments for which it does not",
        repaired=(lines.divided, (x(4, 3, 2),)),
    ),
    "unbound": Refusal(
        *(lines.unbound, (x(4, 3),), None, "", "return y  # noqa: F821"),
        hint="correct it",
        repaired=(lines.bound, (x(4, 3),)),
    ),
    "wrong_call": Refusal(
        *(lines.wrong_call, (x(4, 3),), None, "", "return lines_of(x, 2)"),
        hint="correct it",
        repaired=(lines.right_call, (x(4, 3),)),
    ),
    "raises": Refusal(
        *(lines.raises, (x(4, 3),), None, "not 3", 'raise ValueError("not 3")'),
        hint="arguments for which it does not",
        repaired=(lines.raises, (x(3, 3),)),
    ),
    "asserts": Refusal(
        *(lines.asserts, (x(4, 3),), None, "", 'assert x.shape[0] == 3, "three rows"'),
        hint="arguments for which it does not",
        repaired=(lines.asserts, (x(3, 3),)),
    ),
    "mismatch": Refusal(
        *(lines.mismatch, (x(4, 3),), None, "", "return x @ x"),
        differs=True,
        hint="arguments for which it does not",
        repaired=(lines.mismatch, (x(3, 3),)),
    ),
    "cond_of_two_shapes": Refusal(
        *(lines.cond_of_two_shapes, (x(4, 3),), None, "", "torch.cond("),
        differs=True,
        hint="functions that return tensors of different metadata",
        repaired=(lines.cond_of_one_shape, (x(4, 3),)),
    ),
    "cond_with_effect": Refusal(
        *(lines.cond_with_effect, (x(4, 3),), None, "", "self.log.append(1)"),
        hint="make the change after the call",
        repaired=(lines.effect_after_cond, (x(4, 3),)),
    ),
    "missing_attribute": Refusal(
        *(lines.missing_attribute, (x(4, 3),), None, "nothing", "return self.nothing(x)"),
        hint="correct it",
        repaired=(lines.given_attribute, (x(4, 3),)),
    ),
}


def abs_of(self: Any, value: Any) -> Any:
    return value.abs()


def module_of(forward: Callable[..., Any]) -> nn.Module:
    return type("Refused", (nn.Module,), {"forward": forward, "log": [], "known": abs_of, "__module__": __name__})()


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


def test_each_is_repaired() -> None:
    assert sum(not refusal.differs for refusal in REFUSALS.values()) >= 40
    assert [name for name, refusal in REFUSALS.items() if not (refusal.fixed or refusal.repaired)] == []


@pytest.mark.parametrize("name", [name for name, refusal in REFUSALS.items() if refusal.fixed])
def test_the_fix_works(name: str) -> None:
    refusal = REFUSALS[name]
    module = module_of(refusal.forward)
    with quietly():
        exported = gramme.export(module, refusal.arguments, dynamic_shapes=refusal.fixed)
    arguments = copy.deepcopy(refusal.arguments)
    expected = module(*refusal.arguments)
    torch.testing.assert_close(exported.module()(*arguments), expected)


@pytest.mark.parametrize("name", [name for name, refusal in REFUSALS.items() if refusal.repaired])
def test_what_the_hint_tells_works(name: str) -> None:
    refusal = REFUSALS[name]
    assert refusal.hint
    assert refusal.hint in str(raised_by(gramme.export, refusal))
    assert refusal.repaired is not None
    forward, arguments = refusal.repaired
    with quietly():
        exported = gramme.export(module_of(forward), arguments)
    expected = module_of(forward)(*copy.deepcopy(arguments))
    torch.testing.assert_close(exported.module()(*copy.deepcopy(arguments)), expected)


SUGGESTED = ["branch", "branch_below", "even", "unrolled", "compared", "indexed", "as_key", "view", "added"]
SUGGESTED += ["added_static", "multiplied", "derived", "linear"]


@pytest.mark.parametrize("name", SUGGESTED)
def test_suggested_fixes_work(name: str) -> None:
    """Those of the message, as torch.export itself applies them."""
    refusal = REFUSALS[name]
    message = str(raised_by(gramme.export, refusal)).partition("\n\nThe error above")[0]
    shapes = refine_dynamic_shapes_from_suggested_fixes(message, refusal.dynamic_shapes)
    assert shapes != refusal.dynamic_shapes
    module = module_of(refusal.forward)
    with quietly():
        exported = gramme.export(module, refusal.arguments, dynamic_shapes=shapes)
    torch.testing.assert_close(exported.module()(*refusal.arguments), module(*refusal.arguments))


def test_the_fix_that_is_said_is_the_one_that_works() -> None:
    refusal = REFUSALS["branch"]
    said = re.search(r"n = Dim\('n', min=(\d+)\)", str(raised_by(gramme.export, refusal)))
    assert said is not None
    shapes = {"x": {0: Dim("n", min=int(said[1]))}}
    exported = gramme.export(module_of(refusal.forward), refusal.arguments, dynamic_shapes=shapes)
    for rows in (4, 5, 9):
        value = x(rows, 3)
        torch.testing.assert_close(exported.module()(value), value + 1)
