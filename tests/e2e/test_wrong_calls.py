"""What CPython refuses, compiled code refuses in the same way: drawn calls, and programs that look like right ones."""

import collections
import contextvars
import enum
import functools
import math
import re
import types
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from sampling import some

from e2e import wrong_calls
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end refuses in its own way")


# ---- drawn calls

NAMES = list(wrong_calls.targets()) if GRAMME else []


def test_there_are_many() -> None:
    assert len(NAMES) > 700
    assert {"builtins.sum", "builtins.ExceptionGroup", "builtins.list.sort", "math.prod"} <= set(NAMES)
    some_of_them = some(NAMES, 40, "counted")
    assert sum(len(wrong_calls.wrong_calls(name)) for name in some_of_them) > 15 * len(some_of_them)


@pytest.mark.parametrize("form", ["made", "given"])
def test_drawn_calls(form: str) -> None:
    """A day's sample; all in a soak."""
    found = [text for name in some(NAMES, 45, form) for text in wrong_calls.differing(name, form)]
    assert found == [], "\n".join(found[:20])


# ---- programs


class Listed:
    __match_args__ = ["a"]
    a = 1


class Numbered:
    __match_args__ = (1,)
    a = 1


class Doubled:
    __match_args__ = ("a", "a")
    a = 1


class Matched:
    __match_args__ = ("a", "b")
    a, b = 1, 2


class Bare:
    a = 1


class Tup(tuple):  # type: ignore[type-arg]
    pass


class TupOfKeywords(tuple):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.kwargs = kwargs


class Items(list):  # type: ignore[type-arg]
    pass


class Whole(int):
    pass


class Chars(str):
    pass


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class OwnText(enum.IntEnum):
    A = 1

    def __str__(self) -> str:
        return "own"


class Level(enum.IntEnum):
    A = 2


class Word(enum.StrEnum):
    A = "s"

    def __str__(self) -> str:
        return "own"


class Real(float, enum.Enum):
    A = 1.5

    def __str__(self) -> str:
        return "own"


class WholeText(int):
    def __str__(self) -> str:
        return "str"


class WholeRepr(int):
    def __repr__(self) -> str:
        return "repr"


class CharsText(str):
    def __str__(self) -> str:
        return "str"


class RealRepr(float):
    def __repr__(self) -> str:
        return "repr"


class OwnGroup(ExceptionGroup[Any]):
    pass


class Stubborn(ValueError):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.kwargs = kwargs


class Names:
    def __set_name__(self, owner: Any, name: str) -> None:
        raise ValueError(name)


class TakesTooFew:
    def __set_name__(self) -> None:
        pass


class Base:
    def __init_subclass__(cls, **kwargs: Any) -> None:
        if kwargs:
            raise KeyError(str(kwargs))


class Popping(type):
    def __new__(cls, name: str, bases: Any, names: Any) -> Any:
        names.pop("__classcell__", None)
        return super().__new__(cls, name, bases, names)


class Replacing(type):
    def __new__(cls, name: str, bases: Any, names: Any) -> Any:
        super().__new__(cls, name, bases, names)
        return type(name, (), {"__module__": __name__})


class NoClass(type):
    def __new__(cls, name: str, bases: Any, names: Any) -> Any:
        return 5


class Other(type):
    pass


class OfOther(metaclass=Other):
    pass


class OfPopping(metaclass=Popping):
    pass


def raised(error: BaseException, depth: int = 4) -> Any:
    """The exception with what led to it."""
    if depth == 0:
        return "..."
    chained = [e and raised(e, depth - 1) for e in (error.__cause__, error.__context__)]
    return type(error).__name__, str(error), error.args, error.__suppress_context__, chained


