"""Objects that operators take as they are, and of which captures know nothing."""

from __future__ import annotations

import copy
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._library.opaque_object import get_opaque_type_name, register_opaque_type
from torch._opaque_base import OpaqueBase
from torch.export import Dim

from export.beside_torch import calls, quietly, signature


class Counter(OpaqueBase):  # type: ignore[misc]
    """Calls change it."""

    def __init__(self, count: int) -> None:
        self.count = count


class Scale(OpaqueBase):  # type: ignore[misc]
    """What it is never changes."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and self.factor == other.factor

    def __hash__(self) -> int:
        return hash(self.factor)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Scale({self.factor})", {"Scale": Scale}


register_opaque_type(Counter, typ="reference")
register_opaque_type(Scale, typ="value")
LIBRARY = torch.library.Library("gramme_tests_objects", "DEF")
LIBRARY.define(f"count({get_opaque_type_name(Counter)} counter, Tensor x) -> Tensor")
LIBRARY.define(f"scale({get_opaque_type_name(Scale)} scale, Tensor x) -> Tensor")


@torch.library.impl("gramme_tests_objects::count", "CompositeExplicitAutograd", lib=LIBRARY)
def _count(counter: Counter, x: torch.Tensor) -> torch.Tensor:
    counter.count += 1
    return x + counter.count


@torch.library.impl("gramme_tests_objects::scale", "CompositeExplicitAutograd", lib=LIBRARY)
def _scale(scale: Scale, x: torch.Tensor) -> torch.Tensor:
    return x * scale.factor


for name in ("count", "scale"):
    torch.library.register_fake(f"gramme_tests_objects::{name}", lambda taken, x: torch.empty_like(x), lib=LIBRARY)
OPS = torch.ops.gramme_tests_objects


class OfModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(1)

    def forward(self, x: Any) -> Any:
        return OPS.count(self.counter, OPS.count(self.counter, x)) + x.shape[0]


class OfArguments(nn.Module):
    def forward(self, counter: Any, x: Any) -> Any:
        return OPS.count(counter, x * 2)


class Values(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = Scale(3)

    def forward(self, given: Any, x: Any) -> Any:
        return OPS.scale(given, x) + OPS.scale(self.scale, x)


class Made(nn.Module):
    def forward(self, x: Any) -> Any:
        return OPS.scale(Scale(4), x) + OPS.scale(Scale(x.dim()), x)


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


N = {0: Dim("n", min=2)}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "OfModule": (OfModule, lambda n: (rows(n),), (N,)),
    # torch.export lets no size vary beside them
    "OfArguments": (OfArguments, lambda n: (Counter(5), rows()), None),
    "Values": (Values, lambda n: (Scale(2), rows()), None),
    "Made": (Made, lambda n: (rows(n),), (N,)),
}


@pytest.mark.parametrize("name", CASES)
def test_objects_of_operators(name: str) -> None:
    make, arguments, shapes = CASES[name]
    module = make()
    ours = gramme.export(module, arguments(4), dynamic_shapes=shapes)
    with quietly():
        theirs = torch.export.export(copy.deepcopy(module), arguments(4), dynamic_shapes=shapes, strict=True)
    assert getattr(module, "counter", Counter(1)).count == 1
    assert signature(ours, names=False) == signature(theirs, names=False)
    assert calls(ours) == calls(theirs)
    program = ours.module()
    for n in (4, 7):
        given = arguments(n)
        expected = make()(*copy.deepcopy(given))
        torch.testing.assert_close(program(*given), expected)
        if name == "OfModule":  # the program shares it with the module
            assert module.counter.count == 3
            module.counter.count = 1


class InBody(nn.Module):
    def forward(self, counter: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: OPS.count(counter, v), lambda v: v - 1, (x,))


def test_an_object_in_a_body_is_refused() -> None:
    with pytest.raises(gramme.CaptureError, match="an opaque object in a body"):
        gramme.export(InBody(), (Counter(1), rows()))


def test_other_objects_are_refused() -> None:
    class Other(nn.Module):
        def forward(self, x: Any) -> Any:
            return OPS.count(object(), x)

    with pytest.raises(gramme.CaptureError):
        gramme.export(Other(), (rows(),))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, torch.zeros(4))

    def forward(self, x: Any) -> Any:
        return torch.ops.quantized.linear_dynamic(x, self.packed)


class Unpacks(Packed):
    def forward(self, x: Any) -> Any:
        return x @ self.packed.unpack()[0].dequantize().t()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [Packed, Unpacks])
def test_objects_of_classes_of_torch_are_refused_by_both(make: Any) -> None:
    with quietly():
        module = make()
        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.export.export(make(), (rows(),), strict=True)
    with pytest.raises(gramme.CaptureError, match=r"self\.packed"):
        gramme.export(module, (rows(),))
