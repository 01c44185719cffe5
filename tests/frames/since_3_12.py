"""Programs in the syntax of CPython 3.12: see programs.py."""

# ruff: noqa: D103, F821
import sys


def type_parameters():
    class Box[T: int]:
        def first[U](self, given: U) -> T:
            return given

    def pick[*Ts, **P, V: (int, str)](*given: *Ts) -> V:
        return given

    kinds = [type(parameter).__name__ for parameter in (*Box.__type_params__, *pick.__type_params__)]
    bounds = Box.__type_params__[0].__bound__, pick.__type_params__[2].__constraints__
    return kinds, bounds, Box().first(3), pick(1, 2), Box.first.__type_params__[0].__name__


def type_aliases():
    type Pair[A] = tuple[A, missing]
    type Plain = int
    try:
        return Pair.__value__
    except NameError as error:
        return str(error), Pair.__name__, Plain.__value__, Pair.__type_params__[0].__name__


def type_parameters_in_a_traceback():
    def fails[T: 1 / 0]() -> T:
        return sys._getframe().f_lineno

    log = [fails()]
    try:
        return fails.__type_params__[0].__bound__
    except ZeroDivisionError as error:
        return log, error.__traceback__.tb_next.tb_frame.f_code.co_name


def names_in_the_scopes_of_a_class():
    class Holder:
        kind = int
        type Alias = tuple[kind, sys]

        def first[T: (kind, str)](self, given: T) -> T:
            return given

    return Holder.Alias.__value__.__args__, Holder.first.__type_params__[0].__constraints__
