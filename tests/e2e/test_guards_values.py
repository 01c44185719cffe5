"""What must be noticed between two calls, in containers, names, numbers and torch's global state: a change that is
harmless is a hit, one that is not captures anew."""

import collections
import logging
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from e2e import front
from e2e.front import GRAMME
from e2e.watch import Watch, x

# Containers.


def over_list(values: list[Any], v: torch.Tensor) -> torch.Tensor:
    for k in values:
        v = v + k
    return v


def test_list() -> None:
    w = Watch(over_list)
    values = [1, 2]
    w.miss(values, x())
    w.hit([1, 2], x())
    values.append(3)
    w.miss(values, x())
    values.pop()
    w.hit(values, x())
    values.reverse()
    w.miss(values, x())


def test_tuple_instead_of_list() -> None:
    w = Watch(over_list)
    w.miss([1, 2], x())
    w.miss((1, 2), x())
    w.hit((1, 2), x())


def test_list_of_tensors() -> None:
    w = Watch(over_list)
    w.miss([x(), x()], x())
    w.hit([x(), x()], x())
    w.miss([x(), x(1)], x())
    w.miss([x()], x())
    w.miss([x(), 2], x())


def over_dict(table: Any, v: torch.Tensor) -> Any:
    for name, k in table.items():
        v = v * k + len(name)
    return v


def test_dict() -> None:
    w = Watch(over_dict)
    w.miss({"a": 1, "bb": 2}, x())
    w.hit({"a": 1, "bb": 2}, x())
    w.miss({"a": 1, "bb": 3}, x())
    w.miss({"a": 1}, x())
    w.miss({"a": 1, "ccc": 2}, x())


def test_dict_order() -> None:
    w = Watch(over_dict)
    w.miss({"a": 1, "bb": 2}, x())
    w.miss({"bb": 2, "a": 1}, x())
    w.hit({"a": 1, "bb": 2}, x())


def test_dict_key_not_read() -> None:
    w = Watch(lambda table, v: v + table["k"])
    table = {"k": 1}
    w.miss(table, x())
    table["k"] = 1
    w.hit(table, x())
    table["k"] = 2
    w.miss(table, x())


def test_dict_key_absent() -> None:
    w = Watch(lambda table, v: v + table.get("k", 5) + ("z" in table))
    table: dict[str, int] = {}
    w.miss(table, x())
    w.hit({}, x())
    table["k"] = 1
    w.miss(table, x())
    table["z"] = 1
    w.miss(table, x())


def test_dict_key_deleted_and_put_back() -> None:
    w = Watch(over_dict)
    table = {"a": 1, "bb": 2}
    w.miss(table, x())
    table["a"] = table.pop("a")
    w.miss(table, x())


def test_ordered_dict_order() -> None:
    w = Watch(over_dict)
    table = collections.OrderedDict(a=1, bb=2)
    w.miss(table, x())
    w.hit(table, x())
    table.move_to_end("a")
    w.miss(table, x())
    w.miss(dict(a=1, bb=2), x())


def test_set() -> None:
    w = Watch(lambda names, v: v + len(names) if "a" in names else v - len(names))
    names = {"a", "b"}
    w.miss(names, x())
    w.hit({"a", "b"}, x())
    names.remove("a")
    w.miss(names, x())
    names.add("c")
    w.miss(names, x())


@dataclass
class Settings:
    width: int = 2
    layers: list[Any] = field(default_factory=lambda: [{"act": "relu"}, {"act": "none"}])


def test_nested_config() -> None:
    def f(config: dict[str, Any], v: torch.Tensor) -> torch.Tensor:
        for layer in config["model"].layers:
            v = v.relu() if layer["act"] == "relu" else v * config["model"].width
        return v

    w = Watch(f)
    config = {"model": Settings()}
    w.miss(config, x())
    w.hit({"model": Settings()}, x())
    config["model"].layers[1]["act"] = "relu"
    w.miss(config, x())
    config["model"].layers.append({"act": "none"})
    w.miss(config, x())
    config["model"].width = 3
    w.miss(config, x())


def test_containers_changed_inside_a_global() -> None:
    w = Watch(lambda v: v + TABLE["row"][0]["k"])
    w.miss(x())
    TABLE["row"][0]["other"] = 1
    TABLE["row"][0]["k"] = 1
    w.hit(x())
    TABLE["row"][0]["k"] = 2
    w.miss(x())
    TABLE["row"] = [{"k": 1}]
    w.hit(x())


TABLE: dict[str, Any] = {"row": [{"k": 1}]}


# Names.

FACTOR: Any = 2


def plus(value: Any) -> Any:
    return value + 1


def test_global_rebound() -> None:
    global FACTOR
    w = Watch(lambda v: v * FACTOR)
    w.miss(x())
    FACTOR = 2
    w.hit(x())
    FACTOR = 3
    w.miss(x())
    FACTOR = 2
    w.hit(x())