# Blocks of code that give `r`; each runs behind an operation, and what it raises is handled.
BLOCKS = {
    "classes": """
        class A(metaclass=Popping):
            def f(self): return __class__
        ;;
        class A(metaclass=Popping): f = 1
        r = A.f
        ;;
        class A(metaclass=Replacing):
            def f(self): return __class__
        ;;
        class A(metaclass=NoClass):
            def f(self): return __class__
        r = A
        ;;
        r = type("A", (), {"__classcell__": 5, "__module__": "m"})
        ;;
        r = type("A", (), {"__classcell__": types.CellType(), "__module__": "m"}).__name__
        ;;
        class A: d = Names()
        ;;
        class A: d = TakesTooFew()
        ;;
        class A(Base, k=1): pass
        ;;
        class A(k=1): pass
        ;;
        class A(Base, metaclass=Other, k=1): pass
        ;;
        class A(OfOther, OfPopping): pass
        ;;
        class A(5): pass
        ;;
        class A(Bare, Bare): pass
        ;;
        class A(object, Bare): pass
        ;;
        class A(int, str): pass
        ;;
        class A(bool): pass
        ;;
        class A(metaclass=5): pass
        ;;
        class A(metaclass=len): pass
        ;;
        class A(*5): pass
        ;;
        class A(**5): pass
        ;;
        class A: __slots__ = 5
        ;;
        class A: __slots__ = ("a",); a = 1
        ;;
        class A: __qualname__ = 5
        ;;
        class A: r = missing_name
        ;;
        r = type(5, (), {})
        ;;
        r = type("A", [], {})
        ;;
        r = type("A", (), 5)
        ;;
        r = type("A\\0", (), {})
        ;;
        r = type(1, 2)
        ;;
        r = type.__new__(int, "A", (), {})
        """,
    "patterns": """
        match Listed():
            case Listed(a): r = a
        ;;
        match Numbered():
            case Numbered(a): r = a
        ;;
        match Doubled():
            case Doubled(a): r = a
        ;;
        match Doubled():
            case Doubled(a, b): r = a
        ;;
        match Matched():
            case Matched(a, a=z): r = a
        ;;
        match Matched():
            case Matched(a, b, c): r = a
        ;;
        match Matched():
            case Matched(q, b=z): r = q, z
        ;;
        match Bare():
            case Bare(a): r = a
        ;;
        match 3:
            case int(a, b): r = a
        ;;
        match 3:
            case int(a): r = a
        ;;
        cls = 5
        match 3:
            case cls(): r = 1
        """,
    "constructors": """
        r = Tup([1], k=1)
        ;;
        r = Tup(k=1)
        ;;
        r = Tup([1], 2)
        ;;
        r = TupOfKeywords([1], k=1).kwargs
        ;;
        r = TupOfKeywords(k=1).kwargs
        ;;
        r = TupOfKeywords([1], 2)
        ;;
        r = Items([1], k=1)
        ;;
        r = Whole(k=1)
        ;;
        r = Chars(k=1)
        ;;
        r = Pair(1)
        ;;
        r = Pair(1, 2, 3)
        ;;
        r = Pair(a=1, c=2)
        ;;
        r = Pair._make([1])
        ;;
        r = tuple.__new__(Pair, [1], k=2)
        ;;
        r = tuple.__new__(Pair, [1]).b
        ;;
        r = object.__new__(Tup)
        ;;
        r = object.__new__(int)
        ;;
        r = object.__new__(Bare, 5)
        ;;
        r = object.__new__(5)
        ;;
        r = tuple.__new__(list)
        ;;
        r = tuple.__new__()
        ;;
        r = list.__new__(object)
        ;;
        r = Bare(5)
        ;;
        r = Bare(k=5)
        ;;
        r = torch.Size(["a"])
        ;;
        r = types.CellType(1, 2)
        ;;
        r = types.MethodType(5, 6)
        ;;
        r = types.MethodType(len, None)
        ;;
        r = slice()
        ;;
        r = range(1, 2, 0)
        ;;
        r = enumerate()
        ;;
        r = zip([1], strict=1, zz=2)
        ;;
        r = property(1, 2, 3, 4, 5)
        ;;
        r = {types.CellType(1): 2}
        """,
    "functions": """
        r = math.prod(["a"])
        ;;
        r = math.prod(["a", "b"])
        ;;
        r = math.prod([2], 3)
        ;;
        r = math.prod([2], start="a")
        ;;
        r = math.prod([None, 2])
        ;;
        r = math.prod(5)
        ;;
        r = sum([], "a")
        ;;
        r = sum([], Chars("a"))
        ;;
        r = sum([[1]], bytearray(b"a"))
        ;;
        r = sum([1], zz=2)
        ;;
        r = (1,).__add__([2])
        ;;
        r = [1].__add__((2,))
        ;;
        r = [1].__iadd__(5)
        ;;
        r = {"a": 1}.keys().__sub__(5)
        ;;
        r = types.MappingProxyType({"a": 1}).__ior__({})
        ;;
        r = types.MappingProxyType({"a": 1}) | 5
        ;;
        r = {"a": 1}.popitem(True)
        ;;
        r = [2, 1].sort(None)
        ;;
        r = object().__lt__()
        ;;
        r = object().__lt__(1, 2)
        ;;
        r = (1).__add__(2, 3)
        """,
    "groups": """
        e = BaseExceptionGroup("m", [ValueError(1)]); r = type(e).__name__, str(e), [str(q) for q in e.exceptions]
        ;;
        e = BaseExceptionGroup("m", [KeyboardInterrupt()]); r = type(e).__name__, str(e)
        ;;
        e = ExceptionGroup("m", [ExceptionGroup("n", [ValueError(2)])]); r = type(e).__name__, str(e)
        ;;
        e = OwnGroup("m", [ValueError(1)]); r = type(e).__name__, str(e)
        ;;
        r = ExceptionGroup("m", [KeyboardInterrupt()])
        ;;
        r = OwnGroup("m", [KeyboardInterrupt()])
        ;;
        r = ExceptionGroup("m", [])
        ;;
        r = ExceptionGroup("m", [5])
        ;;
        r = ExceptionGroup(5, [ValueError()])
        ;;
        r = ExceptionGroup("m")
        ;;
        r = ExceptionGroup("m", 5)
        ;;
        try: raise ExceptionGroup("g", [ValueError(1), KeyError(2), ExceptionGroup("h", [ValueError(3), OSError(4)])])
        except* ValueError as e: r = str(e), repr(e.exceptions)
        except* (KeyError, OSError) as e: r = r, str(e), repr(e.exceptions)
        """,
    "exceptions": """
        try: raise OSError(2, "x")
        except FileNotFoundError as e: r = e.errno, str(e)
        ;;
        e = OSError(2, "x", "f"); r = type(e).__name__, str(e), e.args, e.filename
        ;;
        e = OSError("a"); r = type(e).__name__, str(e), e.args
        ;;
        e = FileNotFoundError(2, "y"); r = e.errno, str(e)
        ;;
        r = SyntaxError("m", 5)
        ;;
        e = SyntaxError("m"); r = str(e), e.args
        ;;
        r = str(UnicodeDecodeError("u", b"a", 0, 1, "r"))
        ;;
        r = UnicodeDecodeError("u")
        ;;
        r = ImportError("m", name="n").name
        ;;
        r = ImportError("m", zz=1)
        ;;
        r = KeyError(k=1)
        ;;
        e = Stubborn(1, k=2); r = e.args, e.kwargs
        ;;
        e = BlockingIOError(1, "a", 3); r = e.characters_written
        ;;
        e = ValueError(1); e.__traceback__ = 5
        ;;
        e = ValueError(1); e.with_traceback(5)
        ;;
        e = ValueError(1); r = e.with_traceback(None) is e
        ;;
        e = ValueError(1); e.add_note(5)
        ;;
        e = ValueError(1); del e.__traceback__
        ;;
        e = ValueError(1); e.args = 5
        ;;
        e = ValueError(1); e.__context__ = 5
        """,
    "contexts": """
        a, b = ValueError(1), KeyError(2)
        a.__context__ = b; b.__context__ = a
        raise a
        ;;
        a, b = ValueError(1), KeyError(2)
        a.__cause__ = b; b.__cause__ = a
        raise a
        ;;
        a = ValueError(1)
        raise a from a
        ;;
        a = ValueError(1)
        a.__context__ = a
        raise a
        ;;
        try: raise ValueError(1)
        except ValueError as e:
            first = e
            try: raise KeyError(2)
            except KeyError as k: raise first
        ;;
        try: raise ValueError(1)
        except ValueError as e:
            try: raise KeyError(2) from e
            except KeyError as k: raise e from k
        ;;
        e = ValueError(1)
        try:
            try: raise KeyError(0)
            except KeyError: raise e
        except ValueError: pass
        try: raise TypeError(9)
        except TypeError: raise e
        """,
    "sorting": """
        l = [3, 1, 2]
        def key(v): l.append(v); return v
        try: l.sort(key=key)
        finally: r = list(l)
        ;;
        l = [3, 1, 2]; seen = []
        def key(v): seen.append(len(l)); return -v
        l.sort(key=key); r = l, seen
        ;;
        l = [1, "a", 2]
        l.sort()
        ;;
        l = [3, 1, 2]
        l.sort(key=lambda v: 1 // (v - 1))
        ;;
        l = [3, 1]
        l.sort(key=5)
        ;;
        l = [3, 1]
        l.sort(reverse="a")
        """,
    "texts": """
        v = OwnText.A; r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = Level.A; r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = Word.A; r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = Real.A; r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = WholeText(3); r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = WholeRepr(3); r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = CharsText("q"); r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        v = RealRepr(2.5); r = f"{v}", f"{v!s}", f"{v!r}", format(v), "{}".format(v), "%s" % (v,), f"{v:>5}"
        ;;
        r = format(OwnText.A, "s")
        ;;
        r = format(WholeText(3), "q")
        ;;
        r = format(Word.A, "d")
        ;;
        r = f"{[]:>5}"
        """,
    "generators": """
        log = []
        def inner():
            try: yield 1
            except KeyboardInterrupt: log.append("inner"); raise
            finally: log.append("finally")
        def outer():
            try: yield from inner()
            except BaseException as e: log.append(type(e).__name__); yield 5
        g = outer(); r = next(g), g.throw(KeyboardInterrupt), log
        ;;
        def outer(): yield from [1, 2]
        g = outer(); next(g)
        try: g.throw(KeyboardInterrupt("a"))
        except BaseException as e: r = type(e).__name__, str(e)
        ;;
        @functools.singledispatch
        def f(a): return "any"
        f.register(int, lambda a: "int")
        r = [f(1), f("a"), f(True), f(1.5)]
        f.register(float, lambda a: "float"); f.register(bool, lambda a: "bool")
        r += [f(1.5), f(True)]
        ;;
        @functools.singledispatch
        def f(a): return "any"
        r = f()
        """,
}


