"""Random small training programs, and what one step of each gives.

    random_training.py [first [count [dtype]]]      prints programs whose recorded backward differs from eager's

With a dtype they run under autocast.

A program is a list of statements on a list of values: the inputs come first, then each statement adds one.
"""

import contextlib
import random
import sys
from collections.abc import Callable
from typing import Any

import gramme
import torch
import torch.nn.functional as F

Values = list[torch.Tensor]
Statement = tuple[str, int, int]

UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": lambda x: (x * 0.1).exp(),
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "norm": lambda x: F.layer_norm(x, (4,)),
    "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "t": lambda x: x.t(),
    "reshape": lambda x: x.t().reshape(4, 4),
    "halves": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "split": lambda x: torch.cat([x.split([1, 3], 0)[1], x[:1]]),
    "row": lambda x: x[1].expand(4, 4),
    "diagonal": lambda x: x.diagonal()[None].expand(4, 4),
    "flip": lambda x: x.flip(0),
    "cumsum": lambda x: x.cumsum(1),
    "sum": lambda x: x.sum(0, keepdim=True).expand(4, 4),
    "mean": lambda x: x - x.mean(),
    "max": lambda x: x - x.amax(1, keepdim=True),
    "std": lambda x: x / (x.std() + 1),
    "detach": lambda x: x.detach() + x,
    "half": lambda x: x * 0.5,
    "negative": lambda x: -x,
    "dropout": lambda x: F.dropout(x, 0.3, True),
    "clone": lambda x: x.clone(),
    "view": lambda x: x.view(2, 2, 4).transpose(0, 1).reshape(4, 4),
    "same": lambda x: x,
    "attention": lambda x: F.scaled_dot_product_attention(*(x.view(1, 2, 4, 2).unbind(0) * 3)).reshape(4, 4),
    "convolution": lambda x: F.conv1d(x[None], x[None, :, :1].expand(4, 4, 1)).squeeze(0),
    "pad": lambda x: F.pad(x, (1, 0))[:, :4],
    "in place": lambda x: x.clone().mul_(2).relu_(),
    "row in place": lambda x: _row_in_place(x),
    "no grad": lambda x: _without_grad(x) * x,
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": lambda x, y: x - 2 * y,
    "mul": torch.mul,
    "div": lambda x, y: x / (y.abs() + 1),
    "matmul": torch.matmul,
    "linear": lambda x, y: F.linear(x, y, y[0]),
    "minimum": torch.min,
    "where": lambda x, y: torch.where(x > y, x, y * 2),
    "cat": lambda x, y: torch.cat([x[:2], y[2:]]),
    "stack": lambda x, y: torch.stack([x, y]).mean(0),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.5),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]).squeeze(0),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "add in place": lambda x, y: x.clone().add_(y),
    "gate": lambda x, y: F.glu(torch.cat([x, y], -1)),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
}


def _row_in_place(x: torch.Tensor) -> torch.Tensor:
    made = x * 1
    made[0].mul_(3)
    return made


def _without_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.softmax(-1)


class Program:
    """Inputs: one without gradients, then parameters. Outputs: some of the values."""

    def __init__(self, seed: int) -> None:
        chosen = random.Random(seed)
        self.seed = seed
        self.parameters = chosen.randint(1, 3)
        self.frozen = [chosen.random() < 0.15 for _ in range(self.parameters)]
        self.statements: list[Statement] = []
        for count in range(chosen.randint(2, 9)):
            known = 1 + self.parameters + count
            table = UNARY if chosen.random() < 0.5 else BINARY
            self.statements.append((chosen.choice(list(table)), self._value(chosen, known), self._value(chosen, known)))
        made = range(1 + self.parameters, 1 + self.parameters + len(self.statements))
        self.outputs = sorted({made[-1], *chosen.sample(made, min(len(made), chosen.choice([0, 0, 1, 2])))})

    @staticmethod
    def _value(chosen: random.Random, known: int) -> int:
        return known - 1 - min(int(chosen.expovariate(0.5)), known - 1)

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values: Values = list(inputs)
        for name, x, y in self.statements:
            values.append(UNARY[name](values[x]) if name in UNARY else BINARY[name](values[x], values[y]))
        return [values[i] for i in self.outputs]

    def inputs(self) -> Values:
        generator = torch.Generator().manual_seed(self.seed)
        made = [torch.randn(4, 4, generator=generator) for _ in range(1 + self.parameters)]
        for parameter, frozen in zip(made[1:], self.frozen, strict=True):
            parameter.requires_grad_(not frozen)
        return made

    def __repr__(self) -> str:
        return f"{self.seed}: {self.statements} gives {self.outputs}"


def _bits(tensor: torch.Tensor | None) -> Any:
    if tensor is None:
        return None
    dense = tensor.detach().nan_to_num(7e4).contiguous()
    return tensor.dtype, tensor.shape, tensor.stride(), dense.view(torch.uint8).numpy().tobytes()


def _weighted(outputs: list[torch.Tensor], chosen: random.Random) -> torch.Tensor:
    wanted = [o for o in outputs if chosen.random() < 0.8] or outputs
    return sum((o * torch.arange(1.0, 17).view(4, 4).sin()).sum() for o in wanted)  # type: ignore[return-value]


