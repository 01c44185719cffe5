"""Other versions of torch beside the one in .venv: environments, builds, a sample of the quick tests.

    python tools/torches.py set-up 2.15.0        an environment in build/torches/2.15, gramme built against its torch
    python tools/torches.py set-up 2.15.0 3.14   in build/torches/3.14-2.15, for that CPython (tools/pythons.py)
    python tools/torches.py test [COUNT]         what of it is there is built again, runs COUNT (2,000) quick tests

An environment is set up from what pip finds, as pip is configured. Wheels of torch for CUDA need no CUDA: what its
libraries ask of others when they are loaded is a stub that aborts, but for the runtime and CUPTI. The last lines say of
each version what ran, or that it was skipped, and why. GRAMME_SEED draws the sample; it is printed.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import install_checkout
import pythons

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("GRAMME_TORCHES", ROOT / "build/torches"))
VERSIONS = ("2.15", "3.14-2.15")  # of which `test` runs what is there
SAMPLE = 2000
LIMIT = 480  # seconds of tests
READY = "ready"  # a file in an environment that is set up

REAL = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")  # run when torch is loaded
SYSTEM = re.compile(r"lib(z|c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|gomp|quadmath)\.so|ld-linux")


class SkippedError(Exception):
    """Why a version cannot be had, or run."""


def run(*command: str | Path, what: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, env=env)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = [line.strip() for line in lines if "(constraint)" in line] or lines[-1:] or ["failed"]
        raise SkippedError(f"{what}: {why[0]}")
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    paths = (str(folder / "libraries"), os.environ.get("LD_LIBRARY_PATH", ""))
    return os.environ | {"LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def shared_objects(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if ".so" in path.name and path.is_file()]


def write_stub(out: Path, library: str, symbols: set[tuple[str, str]], names: set[str]) -> None:
    """A library that has the names, in the versions that are asked for; each aborts."""
    source, script = out / f"{library}.c", out / f"{library}.map"
    functions = (
        f'void {name}(void) {{ fputs("stub {library}: {name}\\n", stderr); abort(); }}' for name in sorted(names)
    )
    source.write_text("\n".join(("#include <stdio.h>", "#include <stdlib.h>", *functions, "")))
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for version, name in symbols:
        versions[version].add(name)
    script.write_text("".join(f"{v} {{ global: {'; '.join(sorted(of))}; }};\n" for v, of in sorted(versions.items())))
    options = [
        "-shared",
        "-fPIC",
        "-w",
        "-fno-builtin",
        f"-Wl,-soname,{library}",
        "-o",
        str(out / library),
        str(source),
    ]
    options += [f"-Wl,--version-script={script}"] if versions else []
    run(os.environ.get("CC", "gcc"), *options, what="a stub")
    source.unlink()
    script.unlink()


def make_stubs(torch: Path, out: Path) -> None:
    """Stubs of what torch's libraries need, and neither they nor `out` nor the system has."""
    libraries = shared_objects(torch / "lib") + shared_objects(out)
    have = {path.name for path in libraries}
    needed: set[str] = set()
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", library, what="readelf")))
    missing = sorted(name for name in needed - have if not SYSTEM.match(name))
    owner: dict[str, str] = {}  # version of a symbol: its library
    asked: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    loose: set[str] = set()
    defined: set[str] = set()
    for library in libraries:
        file = ""
        for line in run("readelf", "-W", "-V", library, what="readelf").splitlines():
            if found := re.search(r"File: (\S+)", line):
                file = found[1]
            elif (found := re.search(r"Name: (\S+)\s+Flags", line)) and file in missing:
                owner[found[1]] = file
        for line in run("readelf", "-W", "--dyn-syms", library, what="readelf").splitlines():
            fields = line.split()
            if len(fields) < 8:
                continue
            name, _, version = fields[7].replace("@@", "@").partition("@")
            if fields[6] != "UND":
                defined.add(name)
            elif version in owner:
                asked[owner[version]].add((version, name))
            elif not version and fields[4] == "GLOBAL":
                loose.add(name)
    for library in missing:
        stem = library.removeprefix("lib").partition(".so")[0].partition("_")[0]
        starts = {"cuda": r"cu[A-Z]", "cufile": "cuFile"}.get(stem, re.escape(stem))
        plain = {name for name in loose - defined if re.match(starts, name)}
        if stem == "cuda":
            plain = {name for name in plain if not name.startswith("cuFile")}
        write_stub(out, library, asked[library], {name for _, name in asked[library]} | plain)


