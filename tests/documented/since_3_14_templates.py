"""From "What's New In Python 3.14" on PEP 750: t-strings whose values are tensors, conversions, specs and nests."""

import html
from string.templatelib import Interpolation, Template, convert

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


def text_of(template: Template) -> str:
    """As the f-string would be."""
    parts = []
    for part in template:
        if isinstance(part, str):
            parts.append(part)
        else:
            parts.append(format(convert(part.value, part.conversion), part.format_spec))
    return "".join(parts)


@documented(
    "PEP 750: a function makes of a t-string what the f-string is",
    lambda: [(x(), 3.14159, 2), (x(), 2.0, 0), (x(2), -1.5, 4), (x(2), 1e9, 1)],
)
def as_f_strings(t, v, digits):
    made = t"{v:.{digits}f} {v!r:>12} {t.shape[0]:03d} {v!s}"
    return t * len(made.values), text_of(made), text_of(made) == f"{v:.{digits}f} {v!r:>12} {t.shape[0]:03d} {v!s}"


@documented(
    "PEP 750: every conversion, with and without a spec",
    lambda: [(x(), "é"), (x(), 1), (x(2), None), (x(2), ["'"])],
)
def conversions(t, v):
    made = t"{v}{v!r}{v!s}{v!a}{v:>5}{v!r:>5}{v=}{v=!s}{v=:5}"
    parts = [(i.conversion, i.format_spec, i.expression) for i in made.interpolations]
    return t + len(parts), parts, made.strings


