"""Random programs that write to arrays, tensors and views of them: what each side sees is what it sees eagerly."""

import random
from typing import Any

import gramme
import numpy as np
import pytest
import torch

from arrays import Program, floats
from arrays.outcomes import difference, observe

SIZE = 4
MAKES = (  # a new variable of arrays {a}, {b}, at {i}, {j}
    "{a} + {b}",
    "{a} * 2 - 1",
    "np.sin({a})",
    "{a} @ {b}",
    "{a}.T",
    "{a}.copy()",
    "{a}.reshape(-1).reshape(4, 4)",
    "{a}.T.reshape(4, 4)",
    "{a}[:, ::-1]",
    "{a}[::-1].copy()",
    "np.flip({a})",
    "{a}.view()",
    "np.asarray({a})",
    "np.ascontiguousarray({a})",
    "{a}.astype(np.float64, copy=False)",
    "{a}.astype(np.float32) * {b}",
    "np.where({a} > {b}, {a}, 0.0)",
    "np.maximum({a}, {b}[{i}])",
    "np.concatenate([{a}[:2], {b}[2:]])",
    "np.broadcast_to({a}[{i}], (4, 4))",
    "{a} - {b}.sum(axis=0)",
    "{a}[[3, 2, 1, 0]]",
    "torch.from_numpy({a}).numpy()",
    "torch.from_numpy({a} * 1).mul(2).numpy()",
    "np.zeros_like({a})",
)
WRITES = (
    "{a}[{i}] = {b}[{j}]",
    "{a}[:, {i}] += 1",
    "{a}.T[{i}] = 2.0",
    "{a} += {b}",
    "{a} *= 0.5",
    "np.add({a}, {b}, out={a})",
    "{a}[{a} > 0.5] = 0.25",
    "{a}.fill({i})",
    "{a}[...] = {b}",
    "{a}[1:] = {a}[:-1]",
    "torch.from_numpy({a}).add_(1)",
    "torch.from_numpy({a})[{i}] = 3.0",
    "t.mul_(2)",
    "t.numpy()[{i}] = 7.0",
    "n.__setitem__({i}, 9.0)",
    "hole()",
    "o.x = {a}",
    "o.x += 1",
    "s = {a}.sum()\n    {b}[{i}] = s",
)


def text(seed: int) -> str:
    draw = random.Random(seed)
    names = ["a", "b", "v"]
    lines = []
    for k in range(draw.randint(4, 12)):
        given = {"a": draw.choice(names), "b": draw.choice(names), "i": draw.randrange(4), "j": draw.randrange(4)}
        if draw.random() < 0.5:
            names.append(f"x{k}")
            lines.append(f"x{k} = " + draw.choice(MAKES).format(**given))
        else:
            lines.append(draw.choice(WRITES).format(**given))
    kept = draw.sample(names, min(3, len(names)))
    return "def program(a, b, v, t, n, o, hole):\n    " + "\n    ".join([*lines, f"return {', '.join(kept)}, t"]) + "\n"


class Held:
    x: Any


def arguments(seed: int) -> tuple[Any, ...]:
    draw = random.Random(seed)
    a, b = floats(seed, SIZE, SIZE), floats(seed + 1, SIZE, SIZE)
    v = draw.choice([a, a.T, b, b[:], floats(seed + 2, SIZE, SIZE)])
    t = torch.arange(16.0, dtype=torch.float64).reshape(4, 4) if draw.random() < 0.6 else torch.from_numpy(a)
    n = t.numpy() if draw.random() < 0.7 else a
    held = Held()
    held.x = draw.choice([a, b.T, floats(seed + 3, SIZE, SIZE)])
    return a, b, v, t, n, held, torch._dynamo.disable(lambda: None)


def program(seed: int) -> Program:
    names: dict[str, Any] = {"np": np, "torch": torch}
    exec(text(seed), names)  # noqa: S102  a program of its own
    return Program(f"random_{seed}", "random", names["program"], lambda n: arguments(seed), 0, "")


def run(seed: int, backend: str) -> None:
    drawn = program(seed)
    try:
        expected = observe(drawn.function, drawn)
    except (ValueError, RuntimeError) as error:  # a read-only array is written, or one whose elements share memory
        with pytest.raises(type(error), match=str(error)[:20]):
            observe(gramme.compile(drawn.function, backend=backend), drawn)
        return
    compiled = gramme.compile(drawn.function, backend=backend)
    assert difference(expected, observe(compiled, drawn)) == "", text(seed)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("seed", range(400))
def test_writes_are_seen_where_they_are_eagerly(seed: int, backend: str) -> None:
    torch.compiler.reset()
    run(seed, backend)
