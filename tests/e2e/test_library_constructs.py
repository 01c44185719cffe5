"""What libraries do around their operations is captured whole, and answers as eagerly when it changed."""

import abc
import collections
import contextlib
import functools
import gc
import inspect
import io
import re
import sys
import threading
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch import nn

X = torch.linspace(-1, 2, 6).view(2, 3)


def compiled(program: Callable[..., Any], whole: bool = True) -> Any:
    return gramme.compile(program, backend="eager", fullgraph=whole)


def same(got: Any, want: Any) -> bool:
    return str(got) == str(want)


# ---- abstract classes and protocols


class WithMethod:
    def shape_of(self) -> int:
        return 1


class Without:
    pass


class Hooked(abc.ABC):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return any("shape_of" in base.__dict__ for base in other.__mro__) or NotImplemented


class OwnMapping(Mapping[str, int]):
    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return NotImplemented

    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        return iter(())


class Native(Sized, Iterable[int], typing.Protocol):
    """As narwhals has them, which scikit-learn imports: every question about Iterable asks it."""


@typing.runtime_checkable
class Method(typing.Protocol):
    def shape_of(self) -> int: ...


@typing.runtime_checkable
class Data(typing.Protocol):
    name: str


def by_hook(x: torch.Tensor, thing: object) -> Any:
    return x * (2 if isinstance(thing, Hooked) else 3), issubclass(type(thing), Hooked)


def by_hooks_below(x: torch.Tensor, thing: object) -> Any:
    return x * (2 if isinstance(thing, Mapping) else 3), isinstance(thing, Iterable), isinstance(x, Sized)


def by_protocol(x: torch.Tensor, thing: object) -> Any:
    return x * (2 if isinstance(thing, Method) else 3), isinstance(thing, typing.SupportsInt), isinstance(thing, Data)


@pytest.mark.parametrize("program", [by_hook, by_hooks_below, by_protocol])
def test_instances(program: Callable[..., Any]) -> None:
    named = Without()
    named.name = "a"  # type: ignore[attr-defined]
    entry = compiled(program)
    for thing in (WithMethod(), Without(), {}, named, 3, OwnMapping(), WithMethod()):
        for _ in range(2):
            assert same(entry(X, thing), program(X, thing))


def test_registered_later() -> None:
    class Late(Hooked):
        pass

    class Other:
        pass

    entry = compiled(by_hook)
    assert not entry(X, Other())[1]
    Late.register(Other)
    assert same(entry(X, Other()), by_hook(X, Other()))
    assert entry(X, Other())[1]


def test_a_hook_with_effects_runs_as_often_as_eagerly() -> None:
    def program(x: torch.Tensor, kind: type, thing: object) -> Any:
        return x * (2 if isinstance(thing, kind) else 3)

    def counted() -> Any:
        asked: list[type] = []

        class Counting(abc.ABC):  # noqa: B024
            @classmethod
            def __subclasshook__(cls, other: type) -> Any:
                asked.append(other)
                return NotImplemented

        return Counting, asked

    entry = compiled(program, whole=False)
    eager, real = counted(), counted()
    for thing in (1, "a", 1, 2.0):
        assert same(entry(X, real[0], thing), program(X, eager[0], thing))
        assert real[1] == eager[1]


# ---- C methods bound before the call

UPPER_PATTERN = re.compile("a+").match


def test_bound_before() -> None:
    class Holder:
        def __init__(self) -> None:
            self.items: list[Any] = []
            self.push = self.items.append
            self.table = {"a": 2}
            self.get = self.table.get

    def program(x: torch.Tensor, holder: Holder) -> Any:
        holder.push(len(holder.items))
        return x * holder.get("a", 3) * (2 if UPPER_PATTERN("aab") else 3)

    entry = compiled(program)
    eager, real = Holder(), Holder()
    for step in range(4):
        assert same(entry(X, real), program(X, eager))
        assert real.items == eager.items == list(range(step + 1))
        eager.table["a"] = real.table["a"] = step
    other: list[Any] = []
    real.push = other.append
    entry(X, real)
    assert other == [4]


def test_bound_method_as_an_argument() -> None:
    def program(x: torch.Tensor, add: Callable[[Any], Any]) -> Any:
        add(3)
        return x + 1

    entry = compiled(program)
    some: list[int] = []
    members: set[int] = set()
    queue: collections.deque[int] = collections.deque()
    for add in (some.append, members.add, queue.append, queue.appendleft, some.append):
        assert same(entry(X, add), X + 1)
    assert (some, members, list(queue)) == ([3, 3], {3}, [3, 3])


def test_method_of_a_tensor_bound_before() -> None:
    add = torch.ones(2, 3).add

    def program(x: torch.Tensor) -> Any:
        return add(x)

    entry = compiled(program)
    for _ in range(2):
        assert same(entry(X), program(X))


