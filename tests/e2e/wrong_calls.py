"""Wrong calls of C functions and types: arguments of kinds and in numbers that CPython refuses.

A case is a callable with arguments that eager refuses. They are drawn: any kinds in any number, and calls that eager
takes with one argument of another kind, one too many, one too few, or given by a name. `differing(name)` makes them in
a compiled function that handles what they raise, and compares with eager: exceptions with their texts, what became of
the arguments, and the order in which their methods were asked.
"""

import builtins
import collections
import contextlib
import enum
import functools
import inspect
import io
import itertools
import math
import operator
import random
import re
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import torch

LOG: list[str] = []
COUNT = 20


# ---- arguments: each made anew for each call


class Loud:
    """Answers one special method, and says so."""

    method: str
    answer: Any

    def __init__(self, method: str, answer: Any) -> None:
        self.__dict__.update(method=method, answer=answer)

    def __repr__(self) -> str:
        return f"Loud({self.method})"


def _answer(self: Any) -> Any:
    LOG.append(self.method)
    if isinstance(self.answer, type) and issubclass(self.answer, BaseException):
        raise self.answer(self.method)
    return self.answer


ANSWERS = {
    "__len__": -1,
    "__index__": "no index",
    "__int__": None,
    "__float__": 1,
    "__iter__": 5,
    "__next__": ZeroDivisionError,
    "__hash__": "no hash",
    "__bool__": 3,
    "__eq__": LookupError,
    "__lt__": ArithmeticError,
    "__getitem__": OverflowError,
    "__contains__": KeyError,
    "__call__": AttributeError,
    "__add__": NotImplemented,
    "__radd__": LookupError,
    "__str__": 7,
    "__repr__": 8,
    "__format__": 9,
    "__length_hint__": "no hint",
    "__reversed__": 2,
    "keys": 4,
}
LOUD = {name: type(f"Loud_{name.strip('_')}", (Loud,), {name: lambda self, *args: _answer(self)}) for name in ANSWERS}


class Plain:
    def __repr__(self) -> str:
        return "Plain()"


class Word(str):
    pass


class Whole(int):
    pass


class Level(enum.IntEnum):
    LOW = 1


Point = collections.namedtuple("Point", "x y")


def generate(n: int) -> Iterator[int]:
    for i in range(n):
        LOG.append(f"generated {i}")
        yield i


def raising() -> Iterator[int]:
    yield 1
    raise LookupError("of the generator")


def takes_two(a: Any, b: Any) -> Any:
    LOG.append("takes_two")
    return a


# Expressions, so that a call may have them made before it or in the capture.
KINDS = (
    *("None", "True", "0", "1", "-1", "2", "1.5", "math.nan", "1j", "''", "'ab'", "'x'", "'é%s{}'", "b'ab'"),
    *("bytearray(b'ab')", "()", "(1, 'a')", "(int, 3)", "[]", "[3, 1]", "[1, 'a']", "[[]]", "[(1, 2)]", "{}"),
    *("{'a': 1}", "{1: 2}", "{1, 2}", "set()", "frozenset(('a',))", "range(3)", "slice(1, None)", "Plain()", "int"),
    *("list", "ValueError", "ValueError('v')", "len", "takes_two", "generate(3)", "raising()", "iter([1, 2])"),
    *("collections.deque([1, 2], 3)", "collections.OrderedDict(a=1)", "collections.Counter('aab')", "Point(1, 2)"),
    *("Word('w')", "Whole(2)", "Level.LOW", "...", "NotImplemented", "math", "property(len)", "(1, 2)", "[2, None]"),
    *("functools.partial(takes_two, 1)", "takes_two.__code__", "types.MappingProxyType({'a': 1})", "object"),
    *("types.CellType(1)", "[1].append", "{'a': 1}.keys()", "{'a': 1}.items()", "zip([1], [2])", "lambda: 1", "type"),
    *(f"LOUD[{name!r}]({name!r}, ANSWERS[{name!r}])" for name in ANSWERS),
)
KEYWORDS = ("zz", "key", "default", "strict", "start", "self", "iterable", "encoding", "sep", "reverse", "fget", "a")


# ---- callables

