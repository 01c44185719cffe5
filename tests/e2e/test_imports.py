"""Import statements in compiled code: of modules that are there, that are not, of packages that answer themselves."""

import builtins
import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import outcome
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="what gramme makes of imports")

LOG = "imports_seen"
FILES = {
    "__init__.py": "VALUE = 1\n",
    "plain.py": "VALUE = 2\n",
    "other.py": "from . import plain\nVALUE = plain.VALUE + 1\n",
    "sub/__init__.py": "VALUE = 4\n",
    "sub/deep.py": "from ..plain import VALUE as ABOVE\nVALUE = 5 + ABOVE\n",
    "sub/relative.py": "RELATIVE = True\n",
    "circle_a.py": "from imports_pkg import circle_b\nVALUE = 6\n",
    "circle_b.py": "from imports_pkg import circle_a\nVALUE = 7\n",
    "circle_c.py": "from imports_pkg.circle_d import VALUE\n",
    "circle_d.py": "from imports_pkg.circle_c import OTHER\nVALUE = 8\n",
    "raising.py": "VALUE = 1 / 0\n",
    "both.py": "VALUE = 'module'\n",
    "lazy/__init__.py": "import importlib\n\n\ndef __getattr__(name):\n    LOG.append('asked ' + name)\n"
    "    if name.startswith('part'):\n        return importlib.import_module('.' + name, __name__)\n"
    "    if name == 'zero':\n        return 1 / 0\n    raise AttributeError('no ' + name)\n",
    "lazy/part.py": "VALUE = 9\n",
    "lazy/real.py": "VALUE = 10\n",
    "named/__init__.py": "both = 'attribute'\n__all__ = ['both', 'inner']\n",
    "named/both.py": "VALUE = 11\n",
    "named/inner.py": "VALUE = 12\n",
}


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    root = tmp_path_factory.mktemp("imports")
    head = f"import sys\n\nLOG = sys.modules[{LOG!r}].SEEN\nLOG.append(__name__)\n"
    for name, text in FILES.items():
        path = Path(root, "imports_pkg", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + text)
    log = types.ModuleType(LOG)
    log.SEEN = []  # type: ignore[attr-defined]
    sys.modules[LOG] = log
    sys.path.insert(0, str(root))
    yield
    sys.path.remove(str(root))
    forget()
    del sys.modules[LOG]


def forget(*names: str) -> None:
    """All of the package, or some of its modules and what their packages say of them."""
    importlib.invalidate_caches()
    for name in [n for n in sys.modules if n.split(".")[0] == "imports_pkg"]:
        if not names or name in names:
            del sys.modules[name]
            above, _, last = name.rpartition(".")
            vars(sys.modules[above]).pop(last, None) if above in sys.modules else None


def without(name: str) -> Callable[[], None]:
    def prepare() -> None:
        forget()
        sys.modules[name] = None  # type: ignore[assignment]

    return prepare


def replaced() -> None:
    """Another object where the module was."""
    other = types.ModuleType("imports_pkg.plain")
    other.VALUE = "another"  # type: ignore[attr-defined]
    sys.modules["imports_pkg.plain"] = other


def no_module() -> None:
    sys.modules["imports_pkg.plain"] = types.SimpleNamespace(VALUE="no module", __name__="simple")  # type: ignore[assignment]


def nothing() -> None:
    """What the call before left."""


# What is done before each call of one function.
TIMES = (forget, nothing, nothing, forget, lambda: forget("imports_pkg.plain", "imports_pkg.sub"), replaced, no_module)
PLAIN = (forget, nothing, nothing)

PROGRAMS: dict[str, tuple[str, tuple[Callable[[], None], ...]]] = {
    "import a": ("import imports_pkg; r = imports_pkg.VALUE", TIMES),
    "import a.b": ("import imports_pkg.plain; r = imports_pkg.plain.VALUE", TIMES),
    "import a.b.c": ("import imports_pkg.sub.deep; r = imports_pkg.sub.deep.VALUE", TIMES),
    "import a.b as c": ("import imports_pkg.plain as p; r = p.VALUE", TIMES),
    "import a.b.c as d": ("import imports_pkg.sub.deep as p; r = p.VALUE, p.ABOVE", TIMES),
    "from a import module": ("from imports_pkg import plain; r = plain.VALUE", TIMES),
    "from a import two": ("from imports_pkg import plain, VALUE; r = plain.VALUE, VALUE", TIMES),
    "from a import three": ("from imports_pkg import other, plain as p, sub; r = other.VALUE, p.VALUE, sub", TIMES),
    "from a.b import name": ("from imports_pkg.plain import VALUE as v; r = v", TIMES),
    "from a.b import module": ("from imports_pkg.sub import deep; r = deep.VALUE", TIMES),
    "from . import module": ("from . import plain; r = plain.VALUE", TIMES),
    "from . import name": ("from . import relative; r = relative.RELATIVE", TIMES),
    "from .. import module": ("from .. import plain; r = plain.VALUE", TIMES),
    "from ..a import name": ("from ..plain import VALUE as v; r = v", TIMES),
    "from .a import name": ("from .deep import VALUE as v; r = v", TIMES),
    "beyond the top": ("from .... import plain; r = 1", PLAIN),
    "attribute before module": ("from imports_pkg.named import both; r = both", PLAIN),
    "module before attribute": ("import imports_pkg.named.both; from imports_pkg.named import both; r = both", PLAIN),
    "circular": ("from imports_pkg import circle_a; r = circle_a.VALUE, circle_a.circle_b.VALUE", PLAIN),
    "circular names": ("from imports_pkg import circle_c; r = 1", PLAIN),
    "missing module": ("import imports_pkg.none; r = 1", PLAIN),
    "missing name": ("from imports_pkg import none; r = 1", PLAIN),
    "missing name of a module": ("from imports_pkg.plain import none; r = 1", PLAIN),
    "no package": ("import imports_pkg.plain.none; r = 1", PLAIN),
    "raising": ("import imports_pkg.raising; r = 1", PLAIN),
    "raising, from": ("from imports_pkg import raising; r = 1", PLAIN),
    "lazy": ("from imports_pkg.lazy import part; r = part.VALUE", PLAIN),
    "lazy name": ("import imports_pkg.lazy as l; r = l.part.VALUE", PLAIN),
    "lazy but real": ("from imports_pkg.lazy import real; r = real.VALUE", PLAIN),
    "lazy missing": ("from imports_pkg.lazy import none; r = 1", PLAIN),
    "lazy raising": ("from imports_pkg.lazy import zero; r = 1", PLAIN),
    "__import__": ("f = __import__; r = f('imports_pkg.plain').VALUE, f('imports_pkg', None, None, ['plain'])", PLAIN),
    "import_module": (
        "import importlib; r = importlib.import_module('imports_pkg.plain').VALUE, "
        "importlib.import_module('.deep', 'imports_pkg.sub').VALUE",
        PLAIN,
    ),
    "star": ("n = {}; exec('from imports_pkg.named import *', n); r = sorted(n)[1:], n['inner'].VALUE", PLAIN),
    "None": ("from imports_pkg import plain; r = plain", (forget, without("imports_pkg.plain"), forget)),
    "None, whole": ("import imports_pkg.plain; r = 1", (forget, without("imports_pkg.plain"), forget)),
    "None above": ("from imports_pkg.sub import deep; r = 1", (forget, without("imports_pkg.sub"), forget)),
}

