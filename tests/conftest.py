"""Shared by all tests: slow ones run last, so that a quick failure shows first; of many instances a sample runs."""

import os
import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from device import DEVICE
from sampling import EVEN, SEED, SOAK, evenly, some

TORCH = (int(torch.__version__.split(".")[0]), int(torch.__version__.split(".")[1]))
CAPABILITY = os.environ.get("ATEN_CPU_CAPABILITY")
if CAPABILITY:  # inductor finds its code for another instruction set in a cache that runs under both share
    cache = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}_{CAPABILITY}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="modules, and the tests in each, in an order drawn by SEED")
    parser.addoption("--most", metavar="COUNT", type=int, help="of the tests so many, drawn by --shuffle's SEED")


def pytest_report_header(config: pytest.Config) -> list[str]:
    if EVEN:
        return [f"{EVEN} quick tests evenly spread, drawn by GRAMME_SEED={SEED}"]
    sampled = "sampled tests: all instances" if SOAK else f"sampled tests: instances drawn by GRAMME_SEED={SEED}"
    seed = config.getoption("shuffle")
    return [sampled] if seed is None else [sampled, f"order of tests: drawn by --shuffle={seed}"]


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def expected_failures(table: str, what: str, installed: tuple[int, int]) -> dict[str, str]:
    """Tests that fail under what is installed, from a version on (2.15) or in a range (3.12-3.13), and why."""
    expected = {}
    for row in (Path(__file__).parent / table).read_text().splitlines():
        if not row.startswith("#"):
            version, rest = row.split(" ", 1)
            test, why = re.match(r"(\S+?(?:\[.*?\])?) (.*)", rest).groups()  # type: ignore[union-attr]
            first, _, last = version.partition("-")
            if _version(first) <= installed and (not last or installed <= _version(last)):
                expected[test] = f"{what} {version}: {why}"
    return expected


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    expected = expected_failures("other_torches.txt", "torch", TORCH)
    expected |= expected_failures("other_pythons.txt", "CPython", sys.version_info[:2])
    for item in items:
        if why := expected.get("tests/" + item.nodeid.removeprefix("tests/")):
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    left_out = _left_out(items)
    if EVEN:
        quick = [item for item in items if item not in left_out and not item.get_closest_marker("slow")]
        left_out = set(items).difference(evenly(quick, EVEN))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
    if config.getoption("shuffle") is not None:
        _shuffle(config, items)


def _shuffle(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What passes only behind another test, or not behind it, shows in some order."""
    draw, most = random.Random(config.getoption("shuffle")), config.getoption("most")
    modules: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.nodeid):
        modules[item.nodeid.partition("::")[0]].append(item)
    names = list(modules)
    draw.shuffle(names)
    for name in names:
        draw.shuffle(modules[name])
    shuffled = [item for name in names for item in modules[name]]
    if most is not None and most < len(shuffled):
        drawn = set(draw.sample(range(len(shuffled)), most))
        config.hook.pytest_deselected(items=[item for at, item in enumerate(shuffled) if at not in drawn])
        shuffled = [item for at, item in enumerate(shuffled) if at in drawn]
    items[:] = shuffled


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Instances of sampled tests beyond their number."""
    instances: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            instances[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for name, group in instances.items():
        marker = group[0].get_closest_marker("sampled")
        assert marker is not None
        left_out.update(set(group).difference(some(group, *marker.args, name)))
    return left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What `make test` ran on other versions before, or skipped, stands above the closing line."""
    told = Path(os.environ.get("GRAMME_TOLD", ""))
    if told.is_file():
        terminalreporter.section("other versions of torch and CPython")
        terminalreporter.write(told.read_text())


if DEVICE != "cpu":

    @pytest.fixture(autouse=True)
    def _device_is_usable() -> Iterator[None]:
        """A kernel's assertion ends all that the process does with the device: another worker goes on."""
        yield
        try:
            torch.accelerator.synchronize()
        except RuntimeError:
            os._exit(3)


@pytest.fixture(autouse=True)
def _captures_of_others_are_not_shared() -> None:
    """A test counts its own captures, whatever was captured of the same code before."""
    extension = sys.modules.get("gramme._C")
    if extension is not None:
        extension.testing.testing_runtime.forget_shared()


@pytest.fixture
def soak() -> bool:
    """True under `make soak`: run full counts instead of the capped ones."""
    return SOAK


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Operators run on one thread: their bits do not depend on how work is split."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
