"""Other versions of torch beside the one in .venv: environments, builds, a sample of the quick tests.

    python tools/torches.py set-up 2.15.0        an environment in build/torches/2.15, gramme built against its torch
    python tools/torches.py set-up 2.15.0 3.14   in build/torches/3.14-2.15, for that CPython (tools/pythons.py)
    python tools/torches.py test [COUNT]         what of it is there is built again, runs COUNT (2,000) quick tests

`test` sets up what is missing of GRAMME_CI_TORCHES ("3.14-2.15", as .ci/run does): some 2 GB of downloads, SET_UP_TIME
seconds at most. What cannot be set up is skipped. What does not compile, or fails a test, has failed.
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
SET_UP = os.environ.get("GRAMME_CI_TORCHES", "").split()  # and sets these up if they are not
SET_UP_TIME = 480  # seconds for the whole set-up, without the build
CI_BUILD_LIMIT = 900
SPACE = 8e9  # bytes that a set-up and a build want
SAMPLE = 2000
LIMIT = 480  # seconds of tests
SET_UP_LIMIT = 600  # seconds for one command of a set-up
BUILD_LIMIT = 2400
READY = "ready"  # a file in an environment that is set up

REAL = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")  # run when torch is loaded
SYSTEM = re.compile(r"lib(z|c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|gomp|quadmath)\.so|ld-linux")


SkippedError, LateError = pythons.SkippedError, pythons.LateError


def run(*command: str | Path, what: str, env: dict[str, str] | None = None, limit: float = SET_UP_LIMIT) -> str:
    return pythons.run(*command, what=what, env=env, limit=limit)


def environment(folder: Path) -> dict[str, str]:
    """In which programs of the environment run. What Inductor compiles finds the headers of an unpacked CPython."""

    def paths(first: Path, name: str) -> str:
        return ":".join(path for path in (str(first), os.environ.get(name, "")) if path)

    env = os.environ | {"LD_LIBRARY_PATH": paths(folder / "libraries", "LD_LIBRARY_PATH")}
    return env | ({"CPATH": paths(folder / "headers", "CPATH")} if (folder / "headers").exists() else {})


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


def find_headers(folder: Path, of_python: str) -> None:
    """Those of an unpacked CPython that its own include by the machine's name, for what Inductor compiles."""
    for real in (pythons.FOLDER / of_python / "usr/include").glob("*-linux-gnu/python3*"):
        link = folder / "headers" / real.parent.name / real.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(real)


def packages_of(folder: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(run(folder / "bin/python", "-c", code, what="python").strip())


def name_of(version: str, of_python: str = "") -> str:
    """Of an environment: `2.15`, or `3.14-2.15` for another CPython than this process's."""
    minor = ".".join(version.split(".")[:2])
    return f"{of_python}-{minor}" if of_python else minor


def set_up(version: str, of_python: str = "") -> Path:
    """The environment, without gramme."""
    folder = FOLDER / name_of(version, of_python)
    python = folder / "bin/python"
    if not python.exists():
        interpreter = pythons.interpreters().get(of_python) if of_python else Path(sys.executable)
        run(interpreter or pythons.set_up(of_python), "-m", "venv", "--without-pip", folder, what="venv")
    of_this = (ROOT / ".venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--python", python)
    pip = (*of_this, "install", "--quiet", "--no-deps", "--only-binary=:all:")
    others = run(ROOT / ".venv/bin/python", "-m", "pip", "freeze", "--all", what="pip freeze").splitlines()
    wanted = [line for line in others if not re.match(r"(torch|gramme|pip|setuptools)\b", line)]
    wanted += re.findall(r"(?m)^setuptools==.*", (ROOT / "requirements.lock").read_text())  # torch's, from 3.12 on
    run(*pip, f"torch=={version}", what=f"pip install torch=={version}")
    run(*pip, *wanted, what="pip install")
    if subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False).returncode:
        make_importable(folder, pip)
    if of_python:
        find_headers(folder, of_python)
    (folder / READY).touch()
    return folder


def make_importable(folder: Path, pip: tuple[str | Path, ...]) -> None:
    """Torch's wheel for CUDA, where there is none."""
    packages = packages_of(folder)
    cuda = re.search(r"__version__ = .*\+cu(\d+)(\d)'", (packages / "torch/version.py").read_text())
    if not cuda:
        raise SkippedError("torch cannot be imported")
    wanted = (f"{name}=={cuda[1]}.{cuda[2]}.*" for name in REAL)
    run(*pip, "--target", folder / "real", *wanted, what="CUDA's runtime")
    (folder / "libraries").mkdir(exist_ok=True)
    for library in shared_objects(folder / "real"):
        if re.match(r"lib(cudart|cupti)\.so", library.name):
            shutil.copy(library, folder / "libraries")
    make_stubs(packages / "torch", folder / "libraries")
    run(folder / "bin/python", "-c", "import torch", what="import torch", env=environment(folder))