def step(
    program: Program, function: Callable[..., Any], inputs: Values, number: int, dtype: torch.dtype | None = None
) -> Any:
    """What one step leaves: outputs, gradients, exceptions. Steps differ: in which gradients, and how often."""
    if dtype is not None:
        return _autocast_step(program, function, inputs, number, dtype)
    return _step(program, function, inputs, number, contextlib.ExitStack())


def _autocast_step(
    program: Program, function: Callable[..., Any], inputs: Values, number: int, dtype: torch.dtype
) -> Any:
    """The same under autocast, which ends before the backward, or behind it. Others may use parameters in it, too."""
    chosen = random.Random(program.seed * 300 + number)
    cached, inside, before = chosen.random() < 0.9, chosen.random() < 0.2, chosen.random() < 0.2
    with contextlib.ExitStack() as around:
        around.enter_context(torch.autocast("cpu", dtype=dtype, cache_enabled=cached))
        if before:
            torch.mm(inputs[-1], inputs[-1])
        return _step(program, function, inputs, number, contextlib.ExitStack() if inside else around)


def _step(
    program: Program, function: Callable[..., Any], inputs: Values, number: int, around: contextlib.ExitStack
) -> Any:
    chosen = random.Random(program.seed * 100 + number)
    told: list[Any] = []
    torch.manual_seed(number)
    leaves = [x for x in inputs if x.requires_grad]
    if chosen.random() < 0.6:
        for leaf in leaves:
            leaf.grad = None
    try:
        outputs = function(*inputs)
        told.append([(_bits(o), o.requires_grad) for o in outputs])
        loss = _weighted(outputs, chosen)
        if chosen.random() < 0.2:
            loss = loss + sum(leaf.square().sum() for leaf in leaves)
        if chosen.random() < 0.15:
            loss = loss + _weighted(function(*inputs), chosen)
        around.close()
        kind = chosen.choice(["plain"] * 5 + ["retain", "some", "twice", "hook", "write"])
        if kind == "hook":
            for output in outputs:
                if output.requires_grad and not output.is_leaf:
                    output.register_hook(lambda g: told.append(_bits(g)) or (None if g is None else g * 2))
        if kind == "write":
            with torch.no_grad():
                chosen.choice([*outputs, *inputs]).add_(1)
        if kind == "some":
            found = torch.autograd.grad(loss, chosen.sample(leaves, min(1, len(leaves))), allow_unused=True)
            told.append([_bits(g) for g in found])
        else:
            loss.backward(retain_graph=kind == "retain")
            if kind in ("retain", "twice"):
                loss.backward()
    except (RuntimeError, ValueError) as error:
        told.append(str(error).split("\n")[0].split(": [")[0])  # which tensor, and its versions, may be others
    told.append([_bits(leaf.grad) for leaf in leaves])
    return told


def difference(seed: int, steps: int = 6, dtype: torch.dtype | None = None) -> str | None:
    """Where the recorded backward of the seed's program differs from eager's; none if nowhere."""
    program = Program(seed)
    theirs, mine = program.inputs(), program.inputs()
    compiled = gramme.compile(program.run, backend="native", options={"recorded_backward": True})
    for number in range(steps):
        wanted = step(program, program.run, theirs, number, dtype)
        found = step(program, compiled, mine, number, dtype)
        if wanted != found:
            return f"step {number} of {program}"
    return None


def whole_difference(seed: int, steps: int = 6) -> str | None:
    """Where a compiled function with forward and backward differs from eager; none if nowhere."""
    program = Program(seed)

    def whole(*inputs: torch.Tensor) -> Any:
        outputs = program.run(*inputs)
        loss = sum((o * torch.arange(1.0, 17).view(4, 4).sin()).sum() for o in outputs)
        loss.backward()
        return outputs

    told = []
    for function in (whole, gramme.compile(whole, backend="native")):
        inputs, seen = program.inputs(), []
        for number in range(steps):
            chosen = random.Random(seed * 100 + number)
            torch.manual_seed(number)
            if chosen.random() < 0.6:
                for leaf in inputs:
                    leaf.grad = None
            try:
                seen.append([(_bits(o), o.requires_grad) for o in function(*inputs)])
            except (RuntimeError, ValueError) as error:
                seen.append(str(error).split("\n")[0])
            seen.append([_bits(leaf.grad) for leaf in inputs])
        told.append(seen)
    return None if told[0] == told[1] else f"the whole step of {program}"


def main() -> None:
    first, count = (int(x) for x in [*sys.argv[1:3], "0", "1000"][:2])
    dtype = getattr(torch, sys.argv[3]) if len(sys.argv) > 3 else None
    wrong = 0
    for seed in range(first, first + count):
        told = difference(seed, dtype=dtype)
        if told:
            wrong += 1
            print(told, flush=True)
        if seed % 50 == 0:
            gramme.reset()
    print(f"{wrong} of {count} programs differ")


if __name__ == "__main__":
    main()