def blocks_of(text: str) -> list[list[str]]:
    lines = [line[8:] for line in text.strip("\n").splitlines()]
    return [block.splitlines() for block in "\n".join(lines).split("\n;;\n")]


def function_of(blocks: list[list[str]]) -> Callable[..., Any]:
    lines = ["def program(x):", "    y, found = x + 1, []"]
    for block in blocks:
        lines += ["    r = None", "    try:", *(f"        {line}" for line in block if line.strip())]
        lines += ["    except Exception as error:", "        r = error"]
        lines += ["    found.append(r)", "    y = y * 2"]
    scope: dict[str, Any] = {**globals(), "functools": functools, "math": math, "types": types}
    exec("\n".join([*lines, "    return y, found"]), scope)
    return scope["program"]  # type: ignore[no-any-return]


def texts(function: Callable[..., Any]) -> list[str]:
    y, found = function(torch.ones(2))
    texts = [repr(raised(r)) if isinstance(r, BaseException) else f"{type(r).__name__} {r!r}" for r in found]
    return [re.sub("0x[0-9a-f]+", "0x", text) for text in [f"{y.tolist()}", *texts]]


@pytest.mark.parametrize("name", BLOCKS)
def test_programs(name: str) -> None:
    """Few in each function, so that every one is captured."""
    blocks = blocks_of(BLOCKS[name])
    for at in range(0, len(blocks), 3):
        function = function_of(blocks[at : at + 3])
        compiled = gramme.compile(function, backend="eager")
        for repeat in range(2):
            found, expected = texts(compiled), texts(function)
            assert found == expected, f"call {repeat}: {blocks[at : at + 3]}"


def test_captures_leave_no_context_variables() -> None:
    """What is imported and asked of torch's settings on the way keeps copies in such."""

    def program(x: torch.Tensor, n: int) -> Any:
        return x.sum() * n, len(contextvars.copy_context())

    context = contextvars.Context()

    def both() -> None:
        for backend in ("eager", "native"):
            compiled = gramme.compile(program, backend=backend)
            for size in (2, 3, 4):
                assert compiled(torch.ones(size), size)[1] == program(torch.ones(size), size)[1] == 0
        assert len(contextvars.copy_context()) == 0

    context.run(both)
