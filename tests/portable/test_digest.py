"""The digest of a code object: equal for equal code wherever it was compiled, different for any difference."""

import os
import subprocess
import sys
import textwrap
from types import CodeType

import pytest
from gramme import _C

digest = _C.testing.testing_portable.digest

# Two functions that differ in one thing.
PAIRS = [
    ("return 1", "return True"),
    ("return 1", "return 1.0"),
    ("return 1", "return 2"),
    ("return 0.0", "return -0.0"),
    ("return 0j", "return -0j"),
    ("return 'a'", "return b'a'"),
    ("return 'a'", "return 'b'"),
    ("return (1, 2)", "return (2, 1)"),
    ("return (1,)", "return (True,)"),
    ("return x in {1, 2}", "return x in {1, 3}"),
    ("return x in {1, 2}", "return x in {1.0, 2}"),
    ("return x in {1, 2}", "return x in (1, 2)"),
    ("return x + y", "return x - y"),
    ("return x + y", "return y + x"),
    ("return x.a", "return x.b"),
    ("return x.a", "return x.a()"),
    ("return a", "return b"),
    ("z = x; return z", "w = x; return w"),
    ("return x < y", "return x <= y"),
    ("return x is y", "return x is not y"),
    ("return -x", "return ~x"),
    ("return x[0]", "return x[1]"),
    ("return x or y", "return x and y"),
    ("return lambda: 1", "return lambda: 2"),
    ("return lambda a: 1", "return lambda b: 1"),
    ("return lambda: x", "return lambda: y"),
    ("return [a for a in x]", "return [b for b in x]"),
    ("return", "yield"),
    ("try: g()\n    except ValueError: pass", "try: g()\n    except TypeError: pass"),
    ("try: g()\n    finally: h()", "g()\n    h()"),
    ("for i in x: pass", "for i in y: pass"),
    ("global q; q = x", "q = x"),
    ("if x: return 1", "if not x: return 1"),
    ("'one'\n    return x", "'two'\n    return x"),
    ("import os", "import sys"),
    ("del x", "del y"),
]
HEADS = [
    ("def f(x, y):", "def f(x, *, y):"),
    ("def f(x, y):", "def f(x, y, /):"),
    ("def f(x, y):", "def f(x, *y):"),
    ("def f(x, **y):", "def f(x, *y):"),
    ("def f(x, y):", "def f(x, z):"),
    ("def f(x, y):", "def g(x, y):"),
    ("def f(x, y):", "async def f(x, y):"),
]


def compiled(text: str, file: str = "some.py") -> CodeType:
    module = compile(text, file, "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def function(body: str, head: str = "def f(x, y):") -> str:
    return f"{head}\n    {body}\n"


EACH = sorted({function(body) for pair in PAIRS for body in pair} | {function("return x", h) for p in HEADS for h in p})


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_bodies_that_differ_in_one_thing(one: str, other: str) -> None:
    assert digest(compiled(function(one))) != digest(compiled(function(other)))


@pytest.mark.parametrize(("one", "other"), HEADS)
def test_heads_that_differ_in_one_thing(one: str, other: str) -> None:
    assert digest(compiled(function("return x", one))) != digest(compiled(function("return x", other)))


def test_no_two_different_functions_have_one_digest() -> None:
    assert len({digest(compiled(text)) for text in EACH}) == len(EACH)


@pytest.mark.parametrize("text", EACH)
def test_file_and_lines_do_not_matter(text: str) -> None:
    assert digest(compiled("\n\n# moved\n" + text, "elsewhere.py")) == digest(compiled(text))


def test_what_the_interpreter_writes_into_code_does_not_matter() -> None:
    text = "def f(x, y):\n    for i in range(40):\n        x = x + y\n    return x"
    names: dict[str, CodeType] = {}
    exec(compile(text, "some.py", "exec"), names)
    for _ in range(60):
        names["f"](1, 2)  # type: ignore[operator]
    assert digest(names["f"].__code__) == digest(compiled(text))  # type: ignore[attr-defined]


def test_the_digest_stays_with_the_code_object() -> None:
    code = compiled(function("return x"))
    assert digest(code) == digest(code)
    assert digest(code.replace(co_firstlineno=7)) == digest(code)
    assert digest(code.replace(co_flags=code.co_flags ^ 0x20000)) != digest(code)


def test_code_with_an_object_among_its_constants_has_none() -> None:
    code = compiled(function("return 'here'"))
    constants = tuple([] if constant == "here" else constant for constant in code.co_consts)
    assert digest(code.replace(co_consts=constants)) == b""


CHILD = """
import sys
from gramme import _C
from types import CodeType
for text in eval(sys.stdin.read()):
    module = compile(text, "child.py", "exec")
    code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
    print(_C.testing.testing_portable.digest(code).hex())
"""


def test_another_process_with_other_hashes_has_the_same_digests() -> None:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD)],
        input=repr(EACH),
        env=os.environ | {"PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [digest(compiled(text)).hex() for text in EACH]
