"""The examples in the docstrings run, and every public name has one where it can be called."""

import doctest
import importlib
import inspect
import pkgutil

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


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    public = [getattr(module, item) for item in getattr(module, "__all__", ())]
    assert all(inspect.getdoc(item) for item in public if callable(item) and inspect.getmodule(item) is module)
