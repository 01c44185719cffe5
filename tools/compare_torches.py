"""Prints changes between two versions of torch in the names that gramme uses.

    python tools/compare_torches.py OLD NEW

OLD and NEW are interpreters that import a torch each, e.g. .venv/bin/python. For each row of the tables (src/torch, the
names of gramme/_torch) it says what is gone and what has another kind, another signature or another body; for each
operator that the tables name, schemas that came, went or changed. What torch_changes.def of a version's folder says is
known of that version. The exit status is 1 if something is gone all the same.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch_tables

DESCRIBE = r'''
import ast, hashlib, importlib, inspect, json, os, re, sys, warnings
warnings.simplefilter("ignore")
import torch
rows, operators = json.load(sys.stdin)
root = os.path.dirname(os.path.dirname(torch.__file__))

def digest(text):
    return hashlib.sha1(text.encode()).hexdigest()[:12]

def body(text):
    """The code without comments, docstrings and layout."""
    try:
        tree = ast.parse(inspect.cleandoc(text) if not text[:1].isspace() else "if 1:\n" + text)
    except SyntaxError:
        return digest(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return digest(ast.dump(tree))

def signature(found):
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        text = ((getattr(found, "__doc__", None) or "").strip().splitlines() or [""])[0]
        text = text if "(" in text else ""
    return re.sub(r" at 0x[0-9a-f]+", "", text)

def of_object(module, name):
    try:
        found = importlib.import_module(module)
    except Exception as error:
        return {"gone": type(error).__name__}
    for part in name.split(".") if name else []:
        try:
            found = getattr(found, part)
        except AttributeError:
            return {"gone": part}
    known = {"kind": type(found).__name__}
    if inspect.ismodule(found):
        return known
    if callable(found):
        known["signature"] = signature(found)
    if inspect.isfunction(inspect.unwrap(found) if callable(found) else found) or inspect.isclass(found):
        try:
            known["body"] = body(inspect.getsource(found))
        except (OSError, TypeError):
            pass
    return known

codes = {}
def codes_of(file):
    if file not in codes:
        found = {}
        def visit(node, path):
            for child in ast.iter_child_nodes(node):
                here = path
                if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                    here = path + [child.name]
                    found[".".join(here)] = child
                    if not isinstance(child, ast.ClassDef):
                        here = here + ["<locals>"]
                visit(child, here)
        visit(ast.parse(open(os.path.join(root, file)).read()), [])
        codes[file] = found
    return codes[file]

def of_code(file, name):
    if not os.path.exists(os.path.join(root, file)):
        return {"gone": "file"}
    node = codes_of(file).get(name)
    if node is None:
        return {"gone": name}
    return {"signature": ast.unparse(node.args) if hasattr(node, "args") else "", "body": body(ast.unparse(node))}

def of_path(path):
    there = os.path.exists(os.path.join(root, path)) or os.path.exists(os.path.join(root, path + ".py"))
    return {} if there else {"gone": "file"}

def of_attribute(file, name):
    path = os.path.join(root, "torch", file)
    if not os.path.exists(path):
        return {"gone": "file"}
    return {} if re.search(rf"\b{name}\b", open(path).read()) else {"gone": name}

described = []
for kind, _, where, name in rows:
    if kind == "GONE":
        described.append({"known": "gone"})
    elif kind in ("NAME", "NAME_OF", "PYTHON"):
        described.append(of_object(where, name))
    elif kind in ("MODULE", "MODULE_OF"):
        parent, _, last = where.rpartition(".")
        described.append(of_object(parent, last) if where.endswith("_VariableFunctions") else of_object(where, ""))
    elif kind in ("CODE", "CODE_OF"):
        described.append(of_code(where, name))
    elif kind in ("PATH", "PATH_OF"):
        described.append(of_path(where))
    elif kind == "ATTRIBUTE":
        described.append(of_attribute(where, name))
    elif kind == "MESSAGE":
        described.append({})
    elif kind == "SETTING":
        config = importlib.import_module(where)
        described.append({"value": repr(getattr(config, name))} if name in config._config else {"gone": name})
    else:
        raise SystemExit(f"rows of kind {kind} are not known here")
wanted, schemas = set(operators), {}
for schema in torch._C._jit_get_all_schemas():
    namespace, _, base = schema.name.partition("::")
    if namespace in ("aten", "prim") and base in wanted:
        schemas[f"{schema.name}.{schema.overload_name}".rstrip(".")] = str(schema)
print("\n" + json.dumps({"version": torch.__version__, "rows": described, "schemas": schemas}))
'''


class Change(NamedTuple):
    what: str
    text: str


def ask(python: str, code: str, given: str = "") -> str:
    """The last line that the interpreter prints."""
    child = subprocess.run([python, "-c", code], input=given, text=True, capture_output=True, check=False)
    if child.returncode:
        raise SystemExit(f"{python}: {child.stderr.strip().splitlines()[-1] if child.stderr.strip() else 'failed'}")
    return child.stdout.strip().splitlines()[-1]


def described(python: str) -> tuple[list[torch_tables.Row], dict[str, Any]]:
    rows = torch_tables.rows(ask(python, "import torch; print(torch.__version__)"))
    return rows, json.loads(ask(python, DESCRIBE, json.dumps([rows, torch_tables.operators()])))


def changes_of(row: torch_tables.Row, old: dict[str, str], new: dict[str, str]) -> list[Change]:
    shown = f"{row.kind} {row.where}" + (f" {row.name}" if row.name else "")
    if "gone" in old:
        return [] if old == new else [Change("new", shown)]
    if "known" in new:
        return [Change("told gone", shown)]
    if "gone" in new:  # a setting that is not there needs nothing
        return [Change("setting gone" if row.kind == "SETTING" else "gone", f"{shown} ({new['gone']})")]
    differing = [
        Change(key, f"{shown}: {old[key]} -> {new[key]}")
        for key in ("kind", "signature", "value")
        if old.get(key, "") != new.get(key, "") and key in old and key in new
    ]
    if not differing and old.get("body") != new.get("body"):
        return [Change("body", shown)]
    return differing


def operator_changes(old: dict[str, str], new: dict[str, str]) -> list[Change]:
    gone = [Change("operator gone", old[name]) for name in sorted(old.keys() - new.keys())]
    came = [Change("operator new", new[name]) for name in sorted(new.keys() - old.keys())]
    both = sorted(old.keys() & new.keys())
    return gone + came + [Change("schema", f"{old[n]}\n        -> {new[n]}") for n in both if old[n] != new[n]]


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    (rows, old), (_, new) = (described(str(Path(python).absolute())) for python in arguments)
    print(f"torch {old['version']} -> {new['version']}: {len(rows)} rows, {len(old['schemas'])} schemas")
    both = zip(rows, old["rows"], new["rows"], strict=True)
    found = [change for row, before, after in both for change in changes_of(row, before, after)]
    found = list(dict.fromkeys(found + operator_changes(old["schemas"], new["schemas"])))
    for what in dict.fromkeys(change.what for change in found):
        texts = [change.text for change in found if change.what == what]
        print(f"\n{what}: {len(texts)}")
        for text in texts:
            print(f"    {text}")
    return int(any(change.what == "gone" for change in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
