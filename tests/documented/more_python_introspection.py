"""From library/types, inspect, typing, pickle: what makes and examines functions, classes and objects."""

import inspect
import pickle
import types
import typing

from documented import Between, documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Observed:
    def __init__(self, n):
        self.n = n

    def method(self, t):
        return t * self.n

    def __eq__(self, other):
        return isinstance(other, Observed) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


class Node:
    def __init__(self, data, link=None):
        self.data, self.link = data, link


def scaled(t, by=2):
    return t * by


@documented(
    "library/types: functions made of code, globals, defaults and closure; CodeType.replace; MethodType; new_class; proxies; cells",
    lambda: [(x(), 3), (x(), x(1)), (x(), 1.5), (x(), "ab"), (x(), 0)],
)
def made_by_types(t, n):
    cell = types.CellType(n)

    def reads():
        return cell_content

    cell_content = 0
    code = scaled.__code__.replace(co_name="renamed", co_consts=scaled.__code__.co_consts)
    made = types.FunctionType(code, {"n": n}, "made", (n,))
    closed = types.FunctionType(reads.__code__, {}, None, None, (cell,))
    method = types.MethodType(made, t)
    before = closed()
    cell.cell_contents = 100
    built = types.new_class("Made", (Node,), {}, lambda ns: ns.update(size=n))
    out = attempt(
        lambda: made(t),
        lambda: method(),
        lambda: method.__func__ is made and method.__self__ is t,
        lambda: (made.__name__, made.__code__.co_name, method.__name__),
        lambda: closed() + 1,
        lambda: types.CellType().cell_contents,
        lambda: built(1).size,
        lambda: types.MappingProxyType({"a": t})["a"] is t,
        lambda: types.SimpleNamespace(a=n) == types.SimpleNamespace(a=n),
        lambda: types.FunctionType(reads.__code__, {}),
        lambda: types.MethodType(made, None),
        lambda: (list[int] | None).__args__,
        lambda: types.GenericAlias(list, (int,)) == list[int],
        lambda: isinstance([], list[int]),
        lambda: types.resolve_bases((Node,)),
        lambda: setattr(made, "__defaults__", 5),
        lambda: setattr(made, "__code__", reads.__code__),
    )
    return t + 1, before, out


def signed(a, b: int = 1, /, c=2, *args, d, e: "str" = "e", **kwargs) -> float:
    """The doc."""
    return inspect.currentframe().f_lineno - inspect.currentframe().f_code.co_firstlineno


@documented(
    "library/inspect: bind tells what is missing or too much; defaults applied; frames of callers; static look-up; closures",
    lambda: [
        (x(), (1,), {"d": 1}),
        (x(), (), {}),
        (x(), (1, 2, 3, 4), {"d": 0, "z": x()}),
        (x(), (1,), {"a": 2, "d": 3}),
        (x(), (1, 2), {"b": 3}),
        (x(), (1, 2, 3), {"c": 3, "d": 3}),
    ],
)
def inspected(t, args, kwargs):
    signature = inspect.signature(signed)
    frame = inspect.currentframe()
    local = sorted(frame.f_locals)

    def inner():
        return sorted(inspect.currentframe().f_back.f_locals)[:2], t.shape, inspect.stack()[0].function

    out = attempt(
        lambda: signature.bind(*args, **kwargs).arguments,
        lambda: signature.bind_partial(*args).args,
        lambda: signed(*args, **kwargs),
        inner,
        lambda: str(signature.replace(return_annotation=int)),
        lambda: [str(p.kind) for p in signature.parameters.values()],
        lambda: inspect.getdoc(signed),
        lambda: inspect.getclosurevars(inner).nonlocals["t"] is t,
        lambda: inspect.getattr_static(Observed(1), "n"),
        lambda: inspect.getfullargspec(signed).kwonlydefaults,
        lambda: (inspect.isfunction(signed), inspect.ismethod(Observed(1).method), inspect.isbuiltin(len)),
        lambda: inspect.getcallargs(signed, *args, **kwargs)["c"],
        lambda: inspect.signature(print).parameters["sep"].default,
        lambda: inspect.signature(type),
        lambda: typing.get_type_hints(signed),
    )
    return t * len(local), frame.f_code.co_name, local, out


@typing.runtime_checkable
class Sizes(typing.Protocol):
    size: int

    def numel(self): ...


UserId = typing.NewType("UserId", int)


class HasSize:
    def numel(self):
        return 1


@documented(
    "library/typing: runtime protocols look for attributes as they are now; NewType, cast and assert_type return their argument; get_args",
    lambda: [
        (x(), HasSize()),
        Between(lambda: setattr(HasSize, "size", 3)),
        (x(), HasSize()),
        (x(), x(2)),
        Between(lambda: delattr(HasSize, "size")),
        (x(), HasSize()),
        (x(), 5),
    ],
    setup=lambda: "size" in vars(HasSize) and delattr(HasSize, "size") or None,
)
def typing_small_print(t, o):
    out = attempt(
        lambda: isinstance(o, Sizes),
        lambda: issubclass(type(o), Sizes),
        lambda: UserId(o) is o,
        lambda: (typing.cast("nothing", o), typing.assert_type(o, str)) == (o, o),  # noqa: F821
        lambda: typing.get_args(typing.Literal[1, "a", 1]),
        lambda: typing.get_origin(dict[str, int]),
        lambda: typing.assert_never(1),
        lambda: typing.Optional[int] == int | None,
        lambda: isinstance(o, typing.Union[int, str]),
        lambda: isinstance(o, typing.List[int]),
        lambda: typing.Annotated[int, "m"].__metadata__,
        lambda: Sizes(),
    )
    return t * (2 if isinstance(o, Sizes) else 3), out


class Stateful:
    def __init__(self, data):
        self.data, self.made = data, True

    def __getstate__(self):
        log.append("getstate")
        return {"data": self.data}

    def __setstate__(self, state):
        log.append("setstate")
        vars(self).update(state)


@documented(
    "library/pickle: __getstate__ and __setstate__ choose what is kept, shared objects stay shared; local functions cannot be pickled",
    lambda: [
        (x(), Stateful(3)),
        (x(), [x(), Stateful([1])]),
        (x(), lambda: 1),
        (x(), {"a": (1, b"b", {2}), "k": typed_list()}),
        (x(), Stateful(x(2).requires_grad_())),
    ],
    **cleared,
)
def pickled(t, o):
    out = attempt(
        lambda: pickle.loads(pickle.dumps([o, o])),
        lambda: pickle.loads(pickle.dumps(o, protocol=2)) is o,
        lambda: pickle.loads(b"garbage"),
        lambda: pickle.loads(pickle.dumps(t)) is t,
    )
    same = out[0][0] is out[0][1] if isinstance(out[0], list) else None
    return t * 2, [str(v).split(" at ")[0] if isinstance(v, str) else v for v in out], same


class Typed(list):
    pass


def typed_list():
    made = Typed([1])
    made.extra = "kept"
    return made