def test_global_function_rebound() -> None:
    global plus
    original = plus
    w = Watch(lambda v: plus(v))
    w.miss(x())
    w.hit(x())
    try:
        plus = lambda value: value - 1  # noqa: E731
        w.miss(x())
    finally:
        plus = original
    w.hit(x())


def test_global_shadows_a_builtin() -> None:
    w = Watch(lambda v: v * len([1, 2, 3]))
    w.miss(x())
    w.hit(x())
    globals()["len"] = lambda value: 10
    try:
        w.miss(x())
    finally:
        del globals()["len"]
    w.hit(x())


def test_global_deleted() -> None:
    globals()["TEMPORARY"] = 4
    w = Watch(lambda v: v * TEMPORARY)  # type: ignore[name-defined]  # noqa: F821
    w.miss(x())
    del globals()["TEMPORARY"]
    with pytest.raises(NameError, match="TEMPORARY"):
        w.compiled(x())


def test_builtin_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    w = Watch(lambda v: v * abs(-3))
    w.miss(x())
    monkeypatch.setattr(builtins, "abs", lambda value: 11)
    w.miss(x())


def test_module_attribute_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    import math

    w = Watch(lambda v: v * math.pi)
    w.miss(x())
    w.hit(x())
    monkeypatch.setattr(math, "pi", 3.0)
    w.miss(x())


def test_torch_function_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    w = Watch(lambda v: torch.sin(v))
    w.miss(x())
    w.hit(x())
    monkeypatch.setattr(torch, "sin", torch.cos)
    w.miss(x())


def test_closure_cell_rebound() -> None:
    k: Any = 2

    def f(v: torch.Tensor) -> torch.Tensor:
        return v * k

    w = Watch(f)
    w.miss(x())
    k = 2
    w.hit(x())
    k = 3
    w.miss(x())
    k = x()
    w.miss(x())


def test_fresh_closures_of_one_lambda() -> None:
    w = Watch(lambda g, v: g(v))

    def make(k: int) -> Callable[[Any], Any]:
        return lambda v: v * k

    w.miss(make(2), x())
    w.hit(make(2), x())
    w.miss(make(3), x())


def scaled(v: Any, k: Any = 2, *, shift: int = 1) -> Any:
    return v * k + shift


@pytest.fixture
def scaled_restored() -> Any:
    saved = scaled.__defaults__, scaled.__kwdefaults__, scaled.__code__
    yield
    scaled.__defaults__, scaled.__kwdefaults__, scaled.__code__ = saved


@pytest.mark.usefixtures("scaled_restored")
class TestFunctionChanged:
    """The callee's own parts, and the compiled function's."""

    @pytest.mark.parametrize("own", [False, True])
    def test_defaults(self, own: bool) -> None:
        w = Watch(scaled if own else lambda v: scaled(v))
        w.miss(x())
        scaled.__defaults__ = (2,)
        w.hit(x())
        scaled.__defaults__ = (4,)
        w.miss(x())

    @pytest.mark.parametrize("own", [False, True])
    def test_keyword_defaults(self, own: bool) -> None:
        w = Watch(scaled if own else lambda v: scaled(v))
        w.miss(x())
        scaled.__kwdefaults__ = {"shift": 1}
        w.hit(x())
        assert scaled.__kwdefaults__ is not None
        scaled.__kwdefaults__["shift"] = 6
        w.miss(x())

    @pytest.mark.parametrize("own", [False, True])
    def test_code(self, own: bool) -> None:
        def other(v: Any, k: Any = 2, *, shift: int = 1) -> Any:
            return v - k - shift

        w = Watch(scaled if own else lambda v: scaled(v))
        w.miss(x())
        w.hit(x())
        scaled.__code__ = other.__code__
        w.miss(x())


# Global state of torch.


def test_grad_mode() -> None:
    w = Watch(lambda v: v * 2)
    v = x().requires_grad_()
    w.miss(v)
    w.hit(v)
    with torch.no_grad():
        w.miss(v)
        w.hit(v)
    w.hit(v)


def test_inference_mode() -> None:
    w = Watch(lambda v: v * 2)
    w.miss(x())
    v = x()
    with torch.inference_mode():
        w.miss(v)
    w.hit(x())
    with torch.inference_mode():
        inference = x()
    w.miss(inference)


