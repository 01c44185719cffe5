"""Finds and loads the extension module that was built for the installed torch.

A wheel has one for each torch that it supports, in a folder of its own: classes of torch are laid out otherwise in each
minor version, so exactly one may be loaded. It is `gramme._C`, wherever it lies.
"""

import importlib.machinery
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
FOLDER = Path(__file__).parent / "_torch"
NAME = f"{__package__}._C"


def refuse_python(version: Sequence[int | str] = sys.version_info, name: str = sys.implementation.name) -> None:
    """Raises ImportError for an interpreter whose internals gramme does not know."""
    wanted = "gramme needs CPython " + _either([f"{major}.{minor}" for major, minor in PYTHONS])
    text = ".".join(str(part) for part in version[:3])
    if name != "cpython":
        raise ImportError(f"{wanted}, this is {name} {text}")
    if (3, 13, 0) <= tuple(version[:3]) < (3, 13, 5):
        raise ImportError(f"{wanted}, this is {text}: of 3.13, 3.13.5 or later")
    if tuple(version[:2]) not in PYTHONS:
        raise ImportError(f"{wanted}, this is {text}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(f"{wanted} with the GIL, this is a free-threaded build of {text}")


def _either(words: Sequence[str]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def minor_of(version: str) -> str:
    """Major and minor version.

    >>> minor_of("2.13.0+cpu")
    '2.13'
    """
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def modules(folder: Path = FOLDER) -> dict[str, Path]:
    """The modules that were built for this interpreter, by torch's minor version, the oldest first."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    found = {path.parent.name.replace("_", "."): path for path in folder.glob(f"*/_C{suffix}")}
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def choose(torch_version: str | None, found: dict[str, Path]) -> Path:
    """The module for that torch (None: torch is not installed). An ImportError tells in a sentence what to install."""
    if not found:
        raise ImportError(f"gramme is not built for this Python: no extension module in {FOLDER}/*")
    install = f"pip install 'torch=={list(found)[-1]}.*'"
    if torch_version is None:
        raise ImportError(f"gramme needs torch {_either(list(found))}: {install}")
    try:
        return found[minor_of(torch_version)]
    except KeyError:
        raise ImportError(
            f"this gramme was built for torch {_either(list(found))}, not for {torch_version}: {install}, "
            "or build gramme with this torch"
        ) from None


def _torch_version() -> str | None:
    """Imports torch, whose libraries the module needs; None without torch, its error if the import fails."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None
    return torch.__version__


def load() -> ModuleType:
    """`gramme._C`."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    refuse_python()
    spec = importlib.util.spec_from_file_location(NAME, choose(_torch_version(), modules()))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    return module


load()
