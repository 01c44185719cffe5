"""Inferred metadata against eager over PyTorch's own samples of all its operators (needs expecttest)."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from device import DEVICE

from graph.binding import testing
from graph.test_infer import MODES, compare, metadata, tensors, version

pytestmark = pytest.mark.slow

# Known differences of FakeTensorMode, all on the safe side: the call ends a segment, or the graph raises as eager does.
# The same holds for checks of in-place operators that fakes lack.
KNOWN = {
    "addbmm": "in-place with a broadcast self fails on fakes",
    "as_strided": "no_grad: requires_grad of a view is its base's, which a record does not know",
    "nn.functional.bilinear": "writes reported for empty inputs",
    "to_sparse": "sparse results",
    "linalg.det": "no kernel for this dtype",
    "linalg.lu_factor": "no kernel for this dtype",
    "cauchy": "the sample seeds the generator",
}


def fresh(value: Any, in_place: bool) -> Any:
    if isinstance(value, torch.Tensor):
        copied = value.detach().clone(memory_format=torch.preserve_format).requires_grad_(value.requires_grad)
        return copied * 1 if in_place and copied.requires_grad else copied
    if type(value) in (list, tuple):
        return type(value)(fresh(item, in_place) for item in value)
    return value


def calls(op: Any, samples: int) -> Iterator[tuple[Any, bool, tuple[Any, ...], dict[str, Any]]]:
    for dtype in {torch.float32, torch.int64, torch.complex64} & op.supported_dtypes(DEVICE):
        grad = dtype.is_floating_point and op.supports_autograd
        for sample in itertools.islice(op.sample_inputs(DEVICE, dtype, requires_grad=grad), samples):
            args = (sample.input, *sample.args)
            if any(leaf.layout != torch.strided for leaf in tensors([args, sample.kwargs])):
                continue
            for target in (op.op, op.inplace_variant):
                if target:
                    in_place = target is op.inplace_variant
                    yield target, in_place, fresh(args, in_place) if in_place else args, sample.kwargs


def difference(target: Any, in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    leaves = list(tensors([args, kwargs]))
    outcome = testing.infer(target, *args, **kwargs)
    before = [(version(leaf), metadata(leaf)) for leaf in leaves]
    try:
        value = target(*args, **kwargs)
    except Exception as error:
        return "" if outcome["error"] or in_place else f"eager raised {error!r}"
    if outcome["error"]:
        return "" if outcome["data_dependent"] else outcome["message"]
    compare(outcome["result"], value, leaves)
    first: dict[int, int] = {}
    for i, leaf in enumerate(leaves):
        written = (version(leaf), metadata(leaf)) != before[i]
        if first.setdefault(id(leaf), i) == i and written and i not in outcome["mutations"]:
            return f"missed a write to argument {i}"
    wrong = [i for i, record in outcome["mutations"].items() if record != metadata(leaves[i])]
    return f"wrong record of written {wrong}" if wrong else ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_op_db(mode: str, soak: bool) -> None:
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[str]] = defaultdict(list)
    compared = 0
    with MODES[mode]():
        for op in op_db[:: 1 if soak else 4]:
            try:
                samples = list(calls(op, 4 if soak else 1))
            except RuntimeError:  # samples that cannot be made in this mode
                continue
            for call in samples:
                compared += 1
                try:
                    text = difference(*call)
                except AssertionError as error:
                    text = str(error)[:300]
                if text:
                    found[op.name].append(text)
    assert {name: texts for name, texts in found.items() if name not in KNOWN} == {}
    assert compared > (4500 if soak else 300)
