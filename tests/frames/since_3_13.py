"""Programs in the syntax of CPython 3.13: see programs.py."""

# ruff: noqa: D103
import types


def defaults_of_type_parameters():
    class Box[T = int, *Ts = *tuple[int, str], **P = [int]]:
        pass

    return [parameter.__default__ for parameter in Box.__type_params__]


# What runs in a module alone: `import *`, and printing what a statement gives.
body_with_star = types.FunctionType(
    compile("from keyword import *; issoftkeyword('match'); print(iskeyword('if'))", __file__, "single"),
    {"__builtins__": __builtins__, "__name__": "body"},
    "body_with_star",
)