def packages_of(folder: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(run(folder / "bin/python", "-c", code, what="python").strip())


def set_up(version: str, of_python: str = "") -> None:
    """The environment, and gramme built in it."""
    minor = ".".join(version.split(".")[:2])
    folder = FOLDER / (f"{of_python}-{minor}" if of_python else minor)
    python = folder / "bin/python"
    if not python.exists():
        interpreter = pythons.interpreters().get(of_python) if of_python else Path(sys.executable)
        if not interpreter:
            raise SkippedError(f"no CPython {of_python}; tools/pythons.py set-up {of_python}")
        run(interpreter, "-m", "venv", "--without-pip", folder, what="venv")
    of_this = (ROOT / ".venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--python", python)
    pip = (*of_this, "install", "--quiet", "--no-deps", "--only-binary=:all:")
    others = run(ROOT / ".venv/bin/python", "-m", "pip", "freeze", "--all", what="pip freeze").splitlines()
    wanted = [line for line in others if not re.match(r"(torch|gramme|pip)\b", line)]
    run(*pip, f"torch=={version}", what=f"pip install torch=={version}")
    run(*pip, *wanted, what="pip install")
    packages = packages_of(folder)
    if subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False).returncode:
        cuda = re.search(r"__version__ = .*\+cu(\d+)(\d)'", (packages / "torch/version.py").read_text())
        if not cuda:
            raise SkippedError("torch cannot be imported")
        run(
            *pip,
            "--target",
            folder / "real",
            *(f"{name}=={cuda[1]}.{cuda[2]}.*" for name in REAL),
            what="CUDA's runtime",
        )
        (folder / "libraries").mkdir(exist_ok=True)
        for library in shared_objects(folder / "real"):
            if re.match(r"lib(cudart|cupti)\.so", library.name):
                shutil.copy(library, folder / "libraries")
        make_stubs(packages / "torch", folder / "libraries")
        run(python, "-c", "import torch", what="import torch", env=environment(folder))
    build(folder)
    (folder / READY).touch()


def build(folder: Path) -> None:
    cmake, ninja = ROOT / ".venv/bin/cmake", ROOT / ".venv/bin/ninja"
    env = environment(folder)
    options = (f"-DPython_EXECUTABLE={folder / 'bin/python'}", f"-DCMAKE_MAKE_PROGRAM={ninja}")
    output = f"-DGRAMME_OUTPUT_DIR={folder / 'python/gramme'}"
    run(cmake, "-S", ROOT, "-G", "Ninja", "-B", folder / "build", *options, output, what="cmake", env=env)
    run(cmake, "--build", folder / "build", what="the build", env=env)
    for path in (ROOT / "python/gramme").rglob("*"):
        if path.is_file() and not path.name.startswith("_C.c") and "__pycache__" not in path.parts:
            target = folder / "python/gramme" / path.relative_to(ROOT / "python/gramme")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    shutil.copy(ROOT / "pyproject.toml", folder)
    install_checkout.install(folder, packages_of(folder))


def sample(folder: Path, count: int) -> bool:
    """Runs the tests, which write to the terminal."""
    env = environment(folder) | {"PYTHONPATH": str(folder / "python"), "GRAMME_EVEN": str(count)}
    command = [str(folder / "bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-m", "not slow"]
    done = subprocess.run([*command, f"--session-timeout={LIMIT}"], cwd=ROOT, env=env, check=False)
    return done.returncode == 0


def in_words(environment: str) -> tuple[str, str]:
    """What an environment of VERSIONS is, and the command that sets it up."""
    of_python, _, torch = environment.rpartition("-")
    title = f"torch {torch}" + (f" for CPython {of_python}" if of_python else "")
    return title, f"tools/torches.py set-up {torch}.0 {of_python}".strip()


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["set-up"] and len(arguments) in (2, 3):
        try:
            set_up(*arguments[1:])
        except (SkippedError, pythons.SkippedError) as why:
            print(f"torch {' for CPython '.join(arguments[1:])} CANNOT BE SET UP: {why}")
            return 1
        return 0
    if arguments[:1] != ["test"]:
        raise SystemExit(__doc__)
    count, failed, told = int((arguments[1:] or [str(SAMPLE)])[0]), False, []
    for version in VERSIONS:
        folder, began = FOLDER / version, time.monotonic()
        title, command = in_words(version)
        try:
            if not (folder / READY).exists():
                raise SkippedError(f"no environment in {folder}; {command}")
            build(folder)
        except SkippedError as why:
            told.append(f"{title} SKIPPED: {why}")
            continue
        passed = sample(folder, count)
        failed |= not passed
        told.append(f"{title} {'passed' if passed else 'FAILED'}, {time.monotonic() - began:.0f} s")
    print("\n".join(told))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
