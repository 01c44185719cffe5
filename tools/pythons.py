"""Other versions of CPython beside the one in .venv: interpreters with headers, in a folder of their own.

    python tools/pythons.py set-up 3.13 3.14     Debian's, from the mirror and by the keys that apt is configured with
    python tools/pythons.py test                 builds the module without torch with each, runs its tests
    python tools/pythons.py sanitize 3.14        the same under AddressSanitizer, with fewer programs

Nothing is installed: packages are unpacked into build/pythons/<version> (GRAMME_PYTHONS: another folder), and the
interpreter runs with their C library, by their loader. They are kept: what is set up once needs no network. 25 MB and
some ten seconds a version. `test` sets up what is missing of GRAMME_CI_PYTHONS (none by default) in at most
SET_UP_LIMIT seconds each. Its last lines say of each version what ran, or that it was skipped, and why.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("GRAMME_PYTHONS", ROOT / "build/pythons"))
SUITES = {"3.13": "stable", "3.14": "unstable", "3.15": "unstable"}  # Debian's suite that has it
OF_MACHINE = ("3.12",)  # the machine's own, if it has them: no suite does
SET_UP = os.environ.get("GRAMME_CI_PYTHONS", "").split()
SET_UP_LIMIT = 180  # seconds for what `test` sets up
READY = "ready"  # a file in a folder that is set up
LIBRARIES = "usr/lib/x86_64-linux-gnu"
MACHINE = "x86_64"

WRAPPER = """#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/../..
libraries="$root/{libraries}"
path="$libraries${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$libraries/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$path" "$root/usr/bin/{python}.real" "$@"
"""


class SkippedError(Exception):
    """A version cannot be set up or run."""


def tell(lines: list[str]) -> None:
    """Prints the lines, and keeps them for the end of `make test`, since other output follows."""
    print("\n".join(lines))
    if told := os.environ.get("GRAMME_TOLD"):
        with Path(told).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


class LateError(SkippedError):
    """It took longer than it may."""


_ends = float("inf")  # time at which the running command is late


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limits the total time of the commands that run in the scope."""
    global _ends
    before, _ends = _ends, min(_ends, time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends = before


def run(*command: str | Path, what: str, env: dict[str, str] | None = None, limit: float = float("inf")) -> str:
    """Runs a command and returns its output. A late command is ended with all its children."""
    parts, ends = [str(part) for part in command], min(_ends, time.monotonic() + limit)
    began, pipe = time.monotonic(), subprocess.PIPE
    with subprocess.Popen(parts, text=True, stdout=pipe, stderr=pipe, env=env, process_group=0) as process:
        try:
            out, error = process.communicate(timeout=max(ends - began, 0) if ends < float("inf") else None)
        except BaseException as why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(why, subprocess.TimeoutExpired):
                raise
            raise LateError(f"{what}: not done in {time.monotonic() - began:.0f} s") from None
    if process.returncode:
        lines = (error + out).strip().splitlines()
        told = [line.strip() for line in lines if re.search(r"\(constraint\)| error: |^E: ", line)]
        last = (error.strip() or out.strip()).splitlines()[-1:]
        raise SkippedError(f"{what}: {(told or last or ['failed'])[0]}")
    return out


def mirror() -> tuple[str, str]:
    """Debian's mirror and the file of its keys, as the machine's own sources have them."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SkippedError("no Debian: apt-get and dpkg-deb are missing")
    asked = ("--format", "$(REPO_URI)|$(SIGNED_BY)|$(LABEL)", "Created-By: Packages")
    for line in run("apt-get", "indextargets", *asked, what="apt-get indextargets").splitlines():
        uri, keys, label = line.split("|")
        if label == "Debian":
            known = keys if keys.startswith("/") else "/usr/share/keyrings/debian-archive-keyring.gpg"
            return uri, known
    raise SkippedError("apt knows no mirror of Debian; run apt-get update")


def write_configuration(folder: Path, suite: str) -> dict[str, str]:
    """Apt's for the one suite: no state of the machine's is read or written."""
    uri, keys = mirror()
    for needed in ("lists/partial", "cache/archives/partial"):
        (folder / needed).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb [signed-by={keys}] {uri} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
    }
    configuration = folder / "apt.conf"
    configuration.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return os.environ | {"APT_CONFIG": str(configuration), "DEBIAN_FRONTEND": "noninteractive"}


def set_up(version: str) -> Path:
    """The interpreter; its packages stay in the folder beside it."""
    if version not in SUITES:
        raise SkippedError(f"no CPython {version}: Debian has {', '.join(SUITES)}")
    if os.uname().machine != MACHINE:
        raise SkippedError(f"written for {MACHINE} only")
    root, packages = FOLDER / version, FOLDER / "packages" / version
    python = root / "usr/bin" / f"python{version}"
    if (root / READY).exists():
        return python
    if not (packages / READY).exists():
        env = write_configuration(packages, SUITES[version])
        run("apt-get", "-qq", "update", what="apt-get update", env=env)
        wanted = (f"python{version}", f"libpython{version}-dev", "libstdc++6")
        run("apt-get", "-qq", "-y", "--download-only", "install", *wanted, what="apt-get", env=env)
        (packages / READY).touch()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for package in sorted(packages.glob("cache/archives/*.deb")):
        run("dpkg-deb", "-x", package, root, what=f"dpkg-deb {package.name}")
    python.rename(python.with_name(python.name + ".real"))
    python.write_text(WRAPPER.format(libraries=LIBRARIES, python=python.name))
    python.chmod(0o755)
    run(python, "-c", "import sysconfig", what="the interpreter")
    (root / READY).touch()
    return python


def of_machine(version: str) -> Path | None:
    """An interpreter that the machine has: on the path, or in pyenv's folder."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    for python in [
        *([Path(on_path)] if on_path else []),
        *sorted(root.glob(f"versions/{version}.*/bin/python{version}")),
    ]:
        if not subprocess.run([str(python), "-c", ""], capture_output=True, check=False).returncode:
            return python
    return None


