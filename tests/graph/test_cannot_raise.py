"""The closed list of operators that cannot raise on data, against PyTorch's samples and schemas of its operators."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch

from graph.binding import testing
from graph.test_infer import tensors

TABLE = Path(__file__).parents[2] / "src/torch/2_13/torch_targets.def"
LISTED = re.findall(r'^CANNOT_RAISE\("(.*)"\)', TABLE.read_text(), re.M)

# Data that operators refuse, by dtype. Not the least integer: its remainder by -1 ends the process, in eager too.
HOSTILE: dict[torch.dtype, list[Any]] = {
    torch.float32: [float("nan"), float("inf"), -1e30, 1e30, -0.5],
    torch.int64: [-(2**62), 2**62, -1, 0, 10**6],
    torch.bool: [False, True],
}


def schemas() -> dict[str, list[str]]:
    """Overloads of the aten operators by name."""
    found: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            found.setdefault(schema.name[6:], []).append(schema.overload_name or "default")
    return found


def test_every_name_is_an_operators() -> None:
    known = schemas() | {"layout": ["default"]}  # of prim
    for name in LISTED:
        base, _, overload = name.partition(".")
        assert base in known or base + "_" in known, name
        assert not overload or overload in known.get(base, []), name
    assert len(set(LISTED)) == len(LISTED)


def listed(name: str) -> bool:
    plain = name.removeprefix("_foreach_")
    return bool({name, plain, plain.rstrip("_")} & {entry.partition(".")[0] for entry in LISTED})


def test_what_is_in_no_list_counts_as_dangerous() -> None:
    names = schemas()
    dangerous = sorted(name for name in names if not listed(name))
    print(f"{len(names)} aten operators, {len(names) - len(dangerous)} cannot raise on data, {len(dangerous)} may")
    assert {"index", "gather", "embedding", "one_hot", "linalg_cholesky", "_assert_async"} <= set(dangerous)


def calls(soak: bool) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db[:: 1 if soak else 5]:
        for dtype in {torch.float32, torch.int64} & op.supported_dtypes("cpu"):
            try:
                samples = list(itertools.islice(op.sample_inputs("cpu", dtype), 8 if soak else 2))
            except RuntimeError:
                continue
            for sample in samples:
                for target in filter(None, (op.op, op.inplace_variant)):
                    yield op.name, target, (sample.input, *sample.args), sample.kwargs


def filled(value: Any, choose: int) -> Any:
    """Copies with hostile data."""
    if isinstance(value, torch.Tensor):
        hostile = HOSTILE.get(value.dtype)
        copied = value.detach().clone()
        if hostile and copied.is_contiguous() and copied.layout == torch.strided:
            flat = copied.view(-1)
            for i in range(min(flat.numel(), 64)):
                flat[i] = hostile[(i + choose) % len(hostile)]
        return copied
    if type(value) in (list, tuple):
        return type(value)(filled(item, choose) for item in value)
    return value


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_hostile_data(soak: bool) -> None:
    """What is said not to raise does not, whatever the data."""
    pytest.importorskip("expecttest")
    wrong, safe, dangerous = [], set(), set()
    for name, target, args, kwargs in calls(soak):
        if any(leaf.layout != torch.strided for leaf in tensors([args, kwargs])):
            continue
        try:
            target(*filled_plainly(args), **kwargs)
        except Exception:  # noqa: S112  what fails with its own sample says nothing
            continue
        outcome = testing.infer(target, *args, **kwargs)
        if outcome["error"]:
            continue
        (dangerous if outcome["may_raise"] else safe).add(name)
        if outcome["may_raise"]:
            continue
        for choose in range(5):
            try:
                target(*filled(args, choose), **{key: filled(value, choose) for key, value in kwargs.items()})
            except Exception as error:
                wrong.append((name, str(target)[:60], f"{type(error).__name__}: {error}"[:150]))
                break
    print(f"operators of op_db: {len(safe)} cannot raise, {len(dangerous - safe)} count as dangerous")
    print(*sorted(dangerous - safe))
    assert wrong == []
    assert len(safe) > (300 if soak else 50)


def filled_plainly(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(filled_plainly(item) for item in value)
    if type(value) is dict:
        return {key: filled_plainly(item) for key, item in value.items()}
    return value


# ---- operators that refuse their arguments, after a write


# What AOT itself does not refuse (an out= argument of another dtype), or refuses while it compiles.
KNOWN_OF_AOT = {"complex", "aminmax", "as_strided_scatter"}


def errors(soak: bool) -> Iterator[tuple[str, Any, Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db[:: 1 if soak else 6]:
        if op.error_inputs_func is None:
            continue
        for given in itertools.islice(op.error_inputs("cpu"), None if soak else 2):
            yield op.name, op.op, given.sample_input


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_error_inputs_after_a_write(backend: str, soak: bool) -> None:
    pytest.importorskip("expecttest")
    wrong, tried = [], 0
    for name, target, sample in errors(soak):

        def program(x: torch.Tensor, args: Any, kwargs: Any, target: Any = target) -> Any:
            x.add_(1)
            return target(*args, **kwargs)

        compiled = gramme.compile(program, backend=backend)
        args = (sample.input, *sample.args)
        for _ in range(2):
            seen = []
            for call in (program, compiled):
                x = torch.zeros(1)
                try:
                    call(x, filled_plainly(args), filled_plainly(sample.kwargs))
                    seen.append(("returned", "", x.item()))
                except Exception as error:
                    seen.append((type(error).__name__, str(error), x.item()))
            tried += 1
            if seen[0] != seen[1] and not (backend == "aot_eager" and name in KNOWN_OF_AOT):
                wrong.append((name, seen))
                break
        gramme.reset()
    print(f"{tried} calls")
    assert not wrong, "\n".join(f"{name}: {seen}" for name, seen in wrong)
    assert tried > 100
