"""Refuses variables that outlive a call and are not fields of a struct that says what protects them.

    python tools/check_state.py src            # refuse
    python tools/check_state.py src --write    # and write docs/state.md, the table of all such fields

A variable of a namespace, a static of a class or of a function is
- `OfProcess<…>`, `Lasting<…>` or `AtLoad<…>` of src/base/process.h,
- `thread_local` and of a struct,
- constant: constexpr, const, or a constant pointer to something constant or to an object of Python's,
- a structure that CPython takes as not constant, or a cell whose class says what protects it (CELLS),
- or a row of EXCEPTIONS.
Each field of an `OfProcess` or `Lasting` struct, which stands in the same file, says what protects it: in the comment
behind it or above it, which begins with a word of PROTECTIONS and a colon.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs/state.md"

# What protects a field, and what free threading would ask for.
PROTECTIONS = {
    "GIL, a word": "an atomic: it is read and written at once",
    "GIL": "a lock, or a copy for each thread: a look and what follows from it belong together",
    "mutex": "nothing",
    "atomic": "nothing",
    "main thread": "nothing: other threads do not come here",
}
KINDS = {
    "OfProcess": "dropped",
    "Lasting": "lasting",
    "AtLoad": "load",
    "thread_local": "thread",
}
# Structures that CPython takes as not constant; `Option` is looked up once and guarded by the GIL (torch/option.h).
CELLS = {
    "PyTypeObject",
    "PyMethodDef",
    "PyMemberDef",
    "PyGetSetDef",
    "PyType_Slot",
    "PyType_Spec",
    "Option",
}
PYTHONS = {"PyObject", "PyTypeObject", "PyCodeObject"}
_NATIVE = "not moved yet"
# (room, name): why
EXCEPTIONS = {
    ("base", "known"): "once(): an atomic pointer, set once",
    ("base", "newest"): "the list of all structs, made while the module is loaded",
    ("base", "loading"): "cleared at the end of the load",
    ("torch", "attributes"): "atomic pointers, each set once",
    ("torch", "known"): "atomic pointers, each set once",
    ("aten", "THPVariableClass"): "torch's",
    ("aten", "ParameterClass"): "torch's",
    ("cpython", "none"): "an empty place that is only read",
    ("pipeline", "made"): "behind a mutex of its own; the room includes no other",
    ("native", "count"): f"atomic; {_NATIVE}",
    ("native", "range"): f"behind a mutex of its own; {_NATIVE}",
    ("native", "ended"): f"of the thread; {_NATIVE}",
    ("native", "active"): f"of the thread; {_NATIVE}",
    ("native", "reused"): f"atomic; {_NATIVE}",
    ("native", "trusts_generated"): f"GIL, set by tests; {_NATIVE}",
    ("native", "watching"): f"of the thread; {_NATIVE}",
    ("native", "warned"): f"of the thread; {_NATIVE}",
    ("native", "watches"): f"GIL; {_NATIVE}",
    ("native", "current"): f"of the thread; {_NATIVE}",
    ("native", "held"): f"GIL; {_NATIVE}",
    ("native", "cache"): f"an allocator in front of torch's; {_NATIVE}",
}

HELD = re.compile(r"\b(OfProcess|Lasting|AtLoad)<")
ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\]")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
SPECIFIER = r"(?:inline|static|extern|constinit|thread_local|TORCH_PYTHON_API)"
# clang-format indents what is inside of functions and classes, and nothing else.
GLOBAL = re.compile(
    r"^(?!(?:using|typedef|namespace|template|struct|class|enum|union|return|friend|static_assert|case|goto|concept|public|private"
    r"|protected|extern \"|requires)\b)[A-Za-z][^;{}()=#]*?[\s*&>]\w+(?:\[[^;=]*?\])*\s*(?==(?!=)|\{|;)",
    re.M,
)
LOCAL = re.compile(
    rf"^[ \t]+(?:{SPECIFIER} )*(?:static|thread_local) (?:{SPECIFIER} )*(?!inline|constexpr|consteval)[\w:]"
    r"[^;{}()=#]*?[\s*&>]\w+(?:\[[^;=]*?\])*\s*(?==(?!=)|\{|;)",
    re.M,
)
# With arguments: a function's declaration has no text and no number there.
CONSTRUCTED = re.compile(
    rf"^[ \t]*(?:{SPECIFIER} )*(?:static |constinit )(?:{SPECIFIER} )*(?!constexpr|consteval)"
    r"[A-Za-z][\w:<>*& ]*?[\s*&>]\w+(?=\([^;{}()]*(?:\"|\b\d))",
    re.M,
)
BEHIND = re.compile(r"^\}\s*\*?(\w+)(?:\[\])?\s*(?:=[^;]*)?;", re.M)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*')


# A mutex protects others.
NO_FIELD = re.compile(r"(?:static|using|friend|struct|class|enum|explicit|(?:mutable )?std::mutex)\b")


class Finding(NamedTuple):
    line: int
    text: str


class Variable(NamedTuple):
    at: int
    words: str  # the declaration without its initialiser
    name: str

    @property
    def kind(self) -> str | None:
        held = HELD.search(self.words)
        return held[1] if held else "thread_local" if "thread_local" in self.words.split() else None

    @property
    def type(self) -> str:
        """What it holds: the argument of OfProcess<…>, or its own type."""
        if held := HELD.search(self.words):
            return self.words[held.end() : self.words.rindex(">")].strip()
        return re.sub(rf"\b{SPECIFIER}\b", "", self.words.removesuffix(self.name)).strip()


class Field(NamedTuple):
    name: str
    protection: str
    meaning: str


def without_text(source: str) -> str:
    """Blank literals, comments and attributes; every line and column stays where it is."""

    def blank(found: re.Match[str]) -> str:
        return " " * len(found[0]) if found[0][0] == "/" else '"' + " " * (len(found[0]) - 2) + '"'

    def spaces(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return ATTRIBUTE.sub(spaces, DIRECTIVE.sub(spaces, TEXT.sub(blank, source)))


def without_angles(text: str) -> str:
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def variables(source: str) -> Iterator[Variable]:
    code = without_text(source)
    for pattern in (GLOBAL, LOCAL, CONSTRUCTED):
        for found in pattern.finditer(code):
            words = " ".join(found[0].split())
            named = re.search(r"(\w+)(?:\[[^\]]*\])*$", words)
            if named and "operator" not in words and not re.search(r"\b(?:constexpr|consteval)\b", words):
                yield Variable(found.start() + len(found[0]) - len(found[0].lstrip()), words, named[1])
    for found in BEHIND.finditer(code):
        yield Variable(found.start(), found[1], found[1])


def is_constant(words: str) -> bool:
    """True for `const T x`, `const T& x`, `T* const x` of Python's and `const T* const x`."""
    declared = without_angles(re.sub(r"\[[^\]]*\]", "", words))
    declared = re.sub(rf"\b{SPECIFIER}\b", "", declared).strip()
    pointed, star, behind = declared.rpartition("*")
    if not star:
        return "const" in declared.split()
    if "const" not in behind.split():
        return False
    return bool(PYTHONS & set(pointed.split())) or "const" in pointed.replace("*", " ").split()


