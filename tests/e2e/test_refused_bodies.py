"""Functions that operators may not run as a graph: refused with the program's line, or as Python has it."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.wrap import wrap
from torch.utils.checkpoint import checkpoint

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's errors")

log: list[int] = []


class Obj:
    def __init__(self) -> None:
        self.v = 1


obj = Obj()


def both(a: Any, b: Any = None) -> Callable[[torch.Tensor], Any]:
    return lambda x: torch.cond(x.sum() > 0, a, b or (lambda v: v * 3), (x,))


def wl(c: Any, b: Any, s: Any) -> Callable[[torch.Tensor], Any]:
    return lambda x: while_loop(c, b, s(x))


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "cond: list effect": both(lambda v: (log.append(1), v + 1)[1]),
    "cond: attribute set": both(lambda v: (setattr(obj, "v", 2), v + 1)[1]),
    "cond: attribute set and put back": both(lambda v: (setattr(obj, "v", 2), setattr(obj, "v", 1), v + 1)[2]),
    "cond: new list inside": both(lambda v: [v + 1].pop()),
    "cond: print": both(lambda v: (print("p"), v + 1)[1]),
    "cond: graph break": both(lambda v: (torch._dynamo.graph_break(), v + 1)[1]),
    "cond: item": both(lambda v: v + v.sum().item()),
    "cond: in-place, grad mode on": both(lambda v: v.add_(1) * 1),
    "cond: returns input": both(lambda v: v),
    "cond: returns view": both(lambda v: v.view(3, 1)[:, 0]),
    "cond: same output twice": both(lambda v: (lambda t: (t, t))(v + 1), lambda v: (v * 2, v * 3)),
    "cond: other tree": both(lambda v: (v + 1,), lambda v: [v + 1]),
    "cond: other dtype": both(lambda v: v.double()),
    "cond: other shape": both(lambda v: v[:2] + 0),
    "cond: other number of dims": both(lambda v: v.sum()),
    "cond: float out": both(lambda v: (v + 1, 1.5), lambda v: (v + 1, 2.5)),
    "cond: bool out": both(lambda v: (v + 1, True), lambda v: (v + 1, False)),
    "cond: None out": both(lambda v: (v + 1, None), lambda v: (v + 2, None)),
    "cond: str out": both(lambda v: (v + 1, "a"), lambda v: (v + 2, "a")),
    "cond: object out": both(lambda v: (v + 1, obj), lambda v: (v + 2, obj)),
    "cond: str operand": lambda x: torch.cond(x.sum() > 0, lambda v, s: v + 1, lambda v, s: v, (x, "s")),
    "cond: int operand": lambda x: torch.cond(x.sum() > 0, lambda v, s: v + s, lambda v, s: v - s, (x, 3)),
    "cond: dict operand": lambda x: torch.cond(x.sum() > 0, lambda d: d["a"] + 1, lambda d: d["a"] - 1, ({"a": x},)),
    "cond: pred of 3 elements": lambda x: torch.cond(x > 0, lambda v: v + 1, lambda v: v - 1, (x,)),
    "cond: random": both(lambda v: torch.rand_like(v)),
    "cond: branch raises": both(lambda v: 1 / 0),
    "cond: keyword args": lambda x: torch.cond(
        pred=x.sum() > 0, true_fn=lambda v: v + 1, false_fn=lambda v: v - 1, operands=(x,)
    ),
    "while: shape changes": wl(
        lambda i, v: i < 3, lambda i, v: (i + 1, torch.cat([v, v])), lambda x: (torch.tensor(0), x)
    ),
    "while: dtype changes": wl(lambda i, v: i < 3, lambda i, v: (i + 1, v.double()), lambda x: (torch.tensor(0), x)),
    "while: constant True": wl(lambda i, v: True, lambda i, v: (i + 1, v * 2), lambda x: (torch.tensor(0), x)),
    "while: returns input": wl(lambda i, v: i < 3, lambda i, v: (i + 1, v), lambda x: (torch.tensor(0), x)),
    "while: float carry": wl(lambda i, v: i < 3, lambda i, v: (i + 1.0, v * 2), lambda x: (0.0, x)),
    "while: captures changed int": wl(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), lambda x: (0, x)),
    "map: alias": lambda x: hop_map(lambda v: v, x),
    "map: effect": lambda x: hop_map(lambda v: (log.append(1), v + 1)[1], x),
    "map: int out": lambda x: hop_map(lambda v: (v + 1, 3), x),
    "scan: carry changes": lambda x: scan(lambda c, v: (c.double(), v + 1), torch.zeros(()), x),
    "scan: alias": lambda x: scan(lambda c, v: (c, v + 1), torch.zeros(()), x),
    "wrap: effect": lambda x: wrap(lambda v: (log.append(1), v + 1)[1], x),
    "wrap: object out": lambda x: wrap(lambda v: (v + 1, obj, "s"), x)[0],
    "wrap: in-place": lambda x: (lambda y: (wrap(lambda v: v.add_(1), y), y))(x * 1),
    "strict: effect": lambda x: strict_mode(lambda v: (log.append(1), v + 1)[1], (x,)),
    "checkpoint: local effect": lambda x: (
        lambda l: (checkpoint(lambda v: (l.append(v * 2), v + 1)[1], x, use_reentrant=False), l[0])
    )([]),
}

# What Python does is known, though PyTorch's front end refuses most of them.
RIGHT: dict[str, Any] = {
    "cond: attribute set and put back": [2.0, 3.0, 4.0],
    "cond: new list inside": [2.0, 3.0, 4.0],
    "cond: None out": ([2.0, 3.0, 4.0], None),
    "cond: str out": ([2.0, 3.0, 4.0], "a"),
    "cond: object out": ([2.0, 3.0, 4.0], obj),
    "cond: int operand": [4.0, 5.0, 6.0],
    "cond: dict operand": [2.0, 3.0, 4.0],
    "cond: keyword args": [2.0, 3.0, 4.0],
    "while: captures changed int": (3, [8.0, 16.0, 24.0]),
    "wrap: effect": [2.0, 3.0, 4.0],
    "wrap: object out": [2.0, 3.0, 4.0],
    "wrap: in-place": ([2.0, 3.0, 4.0], [2.0, 3.0, 4.0]),
    "strict: effect": [2.0, 3.0, 4.0],
}
EFFECT = {"wrap: effect", "strict: effect"}
RANDOM = {"cond: random"}


def shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return tuple(map(shown, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_refused_or_right(name: str, backend: str) -> None:
    log.clear()
    x = torch.tensor([1.0, 2.0, 3.0])
    compiled = gramme.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    if name in RANDOM:
        torch.manual_seed(0)
        found = compiled(x)
        torch.manual_seed(0)
        assert found.tolist() == torch.rand(3).tolist()
    elif name in RIGHT:
        assert shown(compiled(x)) == RIGHT[name]
        assert log == [1] * (name in EFFECT)
    else:
        with pytest.raises(gramme.CaptureError) as error:
            compiled(x)
        assert error.value.file == __file__
        assert error.value.source_line
        assert log == []
    assert obj.v == 1
    assert x.tolist() == [1.0, 2.0, 3.0]