@documented(
    "PEP 750: t-strings in t-strings and in f-strings stay templates",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def nested_templates(t, n):
    inner = t"<{t * n}>"
    outer = t"a {inner} {t'{n + 1}'} {f'{n}'}"
    first, second, third = outer.values
    return first.values[0] + 1, second.values, third, first is inner, type(t"{inner}".values[0]).__name__


@documented(
    "PEP 750: tensors of a template are computed where they stand, and are those that were written",
    lambda: [(x(), 1.0), (x(), 2.0), (x(2), 0.0), (x(2), -1.0)],
)
def tensors_by_identity(t, k):
    made = t"{t} {(u := t * k)} {u + 1}"
    a, b, c = made.values
    return a is t, b is u, c * 2, made.interpolations[1].value is u


@documented(
    "PEP 750: a template is matched by class and attributes; strings alternate with interpolations",
    lambda: [(x(), 1), (x(), "s"), (x(2), x(2)), (x(2), None)],
)
def matched_templates(t, v):
    match t"{v}b{v!r}":
        case Template(strings=("", "b", ""), interpolations=(Interpolation(torch.Tensor() as value), _)):
            return t + value
        case Template(values=(int() as n, _)):
            return t * n
        case Template(interpolations=(first, Interpolation(conversion="r") as second)):
            return t, first.value, second.expression
    return None


@documented(
    "PEP 750: implicit concatenation joins t-strings at once",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def joined_literals(t, n):
    made = t"a{n}" t"b" t"{t.shape[0]}c" rt"\d{n}"
    return t * len(made.strings), made.strings, made.values


@documented(
    "PEP 750: templates are added in a loop",
    lambda: [(x(), ["a", "b"]), (x(), []), (x(2), [1]), (x(2), [None, x(2)])],
)
def added_in_loops(t, values):
    made = t""
    for i, value in enumerate(values):
        made = made + t"{value}:" + t"{t * i} "
        t = t + 1
    return t, made.strings, made.values


@documented(
    "PEP 750: templates are immutable, compare by identity, and refuse str()'s wishes",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def immutable_templates(t, n):
    made = t"{n}"
    return (
        t + n,
        made == t"{n}",
        made == made,
        attempt(
            lambda: setattr(made, "strings", ()),
            lambda: made.interpolations[0].__setattr__("value", 1),
            lambda: made + "s",
            lambda: "s" + made,
            lambda: len(made),
        ),
    )


@documented(
    "PEP 750: a class keeps a template and renders it anew by a method",
    lambda: [(x(), "<a>"), (x(), "&"), (x(2), ""), (x(2), 3)],
)
def rendered_templates(t, name):
    class Page:
        def __init__(self, template):
            self.template = template

        def render(self):
            return "".join(p if isinstance(p, str) else html.escape(str(p.value)) for p in self.template)

    page = Page(t"<p>{name}</p>{t.shape[0]}")
    return t * len(page.render()), page.render()


@documented(
    "PEP 750: lambdas in a template are called when the template is read",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def lazy_values(t, n):
    made = t"{(lambda: log.append(n) or t * n)} and {(lambda: n)}"
    log.append("made")
    return sum((i.value() for i in made.interpolations), t)


@documented(
    "PEP 750: a comprehension makes templates; a generator gives them",
    lambda: [(x(), 2), (x(), 1), (x(2), 3), (x(2), 0)],
)
def templates_of_comprehensions(t, n):
    made = [t"{i}:{t * i}" for i in range(n)]

    def lines():
        for template in made:
            yield template.values[1]

    return sum(lines(), t), [m.values[0] for m in made], {m.strings for m in made}


class Picky:
    def __init__(self, n):
        self.n = n

    def __format__(self, spec):
        log.append(("format", spec))
        return "formatted"

    def __repr__(self):
        log.append("repr")
        return f"Picky({self.n})"


@documented(
    "PEP 750: neither __format__ nor __repr__ is called before a function asks; the spec's values are",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def called_by_readers(t, n):
    made = t"{Picky(n):{Picky(n + 1)}} {Picky(n)!r}"
    log.append("made")
    return t * n, text_of(made), made.interpolations[0].format_spec


@documented(
    "PEP 750: what raises in a t-string raises there; a handler makes another",
    lambda: [(x(), [1]), (x(), []), (x(2), {}), (x(2), [x(2)])],
)
def raising_templates(t, values):
    try:
        made = t"{values[0]} {t + values[0]}"
    except (IndexError, KeyError) as error:
        made = t"{type(error).__name__} {t * 2}"
    return made.values[-1], made.interpolations[0].expression


@documented(
    "PEP 750: templates made by hand join strings and may begin with an interpolation",
    lambda: [(x(), "v"), (x(), ""), (x(2), "a b"), (x(2), None)],
)
def templates_by_hand(t, name):
    try:
        part = Interpolation(t * 2, name, "r", ".2f")
    except TypeError as error:
        return t, str(error)
    made = Template(part, "a", "b", part, part)
    return made.values[0] + 1, made.strings, [i.expression for i in made.interpolations], list(made)[0] is part


@documented(
    "PEP 750: convert() does what a conversion says",
    lambda: [(x(), "r"), (x(), "s"), (x(2), "a"), (x(2), None), (x(), "x")],
)
def converted(t, conversion):
    return t + 1, attempt(
        lambda: convert("é", conversion), lambda: convert(3, conversion), lambda: convert([t.ndim], conversion)
    )


@documented(
    "PEP 750: await and yield are expressions of a template, too",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def suspended_templates(t, n):
    async def value(v):
        return v + 1

    def generator():
        made = t"{(yield t * n)} {(yield n)}"
        yield made.values

    async def coroutine():
        return t"{await value(t)}".values[0]

    made = generator()
    first, second = next(made), made.send("sent")
    try:
        coroutine().send(None)
    except StopIteration as stop:
        return first + stop.value, second, made.send("again")


@documented(
    "PEP 750: hashed as keys, held in tuples, passed by star",
    lambda: [(x(), 1), (x(), "a"), (x(2), None), (x(2), 2.5)],
)
def held_templates(t, v):
    first, second = t"{v}", t"{v}{v}"
    table = {first: 1, second: 2}

    def inner(*templates, **named):
        return [len(m.values) for m in (*templates, *named.values())]

    return t * table[second], inner(first, second, last=t""), len({first, first, second}), first in table