def is_struct(type_name: str) -> bool:
    return "*" not in type_name and bool(re.fullmatch(r"(?:\w+::)*[A-Z]\w*", type_name))


def refused(room: str, variable: Variable) -> str | None:
    if (room, variable.name) in EXCEPTIONS or is_constant(variable.words):
        return None
    if variable.kind and variable.kind != "thread_local":
        return None
    if set(re.split(r"\W+", variable.words)) & CELLS and "*" not in variable.words:
        return None
    if variable.kind:
        return None if is_struct(variable.type) else f"{variable.name} is of the thread, and in no struct"
    return f"{variable.name} outlives a call: a field of a struct in OfProcess<> or Lasting<> (src/base/process.h)"


def body_of(source: str, name: str) -> tuple[int, str]:
    """Where the struct's body starts, and the body; empty if the struct is not in this file."""
    code = without_text(source)
    found = re.search(rf"^[ \t]*(?:struct|class) {name.split('::')[-1]}\b[^;{{]*\{{", code, re.M)
    if not found:
        return 0, ""
    depth, at = 1, found.end()
    while depth and at < len(code):
        depth += (code[at] == "{") - (code[at] == "}")
        at += 1
    return found.end(), source[found.end() : at - 1]


def comment_of(body: str, begin: int, end: int) -> str:
    """The comment behind the declaration, else the one above it."""
    behind = re.match(r"[ \t]*// ?([^\n]*)", body[end:])
    if behind:
        return behind[1].strip()
    lines: list[str] = []
    for line in reversed(body[:begin].splitlines()):
        if not line.strip().startswith("///"):
            break
        lines.insert(0, line.strip().removeprefix("///").strip())
    return " ".join(lines)


def statements(code: str) -> Iterator[tuple[int, int]]:
    """Where the declarations of a struct's body begin and end; a function's with its body."""
    depth = begin = 0
    for at, character in enumerate(code):
        depth += (character in "{(") - (character in "})")
        is_body = character == "}" and re.search(r"\)[^;]*\{", code[begin:at])
        if depth == 0 and (character == ";" or is_body):
            begin += len(code[begin:at]) - len(code[begin:at].lstrip())
            yield begin, at + 1
            begin = at + 1


