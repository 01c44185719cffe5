"""From library/string, re, stdtypes (text), json, struct, textwrap, pprint, reprlib, io, datetime: texts' small print."""

import io
import json
import pprint
import re
import reprlib
import string
import struct
import textwrap

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "library/string: format specs by type: z, #, grouping, c, %, n; a code that the type does not know is a ValueError that names both",
    lambda: [
        (x(), 1234.5, ",.1f"),
        (x(), -0.001, "z.1f"),
        (x(), 255, "#_x"),
        (x(), 65, "c"),
        (x(), 2.5, "d"),
        (x(), "text", "=9"),
        (x(), True, "05"),
        (x(), 1e22, "g"),
        (x(), 12, ",b"),
        (x(), torch.tensor(2.5), ".3f"),
        (x(), x(2), ">9"),
        (x(), None, "5"),
        (x(), 3, "^+9,.2%"),
    ],
)
def format_specs_by_type(t, v, spec):
    out = attempt(
        lambda: format(v, spec),
        lambda: f"{v:{spec}}|{v!s:>{len(spec)}}",
        lambda: "{:{}}".format(v, spec),
        lambda: "{0:{1}}{0!r:.3}".format(v, spec),
        lambda: f"{v!a:*^12}",
        lambda: ("%" + spec.strip(",#_z^>=")) % v,
        lambda: f"{t.shape[0] + len(out0):03d}{{}}",
    )
    return t * len(spec), out


out0: list = []


class Config(dict):
    def __missing__(self, key):
        return f"<{key}>"


class Strict(string.Formatter):
    def get_value(self, key, args, kwargs):
        log.append(key)
        return super().get_value(key, args, kwargs)

    def check_unused_args(self, used, args, kwargs):
        log.append(sorted(map(str, used)))

    def convert_field(self, value, conversion):
        return "C" if conversion == "c" else super().convert_field(value, conversion)


@documented(
    "library/string: replacement fields reach attributes and items; automatic and manual numbering do not mix; Formatter's hooks",
    lambda: [
        (x(), "{0.shape[0]} {k[a]}", {"k": {"a": 1}}),
        (x(), "{} {0}", {}),
        (x(), "{} {}", {}),
        (x(), "{0!c:>3}{missing}", {"missing": 2}),
        (x(), "{missing.upper}", {}),
        (x(), "{0.nothing}", {}),
        (x(), "{k", {}),
        (x(), "}", {}),
    ],
    **cleared,
)
def replacement_fields(t, text, named):
    out = attempt(
        lambda: text.format(t, **named),
        lambda: Strict().format(text, t, **named),
        lambda: text.format_map(Config(named)),
        lambda: [f[1:] for f in string.Formatter().parse(text)],
        lambda: string.Template("$a ${b} $$").substitute(named, a=1),
        lambda: string.Template("$a ${b} $").safe_substitute(named, a=1),
        lambda: string.Template("$a ${b}").get_identifiers(),
    )
    return t * len(text), [re.sub(r"0x\w+", "", str(o)) for o in out]


@documented(
    "library/stdtypes: % takes one value or a tuple or a mapping, * widths from the tuple; the errors say too many, not enough, or which type",
    lambda: [
        (x(), "%d of %5.1f", (3, 2)),
        (x(), "%s", (1,)),
        (x(), "%s", ((1, 2),)),
        (x(), "%s", [1, 2]),
        (x(), "%(a)r %(b)s", {"a": "q", "b": 2, "c": 3}),
        (x(), "%*d|%-*s|", (5, 42, 4, "a")),
        (x(), "%d", "text"),
        (x(), "%s %s", (1,)),
        (x(), "%x", 2.5),
        (x(), "%q", 1),
        (x(), "%(a)s", (1,)),
        (x(), "none", 5),
        (x(), "%c%c%%", (65, "b")),
        (x(), "%s", x(2)),
        (x(), "%.2f", torch.tensor(0.5)),
        (x(), "%i", 2.9),
    ],
)
def percent(t, text, values):
    out = attempt(lambda: text % values, lambda: text.encode() % values)
    return t + len(str(out[0])), out


TOKEN = re.compile(r"(?P<num>\d+(?:\.\d*)?)|(?P<op>[-+*/])|(?P<bad>\S)")


@documented(
    "library/re: lastgroup, expand, split with groups and empty matches, sub with counts and functions; errors carry pos and pattern",
    lambda: [
        (x(), r"(\w)(\d)?", "a1b22", r"\2\1"),
        (x(), r"x*", "axb", "-"),
        (x(), r"(?P<n>\d+)", "7 of 12", r"<\g<n>>"),
        (x(), r"(?i:AB)|c", "abcAB", ""),
        (x(), "(", "text", ""),
        (x(), r"a", "aaa", r"\q"),
        (x(), r"(a)|b", "ab", r"\2"),
        (x(), r"(?<=a)b", "abb", lambda m: str(m.start())),
    ],
)
def re_small_print(t, pattern, text, replacement):
    tokens = [(m.lastgroup, m.group(), m.span()) for m in TOKEN.finditer("3.5*(" + text)]
    out = attempt(
        lambda: re.sub(pattern, replacement, text, count=2),
        lambda: re.subn(pattern, replacement, text),
        lambda: re.split(pattern, text, maxsplit=2),
        lambda: re.findall(pattern, text),
        lambda: re.match(pattern, text).groups("default"),
        lambda: re.search(pattern, text).expand(replacement),
        lambda: re.fullmatch(pattern, text),
        lambda: re.compile(pattern, re.VERBOSE | re.IGNORECASE).flags,
        lambda: re.compile(pattern).match(text, 1).span(),
        lambda: re.search(pattern, text)["n"],
        lambda: re.escape(pattern),
        lambda: re.search(pattern, text).re is re.compile(pattern),
    )
    try:
        re.compile(pattern)
    except re.error as error:
        out.append((error.pos, error.msg, error.lineno))
    return t * len(tokens), tokens, out


