"""What CPython says of wrong operations: the same class, text and notes in captured code, on each version."""

import collections
import math
import textwrap
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


class Slotted:
    __slots__ = ("a", "b")


class Plain: ...


class Computed:
    value = property(lambda self: 1)


def make_computed() -> Any:
    class Inner:
        value = property(lambda self: 1)

    return Inner()


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


class FailsToHash:
    def __hash__(self) -> int:
        raise TypeError("no hash today")


STATEMENTS = r"""
[1].index(5) | [1].remove(5) | (1,).index(5) | deque([1]).index(5) | deque([1]).remove(5) | [1].pop(3) | [].pop()
super(int, "a") | super(Slotted, 3) | super(Slotted, Plain) | super(Slotted, slotted)
dict([1]) | dict([(1, 2, 3)]) | dict(["abc"]) | {}.update([1]) | {}.update(5) | OrderedDict([1]) | dict(**{1: 2})
slotted.c | slotted.a | slotted.c = 1 | del slotted.a | del slotted.c | object().x = 1 | number.x = 1 | del number.x
plain.y | del plain.y | Plain.y | del Plain.y | computed.value = 3 | del computed.value | t.nothing
make_computed().value = 3 | del make_computed().value | del t.nothing
Slotted.a.__get__(slotted) | (lambda: 1).nothing | len.nothing | len.nothing = 1 | "s".x = 1 | [].x = 1 | {}.x = 1
max(()) | max([]) | max(iter([])) | min({}) | min((), key=abs) | max(1) | sum(["a"]) | sum([[]]) | min(1, "a")
a, b = 1 | a, b = [1] | a, b = [1, 2, 3] | a, b = (1, 2, 3) | a, b = {1, 2, 3} | a, *b = [] | a, b = iter([1, 2, 3])
a, b = {"k": 1} | a, b = "abc" | a, b = t | (a, b), c = [1, 2], 3, 4 | a, b = range(5) | a, b, c = t.shape
1 in number | 1 in plain | "a" in None | 5 in "a" | [] in {} | [] in {1} | 1 not in number
1 // 0 | 1 / 0 | 1 % 0 | 1.0 / 0 | 1.0 // 0 | 1.0 % 0 | divmod(1, 0) | divmod(1.0, 0) | 0 ** -1 | 0.0 ** -1
pow(2, -1, 4)
number // 0 | number / 0 | number % 0 | half / 0 | half // 0 | half % 0 | divmod(number, 0) | (number - number) ** -1
{}[[]] | {}[slotted_key] | {[]: 1} | {[]} | {Unhashable()} | {Unhashable(): 1} | {([],)} | {}[(1, [])] | hash([])
{}.get([]) | {}.pop([]) | {}.setdefault([]) | set([[]]) | frozenset([{}]) | {1}.add([]) | {1}.discard([]) | {1} - {1}
dict([([], 1)]) | dict.fromkeys([[]]) | {i: 1 for i in [[]]} | {i for i in [[]]} | {1}.intersection([[]])
{1}.symmetric_difference([[]])
{1}.union([[]]) | {1}.issuperset([[]]) | OrderedDict()[[]] | OrderedDict().get([]) | defaultdict(int)[[]] | del {}[[]]
{FailsToHash()} | {FailsToHash(): 1} | {}.get(FailsToHash()) | {(1, FailsToHash())} | hash(FailsToHash())
{set()} | {1: 2}.keys() & [[]] | {}[slice(1)] | {slice(1, 2): 1}[slice(1)] | {bytearray()} | {}[t.shape, []]
with number: pass | with plain as c: pass | with [1] as c: pass | number() | plain() | [1][5] | (1,)[5] | "a"[3]
{}[3]
[1]["a"] | (1,)["a"] | "a"["b"] | range(3)[5] | deque([1])[4] | deque().pop() | {1}.remove(2) | {}.popitem()
set().pop()
"a" + 1 | 1 + "a" | [1] + (1,) | "a" * 2.0 | [0] * "a" | -"a" | ~1.0 | 1 @ 2 | 1 < "a" | plain < plain | [1, 2] < 3
len(5) | len(plain) | iter(5) | next([]) | next(iter([])) | reversed(5) | list(5) | tuple(5) | sorted([1, "a"])
abs("a")
int("x") | int([]) | float([]) | float("x") | complex("x") | chr(-1) | ord("ab") | round("a") | bool(plain, 1)
int("a", 5)
range("a") | range(1, 2, 0) | [1, 2][1:2:0] | isinstance(1, 5) | issubclass(1, int) | issubclass(int, 5)
"".join([1])
f"{plain:x}" | format(plain, "x") | "%d" % "a" | "%d %d" % 1 | "{}".format() | "{a}".format() | "a".replace()
"a".split("")
(lambda a: 1)() | (lambda: 1)(1) | (lambda a: 1)(a=1, b=2) | (lambda *, a: 1)() | (lambda a, /: 1)(a=1) | print(*5)
(lambda **k: 1)(**{1: 2}) | (lambda **k: 1)(**5) | (lambda a: 1)(1, a=2) | Plain(1) | object(1) | undefined
del undefined
raise 5 | raise ValueError from 5 | assert 0 | assert 0, "x" | zip([1], [], strict=True).__next__()
list(zip([1], [], strict=True))
map() | map(1) | filter(1) | sum() | iter(1, 2) | getattr(1, 2) | setattr(1, 2, 3) | getattr(plain, "y") | vars(5)
[*5] | {**5}
NotImplemented or 1 | not NotImplemented | 1 if NotImplemented else 0 | bool(NotImplemented)
from math import nope | import math.nope | import nope_nope | math.nope | [].sort(key=1) | [2, 1].sort(key=5)
type(1, 2)
for i in 5: pass | for i in plain: pass | for i, j in [(1, 2, 3)]: pass | [i for i, j in [(1,)]] | {**{}, **5}
int(half * 1e400)
def f(*, k): pass; f(1) | def f(a, b): pass; f(1) | def f(a, b=1): pass; f(1, 2, 3) | def f(a, *, k): pass; f()
match plain:\n case int(): pass\nraise KeyError(number) | try: 1 // 0\nfinally: [].pop()
raise ValueError("a") from KeyError("b")
"""
PLAIN = Plain()
CASES = [case.strip() for line in STATEMENTS.strip().splitlines() for case in line.split(" | ")]


CAUGHT = """
def f(t, number, half, plain, slotted, computed):
    t = t + 1
    try:
{body}
    except Exception as error:
        caught = error
        return t * 2, caught
    return t, None
"""


def program(statement: str) -> Callable[..., Any]:
    names = dict(globals(), deque=collections.deque, OrderedDict=collections.OrderedDict, math=math)
    names |= {"defaultdict": collections.defaultdict, "slotted_key": Unhashable()}
    body = textwrap.indent(statement.replace("\\n", "\n").replace("pass; ", "pass\n"), " " * 8)
    exec(compile(CAUGHT.format(body=body), "<wrong>", "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def told(f: Callable[..., Any]) -> Any:
    result, error = f(torch.ones(2), 5, 0.5, PLAIN, Slotted(), Computed())
    behind = error and (error.__cause__ or error.__context__)
    args = None if isinstance(error, KeyError) else error and error.args
    return result.tolist(), type(error), str(error), args, getattr(error, "__notes__", None), type(behind), str(behind)


@pytest.mark.parametrize("statement", CASES)
def test_the_program_hears_the_same(statement: str) -> None:
    f = program(statement)
    expected = told(f)
    compiled = gramme.compile(f, backend="eager")
    assert told(compiled) == expected
    assert told(compiled) == expected
