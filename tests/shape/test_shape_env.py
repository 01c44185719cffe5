"""Expressions that PyTorch's ShapeEnv derived for real programs: its simplification and ours meet."""

import re
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

shape: Any = gramme._C.testing.shape

# sizes, strides and guards of bert, gpt2, a convolution, interpolate, reshapes, branches on sizes, ints, swin
SIZES = [
    "a * 64",
    "a * b * 12 * 64",
    "a ** 2 * b",
    "(a - 2) * (b - 2)",
    "(a - 3 + 1) // 2 + 1 - 2",
    "(a + 2 * 1 - 1 * (3 - 1) - 1) // 2 + 1",
    "((a + 3) // 2 - b + 1 - 2) // 2 + 1",
    "(3 * a) // 2",
    "2 * a * b // 2",
    "a - a // 2",
    "a - (a + 1) // 2",
    "a * (b // 2) * 2",
    "a * b * c // c",
    "-a % 8 + a",
    "(a + -a % 8) // 8",
    "(b - a % b) % b + a",
    "a * (b + 2)",
    "(a + 7) // 8 * 8",
    "(a // 2) // 2",
    "max(1, a - 2)",
    "max(2, a // 3)",
    "b * max(1, a)",
    "a + b + a",
    "3 - (1 - a)",
]
CONDITIONS = [
    "a <= 512",
    "64 * b >= 64",
    "a * b != 1",
    "b * b > 1",
    "a - 2 != 1",
    "b + 2 >= 2 * a - 1",
    "b + 3 // 2 - a + 1 > 0",
    "a // 2 - 1 >= 3",
    "a // 2 != 1",
    "a * b != 0",
    "a % 2 == 0",
    "b // a == 4",
    "a == b",
    "a * (b + 1) == a * b + a",
    "2 * a == 2 * b",
    "max(1, a) * b > 1",
    "a + b >= a",
]


def environment() -> dict[str, Any]:
    env = ShapeEnv()
    names = {}
    for name, hint in (("a", 24), ("b", 32), ("c", 48)):
        symbol = env.create_symbol(hint, ConstantSource(name), dynamic_dim=DimDynamic.DYNAMIC)
        names[name] = env.create_symintnode(symbol, hint=hint, source=ConstantSource(name))
    return {"env": env, **names, "max": torch.sym_max, "min": torch.sym_min}


def ours(text: str, names: dict[str, Any]) -> Any:
    """An expression from a text of Python's or of sympy's."""
    comparison = re.fullmatch(r"(.*?) (<=|>=|==|!=|<|>) (.*)", text)
    if comparison:
        functions = {"<=": "at_most", ">=": "at_least", "==": "equal", "!=": "not_equal", "<": "less", ">": "greater"}
        left, right = (ours(side, names) for side in comparison.group(1, 3))
        return getattr(shape, functions[comparison[2]])(left, right)
    functions = {
        "max": shape.maximum,
        "Max": shape.maximum,
        "Min": shape.minimum,
        "Eq": shape.equal,
        "Ne": shape.not_equal,
        "Mod": lambda x, y: x % y,
        "PythonMod": lambda x, y: x % y,
        "True": True,
        "False": False,
    }
    return shape.expression(eval(text, functions | names))


@pytest.mark.parametrize("text", SIZES + CONDITIONS)
def test_simplified_alike(text: str) -> None:
    theirs = environment()
    known = shape.Assumptions()
    mine = {name: known.add_symbol((2, None), hint) for name, hint in (("a", 24), ("b", 32), ("c", 48))}
    stock = {str(theirs[name].node.expr): mine[name] for name in "abc"}
    node = eval(text, theirs).node
    expression = known.simplified(ours(text, mine))
    assert known.hint(expression) == node.hint
    static = theirs["env"]._maybe_evaluate_static(node.expr)
    simple = theirs["env"].simplify(node.expr) if static is None else static
    assert expression.id == known.simplified(ours(str(node.expr), stock)).id
    again = known.simplified(ours(str(simple), stock))
    # they multiply sums out; here that is done where expressions are compared
    assert expression.id == again.id or repr(shape.equal(expression, again)) == "True", (expression, again, simple)
