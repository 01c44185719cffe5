"""Every kind of guard and of source, once accepted and once rejected, with the words it explains itself in."""

import abc
import collections
import contextvars
import functools
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from sampling import steady

from guards.support import TestGuards, testing

X = (("Local", "x"),)
Y = (("Local", "y"),)


def guard(path: Any, kind: str, operand: object = None, reads: Any = ()) -> Any:
    return TestGuards(["x", "y"], [(path, kind, operand)], [*reads])


def holds(plan: Any, x: object, y: object = None, **kwargs: Any) -> bool:
    answer = plan.check([x, y], **kwargs) is not None
    assert answer == (plan.explain([x, y], **kwargs) == "")
    return answer


T = torch.ones(2, 3)
NAN, INF = float("nan"), float("inf")


def in_order(*items: int) -> set[int]:
    made: set[int] = set()
    for item in items:
        made.add(item)
    return made


def marked(*dims: int) -> torch.Tensor:
    made = torch.ones(2, 3)
    made._dynamo_dynamic_indices = set(dims)  # type: ignore[attr-defined]
    return made


def attributed(*names: str) -> torch.Tensor:
    made = torch.ones(2, 3)
    vars(made).update(dict.fromkeys(names or ("label",), "x"))
    return made


MARKED = (frozenset({0}), None, None, None, None)
TABLE = {"a": 1, "b": 2}


def at(position: int) -> Iterator[int]:
    made = iter([1, 2, 3])
    for _ in range(position):
        next(made, None)
    return made


