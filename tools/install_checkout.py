"""Makes the running Python import gramme from this checkout, and lets packages find its entry points.

    .venv/bin/python tools/install_checkout.py

Writes a .pth file and a gramme-<version>.dist-info of what pyproject.toml says. Both are in the RECORD there, so that
pip lists the checkout and removes it before it installs a wheel.
"""

import sysconfig
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def metadata(project: dict[str, Any]) -> str:
    return f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"


def entry_points(project: dict[str, Any]) -> str:
    groups = project.get("entry-points", {})
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in groups.items()
    )


def install(root: Path, packages: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    name = project["name"]
    for old in packages.glob(f"{name}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = packages / f"{name}-{project['version']}.dist-info"
    info.mkdir()
    written = {
        packages / f"{name}-checkout.pth": f"{root / 'python'}\n",
        info / "METADATA": metadata(project),
        info / "entry_points.txt": entry_points(project),
    }
    for path, text in written.items():
        path.write_text(text)
    record = [path.relative_to(packages) for path in (*written, info / "RECORD")]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in record))


if __name__ == "__main__":
    install(ROOT, Path(sysconfig.get_path("purelib")))