class Encoder(json.JSONEncoder):
    def default(self, o):
        log.append(type(o).__name__)
        return o.tolist() if isinstance(o, torch.Tensor) else super().default(o)


@documented(
    "library/json: hooks for objects and numbers, keys that are no strings, NaN, circles; decode errors carry position",
    lambda: [
        (x(), {"a": x(2), "b": [1, None]}),
        (x(), {1: 2, None: True, 2.5: "é"}),
        (x(), {(1, 2): 3}),
        (x(), [float("nan"), -0.0, 1e400]),
        (x(), '{"a": 1, "a": 2.50, "b": [NaN]}'),
        (x(), '{"a": }'),
        (x(), {"z": {1, 2}}),
        (x(), {1: "int", "1": "text"}),
    ],
    **cleared,
)
def json_small_print(t, v):
    ring = [v]
    ring.append(ring)
    out = attempt(
        lambda: json.dumps(v, cls=Encoder),
        lambda: json.dumps(v, sort_keys=True, indent=1, default=repr),
        lambda: json.dumps(v, skipkeys=True, ensure_ascii=False, separators=(",", ":"), cls=Encoder),
        lambda: json.dumps(v, allow_nan=False),
        lambda: json.dumps(ring, cls=Encoder),
        lambda: json.loads(v, object_pairs_hook=list),
        lambda: json.loads(v, parse_float=str, parse_constant=len),
        lambda: json.loads(v + "x"),
        lambda: json.JSONDecoder().raw_decode(v),
        lambda: "".join(Encoder().iterencode(v)),
    )
    return t + len(log), out


@documented(
    "library/struct: sizes and padding by the first character; wrong counts and ranges are struct.error; pack_into a bytearray",
    lambda: [
        (x(), "<if", (1, 0.1)),
        (x(), "@bq", (1, 2)),
        (x(), ">H2s?", (65535, b"abc", 2)),
        (x(), "<B", (256,)),
        (x(), "<ii", (1,)),
        (x(), "<d", ("a",)),
        (x(), "y", (1,)),
        (x(), "<3x0i", ()),
    ],
)
def struct_small_print(t, form, values):
    buffer = bytearray(16)
    out = attempt(
        lambda: struct.calcsize(form),
        lambda: struct.pack(form, *values),
        lambda: struct.unpack(form, struct.pack(form, *values)),
        lambda: struct.pack_into(form, buffer, 3, *values),
        lambda: struct.unpack_from(form, buffer, 3),
        lambda: list(struct.iter_unpack(form, bytes(16))),
        lambda: struct.Struct(form).size,
        lambda: torch.tensor(struct.unpack(form, struct.pack(form, *values))[:1]),
        lambda: struct.unpack(form, b"1"),
    )
    return t * len(values), out, buffer


@documented(
    "library/textwrap, pprint, reprlib: width and indentation; recursive objects are marked; Repr's limits can be set",
    lambda: [
        (x(), "the quick  brown fox-like thing", 10),
        (x(), "  indented\n    more\n  less", 5),
        (x(), "", 0),
        (x(), "averyveryverylongword short", 8),
        (x(), "a\tb\n\nc", -1),
    ],
)
def wrapped_text(t, text, width):
    nested: list = [text, {"k" * 5: list(range(5)), "a": (1,)}]
    nested.append(nested)
    limits = reprlib.Repr()
    limits.maxstring, limits.maxlist = width, 2
    out = attempt(
        lambda: textwrap.wrap(text, width),
        lambda: textwrap.fill(text, width, initial_indent="* ", break_long_words=False),
        lambda: textwrap.shorten(text, width, placeholder=".."),
        lambda: textwrap.dedent(text),
        lambda: textwrap.indent(text, "> ", lambda line: line.strip() != "more"),
        lambda: re.sub(r"id=\d+", "", pprint.pformat(nested, width=30, sort_dicts=False)),
        lambda: pprint.pformat({"b": 1, "a": text}, compact=True, indent=2, width=12),
        lambda: limits.repr(nested),
        lambda: repr(nested),
        lambda: pprint.isrecursive(nested),
    )
    return t * len(text), out


@documented(
    "library/io: StringIO and BytesIO keep a position, write over, truncate; closed ones raise; an exported buffer cannot be resized",
    lambda: [
        (x(), io.StringIO("one\ntwo\r\nthree"), "X"),
        (x(), io.BytesIO(b"bytes\nhere"), b"YY"),
        (x(), io.StringIO(newline=None), "a\r\nb"),
        (x(), io.BytesIO(), "text"),
        (x(), io.StringIO("q"), 5),
    ],
)
def streams(t, s, data):
    got = attempt(
        lambda: s.readline(),
        lambda: s.tell(),
        lambda: s.write(data),
        lambda: s.seek(0) or s.read(4),
        lambda: [line for line in s],
        lambda: s.seek(-2, 2),
        lambda: s.seek(20) and s.write(data),
        lambda: s.truncate(3),
        lambda: s.getvalue(),
        lambda: (s.readable(), s.seekable(), s.isatty()),
        lambda: s.writelines([data, data]),
        lambda: len(s.getbuffer()),
        lambda: s.fileno(),
        lambda: print("printed", t.shape[0], file=s),
        lambda: s.getvalue(),
        lambda: s.close(),
        lambda: s.read(),
    )
    return t + len(got), got