def test_autocast() -> None:
    w = Watch(lambda a, b: a @ b)
    w.miss(x(2, 2), x(2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w.miss(x(2, 2), x(2, 2))
        w.hit(x(2, 2), x(2, 2))
    with torch.autocast("cpu", dtype=torch.float16):
        w.miss(x(2, 2), x(2, 2))
    with torch.autocast("cpu", enabled=False):
        w.hit(x(2, 2), x(2, 2))


def test_autocast_cache() -> None:
    w = Watch(lambda a, b: a @ b)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=True):
        w.miss(x(2, 2), x(2, 2))
        w.hit(x(2, 2), x(2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        w.miss(x(2, 2), x(2, 2))


def test_autocast_of_another_device() -> None:
    w = Watch(lambda a, b: a @ b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w.miss(x(2, 2), x(2, 2))
    torch.set_autocast_enabled("cuda", True)
    try:
        w.miss(x(2, 2), x(2, 2))
    finally:
        torch.set_autocast_enabled("cuda", False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w.hit(x(2, 2), x(2, 2))


def test_default_dtype() -> None:
    w = Watch(lambda v: v + torch.ones(4))
    w.miss(x())
    w.hit(x())
    torch.set_default_dtype(torch.float64)
    try:
        w.miss(x().float())
    finally:
        torch.set_default_dtype(torch.float32)
    w.hit(x())


def test_deterministic_flags() -> None:
    w = Watch(lambda v: v * 2)
    w.miss(x())
    torch.use_deterministic_algorithms(True)
    try:
        w.miss(x())
        torch.use_deterministic_algorithms(True, warn_only=True)
        w.miss(x())
    finally:
        torch.use_deterministic_algorithms(False)
    w.hit(x())


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def test_torch_function_modes() -> None:
    w = Watch(lambda v: torch.sin(v) + 1)
    w.miss(x())
    with Doubling():
        expected = torch.sin(x()) + 1
        assert torch.equal(w.compiled(x()), expected)
        with Doubling():
            expected = torch.sin(x()) + 1
            assert torch.equal(w.compiled(x()), expected)
    w.hit(x())


# Numbers.


def test_float_reborn_at_the_same_address() -> None:
    """A float that dies leaves its address to the next one: the value counts, not the address."""
    m, w = types.SimpleNamespace(), Watch(lambda m, v: v * m.k)
    for k in (0.5, 1.5):
        m.k = float(str(k))  # type: ignore[attr-defined]
        w.miss(m, x())
    m.k = float("0.5")  # type: ignore[attr-defined]
    assert torch.equal(w.compiled(m, x()), x() * 0.5)
    m.k = None  # type: ignore[attr-defined]
    m.k = float("2.5")  # type: ignore[attr-defined]
    assert torch.equal(w.compiled(m, x()), x() * 2.5)


def test_float_argument_compared_by_bits() -> None:
    w = Watch(lambda v, k: (v * k, str(k)))
    w.miss(x(), 0.5)
    w.hit(x(), float("0.5"))
    w.miss(x(), 0.75)


def test_negative_zero() -> None:
    w = Watch(lambda v, k: (v + k, 1.0 / (v * 0 + k), str(k)))
    w.miss(x(), 0.0)
    w.hit(x(), 0.0)
    w.miss(x(), -0.0)


def test_nan_equals_itself() -> None:
    w = Watch(lambda v, k: (v + 1, k))
    w.miss(x(), float("nan"))
    w.hit(x(), float("nan"))


def test_true_for_one() -> None:
    w = Watch(lambda v, k: (v + k, type(k).__name__))
    w.miss(x(), 1)
    w.hit(x(), 1)
    w.miss(x(), True)
    w.miss(x(), 1.0)


def test_true_for_one_in_containers() -> None:
    w = Watch(lambda table, v: (v + table["k"], type(table["k"]).__name__, [str(n) for n in table]))
    w.miss({"k": 1, 1: 0}, x())
    w.hit({"k": 1, 1: 0}, x())
    w.miss({"k": True, 1: 0}, x())
    w.miss({"k": 1, True: 0}, x())


def test_strings_and_none() -> None:
    w = Watch(lambda v, mode=None: v * 2 if mode == "double" else v - 1 if mode is None else v + len(mode))
    w.miss(x())
    w.hit(x(), None)
    w.miss(x(), "double")
    w.hit(x(), "".join(["dou", "ble"]))
    w.miss(x(), "other")


def test_types_and_functions_as_arguments() -> None:
    w = Watch(lambda v, kind, f: f(v.to(kind)))
    w.miss(x(), torch.float64, torch.sin)
    w.hit(x(), torch.float64, torch.sin)
    w.miss(x(), torch.float64, torch.cos)
    w.miss(x(), torch.float32, torch.cos)


# The cache itself.


def test_last_segments_are_kept() -> None:
    w = Watch(lambda v, mode: v + len(mode))
    modes = ["a", "bb", "ccc"]
    for mode in modes:
        w.miss(x(), mode)
    for mode in modes * 2:
        w.hit(x(), mode)


@pytest.mark.skipif(not GRAMME, reason="says how gramme's limit behaves")
def test_recompile_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the limit the function runs plainly, and a warning names the guard that kept failing."""
    w = Watch(lambda v, mode: v + len(mode), recompile_limit=3)
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        for n in range(8):
            assert torch.equal(w.compiled(x(), "m" * n), x() + n)
    assert w.compiled.captures <= 4
    text = " ".join([*(str(c.message) for c in caught), *caplog.messages])
    assert "limit" in text
    assert "mode" in text


def test_reset_drops_everything() -> None:
    w = Watch(lambda v: v + 1)
    w.miss(x())
    front.reset()
    assert torch.equal(w.compiled(x()), x() + 1)
    assert len(w.compiled.recorder.graphs) == 2