# kind, operand, accepted, rejected, what explain() says of the rejected one
CHECKS = [
    ("Type", int, 7, True, "type(L['x']) changed from int to bool"),
    ("Type", dict, {}, collections.OrderedDict(), "type(L['x']) changed from dict to collections.OrderedDict"),
    ("Narrow", int, 2**30 - 1, 2**30, "L['x'] is beyond 2**30: 1073741824"),
    ("Narrow", int, -(2**30) + 1, -(2**62), None),
    ("Narrow", int, 1, True, "type(L['x']) changed from int to bool"),
    ("Narrow", float, -(2.0**30), 2.0**31, None),
    ("Narrow", float, 0.5, NAN, "L['x'] is beyond 2**30: nan"),
    ("Narrow", float, 0.5, -INF, None),
    ("Narrow", float, 1.0, 1, None),
    ("Constant", 1, 1, True, "L['x'] changed from 1 to True"),
    ("Constant", 1, 1, 1.0, "L['x'] changed from 1 to 1.0"),
    ("Constant", 10**30, 10**30, -(10**30), None),
    ("Constant", 0.0, 0.0, -0.0, "L['x'] changed from 0.0 to -0.0"),
    ("Constant", NAN, NAN, 1.0, "L['x'] changed from nan to 1.0"),
    ("Constant", 2j, complex(0.0, 2.0), complex(-0.0, 2.0), None),
    ("Constant", "abc", "".join(["a", "bc"]), "abd", "L['x'] changed from 'abc' to 'abd'"),
    ("Constant", "é", "é", "è", None),
    ("Constant", b"ab", bytes([97, 98]), b"ac", None),
    ("Constant", None, None, False, "L['x'] changed from None to False"),
    ("Constant", ..., ..., None, None),
    ("Constant", (1, (2.5, "a")), (1, (2.5, "a")), (1, (2.5, "b")), None),
    ("Constant", (1,), (1,), (True,), None),
    ("Constant", frozenset({1, "a"}), frozenset(["a", 1]), frozenset({1, "b"}), None),
    ("Constant", range(0, 6, 2), range(0, 6, 2), range(0, 6, 3), None),
    ("Constant", slice(1, 2), slice(1, 2), slice(1, 3), None),
    ("Identity", T, T, T.clone(), "L['x'] changed from a Tensor to another object, also a Tensor"),
    ("Identity", len, len, max, None),
    ("Length", 2, [1, 2], [1], "len(L['x']) changed from 2 to 1"),
    ("Length", 2, (1, 2), "ab", "L['x'] changed to 'ab', which has no length"),
    ("Length", 1, {1: 2}, {}, None),
    ("Length", 1, {1}, set(), None),
    ("Length", 1, collections.deque([1]), collections.deque(), None),
    ("Keys", ("a", 1), {"a": 0, 1: 0}, {1: 0, "a": 0}, "list(L['x']) changed from ('a', 1) to (1, 'a')"),
    ("Keys", (1,), {1: 0}, {True: 0}, None),
    ("Keys", ("a",), {"a": 0}, {"a": 0, "b": 1}, None),
    ("Keys", ("a",), {"a": 0}, {}, None),
    ("Keys", (T,), {T: 0}, {T.clone(): 0}, None),
    ("SetIs", frozenset({1, "a"}), {"a", 1}, {"a", True}, None),
    ("SetIs", frozenset({1}), frozenset({1}), {1, 2}, "L['x'] changed from {1} to {1, 2}"),
    ("SetIs", frozenset(range(50)), set(reversed(range(50))), set(range(1, 51)), None),
    ("Places", in_order(8, 0), in_order(8, 0), in_order(0, 8), None),
    ("Places", {1}, frozenset({1}), {1, 2}, "the order of L['x'] changed from {1} to {1, 2}"),
    ("Hashes", (1, hash("a")), {1: 0, "a": 1}, {"a": 1, 1: 0}, "the hashes of L['x'] changed"),
    ("Position", 1, at(1), at(2), "L['x'] does not stand at 1 any more"),
    ("Position", 0, at(0), [], None),
    ("MaxLength", 2, collections.deque([1], 2), collections.deque([1], 1), "L['x'].maxlen changed from 2 to 1"),
    ("MaxLength", -1, collections.deque([1]), collections.deque([1], 3), "L['x'].maxlen changed from None to 3"),
    ("MaxLength", 3, collections.deque([1], 3), [1], None),
    ("Marks", None, T, marked(), "L['x'] was marked (torch._dynamo.mark_dynamic or its like)"),
    ("Marks", None, attributed(), marked(0), None),
    ("Marks", MARKED, T, marked(1), None),
    ("Marks", MARKED, marked(0), marked(0, 1), None),
    ("HidesNothing", None, T, attributed("sin"), "L['x'] has an attribute that hides one of its class"),
    ("HidesNothing", None, attributed(), attributed("label", "split"), None),
    ("HidesNothing", None, attributed("grad_fn", "shape"), attributed("__add__"), None),
    ("Tensor", T, torch.zeros(2, 3), torch.ones(3, 2), "L['x']: shape changed from [2, 3] to [3, 2]"),
    ("Present", None, None, NotImplemented, "L['x'] is gone"),
    ("Absent", None, NotImplemented, 5, "L['x'] exists now: 5"),
]


@pytest.mark.parametrize(
    ("kind", "operand", "good", "bad", "words"), CHECKS, ids=[f"{row[0]}-{i}" for i, row in enumerate(CHECKS)]
)
def test_check(kind: str, operand: object, good: object, bad: object, words: str | None) -> None:
    plan = guard(X, kind, operand)
    assert holds(plan, good)
    assert not holds(plan, bad)
    assert holds(plan, good)
    if words:
        assert plan.explain([bad, None]) == words


def test_ordered_dict_keys_are_in_its_own_order() -> None:
    d = collections.OrderedDict(a=1, b=2)
    plan = guard(X, "Keys", ("a", "b"), reads=[(*X, ("Value", "a"))])
    assert holds(plan, d)
    d.move_to_end("a")
    assert not holds(plan, d)
    d.move_to_end("b")
    assert holds(plan, d)


def test_code() -> None:
    def f() -> int:
        return 1

    def g() -> int:
        return 2

    plan = guard(X, "Code", f.__code__)
    assert holds(plan, f)
    assert not holds(plan, g)
    assert not holds(plan, 3)
    assert plan.explain([g, None]) == "L['x'].__code__ changed"