# ---- classes below a class, as einops asks for its backends


def test_subclasses() -> None:
    class Backend:
        factor = 1

    class First(Backend):
        factor = 2

    def program(x: torch.Tensor) -> Any:
        return x * sum(backend.factor for backend in Backend.__subclasses__()), [
            b.__name__ for b in Backend.__subclasses__()
        ]

    entry = compiled(program)
    for _ in range(2):
        assert same(entry(X), program(X))
    second = type("Second", (Backend,), {"factor": 5})
    for _ in range(2):
        assert same(entry(X), program(X))
    assert second.__name__ == "Second"


# ---- descriptors asked themselves


class WithProperty:
    def __init__(self, k: int) -> None:
        self.k = k

    @property
    def twice(self) -> int:
        return self.k * 2


class OwnProperty(property):
    pass


class WithOwnProperty(WithProperty):
    @OwnProperty
    def thrice(self) -> int:
        return self.k * 3


def fields_of_tensors(x: torch.Tensor) -> Any:
    kind = torch.Tensor
    return x * len(kind.shape.__get__(x)), kind.ndim.__get__(x), kind.requires_grad.__get__(x), kind.T.__get__(x)


def fields_through_the_class(x: torch.Tensor) -> Any:
    return x * 2, type(x).shape.__get__(x), torch.Tensor.grad.__get__(x) is None, torch.Tensor.shape is type(x).shape


def properties(x: torch.Tensor) -> Any:
    holder = WithOwnProperty(3)
    return x * WithProperty.twice.__get__(holder), holder.thrice, type(WithOwnProperty.thrice) is OwnProperty


@pytest.mark.parametrize("program", [fields_of_tensors, fields_through_the_class, properties])
def test_descriptors(program: Callable[..., Any]) -> None:
    entry = compiled(program)
    for x in (X, X, X.double()):
        assert same(entry(x), program(x))


# ---- distributions whose constraints depend on their parameters


def uniform(x: torch.Tensor) -> Any:
    made = torch.distributions.Uniform(torch.zeros(3), torch.ones(3), validate_args=False)
    return made.log_prob(torch.sigmoid(x)), made.support.is_discrete


def transformed(x: torch.Tensor) -> Any:
    d = torch.distributions
    normal = d.Normal(torch.zeros(3), torch.ones(3), validate_args=False)
    made = d.TransformedDistribution(normal, [d.SigmoidTransform(), d.AffineTransform(1.0, 2.0)], validate_args=False)
    return made.log_prob(1 + torch.sigmoid(x))


def log_normal(x: torch.Tensor) -> Any:
    return torch.distributions.LogNormal(x, torch.ones_like(x), validate_args=False).log_prob(x.exp())


@pytest.mark.parametrize("program", [uniform, transformed, log_normal])
def test_distributions(program: Callable[..., Any]) -> None:
    entry = compiled(program)
    for x in (X, X + 1, X.double()):
        assert same(entry(x), program(x))


# ---- callees that torch made: scripted functions, graph modules