# These wait, end the process, touch files or the interpreter, or read what differs from run to run.
UNSAFE = re.compile(
    r"exit|quit|input|breakpoint|help|open|exec|eval|compile|__import__|acquire|wait|join|sleep|_exit|fork|abort|kill|"
    r"system|settrace|setprofile|setrecursionlimit|getframe|addaudithook|excepthook|displayhook|breakpointhook|"
    r"urandom|getrandbits|random|seed|time|perf_counter|monotonic|process|getpid|get_ident|id$|globals|locals|vars|dir|"
    r"copyright|credits|license|print|warn|log|memoryview|__sizeof__|getsizeof|getrefcount|gc\.|_thread|signal|"
    r"set_asyncgen|__reduce|__subclasses__|_abc_init|unraisable|setswitchinterval|intern|_clear_type_cache|"
    r"current_frames|getallocated|call_tracing|stack|exc_info|exception$|__init_subclass__|__set_name__"
)

TYPES = (
    *(v for v in vars(builtins).values() if isinstance(v, type)),
    *(collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter, collections.ChainMap),
    *(functools.partial, functools.partialmethod, functools.cached_property, itertools.chain, itertools.count),
    *(itertools.islice, itertools.product, itertools.accumulate, itertools.groupby, itertools.starmap),
    *(types.SimpleNamespace, types.MappingProxyType, types.MethodType, types.CellType, types.ModuleType),
    *(types.GenericAlias, types.FunctionType, operator.itemgetter, operator.attrgetter, operator.methodcaller),
    *(weakref.ref, Point, Level, enum.Enum, torch.Size, torch.device, torch.Tensor, torch.nn.Parameter),
)


def _name_of(target: Any) -> str:
    owner = getattr(target, "__objclass__", None)
    if owner is None and isinstance(getattr(target, "__self__", None), type):
        owner = target.__self__
    if owner is not None:
        return f"{owner.__module__}.{owner.__qualname__}.{target.__name__}"
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(target))}"


def _is_of_torch(name: str) -> bool:
    return name.startswith(("torch", "gramme", "None.", "numpy")) and not name.startswith("torch.Size")


@functools.cache
def targets() -> dict[str, Any]:
    """By name: all types and functions of builtins, and what else has a model or is folded."""
    from gramme import _C

    found: dict[str, Any] = {}
    modelled = [model for model, _ in _C.testing.testing_capture.models()]  # type: ignore[attr-defined]
    functions = [v for v in vars(builtins).values() if isinstance(v, types.BuiltinFunctionType)]
    more = [v for m in (math, operator) for v in vars(m).values() if isinstance(v, types.BuiltinFunctionType)]
    for target in (*TYPES, *functions, *more, *modelled):
        name = _name_of(target)
        if not callable(target) or UNSAFE.search(name) or (_is_of_torch(name) and target not in TYPES):
            continue
        found.setdefault(name, target)
    return dict(sorted(found.items()))


# ---- calls


class Call:
    """Names of kinds, by position and by keyword."""

    def __init__(self, args: tuple[str, ...], kwargs: tuple[tuple[str, str], ...] = ()) -> None:
        self.args, self.kwargs = args, kwargs

    def __repr__(self) -> str:
        return f"({', '.join([*self.args, *(f'{k}={v}' for k, v in self.kwargs)])})"

    def make(self) -> tuple[list[Any], dict[str, Any]]:
        return [eval(a, globals()) for a in self.args], {k: eval(v, globals()) for k, v in self.kwargs}


def _text(value: Any) -> str:
    """Without addresses; what iterators have left."""
    if isinstance(value, types.GeneratorType) or type(value).__name__ == "list_iterator":
        rest: list[Any] = []
        with contextlib.suppress(Exception):
            rest += itertools.islice(value, 9)
        return f"{type(value).__name__} {rest}"
    if isinstance(value, Loud):
        return f"{type(value).__name__} {sorted(vars(value))}"
    try:
        text = repr(value)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    return f"{type(value).__name__} {re.sub('0x[0-9a-f]+', '0x', text)}"


def _raised(error: BaseException) -> str:
    chained = [e and f"{type(e).__name__}: {e}" for e in (error.__cause__, error.__context__)]
    try:
        text = f"{type(error).__name__}: {error} {error.args!r} {getattr(error, '__notes__', None)} {chained}"
    except TypeError as other:
        text = f"{type(error).__name__} {other}"
    return re.sub("0x[0-9a-f]+", "0x", text)


