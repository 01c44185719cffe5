"""Programs in the syntax of CPython 3.13: see programs.py."""

# ruff: noqa: D103


def defaults_of_type_parameters():
    class Box[T = int, *Ts = *tuple[int, str], **P = [int]]:
        pass

    return [parameter.__default__ for parameter in Box.__type_params__]
