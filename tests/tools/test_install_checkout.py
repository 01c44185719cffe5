"""The checkout as an installed package: what tools/install_checkout.py tells importlib.metadata."""

import importlib.metadata
from pathlib import Path

import install_checkout

ROOT = Path(__file__).parents[2]


def test_one_distribution_with_its_entry_points(tmp_path: Path) -> None:
    for _ in range(2):
        install_checkout.install(ROOT, tmp_path)
    (found,) = importlib.metadata.distributions(path=[str(tmp_path)])
    assert found.metadata["Name"] == "gramme"
    (entry,) = found.entry_points.select(group="torch_dynamo_backends")
    assert (entry.name, entry.value) == ("gramme_native", "gramme:gramme_native")


def test_all_that_is_written_is_in_the_record(tmp_path: Path) -> None:
    """Without that pip could not remove it."""
    install_checkout.install(ROOT, tmp_path)
    (found,) = importlib.metadata.distributions(path=[str(tmp_path)])
    recorded = {Path(file.locate()) for file in found.files or ()}
    assert recorded == {path for path in tmp_path.rglob("*") if path.is_file()}
    assert (tmp_path / "gramme-checkout.pth").read_text().strip() == str(ROOT / "python")
