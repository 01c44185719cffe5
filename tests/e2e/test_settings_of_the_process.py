"""Questions about the process's settings: what the capture answers itself is answered anew once the setting changed."""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore


def attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def grouped(on: bool) -> None:
    if on and not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    if not on and dist.is_initialized():
        dist.destroy_process_group()


# name: how to ask, how to set, a usual value and another one
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any, Any]] = {
    "groups": (dist.is_initialized, grouped, False, True),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        False,
        True,
    ),
    "only warns": (
        torch.is_deterministic_algorithms_warn_only_enabled,
        lambda on: torch.use_deterministic_algorithms(on, warn_only=on),
        False,
        True,
    ),
    "precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest", "high"),
    "warns always": (torch.is_warn_always_enabled, torch.set_warn_always, False, True),
    "cudnn": (lambda: torch.backends.cudnn.enabled, torch._C._set_cudnn_enabled, True, False),
    "mkldnn": (lambda: torch.backends.mkldnn.enabled, torch._C._set_mkldnn_enabled, True, False),
    "flash": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp, True, False),
    "fast path": (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, True, False),
    "default device": (lambda: str(torch.get_default_device()), torch.set_default_device, None, "meta"),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float32, torch.float64),
    "autocast dtype": (
        lambda: torch.get_autocast_dtype("cpu"),
        lambda dtype: torch.set_autocast_dtype("cpu", dtype),
        torch.bfloat16,
        torch.float16,
    ),
    "autocast cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, True, False),
    "anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, False, True),
    "swaps": (
        torch.__future__.get_swap_module_params_on_conversion,
        torch.__future__.set_swap_module_params_on_conversion,
        False,
        True,
    ),
    "fills": (*attribute(torch.utils.deterministic, "fill_uninitialized_memory"), True, False),
    "einsum": (*attribute(torch.backends.opt_einsum, "enabled"), True, False),
    "seed": (torch.initial_seed, torch.manual_seed, 1, 2),
    "validates": (
        lambda: torch.distributions.Distribution._validate_args,
        torch.distributions.Distribution.set_default_validate_args,
        torch.distributions.Distribution._validate_args,
        not torch.distributions.Distribution._validate_args,
    ),
}


@pytest.fixture
def restored(name: str) -> Iterator[None]:
    gramme.reset()
    yield
    _, change, usual, _ = SETTINGS[name]
    change(usual)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SETTINGS)
def test_an_answer_follows_the_setting(name: str, restored: None) -> None:
    ask, change, usual, other = SETTINGS[name]

    def f(x: torch.Tensor) -> Any:
        return x + 1, ask()

    compiled, x = gramme.compile(f, backend="eager"), torch.zeros(1, device="cpu")
    for value in (usual, other, usual, other, usual):
        change(value)
        wanted = ask()
        assert compiled(x)[1] == wanted