SCOPES: dict[str, dict[str, Any]] = {
    "a package": {"__name__": "imports_pkg.sub.other", "__package__": "imports_pkg.sub"},
    "no package": {"__name__": "outside"},
    "a wrong package": {"__name__": "outside", "__package__": 5},
}


def made(body: str, handled: bool, scope: dict[str, Any]) -> Callable[..., Any]:
    lines = ["def program(x):", "    y = x + 1"]
    if handled:
        lines += ["    try:", f"        {body}", "    except Exception as e:", "        r = type(e).__name__, str(e)"]
    else:
        lines += [f"    {body}"]
    names = dict(scope)
    exec("\n".join([*lines, "    return y * 2, r"]), names)
    return names["program"]  # type: ignore[no-any-return]


def run(function: Callable[..., Any], times: tuple[Callable[[], None], ...]) -> list[str]:
    """One text a call: what it gave, which modules ran, which are there."""
    texts = []
    seen = sys.modules[LOG].SEEN
    forget()
    for prepare in times:
        prepare()
        seen.clear()
        text = outcome(lambda: function(torch.ones(2)))
        there = sorted(n for n in sys.modules if n.startswith("imports_pkg"))
        texts.append(f"{text} ran {seen} there {there}")
    forget()
    return texts


@pytest.mark.parametrize("handled", [False, True], ids=["leaves", "handled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_imports(name: str, handled: bool) -> None:
    body, times = PROGRAMS[name]
    function = made(body, handled, SCOPES["a package"])
    assert run(gramme.compile(function, backend="eager"), times) == run(function, times)


@pytest.mark.parametrize("scope", SCOPES)
def test_relative_imports_elsewhere(scope: str) -> None:
    for name in ("from . import module", "from .. import module", "from ..a import name", "from a import module"):
        body, times = PROGRAMS[name]
        function = made(body, True, SCOPES[scope])
        assert run(gramme.compile(function, backend="eager"), times) == run(function, times), name


def test_modules_that_are_there_break_nothing() -> None:
    from gramme import explain

    def program(x: torch.Tensor) -> torch.Tensor:
        import os.path
        from collections import abc
        from email import mime  # noqa: F401

        from torch.nn import functional as F

        return F.relu(x + len(os.path.sep)) * bool(abc)

    import email.mime  # noqa: F401

    explained = explain(program)(torch.ones(2))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)


def test_a_submodule_of_a_package_from_before() -> None:
    """einops at its first call: `from . import _torch_specific`."""
    import email

    def program(x: torch.Tensor) -> Any:
        from email import mime

        return x + 1, mime.__name__

    for _ in range(2):
        for name in [n for n in sys.modules if n.startswith("email.mime")]:
            del sys.modules[name]
        vars(email).pop("mime", None)
        assert outcome(lambda: gramme.compile(program)(torch.ones(2))) == outcome(lambda: program(torch.ones(2)))


@contextlib.contextmanager
def patched(log: list[str]) -> Iterator[None]:
    before = builtins.__import__

    def noted(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith(("imports_pkg", "plain")) or name == "":
            log.append(f"{name} {args[2:]}")
        return before(name, *args, **kwargs)

    builtins.__import__ = noted
    try:
        yield
    finally:
        builtins.__import__ = before


def test_another_import_function() -> None:
    body, _ = PROGRAMS["from a import two"]
    logs: list[list[str]] = []
    for compiled in (False, True):
        forget()
        function = made(body, False, {"__name__": "outside"})
        if compiled:
            function = gramme.compile(function, backend="eager")
        seen: list[str] = []
        texts = [outcome(lambda: function(torch.ones(2)))]  # noqa: B023
        with patched(seen):
            texts += [outcome(lambda: function(torch.ones(2))) for _ in range(2)]  # noqa: B023
        texts.append(outcome(lambda: function(torch.ones(2))))  # noqa: B023
        logs.append([*texts, *seen])
    forget()
    assert logs[1] == logs[0]
    assert len(logs[0]) > 5  # the other function was asked
