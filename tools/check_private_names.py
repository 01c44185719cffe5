"""Refuses private names of torch outside of src/torch and gramme/_torch, whose tables are checked at import.

    python tools/check_private_names.py src python/gramme

In C++, of string literals:
- a path of torch's modules with a part that begins with '_', or of its files: "torch._C", "torch/optim/adam.py",
- a name that begins with '_', unless it is one of KNOWN: Python's own and gramme's.
A line that needs one is marked, on it or above it, with `// no name of torch: reason`.

In Python: imports from such modules, torch._C.… and the like, and strings that are the name of such a module. Private
attributes of torch's objects (tensor._base) are not found.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLES = ("src/torch", "gramme/_torch")

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
COMMENT = re.compile(r"//[^\n]*")
REASON = re.compile(r"//\s*no name of torch:\s*\S")
OF_MODULES = re.compile(r"torch(\.\w+)*\._[a-zA-Z]\w*")
OF_FILES = re.compile(r"torch/\w+[\w/]*(/|\.py)$")
PRIVATE = re.compile(r"_[a-zA-Z]\w*")

# Modules and attributes of Python's, of its standard library and of gramme.
_PYTHONS = """
    _abc _abc_impl _abc_init _abc_instancecheck _abc_subclasscheck _acquire_lock _ast _asyncio _bisect _cache
    _call_in_python _call_slowly _codecs _collections _collections_abc _connect _contextvars _count_elements _csv
    _fields _filters_mutated _filters_mutated_lock_held _find_impl _formatwarning_orig _formatwarnmsg
    _formatwarnmsg_impl _functools _getframe _heapify_max _heappop_max _heapq _heapreplace_max _initializing _inst _io
    _is_callable_members_only _is_protocol _is_runtime_protocol _local _lru_cache_wrapper _make _name _operator _pickle
    _random _release_lock _showwarning_orig _showwarnmsg _showwarnmsg_impl _signal _sre _string _struct _tell_call
    _thread _tuplegetter _unnamed _warnings _weakref
    _ProtocolMeta _SpecialGenericAlias _TupleType _CallableType _UnionGenericAlias
"""
# Parts of the names of operators, and what gramme calls its own in words like those of Dynamo.
_PARTS = """
    _foreach_ _fused_ _fake_quantize _like _hooks _true_branch _false_branch _cond_fn _body_fn _dot_ _of_caller
"""
KNOWN = frozenset((_PYTHONS + _PARTS).split())


class Finding(NamedTuple):
    line: int
    text: str


def check_cpp(source: str) -> Iterator[Finding]:
    lines = source.splitlines()
    for number, line in enumerate(lines, start=1):
        code = line if '"' not in line else re.sub(r"(?<!:)//(?![^\"]*\"[^\"]*$).*", "", line)
        if code.lstrip().startswith(("//", "#include")) or any(map(REASON.search, lines[max(number - 2, 0) : number])):
            continue
        for text in LITERAL.findall(code):
            if " " in text:
                continue  # told to people
            is_private = PRIVATE.fullmatch(text) and text not in KNOWN
            if OF_MODULES.search(text) or OF_FILES.match(text) or is_private:
                yield Finding(number, text)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Texts that are statements of their own."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def check_python(source: str) -> Iterator[Finding]:
    tree = ast.parse(source)
    passed = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed:
            names = [node.value] if re.fullmatch(r"torch[\w.]*", node.value) else []
        else:
            continue
        for name in names:
            found = OF_MODULES.match(name)
            if found and not found[0].rpartition(".")[2].startswith("__"):
                yield Finding(node.lineno, name)


def check_tree(root: Path) -> Iterator[tuple[Path, Finding]]:
    for path in sorted(root.rglob("*")):
        if any(table in path.as_posix() for table in TABLES):
            continue
        if path.suffix in {".h", ".cpp", ".def", ".inc"}:
            yield from ((path, finding) for finding in check_cpp(path.read_text()))
        elif path.suffix == ".py":
            yield from ((path, finding) for finding in check_python(path.read_text()))


def main(arguments: list[str]) -> int:
    failed = False
    for root in arguments or ["src", "python/gramme"]:
        for path, finding in dict.fromkeys(check_tree(Path(root))):
            print(f"{path}:{finding.line}: error: {finding.text} is torch's own; name it in {' or '.join(TABLES)}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
