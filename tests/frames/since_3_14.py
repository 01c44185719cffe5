"""Programs in the syntax of CPython 3.14: see programs.py."""

# ruff: noqa: D103


def templates():
    width, value = 7, [1]
    made = t"a{value!r:>{width}}b{value}"
    return made.strings, [(i.value, i.expression, i.conversion, i.format_spec) for i in made.interpolations]


def templates_that_raise():
    try:
        return t"a{1 / len([])}"
    except ZeroDivisionError as error:
        return error.__traceback__.tb_lineno