def test_name_that_is_assigned() -> None:
    def f() -> None: ...

    cls = type("Named", (), {})
    for named, path in ((f, ("Name", 1)), (cls, ("Name", 0))):
        plan = guard((*X, path), "Constant", getattr(named, "__qualname__" if path[1] else "__name__"))
        assert holds(plan, named)
        named.__qualname__ = named.__name__ = "other"  # type: ignore[attr-defined]
        assert not holds(plan, named)


def test_subclass_is_asked_again_after_a_registration() -> None:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class One:
        pass

    plan = guard(X, "Subclass", One)
    assert holds(plan, Abstract)
    Abstract.register(type("Other", (), {}))
    assert holds(plan, Abstract)
    Abstract.register(One)
    assert not holds(plan, Abstract)
    assert "changed from False to True" in plan.explain([Abstract, None])


def test_subclasses() -> None:
    class Base:
        pass

    class One(Base):
        pass

    plan = guard(X, "Subclasses", (One,))
    for _ in range(3):  # bind, compare words, and again
        assert holds(plan, Base)
    two = type("Two", (Base,), {})
    assert not holds(plan, Base)
    assert "the classes below L['x'] changed" in plan.explain([Base, None])
    assert holds(guard(X, "Subclasses", (One, two)), Base)


def test_bound_from_a_method() -> None:
    plan = guard(X, "MethodDef", list.append)
    some: list[int] = []
    for _ in range(3):
        assert holds(plan, some.append)
    assert not holds(plan, some.extend)
    assert not holds(plan, test_relations)


