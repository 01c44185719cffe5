"""Makes the gallery: a report of each program, and a picture of its page if Chromium is installed.

.venv/bin/python docs/gallery/make.py [name ...]
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZE = (1400, 1800)


def report(program: Path) -> Path:
    page = HERE / f"{program.stem}.html"
    environment = os.environ | {"GRAMME_REPORT": str(page), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, program.relative_to(HERE.parent.parent)], check=True, env=environment)
    return page


def picture(page: Path, chromium: str) -> None:
    width, height = SIZE
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000"]
    size = [f"--window-size={width},{height}", f"--screenshot={page.with_suffix('.png')}"]
    subprocess.run([chromium, *options, *size, page.as_uri()], check=True, capture_output=True)


def main(names: list[str]) -> None:
    os.chdir(HERE.parent.parent)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    for program in sorted((HERE / "programs").glob("*.py")):
        if names and program.stem not in names:
            continue
        page = report(program.resolve())
        print(f"{page.name}: {page.stat().st_size / 1000:.0f} kB")
        if chromium:
            picture(page.resolve(), chromium)


if __name__ == "__main__":
    main(sys.argv[1:])
