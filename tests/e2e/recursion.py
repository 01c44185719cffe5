"""Forms of recursion without end. As a script: calls each form named, in the main thread or in one with a small stack,
and prints what came of it; test_recursion.py starts it, so that a crash is a failed test.

    python recursion.py <eager|front> <main|small> <recursion limit> <form> ...
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

SMALL = 256 * 1024


class CallsItself: ...


CallsItself.__call__ = CallsItself()  # type: ignore[attr-defined]


class Method:
    def __init__(self) -> None:
        self.me = self.run

    def run(self, x: torch.Tensor) -> Any:
        return self.me(x)


class Repr:
    def __repr__(self) -> str:
        return "<" + repr(self) + ">"


class Str:
    def __str__(self) -> str:
        return f"{self}"


class Getattr:
    def __getattr__(self, name: str) -> Any:
        return getattr(self, name + "x")


class Eq:
    def __eq__(self, other: object) -> bool:
        return self == other

    __hash__ = object.__hash__


class Hash:
    def __hash__(self) -> int:
        return hash((self, 1))


class Property:
    @property
    def value(self) -> Any:
        return self.value


class Less:
    def __lt__(self, other: "Less") -> bool:
        return other < self


class Descriptor:
    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return owner.value


class Described:
    value = Descriptor()


class Item:
    def __getitem__(self, key: Any) -> Any:
        return self[key]


class Add:
    def __add__(self, other: Any) -> Any:
        return self + other


class Bool:
    def __bool__(self) -> bool:
        return bool(self)


class Iter:
    def __iter__(self) -> Iterator[Any]:
        return (item for item in self)


class Init:
    def __init__(self) -> None:
        self.child = Init()


class New:
    def __new__(cls) -> "New":
        return cls()


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        return cls(*args)


class OfMeta(metaclass=Meta): ...


class Contains:
    def __contains__(self, key: Any) -> bool:
        return key in self


class SetAttribute:
    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return self(x)


def generator(n: int) -> Iterator[int]:
    yield from generator(n + 1)


def closure(x: torch.Tensor) -> Any:
    def inner(y: Any) -> Any:
        return inner(y + 1)

    return inner(x)


def mapped(x: Any) -> Any:
    return list(map(mapped, [x]))


def by_key(x: Any) -> Any:
    return sorted([0, 1], key=by_key)


partial: Any = functools.partial(lambda x: partial(x))
MODULE, CALLABLE, METHOD, REPR, STR = Module(), CallsItself(), Method(), Repr(), Str()

FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "__call__": lambda x: CallsItself()(x),  # type: ignore[operator]
    "__call__ of an existing object": lambda x: CALLABLE(x),  # type: ignore[operator]
    "method": lambda x: Method().run(x),
    "method of an existing object": lambda x: METHOD.run(x),
    "repr": lambda x: repr(Repr()),
    "repr of an existing object": lambda x: repr(REPR),
    "str": lambda x: str(Str()),
    "str of an existing object": lambda x: str(STR),
    "__getattr__": lambda x: Getattr().a,
    "__eq__": lambda x: Eq() == 1,
    "__hash__": lambda x: hash(Hash()),
    "property": lambda x: Property().value,
    "__lt__": lambda x: Less() < Less(),
    "descriptor": lambda x: Described().value,
    "__getitem__": lambda x: Item()[0],
    "__add__": lambda x: Add() + 1,
    "__bool__": lambda x: 1 if Bool() else 2,
    "__iter__": lambda x: list(Iter()),
    "__init__": lambda x: Init(),
    "__new__": lambda x: New(),
    "metaclass": lambda x: OfMeta(),
    "__contains__": lambda x: 1 in Contains(),
    "__setattr__": lambda x: setattr(SetAttribute(), "a", 1),
    "module": lambda x: MODULE(x),
    "generator": lambda x: list(generator(0)),
    "closure": closure,
    "map": mapped,
    "key": by_key,
    "partial": lambda x: partial(x),
}


def after_a_break(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    def run(x: torch.Tensor) -> Any:
        from e2e import front

        front.graph_break()
        return function(x + 1)

    return run


def entered_again(front: Any) -> dict[str, Callable[[torch.Tensor], Any]]:
    """What is compiled calls what is compiled: itself."""

    @front.compile(backend="eager")
    def plain(x: torch.Tensor) -> Any:
        return plain(x + 1)

    @front.compile(backend="eager")
    def breaking(x: torch.Tensor) -> Any:
        print(end="")
        return breaking(x + 1)

    return {"compiled": plain, "compiled with a break": breaking}


def attempt(call: Callable[[torch.Tensor], Any]) -> str:
    try:
        call(torch.ones(2))
    except RecursionError:
        return "RecursionError"
    except BaseException as error:
        return repr(error)
    return "returned"


def run(who: str, names: list[str]) -> None:
    forms = dict(FORMS)
    compiled: Callable[..., Any] = lambda function: function
    if who != "eager":
        from e2e import front

        compiled = functools.partial(front.compile, backend="eager")
        forms |= entered_again(front)
    for name in names:
        calls = [compiled(forms[name])]
        if who != "eager":
            calls.append(compiled(after_a_break(forms[name])))
        for call in calls:
            for _ in range(2):
                print(f"{name}: {attempt(call)}", flush=True)


if __name__ == "__main__":
    who, where, limit, *names = sys.argv[1:]
    torch.ones(2) + 1
    if limit != "default":
        sys.setrecursionlimit(int(limit))
    if where == "small":
        threading.stack_size(SMALL)
        thread = threading.Thread(target=run, args=(who, names))
        thread.start()
        thread.join()
    else:
        run(who, names)