@torch.jit.script
def scripted(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k + 1


def test_scripted_function() -> None:
    def program(x: torch.Tensor, k: int) -> Any:
        return scripted(x, k) * 2

    entry = compiled(program)
    for k in (3, 3, 4):
        assert same(entry(X, k), program(X, k))


def test_scripted_function_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch.testing calls all of them once it is imported: by what is in the class, an instancemethod."""
    plain: Any = torch._C.ScriptFunction.__call__

    def wrapped(*args: Any) -> Any:
        return plain(*args)

    def program(x: torch.Tensor, k: int) -> Any:
        return scripted(x, k) * plain(scripted, x, 2)

    assert type(plain).__name__ == "instancemethod" or plain.__name__ == "prof_func_call"
    monkeypatch.setattr(torch._C.ScriptFunction, "__call__", wrapped)
    entry = compiled(program)
    for k in (3, 3, 4):
        assert same(entry(X, k), program(X, k))


def test_graph_module() -> None:
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

    def program(x: torch.Tensor) -> Any:
        return module(x) + 1

    entry = compiled(program)
    for _ in range(2):
        assert same(entry(X), program(X))
    with torch.no_grad():
        module.get_parameter("0.weight").mul_(2)
    assert same(entry(X), program(X))


# ---- attributes of threads

LOCAL = threading.local()


class Numbered(threading.local):
    kind = 7

    def __init__(self) -> None:
        self.number = 5


def test_thread_local() -> None:
    numbered = Numbered()

    def program(x: torch.Tensor) -> Any:
        LOCAL.last = x * 2
        LOCAL.count = getattr(LOCAL, "count", 0) + 1
        return LOCAL.last * numbered.number * numbered.kind, hasattr(LOCAL, "missing")

    eager, real = [], []
    entry = compiled(program, whole=False)

    def run(call: Callable[..., Any], into: list[Any]) -> None:
        LOCAL.__dict__.clear()
        for number in (5, 5, 6):
            numbered.number = number
            into.append((call(X), LOCAL.count, LOCAL.last))

    for call, into in ((program, eager), (entry, real)):
        run(call, into)
        thread = threading.Thread(target=run, args=(call, into))
        thread.start()
        thread.join()
    assert same(real, eager)
    assert gramme.explain(program)(X).graph_count == 1


def test_thread_local_deletes() -> None:
    def program(x: torch.Tensor) -> Any:
        del LOCAL.gone
        try:
            return x * LOCAL.gone
        except AttributeError as error:
            return x + 1, str(error)

    entry = compiled(program)
    for _ in range(2):
        LOCAL.gone = 1
        got = entry(X)
        assert not hasattr(LOCAL, "gone")
        LOCAL.gone = 1
        assert same(got, program(X))


# ---- warnings


def helper(text: str, level: int) -> None:
    warnings.warn(text, stacklevel=level)


def test_warnings_are_shown_once() -> None:
    def program(x: torch.Tensor) -> Any:
        warnings.warn(f"of {x.dim()} dimensions")
        helper("by a helper", 2)
        warnings.warn("an instance", FutureWarning)
        warnings.warn(UserWarning("made here"))
        return x * 2

    def shown(call: Callable[..., Any]) -> str:
        globals().pop("__warningregistry__", None)
        text = io.StringIO()
        with plain_warnings(), open_stderr(text):
            warnings.simplefilter("default")
            for _ in range(3):
                call(X)
        return text.getvalue()

    want = shown(program)
    assert want.count("UserWarning: by a helper") == 1
    assert shown(compiled(program, whole=False)) == want
    assert registry_of(compiled(program, whole=False)) == registry_of(program)


LISTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "slices": lambda x: x[[slice(1, None), slice(None)]],
    "None before a slice": lambda x: x[[None, slice(1, None)]],
    "a slice before None": lambda x: x[[slice(1, None), None]],
    "...": lambda x: x[[..., 0]],
    "an int and a slice": lambda x: x[[1, slice(None, -1)]],
    "a tensor": lambda x: x[[torch.tensor([0, 1]), 0]],
    "written through": lambda x: x.clone()[[slice(1, None), None]].add_(1),
    "stored": lambda x: stored(x.clone(), [slice(1, None), None]),
    "stored under a tensor": lambda x: stored(x.clone(), [torch.tensor([1]), slice(None)]),
    "ints": lambda x: x[[1, 0]],
    "none there": lambda x: raised(lambda: x[[slice(None), 7]]),
    "too many": lambda x: raised(lambda: x[[slice(None), 0, 0, 0]]),
}


def stored(x: torch.Tensor, key: Any) -> torch.Tensor:
    x[key] = 7.0
    return x


def raised(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except IndexError as error:
        return str(error)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_subscripts_is_warned_of(name: str, backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x.sin()
        return y, LISTS[name](y), y.cos()

    def shown(call: Callable[..., Any]) -> list[Any]:
        globals().pop("__warningregistry__", None)
        text, results = io.StringIO(), []
        with plain_warnings(), open_stderr(text):
            warnings.simplefilter("default")
            results += [call(torch.arange(6.0).reshape(2, 3)) for _ in range(3)]
        return [text.getvalue(), str(results)]

    compiled = gramme.compile(program, backend=backend)
    if backend == "aot_eager":  # since 2.15 AOTAutograd catches warnings while it compiles: all are shown anew
        compiled(torch.arange(6.0).reshape(2, 3))
    assert shown(compiled) == shown(program)
    with plain_warnings():
        warnings.simplefilter("ignore")
        assert gramme.explain(program)(torch.ones(2, 3)).graph_break_count == 0


@pytest.mark.parametrize("action", ["error", "always"])
def test_a_list_of_subscripts_where_the_program_hears_of_it(action: str) -> None:
    def program(x: torch.Tensor, out: list[str]) -> Any:
        try:
            return x.sin()[[slice(1, None), None]] + 1
        except UserWarning as error:
            out.append(str(error))
            return x

    entry = compiled(program, whole=False)
    for now in ("ignore", action, "ignore", action):
        found: list[Any] = []
        for call in (program, entry):
            out: list[str] = []
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter(now)  # type: ignore[arg-type]
                result = call(X, out)
            found.append((result.tolist(), out, [str(w.message) for w in heard], [w.lineno for w in heard]))
        assert found[0] == found[1]


class Text(io.TextIOWrapper):
    """A file as sys.stderr may be: it writes in C."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")


