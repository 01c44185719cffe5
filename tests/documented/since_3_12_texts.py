"""From "What's New In Python 3.12" on PEP 701: f-strings in all nestings, beside tensors."""

import datetime
import decimal

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "PEP 701: f-strings nest as deep as one likes with one kind of quotes",
    lambda: [(x(), "a"), (x(), ""), (x(2), "b'c"), (x(2), 'd"e')],
)
def deep_nests(t, name):
    text = f"{f'{f"{f'{t.ndim + 1}{name}'}{name!r}"}'}"
    return t * len(text), text


@documented(
    "PEP 701: backslashes in expressions join lines and tabs",
    lambda: [(x(), ["a", "b"]), (x(), []), (x(2), ["\t"]), (x(2), ["c", "d", "e"])],
)
def backslashes(t, names):
    text = f"{'\n'.join(names)}\t{'\x41' + '\N{BULLET}'}"
    return t + text.count("\n"), text


@documented(
    "PEP 701: an expression over lines, with comments and a trailing comma of a tuple",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def over_lines(t, n):
    text = f"{
        (
            n,  # the first
            n + t.shape[0],
        )
    } {
        [i for i in range(n)]  # a comprehension
    }"
    return t * n, text


@documented(
    "PEP 701: the lambda, the walrus and the conditional of an expression in parentheses",
    lambda: [(x(), 1), (x(), 5), (x(2), -1), (x(2), 0)],
)
def parenthesised(t, n):
    text = f"{(lambda v: v * 2)(n)} {(m := n + 1)} {'more' if n > 0 else f'{n:+d}'} {n if n else 'zero'}"
    return t * m, text


@documented(
    "PEP 701: = shows the expression as it was written, spaces and quotes and all",
    lambda: [(x(), {"k": 1}), (x(), {"k": "v"}), (x(2), {"k": None}), (x(2), {"k": 2.5})],
)
def shown_expressions(t, d):
    text = f"{d["k"] = } {d['k']=!s:>6} {t.shape[0]  +  1=}"
    return t * len(text), text


@documented(
    "PEP 701: format specs hold expressions, and those hold format specs of strings",
    lambda: [(x(), 3.14159, 8, 2), (x(), 2.0, 0, 0), (x(2), -1.5, 12, 4), (x(2), "s", 3, 1)],
)
def specs_in_specs(t, v, width, digits):
    try:
        return t * 2, f"{v:{'*^' if width else ''}{width or ''}.{digits}{f'{"f"}'}}"
    except ValueError as error:
        return t, str(error)


@documented(
    "PEP 701: the items of a tensor in a spec and in a nested conversion",
    lambda: [(x(), 6), (x(), 8), (x(2), 3), (x(2), 1)],
)
def items_of_tensors(t, width):
    t = t / 3
    text = f"{t[0].item():{width}.{t.shape[0]}f}|{t[-1].item()!r:>{width}}|{t.shape!s:^{width}}"
    return t * 2, text


@documented(
    "PEP 701: braces doubled stay braces, in nests too",
    lambda: [(x(), 1), (x(), "a"), (x(2), None), (x(2), (1, 2))],
)
def doubled_braces(t, v):
    text = f"{{{v}}} {{}} {f'{{{v!r}}}'} {f'{{{{{v}}}}}'}"
    return t + len(text), text


class Formatted:
    def __init__(self, n):
        self.n = n

    def __format__(self, spec):
        log.append(("format", spec))
        return f"<{self.n}:{spec}>"

    def __str__(self):
        log.append("str")
        return "str"

    def __repr__(self):
        log.append("repr")
        return "repr"


@documented(
    "PEP 701: __format__, __str__ and __repr__ are called from left to right, once each",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def order_of_conversions(t, n):
    v = Formatted(n)
    text = f"{v:>{n}}{v!s}{v!r:8}{v!a}{v}{v=}"
    return t * n, text


class Broken:
    def __format__(self, spec):
        log.append(spec)
        raise LookupError(spec)


@documented(
    "PEP 701: what raises in an f-string raises behind what came before it",
    lambda: [(x(), 1), (x(), Broken()), (x(2), "a"), (x(2), [])],
    **cleared,
)
def raising_in_texts(t, v):
    t = t + 1
    try:
        text = f"{log.append('before')}{v:>3}{log.append('after')}"
    except (LookupError, TypeError) as error:
        return t * 2, type(error).__name__, str(error)
    return t, text


@documented(
    "PEP 701: raw f-strings, byte escapes and neighbours that are joined",
    lambda: [(x(), "a"), (x(), "b"), (x(2), ""), (x(2), "\\")],
)
def raw_texts(t, name):
    text = rf"\d{name}\{name}" f"{name}" "plain{}" rf"{'\n'}" f"""{name}"""
    return t * len(text), text


@documented(
    "PEP 701: f-strings of a comprehension, of a dict's keys and of default arguments",
    lambda: [(x(), ["a", "b"]), (x(), []), (x(2), ["c"]), (x(2), ["a", "a"])],
)
def texts_everywhere(t, names):
    table = {f"{name}{i}": t * i for i, name in enumerate(names)}

    def inner(v=f"{len(table)}"):
        return int(v)

    total = sum(table.values(), t)
    return total * inner(), list(table), {f"{n!r:>4}" for n in names}


@documented(
    "PEP 701: f-strings as subscripts and attributes' names, with a tensor's dtype in them",
    lambda: [(x(), "sin"), (x(), "cos"), (x(2), "nothing"), (x(2), "neg")],
)
def computed_names(t, name):
    try:
        t = getattr(t, f"{name}{'_' if t.ndim > 1 else ''}")()
        return t, {f"{t.dtype}": 1}[f"torch.{'float32'}"]
    except AttributeError as error:
        return t * 2, type(error).__name__


@documented(
    "PEP 701: dates and decimals with colons in their specs",
    lambda: [(x(), 1), (x(), 2), (x(2), 10), (x(2), 28)],
)
def colons_in_specs(t, day):
    date = datetime.datetime(2024, 2, day, 13, 5)
    text = f"{date:%Y-%m-%d %H:%M:%S} {date:{'%d'}:%M} {decimal.Decimal(day) / 3:.{day % 7}f}"
    return t * date.day, text


@documented(
    "PEP 701: assert, raise and print with nested f-strings",
    lambda: [(x(), 1), (x(), 0), (x(2), 2), (x(2), -1)],
)
def texts_of_statements(t, n):
    t = t * 2
    print(f"at {f'{n:>{3}}'}", end=f"{'!'}\n")
    try:
        assert n, f"zero at {t.shape[0]}: {f'{n=}'}"
        if n < 0:
            raise ValueError(f"{'negative'} {n}")
    except (AssertionError, ValueError) as error:
        return t, str(error)
    return t + n, f"{n}"


@documented(
    "PEP 701: a format spec with a nested f-string that holds a walrus and an index",
    lambda: [(x(), [1, 2, 3]), (x(), [7]), (x(2), [0, 0]), (x(2), [10, 4])],
)
def walrus_in_specs(t, values):
    text = f"{values[0]:{(width := len(values) + 2)}d}|{f'{values[-1]:0{width}}'}"
    return t * width, text, width


@documented(
    "PEP 701: a scalar tensor is formatted as its number is, a longer one refuses a spec",
    lambda: [(torch.tensor(1.5), ".3f"), (torch.tensor(2), "04d"), (x(2), ""), (x(2), ".2f")],
)
def formatted_tensors(t, spec):
    t = t * 2
    try:
        return t, f"{t:{spec}}"
    except TypeError as error:
        return t + 1, type(error).__name__