def test_a_warning_that_would_be_raised() -> None:
    plan = guard(X, "Warning", ("text", UserWarning, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert holds(plan, globals())
        warnings.filterwarnings("error", "te.t", lineno=7)
        assert not holds(plan, globals())
        warnings.filterwarnings("ignore", module=__name__)
        assert holds(plan, globals())
        assert not holds(plan, {"__name__": "another"})


def test_attributes_of_a_thread() -> None:
    local = threading.local()
    local.number = 3
    plan = guard((*X, ("ThreadDict",), ("Value", "number")), "Constant", 3)
    for _ in range(3):
        assert holds(plan, local)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(holds(plan, local)))
    thread.start()
    thread.join()
    assert found == [False]


def test_relations() -> None:
    a, b = [1], [1]
    same, other = guard(X, "SameAs", Y), guard(X, "NotSameAs", Y)
    assert holds(same, a, a)
    assert not holds(same, a, b)
    assert holds(other, a, b)
    assert not holds(other, a, a)
    assert same.explain([a, b]) == "L['x'] and L['y'] are not one object any more"
    assert other.explain([a, a]) == "L['x'] and L['y'] are one object now"


def test_overlap() -> None:
    plan = guard(X, "NoOverlap", Y)
    base = torch.zeros(10)
    assert holds(plan, base[:5], base[5:])
    assert not holds(plan, base[:6], base[5:])
    assert plan.explain([base, base]) == "L['x'] and L['y'] share memory now"
    assert holds(plan, base[0:0], base)


def test_other_storage() -> None:
    plan = guard(X, "OtherStorage", Y)
    base = torch.zeros(10)
    assert holds(plan, base, torch.zeros(10))
    assert not holds(plan, base[:5], base[5:])
    assert plan.explain([base, base]) == "L['x'] and L['y'] lie in one storage now"


def test_told_apart() -> None:
    """No two of the first sort are one object, and no dict of theirs is another; the second sort may be one object."""
    z, w = (("Local", "z"),), (("Local", "w"),)
    plan = TestGuards(
        ["x", "y", "z", "w"], [(X, "Distinct", None), (Y, "Distinct", None), *((p, "Other", None) for p in (z, w))]
    )

    def check(*objects: object) -> bool:
        return plan.check([*objects]) is not None

    class Box:
        pass

    a, b, c, d = Box(), Box(), Box(), Box()
    for _ in range(2):
        assert check(a, b, c, d)
        assert check(a, b, c, c)
        assert not check(a, a, c, d)
        assert not check(a, b, b, d)
        assert not check(a, b, c, vars(a))
        assert not check(a, vars(c), c, d)
        assert check(c, d, a, vars(a))
    assert plan.explain([a, b, c, b]) == "L['y'] and L['w'] are one object now"


def test_apart() -> None:
    plan = TestGuards(["x", "y", "z"], [(X, "Apart", Y), (Y, "Apart", (("Local", "z"),))])
    base = torch.zeros(12)

    def check(*slices: slice) -> bool:
        return plan.check([base[s] for s in slices]) is not None

    for _ in range(2):
        assert check(slice(0, 4), slice(4, 8), slice(8, 12))
        assert check(slice(8, 12), slice(0, 4), slice(4, 8))
        assert not check(slice(0, 4), slice(4, 8), slice(7, 12))
        assert not check(slice(0, 5), slice(8, 12), slice(4, 8))
        assert check(slice(0, 0), slice(0, 12), slice(3, 3))
    assert plan.explain([base[:4], base[4:8], base[3:4]]) == "L['x'] and L['z'] share memory now"
    assert plan.check([base[:4], base[4:8], 3]) is None


class Plain:
    k = 1

    def __init__(self) -> None:
        self.a = 1.5


class Slotted:
    __slots__ = ("a", "b")


class Both(Slotted):
    pass


def filled(cls: type, **fields: object) -> Any:
    made = cls()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def with_dict(value: Any) -> Any:
    vars(value)
    return value


def closure(value: object) -> Any:
    def f(y: int = 5, *, z: int = 6) -> object:
        return value

    return f


class Namespace(dict):  # type: ignore[type-arg]
    pass


def proxy(**items: int) -> Any:
    return types.MappingProxyType(items)


METHOD = Plain().__init__

HELD = [1, 2]
VARIABLE: contextvars.ContextVar[object] = contextvars.ContextVar("variable")
TOKEN = VARIABLE.set(5)

# the path below x, an object to read it from, what is found, an object where it is absent (or None)
SOURCES = [
    ([("Attr", "a")], Plain(), 1.5, filled(Slotted)),
    ([("Attr", "a")], with_dict(Plain()), 1.5, Plain.__new__(Plain)),
    ([("Attr", "a")], closure(1), None, closure(1)),
    ([("Attr", "path")], types, None, types),
    ([("Attr", "ModuleType")], types, types.ModuleType, torch),
    ([("Attr", "k")], Plain, 1, Slotted),
    ([("Slot", "a")], filled(Slotted, a=2), 2, Slotted()),
    ([("Slot", "b")], filled(Both, b=2, c=3), 2, Both()),
    ([("Attr", "c")], filled(Both, b=2, c=3), 3, Both()),
    ([("TypeAttr", "k")], type("Sub", (Plain,), {}), 1, Slotted),
    ([("Item", 1)], [1, 2], 2, [1]),
    ([("Item", 0)], (7,), 7, ()),
    ([("Item", 1)], torch.Size([3, 4]), 4, torch.Size([3])),
    ([("DequeItem", 70)], collections.deque(range(100)), 70, collections.deque()),
    ([("Value", "a")], {"a": 1}, 1, {}),
    ([("Value", (1, "a"))], {(1, "a"): 1}, 1, {(True, "b"): 1}),
    ([("Value", "a")], Namespace(a=1), 1, Namespace()),
    ([("KeyAt", 1)], {"a": 1, "b": 2}, "b", {"a": 1}),
    ([("ValueAt", 1)], {"a": 1, "b": 2}, 2, {"a": 1}),
    ([("ValueAt", 1)], collections.OrderedDict(a=1, b=2), 2, collections.OrderedDict(a=1)),
    ([("Closure", 0), ("Contents",)], closure(9), 9, None),
    ([("Globals",), ("Value", "METHOD")], closure(9), METHOD, None),
    ([("Builtins",), ("Value", "len")], closure(9), len, None),
    ([("Defaults",), ("Item", 0)], closure(9), 5, None),
    ([("Defaults",)], closure(9), (5,), filled),
    ([("KwDefaults",), ("Value", "z")], closure(9), 6, None),
    ([("KwDefaults",)], closure(9), closure.__kwdefaults__, filled),
    ([("MethodSelf",)], METHOD, METHOD.__self__, None),
    ([("MethodFunc",)], METHOD, Plain.__init__, None),
    ([("MethodSelf",)], [1].append, None, None),
    ([("PartialFunc",)], functools.partial(max, 1, key=2), max, None),
    ([("PartialArgs",), ("Item", 0)], functools.partial(max, 1, key=2), 1, None),
    ([("PartialKw",), ("Value", "key")], functools.partial(max, 1, key=2), 2, None),
    ([("InstanceDict",), ("Value", "a")], Plain(), 1.5, None),
    ([("InstanceDict",), ("Value", "c")], filled(Both, c=3), 3, None),
    ([("Grad",)], torch.ones(2), None, None),
    ([("DefaultFactory",)], collections.defaultdict(int), int, None),
    ([("ProxyMapping",), ("Value", "a")], proxy(a=1), 1, None),
    ([("IteratorOf",)], iter(HELD), HELD, at(4)),
    ([("IteratorOf",)], iter(TABLE.values()), TABLE, None),
    ([("IteratorOf",)], reversed(HELD), HELD, None),
    ([("IteratorOf",), ("IteratorOf",)], enumerate(HELD), HELD, None),
    ([("IteratorOf",), ("Item", 1), ("IteratorOf",)], zip([1], HELD, strict=False), HELD, None),
    ([("Ahead", 1)], at(1), 3, at(2)),
    ([("Ahead", 0)], reversed([5, 6]), 6, at(4)),
    ([("Ahead", 1)], iter((5, 6)), 6, iter((5,))),
    ([("Ahead", 2)], iter(range(1000, 9000, 1000)), 3000, iter(range(1000, 3000, 1000))),
    ([("Ahead", 1)], iter(TABLE), "b", iter({"a": 1})),
    ([("Ahead", 1)], iter(TABLE.values()), 2, iter({"a": 1}.values())),
    ([("Ahead", 1)], iter(TABLE.items()), "b", iter({"a": 1}.items())),
    ([("ValueAhead", 1)], iter(TABLE.items()), 2, iter({"a": 1}.items())),
    ([("Ahead", 1)], enumerate([], 1000), 1001, None),
    ([("TokenPart", 0)], TOKEN, VARIABLE, None),
    ([("TokenPart", 1)], VARIABLE.set(TOKEN), 5, TOKEN),
    ([("WeakTarget",)], weakref.ref(Plain), Plain, None),
    ([("Name", 0)], Plain, "Plain", None),
    ([("Name", 1)], closure, "closure", None),
    ([("Name", 2)], closure, __name__, None),
    ([("Name", 3)], closure, closure.__doc__, None),
]


@pytest.mark.parametrize(("path", "base", "value", "without"), SOURCES, ids=lambda v: steady(v)[:30])
def test_source(path: Any, base: object, value: object, without: object) -> None:
    full = (*X, *path)
    if value is not None and path[-1][0] != "KwDefaults":
        plan = guard(full, "Present", None, reads=[full])
        for _ in range(3):  # bind, compare words, and again
            (read,) = plan.check([base, None])
            assert read is value or read == value
        plan.unbind()
        assert plan.check([base, None])[0] == value
        assert not holds(plan, object())
    if without is not None:
        plan = guard(full, "Absent")
        for _ in range(3):
            assert holds(plan, without)
        if value is not None:
            assert not holds(plan, base)


def test_roots() -> None:
    def f() -> None: ...

    error = ValueError()
    facts = [
        ((("Function",),), "Identity", f),
        ((("Stack", 1),), "Constant", 7),
        ((("Exception",),), "Identity", error),
        ((("Module", "collections"), ("Attr", "deque")), "Identity", collections.deque),
        ((("Pinned", Plain), ("TypeAttr", "k")), "Constant", 1),
    ]
    plan = TestGuards([], facts, [(("Stack", 0),)])
    assert plan.check([], f, [5, 7], error) == [5]
    assert plan.check([], f, [5, 8], error) is None
    assert plan.check([], f, [5, 7], ValueError()) is None
    assert plan.check([], test_roots, [5, 7], error) is None
    assert "Stack" not in plan.explain([], f, [5, 8], error)
    assert plan.explain([], f, [5, 8], error) == "L['___stack1'] changed from 7 to 8"


def test_a_key_that_needs_python_is_refused() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard ran Python")

        def __hash__(self) -> int:
            return hash("a")

    with pytest.raises(Exception, match="comparison runs Python"):
        guard((*X, ("Value", Odd())), "Present")
    plan = guard((*X, ("Value", "a")), "Present")
    assert not holds(plan, {Odd(): 1, 2: 3})
    assert holds(plan, {"a": 1, 2: 3})
    assert holds(guard((*X, ("Value", "b")), "Absent"), {Odd(): 1})


def test_no_python_runs() -> None:
    class Loud:
        """Every special method that a careless look would call raises."""

        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError("__eq__")

        def __bool__(self) -> bool:
            raise AssertionError("__bool__")

        def __len__(self) -> int:
            raise AssertionError("__len__")

        __hash__ = None  # type: ignore[assignment]

    loud = Loud()
    object.__setattr__(loud, "a", 1)
    for kind, operand in (("Type", Loud), ("Identity", loud), ("Present", None)):
        assert holds(guard(X, kind, operand), loud)
    assert holds(guard((*X, ("Attr", "a")), "Constant", 1), loud)
    for kind, operand in (("Constant", 1), ("Length", 1), ("Keys", ()), ("SetIs", frozenset()), ("Tensor", T)):
        assert not holds(guard(X, kind, operand), loud)


def test_names_are_those_of_dynamo() -> None:
    def f() -> None: ...

    function = (("Function",),)
    paths = {
        "L['x']": X,
        "L['___stack0']": (("Stack", 0),),
        "L['x'].scale": (*X, ("Attr", "scale")),
        "L['x']._modules['layer']._parameters['weight']": (
            *X,
            ("Attr", "_modules"),
            ("Value", "layer"),
            ("Attr", "_parameters"),
            ("Value", "weight"),
        ),
        "L['x'][0]['k']": (*X, ("Item", 0), ("Value", "k")),
        "L['x'][('a', 1)]": (*X, ("Value", ("a", 1))),
        "L['x'][list(dict.keys(L['x']))[1]]": (*X, ("ValueAt", 1)),
        "L['x'].grad": (*X, ("Grad",)),
        "L['x'].args[0]": (*X, ("PartialArgs",), ("Item", 0)),
        "L['x'].keywords['c']": (*X, ("PartialKw",), ("Value", "c")),
        "L['x']['a']": (*X, ("ProxyMapping",), ("Value", "a")),
        "L['x'].__self__.t": (*X, ("MethodSelf",), ("Attr", "t")),
        "L['x'].__func__.__defaults__[0]": (*X, ("MethodFunc",), ("Defaults",), ("Item", 0)),
        "L['x'].__closure__[0].cell_contents": (*X, ("Closure", 0), ("Contents",)),
        "L['y']": (*Y, ("Contents",)),
        "L['w']": (*function, ("Closure", 0, "w"), ("Contents",)),
        "G['helper']": (*function, ("Globals",), ("Value", "helper")),
        "G['kwd'].__kwdefaults__['z']": (*function, ("Globals",), ("Value", "kwd"), ("KwDefaults",), ("Value", "z")),
        "G['__import_torch_dot_nn'].functional": (("Pinned", torch.nn), ("Attr", "functional")),
        f"G['__import_{__name__.replace('.', '_dot_')}'].T": (("Pinned", test_roots), ("Globals",), ("Value", "T")),
        "Plain.k": (("Pinned", Plain), ("TypeAttr", "k")),
    }
    plan = TestGuards(["x", "y"], [(path, "Present", None) for path in paths.values()])
    assert [line.removesuffix(" exists") for line in plan.print()] == list(paths)


@pytest.mark.parametrize(
    ("a", "b"), [(1, True), (0.0, -0.0), (1, 1.0), ("1", b"1"), ((), []), (slice(1), slice(1.0))], ids=repr
)
def test_constants_that_differ(a: object, b: object) -> None:
    assert not testing.same_constant(a, b)
    assert testing.same_constant(a, a)
