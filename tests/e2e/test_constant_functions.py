"""Functions whose author declares their answer constant (torch.compiler.assume_constant_result), and what libraries ask
of objects and types while they configure a model."""

import collections
import copy
import functools
import pathlib
import typing

import gramme
import pytest
import torch

CALLS: list[object] = []


def declared(function):
    function._dynamo_marked_constant = True  # what assume_constant_result does, without importing torch._dynamo
    return function


@declared
def version(name: str, digits: int = 2) -> tuple[int, ...]:
    CALLS.append(name)
    return tuple(range(digits))


@functools.lru_cache
@declared
def is_installed(name: str) -> bool:
    if not name:
        raise LookupError("no name")
    return len(version(name)) == 2


@declared
def new_list() -> list[int]:
    return [1]


@declared
def half(x: torch.Tensor) -> float:
    return x.shape[0] / 2


def test_called_in_the_capture_only() -> None:
    @gramme.compile(backend="eager", fullgraph=True)
    def program(x: torch.Tensor) -> object:
        return (x + 1 if version("a", digits=3) == (0, 1, 2) else x), version("b")

    CALLS.clear()
    for _ in range(3):
        y, answer = program(torch.ones(2))
        assert (y.tolist(), answer) == ([2.0, 2.0], (0, 1))
    assert CALLS == ["a", "b"]


def test_under_a_cache() -> None:
    @gramme.compile(backend="eager", fullgraph=True)
    def program(x: torch.Tensor, name: str) -> torch.Tensor:
        try:
            return x * 2 if is_installed(name) else x
        except LookupError as error:
            return x + len(str(error))

    assert program(torch.ones(1), "a").item() == 2
    assert program(torch.ones(1), "").item() == 8


@pytest.mark.parametrize("function", [new_list, half])
def test_only_constants_of_constants(function) -> None:
    def program(x: torch.Tensor) -> object:
        return function() if function is new_list else x * function(x)

    eager, captured = program(torch.ones(2)), gramme.compile(program, backend="eager")(torch.ones(2))
    assert str(eager) == str(captured)
    with pytest.raises(gramme.CaptureError, match="always runs in Python"):
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(2))


class Settings:
    def __init__(self) -> None:
        self.sizes = [1, 2]
        self.names: dict[str, object] = {"a": self.sizes}


def test_a_deep_copy_of_what_hangs_off_an_object() -> None:
    def program(x: torch.Tensor, settings: Settings) -> object:
        copied = copy.deepcopy(vars(settings))
        shallow = copy.copy(settings.__dict__)
        copied["sizes"].append(3)
        shallow["more"] = 1
        shared = copied["names"]["a"] is copied["sizes"], shallow["sizes"] is settings.sizes
        return x * len(copied["sizes"]), copied, list(shallow), shared, settings.sizes

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for settings in (Settings(), Settings()):
        eager, captured = program(torch.ones(1), settings), compiled(torch.ones(1), settings)
        assert captured == eager
        assert captured[1]["names"]["a"] is captured[1]["sizes"]
        assert type(captured[1]) is dict
    changed = Settings()
    changed.sizes.append(5)
    assert compiled(torch.ones(1), changed) == program(torch.ones(1), changed)


FIELDS: dict[str, object] = {"size": int | None, "names": list[str], "scale": float | int | str}


def test_what_a_type_is_made_of() -> None:
    def program(x: torch.Tensor, name: str) -> object:
        field = FIELDS[name]
        arguments = typing.get_args(field)
        return x * len(arguments), arguments, typing.get_origin(field), int in arguments

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for name in (*FIELDS, *FIELDS):
        assert compiled(torch.ones(1), name) == program(torch.ones(1), name)
    FIELDS["size"], kept = int | bytes | bool, FIELDS["size"]
    assert compiled(torch.ones(1), "size") == program(torch.ones(1), "size")
    FIELDS["size"] = kept


@pytest.mark.parametrize("cls", [int, bool, object, dict, collections.OrderedDict, pathlib.PurePath])
def test_names_of_a_class(cls: type) -> None:
    def program(x: torch.Tensor, name: str) -> object:
        return x + 1, name in cls.__dict__, len(vars(cls)), "nothing" in vars(cls), sorted(cls.__dict__)[:5]

    compiled = gramme.compile(program, backend="eager")
    for name in ("__doc__", "__init__", "__add__", "parent"):
        assert compiled(torch.ones(1), name)[1:] == program(torch.ones(1), name)[1:]
