"""The examples in the docstrings run, and every public name has one where it can be called."""

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import gramme.pipeline
import gramme.torchgpipe
import pytest

MODULES = [
    name
    for package in (gramme.torchgpipe, gramme.pipeline)
    for name in (
        package.__name__,
        *(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    )
]


@pytest.mark.parametrize("name", [*MODULES, "gramme._compile", "gramme._explain", "gramme._meter"])
def test_examples_run(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    public = [getattr(module, item) for item in getattr(module, "__all__", ())]
    assert all(inspect.getdoc(item) for item in public if callable(item) and inspect.getmodule(item) is module)


def test_the_unet_runs(tmp_path, monkeypatch, capsys):
    root = Path(__file__).parents[2]
    assert "examples/pipeline_unet.py plan.svg" in (root / "README.md").read_text()
    monkeypatch.setattr(sys, "argv", ["pipeline_unet.py", str(tmp_path / "plan.svg")])
    runpy.run_path(str(root / "examples/pipeline_unet.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert "portal" in told
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", told)]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert (tmp_path / "plan.svg").stat().st_size > 1000