def fields_of(source: str, name: str) -> list[Field]:
    """The fields of a struct, with what their comments say."""
    _, body = body_of(source, name)
    code, fields = without_text(body), []
    for begin, end in statements(code):
        words = without_angles(re.sub(r"\b(?:public|private|protected):", "", code[begin:end]))
        heads = [re.split(r"=|\{|;|\[", part)[0].strip() for part in re.sub(r"\{[^}]*\}", "{", words).split(",")]
        if NO_FIELD.match(heads[0]) or not all(re.fullmatch(r"[\w:\s*&]+", head) for head in heads):
            continue
        comment = comment_of(body, body.rfind("\n", 0, begin) + 1, end)
        word, _, meaning = comment.partition(":")
        protection = word if (word := word.strip().removesuffix("_")) in PROTECTIONS else ""
        for head in heads:
            fields.append(
                Field(head.split()[-1].lstrip("*&"), protection, (meaning if protection else comment).strip())
            )
    return fields


def check_source(room: str, source: str, header: str = "") -> Iterator[Finding]:
    """`header`: the file's own."""
    for variable in variables(source):
        line = source.count("\n", 0, variable.at) + 1
        if text := refused(room, variable):
            yield Finding(line, text)
        if variable.kind not in ("OfProcess", "Lasting") or "extern" in variable.words.split():
            continue
        fields = fields_of(source, variable.type) or fields_of(header, variable.type)
        if not fields:
            yield Finding(line, f"{variable.type} stands neither here nor in this file's header")
        for field in fields:
            if not field.protection:
                yield Finding(line, f"{variable.type}::{field.name} does not say what protects it")


def sources(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob("*/**/*")):
        if path.suffix in {".h", ".cpp", ".inc"}:
            yield path, path.read_text()


def header_of(path: Path) -> str:
    own = path.with_suffix(".h")
    return own.read_text() if path.suffix == ".cpp" and own.exists() else ""


def rows(folder: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Of each field: file, name, kind, protection, meaning."""
    for path, source in sources(folder):
        where = str(path.relative_to(folder))
        for variable in variables(source):
            kind = variable.kind
            is_elsewhere = "extern" in variable.words.split() or variable.words.endswith(f"::{variable.name}")
            if not kind or is_elsewhere or (where.split("/")[0], variable.name) in EXCEPTIONS:
                continue
            fields = fields_of(source, variable.type) or fields_of(header_of(path), variable.type)
            for field in fields or [Field(variable.name, "", variable.type)]:
                yield where, field.name.removesuffix("_"), KINDS[kind], field.protection, field.meaning


def table(folder: Path) -> str:
    all_rows = list(rows(folder))
    text = [
        "# What outlives a call",
        "",
        "Written by `tools/check_state.py src --write`. Each variable of the process or of a thread is a field of a",
        "struct, held by one of four (`base/process.h`):",
        "",
        "| kind | held by | what it is |",
        "|---|---|---|",
        "| dropped | `OfProcess` | made anew by `ProcessState::drop_all()` |",
        "| lasting | `Lasting` | not dropped: others point into it, or it tells what was done to CPython or torch |",
        "| load | `AtLoad` | filled while the module is loaded, constant afterwards; free threading asks for nothing |",
        "| thread | `thread_local` | of one thread; free threading asks for nothing |",
        "",
        "Not in the table: constants; texts and objects that are found once and held for good (`once`, `Option`,",
        "static initialisers); CPython's structures of types and methods.",
        "",
        "| protected by | fields | what free threading would ask for |",
        "|---|---|---|",
    ]
    for protection, asked in PROTECTIONS.items():
        count = sum(row[3] == protection for row in all_rows)
        text.append(f"| {protection} | {count} | {asked} |")
    text += ["", "| file | field | kind | protected by | what it holds |", "|---|---|---|---|---|"]
    text += [f"| {' | '.join(f'`{cell}`' if i < 2 else cell for i, cell in enumerate(row))} |" for row in all_rows]
    text += ["", "Exceptions:", "", "| room | variable | why |", "|---|---|---|"]
    text += [f"| {room} | `{name}` | {why} |" for (room, name), why in EXCEPTIONS.items()]
    return "\n".join(text) + "\n"


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0] if arguments else "src")
    failed = False
    met = set()
    for path, source in sources(folder):
        room = path.relative_to(folder).parts[0]
        met |= {(room, variable.name) for variable in variables(source)}
        for finding in check_source(room, source, header_of(path)):
            print(f"{path}:{finding.line}: error: {finding.text}")
            failed = True
    for room, name in EXCEPTIONS.keys() - met:
        print(f"{__file__}: error: there is no {name} in {room}: take the exception out")
        failed = True
    if "--write" in arguments:
        TABLE.write_text(table(folder))
    elif TABLE.read_text() != table(folder):
        print(f"{TABLE}: error: not up to date: python tools/check_state.py src --write")
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