def program(calls: list[Call], form: str) -> str:
    """A function that makes the calls; each raises to a handler of its own. `form`: arguments are "made" in it, or
    "given"."""
    lines = ["def attempts(x, target, given):", "    y, found, made = x + 1, [], []"]
    for i, call in enumerate(calls):
        parts = [*call.args, *(v for _, v in call.kwargs)]
        names = [f"a[{k}]" for k in range(len(call.args))]
        names += [f"{k}=a[{len(call.args) + j}]" for j, (k, _) in enumerate(call.kwargs)]
        lines += [
            f"    a = [{', '.join(parts)}]" if form == "made" else f"    a = given[{i}]",
            "    made.append(a)",
            "    LOG.append('call')",
            "    try:",
            f"        found.append(target({', '.join(names)}))",
            "    except Exception as error:",
            "        found.append(error)",
            "    y = y * 2",
        ]
    return "\n".join([*lines, "    return y, found, made"])


def _outcomes(call: Callable[..., Any], target: Any, calls: list[Call]) -> list[str]:
    """One text a call."""
    LOG.clear()
    given = [[*args, *kwargs.values()] for args, kwargs in (c.make() for c in calls)]
    LOG.clear()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        _, found, made = call(torch.ones(2), target, given)
    logs = "\n".join(LOG).split("call")[1:]
    texts = []
    for result, args, log in zip(found, made, logs, strict=True):
        what = _raised(result) if isinstance(result, BaseException) else _text(result)
        texts.append(f"{what} | {' '.join(map(_text, args))} | {log.split()}")
    return texts


def _raises(target: Any, call: Call) -> bool | None:
    """None: it would leave the process changed, or give what differs from run to run."""
    args, kwargs = call.make()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            target(*args, **kwargs)
    except Exception:
        return True
    except BaseException:
        return None
    return False


def _parameters(target: Any) -> list[str]:
    try:
        return list(inspect.signature(target).parameters)
    except (ValueError, TypeError):
        return []


def _self_kinds(target: Any) -> list[str]:
    """Kinds that are a self of the method."""
    owner = getattr(target, "__objclass__", None)
    if owner is None:
        return []
    return [kind for kind in KINDS if isinstance(eval(kind, globals()), owner)]


def _drawn(rng: random.Random, target: Any, selves: list[str]) -> Call:
    args = tuple(rng.choice(KINDS) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))))
    if selves and rng.random() < 0.9:
        args = (rng.choice(selves), *args)
    return Call(args)


def _spoilt(rng: random.Random, target: Any, right: Call) -> Call:
    """A call that eager takes, made wrong in one place."""
    args, names = list(right.args), [*_parameters(target), *KEYWORDS]
    way = rng.randrange(4)
    if way == 0 and args:
        args[rng.randrange(len(args))] = rng.choice(KINDS)
    elif way == 1 and len(args) > 1:
        args.pop()
    elif way == 2:
        args.append(rng.choice(KINDS))
    else:
        return Call(tuple(args), ((rng.choice(names), rng.choice(KINDS)),))
    return Call(tuple(args))


@functools.cache
def wrong_calls(name: str) -> list[Call]:
    """Some 20 that eager refuses, the same in each process."""
    target, rng = targets()[name], random.Random(name)
    selves = _self_kinds(target)
    wrong: dict[str, Call] = {}
    right: list[Call] = []
    for i in range(150):
        call = _spoilt(rng, target, rng.choice(right)) if right and i % 3 else _drawn(rng, target, selves)
        refused = _raises(target, call)
        if refused is None:
            continue
        if not refused:
            right.append(call)
        elif repr(call) not in wrong:
            wrong[repr(call)] = call
        if len(wrong) == COUNT:
            break
    return list(wrong.values())


def differing(name: str, form: str = "made", backend: str = "eager") -> list[str]:
    """Texts about calls whose outcome is not eager's."""
    target, calls = targets()[name], wrong_calls(name)
    scope: dict[str, Any] = {}
    exec(program(calls, form), globals(), scope)
    attempts = scope["attempts"]
    expected = _outcomes(attempts, target, calls)
    compiled = gramme.compile(attempts, backend=backend)
    found = []
    for repeat in range(2):
        got = _outcomes(compiled, target, calls)
        for call, wanted, text in zip(calls, expected, got, strict=True):
            if wanted != text:
                found.append(f"{name}{call}, call {repeat}\n  eager    {wanted}\n  captured {text}")
    return found
