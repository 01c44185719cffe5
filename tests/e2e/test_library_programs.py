"""Small programs of libraries (bench/libraries/small) equal eager, where the library is installed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.front import GRAMME

SMALL = Path(__file__).parents[2] / "bench" / "libraries" / "small"
NEEDS = {
    "monai": ("monai",),
    "zuko": ("zuko",),
    "metric_learning": ("pytorch_metric_learning",),
    "pypose": ("pypose",),
    "geoopt": ("geoopt",),
    "einops": ("x_transformers", "vit_pytorch", "perceiver_pytorch"),
    "e3nn": ("e3nn",),
    "pyro": ("pyro",),
    "nflows": ("nflows", "normflows"),
    "attribution": ("captum", "entmax", "opacus", "torchdiffeq", "torchsde", "torchcde"),
}
UNSTEADY = ("SavitzkyGolayFilter",)
"""Eager itself does not repeat its results."""

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts graphs of both front ends itself")


def missing(library: str) -> list[str]:
    return [name for name in NEEDS[library] if importlib.util.find_spec(name) is None]


def test_each_file_of_programs_is_known() -> None:
    assert {path.stem.removeprefix("in_") for path in SMALL.glob("in_*.py")} == set(NEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3300)
@pytest.mark.parametrize("library", NEEDS)
def test_programs_equal_eager(library: str) -> None:
    if absent := missing(library):
        pytest.skip(f"SKIPPED: pip install --no-deps -r {SMALL / 'requirements.txt'} ({', '.join(absent)} missing)")
    child = subprocess.run(
        [sys.executable, "-W", "ignore", str(SMALL / "outcomes.py"), "--values", "--libraries", library],
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    lines = [line for line in child.stdout.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 20
    assert [line for line in lines if not line.startswith(UNSTEADY) and ": =" not in line] == []