@contextlib.contextmanager
def open_stderr(into: io.StringIO) -> Iterator[None]:
    file = Text()
    with contextlib.redirect_stderr(file):
        yield
    file.flush()
    into.write(file.buffer.getvalue().decode())  # type: ignore[attr-defined]


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """As outside of a test runner, which records warnings."""
    library: Any = warnings
    with warnings.catch_warnings():
        kept = library._showwarnmsg_impl
        library._showwarnmsg_impl = ORIGINAL
        try:
            yield
        finally:
            library._showwarnmsg_impl = kept


def _original() -> Any:
    """The library's own function, whoever replaced it; from 3.14 on another module defines it."""
    defining: Any = sys.modules.get("_py_warnings", warnings)
    code = compile(Path(defining.__file__).read_text(), defining.__file__, "exec")
    inner = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == "_showwarnmsg_impl")
    return types.FunctionType(inner, vars(defining))


ORIGINAL = _original()


def registry_of(call: Callable[..., Any]) -> Any:
    globals().pop("__warningregistry__", None)
    with plain_warnings(), open_stderr(io.StringIO()):
        warnings.simplefilter("module")
        call(X)
        call(X)
    found = globals().pop("__warningregistry__")
    found.pop("version")
    return found


def test_a_warning_takes_no_break() -> None:
    def program(x: torch.Tensor) -> Any:
        warnings.warn("quiet", DeprecationWarning)
        return x * 2

    with plain_warnings():
        warnings.simplefilter("ignore")
        entry = compiled(program)
        for _ in range(2):
            assert same(entry(X), X * 2)


def test_a_warning_that_is_raised_now() -> None:
    def program(x: torch.Tensor, out: list[Any]) -> Any:
        out.append(1)
        try:
            warnings.warn("raised")
        except UserWarning as error:
            out.append(str(error))
        out.append(2)
        return x * 2

    entry = compiled(program, whole=False)
    for action in ("ignore", "error", "ignore", "error"):
        eager, real = [], []
        with plain_warnings():
            warnings.simplefilter(action)  # type: ignore[arg-type]
            assert same(entry(X, real), program(X, eager))
        assert real == eager


def test_a_warning_that_is_recorded() -> None:
    def program(x: torch.Tensor, seen: list[Any]) -> Any:
        warnings.warn("recorded", stacklevel=1)
        return x * len(seen)

    entry = compiled(program, whole=False)
    for _ in range(3):
        counts = []
        for call in (program, entry):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                counts.append((call(X, seen), [(str(w.message), w.lineno) for w in seen]))
        assert same(counts[0], counts[1])


def test_warnings_caught_inside() -> None:
    def program(x: torch.Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("never shown")
            y = x * 2
        return y + 1

    entry = compiled(program)
    for _ in range(2):
        assert same(entry(X), program(X))


def test_a_warning_for_the_caller_of_a_function_with_a_model() -> None:
    class Lazy:
        @functools.cached_property
        def value(self) -> int:
            warnings.warn("for functools", stacklevel=2)
            return 3

    def program(x: torch.Tensor) -> Any:
        return x * Lazy().value

    def shown(call: Callable[..., Any]) -> str:
        text = io.StringIO()
        with plain_warnings(), open_stderr(text):
            warnings.simplefilter("always")
            call(X)
        return text.getvalue()

    want = shown(program)
    assert "functools.py" in want
    assert shown(compiled(program, whole=False)) == want


def test_autocast_by_its_old_name() -> None:
    def program(x: torch.Tensor) -> Any:
        with torch.cpu.amp.autocast():
            return x @ x.T

    with plain_warnings():
        warnings.simplefilter("ignore")
        entry = compiled(program)
        for _ in range(2):
            assert same(entry(X), program(X))


# ---- nothing is left


def test_no_leaks() -> None:
    class Holder:
        def __init__(self) -> None:
            self.items: list[Any] = []
            self.push = self.items.append

    def program(x: torch.Tensor, holder: Holder, local: Any) -> Any:
        holder.push(x * 2)
        local.last = x
        return x * (2 if isinstance(holder, Hooked) else 3)

    entry = compiled(program)
    holder, local = Holder(), threading.local()
    x = torch.ones(2)
    entry(x, holder, local)
    entry(x, holder, local)
    gone = weakref.ref(holder), weakref.ref(local), weakref.ref(x)
    holder.items.clear()
    del holder, local, x
    gc.collect()
    assert all(reference() is None for reference in gone)


def test_static_attributes() -> None:
    def program(x: torch.Tensor, subject: Any) -> Any:
        ask = inspect.getattr_static
        found = [ask(subject, name, None) is not None for name in ("keys", "real", "append", "name", "__len__")]
        try:
            return x + 1, found, ask(subject, "missing")
        except AttributeError as error:
            return x * 2, found, str(error)

    entry = compiled(program)
    for subject in ({}, 3, [], WithMethod(), (1, 2), "text"):
        for _ in range(2):
            assert same(entry(X, subject), program(X, subject))
