"""Shared by all tests: slow ones run last, so that a quick failure shows first."""

import os

import pytest

SOAK = os.environ.get("GRAMME_SOAK") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture
def soak() -> bool:
    """True under `make soak`: run full counts instead of the capped ones."""
    return SOAK