def build_folder(folder: Path) -> Path:
    """Modules for .venv's CPython are built in one folder: they share the rooms that see no torch."""
    return folder / "build" if "-" in folder.name else ROOT / "build/release"


def torch_folders(folder: Path) -> list[Path]:
    """The torches that its build folder has modules for, by their packages."""
    if "-" in folder.name:
        return [packages_of(folder) / "torch"]
    others = [path.parent for path in sorted(FOLDER.glob(f"*/{READY}")) if "-" not in path.parent.name]
    return [packages_of(each) / "torch" for each in (ROOT / ".venv", *others)]


def module_of(minor: str) -> str:
    """The name of the target."""
    return "_C_" + minor.replace(".", "_")


def build(folder: Path, limit: float = BUILD_LIMIT) -> None:
    """The module for its torch, beside others in python/gramme, and what packages ask of an installed one."""
    cmake, where, env = ROOT / ".venv/bin/cmake", build_folder(folder), environment(folder)
    python = (folder if "-" in folder.name else ROOT / ".venv") / "bin/python"
    torches = ";".join(str(torch) for torch in torch_folders(folder))
    options = (f"-DCMAKE_MAKE_PROGRAM={ROOT / '.venv/bin/ninja'}", "-DGRAMME_OUTPUT_DIR=")
    of = (f"-DPython_EXECUTABLE={python}", f"-DGRAMME_TORCH_DIRS={torches}")
    run(cmake, "-S", ROOT, "-G", "Ninja", "-B", where, *options, *of, what="cmake", env=env)
    module = module_of(folder.name.rpartition("-")[2])
    run(cmake, "--build", where, "--target", module, what="the build", env=env, limit=limit)
    install_checkout.install(ROOT, packages_of(folder))


def run_tests(folder: Path, *options: str, count: int = 0, limit: int = 0) -> tuple[bool, str]:
    """Did they pass, and pytest's last line. `count` of the quick tests, or of all those that the options name.

    Those that `limit` seconds leave out have not failed. Output goes to the terminal, too.
    """
    env = environment(folder) | ({"GRAMME_EVEN": str(count)} if count else {}) | {"OMP_WAIT_POLICY": "passive"}
    command = [str(folder / "bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *options]
    command += [f"--session-timeout={limit}"] if limit else []
    last, cut = "", False
    with subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE) as tests:
        assert tests.stdout
        for line in tests.stdout:
            print(line, end="", flush=True)
            last = line.strip("= \n") or last
            cut |= "session-timeout" in line and line.startswith("!")
    if cut:
        return not re.search(r"\d+ (failed|error)", last), f"{last}, the rest left out after {limit} s"
    return tests.returncode == 0, last


def set_up_by_name(environment: str) -> None:
    """One of VERSIONS, and the CPython that it is for."""
    of_python, _, torch = environment.rpartition("-")
    FOLDER.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(FOLDER).free) < SPACE:
        raise SkippedError(f"{free / 1e9:.1f} GB are free, it wants {SPACE / 1e9:.0f}")
    with pythons.within(SET_UP_TIME):
        set_up(f"{torch}.0", of_python)


def in_words(environment: str) -> tuple[str, str]:
    """What an environment of VERSIONS is, and the command that sets it up."""
    of_python, _, torch = environment.rpartition("-")
    title = f"torch {torch}" + (f" for CPython {of_python}" if of_python else "")
    return title, f"tools/torches.py set-up {torch}.0 {of_python}".strip()


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["set-up"] and len(arguments) in (2, 3):
        try:
            build(set_up(*arguments[1:]))
        except SkippedError as why:
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
                if version not in SET_UP:
                    raise SkippedError(f"no environment in {folder}; {command}, or GRAMME_CI_TORCHES={version}")
                set_up_by_name(version)
        except SkippedError as why:
            told.append(f"{title} SKIPPED: {why}")
            continue
        ready = time.monotonic()
        try:
            build(folder, CI_BUILD_LIMIT)
        except LateError as why:
            told.append(f"{title} SKIPPED: {why}")
            continue
        except SkippedError as why:
            failed = True
            told.append(f"{title} FAILED: {why}")
            continue
        built = time.monotonic()
        passed, summary = run_tests(folder, "-m", "not slow", count=count, limit=LIMIT)
        failed |= not passed
        took = f"set up in {ready - began:.0f} s, built in {built - ready:.0f} s"
        told.append(f"{title} {'passed' if passed else 'FAILED'}: {summary}; {took}")
    pythons.tell(told)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