def interpreters() -> dict[str, Path | None]:
    """By version: this process's own, the machine's, what is set up; None where there is none."""
    found: dict[str, Path | None] = {f"{sys.version_info[0]}.{sys.version_info[1]}": Path(sys.executable)}
    for version in OF_MACHINE:
        found.setdefault(version, of_machine(version))
    for version in SUITES:
        there = (FOLDER / version / READY).exists()
        found[version] = FOLDER / version / "usr/bin" / f"python{version}" if there else None
    return found


def headers_of(python: Path) -> Path | None:
    """The folder of Python.h."""
    folder = run(python, "-c", "import sysconfig; print(sysconfig.get_path('include'))", what="the interpreter").strip()
    return Path(folder) if Path(folder, "Python.h").exists() else None


def compile_module(version: str, python: Path, sanitize: bool = False) -> Path:
    """The module of base, cpython and bytecode alone, with the compiler of this machine; the folder it lies in."""
    build = FOLDER / ("module-sanitized" if sanitize else "module") / version
    headers = headers_of(python)
    if not headers:
        raise SkippedError("it has no headers")
    configure = (ROOT / ".venv/bin/cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ROOT / '.venv/bin/ninja'}")
    run(*configure, "-S", ROOT / "tests/cpython", "-B", build, f"-DPYTHON_HEADERS={headers}",
        f"-DGRAMME_SANITIZE={'ON' if sanitize else 'OFF'}", what="cmake")  # fmt: skip
    run(ROOT / ".venv/bin/cmake", "--build", build, what="the build")
    return build


def main(arguments: list[str]) -> int:
    command, *versions = arguments or [""]
    told, failed = [], False
    if command == "set-up":
        for version in versions or list(SUITES):
            try:
                told.append(f"CPython {version}: {set_up(version)}")
            except SkippedError as why:
                failed = True
                told.append(f"CPython {version} CANNOT BE SET UP: {why}")
    elif command in ("test", "sanitize"):
        for version, python in interpreters().items():
            if versions and version not in versions:
                continue
            done = test(version, python, sanitize=command == "sanitize")
            failed |= done.startswith("FAILED")
            told.append(f"CPython {version} {done}")
    else:
        raise SystemExit(__doc__)
    tell(told)
    return int(failed)


def sanitized_env() -> dict[str, str]:
    """For an interpreter built without AddressSanitizer: its library comes first, each allocation is one of C."""
    library = run(os.environ.get("CXX", "g++"), "-print-file-name=libasan.so", what="the compiler").strip()
    return {"LD_PRELOAD": str(Path(library).resolve()), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}


def test(version: str, python: Path | None, sanitize: bool) -> str:
    if not python and version in SET_UP:
        try:
            with within(SET_UP_LIMIT):
                python = set_up(version)
        except SkippedError as why:
            return f"SKIPPED: {why}"
    if not python:
        how = f"tools/pythons.py set-up {version}" if version in SUITES else "the machine has none"
        return f"SKIPPED: not there; {how}"
    if not headers_of(python):
        return "SKIPPED: it has no headers"
    try:
        build = compile_module(version, python, sanitize)
        env = os.environ | {"PYTHONPATH": str(build)} | (sanitized_env() if sanitize else {})
    except SkippedError as why:
        return f"FAILED: {why}"
    programs = ["--generated", "10"] if sanitize else []
    scripts = (["run.py", *programs], ["rooms.py"], ["decoding.py", "--every", "16"])
    command = [str(python), "-W", "ignore"]
    done = [
        subprocess.run([*command, str(ROOT / "tests/cpython" / name), *options], env=env, check=False).returncode
        for name, *options in scripts
    ]
    return "FAILED" if any(done) else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
