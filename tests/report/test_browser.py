"""The page in a browser: Chromium without a window, where it is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import gramme
import pytest
import torch

from report import programs
from report.dom import Element, parse

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed (apt-get install chromium)")

X = torch.ones(3, 4)


def shown(page: Path, part: str = "", *options: str) -> Element:
    """The document once its scripts have run, opened at a part of it."""
    said = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", *options]
    done = subprocess.run(
        [*said, "--dump-dom", f"{page.as_uri()}{part}"], capture_output=True, text=True, check=True, timeout=110
    )
    assert "Uncaught" not in done.stderr, done.stderr
    return parse(re.sub(r"<!DOCTYPE html>", "", done.stdout))


def test_a_link_to_a_segment_opens_it(tmp_path: Path) -> None:
    gramme.explain(programs.outer)(X).save(tmp_path / "run.html")
    assert "open" not in shown(tmp_path / "run.html").id("s2").attributes
    page = shown(tmp_path / "run.html", "#s2")
    assert "open" in page.id("s2").attributes
    assert "open" in page.id("g2").attributes
    assert "open" not in page.id("s1").attributes


def test_a_graph_is_drawn(tmp_path: Path) -> None:
    gramme.explain(programs.Net())(X).save(tmp_path / "run.html")
    drawing = shown(tmp_path / "run.html", "#g1").id("g1").one("svg")
    nodes = drawing.all("g", "node")
    assert {node.all("text")[0].text for node in nodes} == {"add_", "batch_norm", "relu", "linear", "output"}
    assert {node.all("text")[-1].text for node in nodes if node.all("text", "shape")} >= {"f32[3, 4]"}
    assert len(drawing.all("path")) >= 3
    places = [tuple(map(float, re.findall(r"[\d.]+", node.attributes["transform"]))) for node in nodes]
    assert len(set(places)) == len(nodes)


def test_a_graph_of_a_thousand_operations_is_drawn(tmp_path: Path) -> None:
    gramme.explain(programs.long)(X).save(tmp_path / "run.html")
    graph = shown(tmp_path / "run.html", "#g1").id("g1")
    assert len(graph.all("g", "node")) == 1001
    assert len(graph.all("path")) == 1000
    assert len(graph.all("li", "call")) == 1000
    heights = [float(re.findall(r"[\d.]+", node.attributes["transform"])[1]) for node in graph.all("g", "node")]
    assert heights == sorted(heights)


@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_is_no_wider_than_the_window(width: int, tmp_path: Path) -> None:
    gramme.explain(programs.outer)(X).save(tmp_path / "run.html")
    page = tmp_path / "run.html"
    probe = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script></body>"
    page.write_text(page.read_text().replace("</body>", probe))
    title = shown(page, "", f"--window-size={width},900").all("title")[0].text
    wide, window = map(int, title.split(" of "))
    assert wide <= window
