"""Weak references from before that a program asks: what they point to is captured while nothing was let go."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


class Thing:
    factor = 3.0


def compiled(program: Callable[..., Any], whole: bool = True) -> Any:
    return gramme.compile(program, backend="eager", fullgraph=whole)


def test_a_reference_is_asked_in_the_graph() -> None:
    thing = Thing()
    reference = weakref.ref(thing)

    def program(x: torch.Tensor) -> Any:
        held = reference()
        assert held is not None
        return (x + 1) * held.factor

    entry, x = compiled(program), torch.ones(2)
    assert entry(x).tolist() == entry(x).tolist() == [6.0, 6.0]
    thing.factor = 5.0
    assert entry(x).tolist() == [10.0, 10.0]


@pytest.mark.parametrize("whole", [True, False])
def test_an_object_that_died_between_calls(whole: bool) -> None:
    things = [Thing()]
    reference = weakref.ref(things[0])

    def program(x: torch.Tensor) -> Any:
        return x + (1 if reference() is None else 2)

    entry, x = compiled(program, whole), torch.ones(2)
    assert entry(x).tolist() == entry(x).tolist() == [3.0, 3.0]
    things.clear()
    gc.collect()
    assert reference() is None  # no segment holds it
    assert entry(x).tolist() == [2.0, 2.0]


def test_a_method_asks_for_what_its_object_belongs_to() -> None:
    class Part(torch.nn.Module):
        def __init__(self, whole: torch.nn.Module) -> None:
            super().__init__()
            self.whole = weakref.ref(whole)

        def forward(self, x: torch.Tensor) -> Any:
            whole = self.whole()
            return x * whole.scale if whole is not None else x

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 3

    whole: Any = Whole()
    entry, x = compiled(Part(whole)), torch.ones(2)
    assert entry(x).tolist() == entry(x).tolist() == [3.0, 3.0]
    del whole
    gc.collect()
    assert entry(x).tolist() == [1.0, 1.0]


def test_what_is_made_inside_and_escapes() -> None:
    def program(x: torch.Tensor, thing: Thing) -> Any:
        return x + thing.factor, weakref.ref(thing)

    entry, thing = compiled(program), Thing()
    for _ in range(2):
        result, reference = entry(torch.ones(2), thing)
        assert result.tolist() == [4.0, 4.0]
        assert reference is weakref.ref(thing)


def test_values_of_a_weak_dictionary() -> None:
    thing = Thing()
    things = weakref.WeakValueDictionary({"a": thing})

    def program(x: torch.Tensor) -> Any:
        return x * things["a"].factor

    entry, x = compiled(program, False), torch.ones(2)
    assert entry(x).tolist() == entry(x).tolist() == [3.0, 3.0]
    thing = things["a"] = Thing()
    thing.factor = 4.0
    assert entry(x).tolist() == [4.0, 4.0]


def from_a_list(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    y = x + 1
    things.pop()
    return y, reference() is None


def from_an_attribute(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    holder = Thing()
    holder.held = things.pop()  # type: ignore[attr-defined]
    y = x + (1 if reference() is None else 2)
    del holder.held  # type: ignore[attr-defined]
    return y, reference() is None


def from_a_variable(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    thing = things.pop()
    gc.isenabled()
    print(end="")  # the segment ends here
    y = x * thing.factor
    del thing
    return y, reference() is None


def from_a_variable_assigned(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    thing: Any = things.pop()
    print(end="")
    thing = x * 2
    return thing, reference() is None


def from_the_stack(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    return [things.pop().factor + float(len(str(print(end="")))), reference() is None, x * 2]


def at_the_end_of_a_handler(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    try:
        raise_with(things.pop())
    except ValueError:
        print(end="")
        y = x + 1
    return y, reference() is None


def raise_with(thing: Thing) -> None:
    raise ValueError(thing)


def at_the_end_of_an_iterator(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    items = iter([things.pop()])
    print(end="")
    for thing in items:
        x = x * thing.factor
    thing = None  # type: ignore[assignment]
    return x, reference() is None


def from_a_variable_never_read(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    held = [things.pop()]
    print(end="")
    del held
    return x + 1, reference() is None


def from_a_cell(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    thing: Any = things.pop()

    def read() -> Any:
        return thing

    print(end="")
    y = x * read().factor
    thing = None
    return y, reference() is None


def from_an_argument_s_attribute(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    carrier = x * 2
    carrier.thing = things.pop()  # type: ignore[attr-defined]
    print(end="")
    carrier = carrier + 1
    return carrier, reference() is None


def from_history(x: torch.Tensor, things: list[Thing], reference: Any) -> Any:
    y = Keeping.apply(x.clone().requires_grad_(), things.pop())
    print(end="")
    y = y.detach()
    return y, reference() is None


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, thing: Thing) -> torch.Tensor:
        ctx.thing = thing
        return x * thing.factor


@pytest.mark.parametrize(
    "program",
    [
        from_a_list,
        from_an_attribute,
        from_a_variable,
        from_a_variable_assigned,
        from_the_stack,
        at_the_end_of_a_handler,
        at_the_end_of_an_iterator,
        from_a_variable_never_read,
        from_a_cell,
        from_an_argument_s_attribute,
        from_history,
    ],
)
def test_an_object_that_dies_in_the_call(program: Callable[..., Any]) -> None:
    entry = compiled(program, False)
    for _ in range(3):
        outcomes = []
        for function in (program, entry):
            things = [Thing()]
            outcomes.append(str(function(torch.ones(2), things, weakref.ref(things[0]))))
        assert outcomes[0] == outcomes[1]


class Slotted:
    __slots__ = ("value",)


class Referenced:
    __slots__ = ("__weakref__", "value")


REFERENTS: dict[str, Any] = {
    "plain": Thing(),
    "slotted": Slotted(),
    "with the slot": Referenced(),
    "list": [1],
    "function": lambda: 1,
    "class": Thing,
    "module": torch.nn.Linear(1, 1),
    "int": 5,
    "exception": ValueError(1),
}


@pytest.mark.parametrize("kind", REFERENTS)
def test_which_objects_have_weak_references(kind: str) -> None:
    referent = REFERENTS[kind]

    def program(x: torch.Tensor) -> Any:
        try:
            held = weakref.ref(referent)()
        except TypeError as error:
            return x - 1, str(error)
        return x + 1, held is referent

    entry, x = compiled(program, whole=False), torch.ones(2)
    assert entry(x)[1] == program(x)[1]
    assert torch.equal(entry(x)[0], program(x)[0])


def test_members_of_weak_containers() -> None:
    inside, outside = Thing(), Thing()
    keys, members = weakref.WeakKeyDictionary({inside: 1}), weakref.WeakSet([inside])

    def program(x: torch.Tensor, thing: Thing) -> Any:
        return x + keys.get(thing, 0), thing in keys, thing in members, thing not in keys

    entry, x = compiled(program, whole=False), torch.ones(2)
    for thing in (inside, outside, inside):
        assert entry(x, thing)[1:] == program(x, thing)[1:]
        assert torch.equal(entry(x, thing)[0], program(x, thing)[0])
