"""Runs a program eagerly and compiled, and compares what each call leaves; counts graphs beside torch.compile's."""

import contextlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import torch

from subclasses import Program

FLOAT = re.compile(r"\d+\.\d+(e-?\d+)?")
RAGGED = re.compile(r"\bj\d+\b")
BACKENDS = ("eager", "native", "aot_eager")


def described(value: Any, depth: int = 0) -> str:
    """Values, classes, inner tensors, attributes and gradients, as text."""
    if isinstance(value, torch.Tensor) and depth < 4:
        with torch._C.DisableTorchFunction():
            return _tensor(value, depth)
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(described(item, depth) for item in value)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {described(item, depth)}" for key, item in value.items()) + "}"
    return repr(value) if isinstance(value, int | float | str | bool | torch.dtype | None) else type(value).__name__


def _tensor(value: Any, depth: int) -> str:
    own = {k: v for k, v in getattr(value, "__dict__", {}).items() if not isinstance(v, torch.Tensor)}
    # Marks of the compilers, and what PyTorch keeps of sizes once somebody has asked.
    own = {k: v for k, v in own.items() if not k.startswith(("_dynamo", "_sym_"))}
    wraps = type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    text = f"{type(value).__name__} {value.dtype} {tuple(value.shape)} {value.stride()} {value.requires_grad}"
    if hasattr(type(value), "__tensor_flatten__"):
        names, _ = value.__tensor_flatten__()
        text += " of " + ", ".join(f"{name}={described(getattr(value, name), depth + 1)}" for name in names)
    elif wraps:
        text += f" of {described(vars(value), depth + 1)}"
    else:
        text += f" {value.to_dense().tolist()}"
    grad = value.grad if value.is_leaf else None
    return f"<{text} {described(own, depth + 1)}{'' if grad is None else ' grad ' + described(grad, depth + 1)}>"


def observe(program: Program, compiled: Callable[[Callable[..., Any]], Callable[..., Any]] | None) -> list[str]:
    """What each call did, as text; without `compiled` the function is called as it is."""
    function = program.function if compiled is None else compiled(program.function)
    program.setup()
    seen = []
    try:
        for arguments in program.calls():
            with contextlib.redirect_stdout(None), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append(_call(program, function, arguments))
    finally:
        program.setup()
    return seen


def _call(program: Program, function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    try:
        with program.around() if program.around else contextlib.nullcontext():
            result = function(*arguments)
        text = described(result)
        if program.backward:
            results = result if isinstance(result, tuple) else (result,)
            sum(tensor.sum() for tensor in results).backward()
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return _numbered(f"{text}\nafter: {described(list(arguments))}\nstate: {described(program.state())}")


def _numbered(text: str) -> str:
    """Ragged sizes count from one in each call, in the order of the text."""
    names: dict[str, str] = {}
    return RAGGED.sub(lambda found: names.setdefault(found[0], f"j{len(names) + 1}"), text)


def difference(program: Program, backend: str) -> str | None:
    """The first call and line in which the compiled run differs from eager; None if it does not."""
    torch._dynamo.reset()
    expected = observe(program, None)
    found = observe(program, lambda f: gramme.compile(f, backend=backend))
    for number, (want, have) in enumerate(zip(expected, found, strict=True), 1):
        for a, b in zip(want.splitlines(), have.splitlines(), strict=False):
            if a != b and not (backend == "aot_eager" and rounded(a) == rounded(b)):
                return f"call {number}: eager {a} | got {b}"
    return None


def rounded(text: str) -> str:
    """AOTAutograd decomposes operators, whose results round otherwise."""
    return FLOAT.sub(lambda found: f"{float(found[0]):.5g}", text)


def graphs(program: Program, front: Any) -> int | str:
    """How many graphs the front end hands to a backend; an error's name if the program then raises what eager does
    not."""
    count = 0

    def backend(module: Any, example_inputs: Any) -> Any:
        nonlocal count
        count += any(node.op.startswith("call") for node in module.graph.nodes)
        return module.forward

    torch._dynamo.reset()
    expected = observe(program, None)
    found = observe(program, lambda f: front.compile(f, backend=backend))
    torch._dynamo.reset()
    return count if found == expected else f"{count}, not as eager"
