"""gramme.record: writes a report of a run as an HTML page."""

from __future__ import annotations

import atexit
import os
import pathlib
import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types

    from ._report.recorder import Recorded, Recorder

__all__ = ["Recording", "follow_environment", "record"]

REPORT = "GRAMME_REPORT"


class Recording:
    """A `with` block that is recorded; `save` writes its report, once the block is left."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else pathlib.Path(path)
        if self._path is not None and not self._path.resolve().parent.is_dir():
            raise FileNotFoundError(f"path: there is no folder {self._path.resolve().parent}")
        self._recorder: Recorder | None = None
        self._recorded: Recorded | None = None

    def __enter__(self) -> Recording:
        self._start(sys._getframe(1).f_code)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report.

        Args:
            path: of the page of HTML, which needs no other file and no network.

        Raises:
            RuntimeError: the block is not left yet.

        """
        self.recorded.save(pathlib.Path(path))

    @property
    def recorded(self) -> Recorded:
        """The recorded run for the report; RuntimeError before the block is left."""
        if self._recorded is None:
            raise RuntimeError("the recording has not ended: leave its block before save()")
        return self._recorded

    def _start(self, base: types.CodeType | None) -> None:
        from ._report.recorder import Recorder

        recorder = Recorder(base)
        recorder.start()
        self._recorder = recorder

    def _stop(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self._recorded = recorder.stop()
        if self._path is not None:
            self.save(self._path)


def record(path: str | os.PathLike[str] | None = None) -> Recording:
    """Records what compiled functions do in a `with` block, in all threads, and writes a report of it.

    The report is one page of HTML: the source with what was captured, run in Python and run uncompiled, each
    graph, its guards and effects, captures and recompiles in time, and what to do. What is captured does not depend on
    it. `GRAMME_REPORT=run.html python train.py` records a whole program.

    Args:
        path: of the page; None: call `save(path)` after the block.

    Raises:
        FileNotFoundError: the page's folder does not exist.
        ValueError: on entry, a recording is under way already: there is one at a time in a process.

    Example:
        >>> import os, tempfile, torch, gramme
        >>> f = gramme.compile(lambda x: x.sin() + 1, backend="native")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with gramme.record(os.path.join(folder, "run.html")):
        ...         y = f(torch.ones(2))
        ...     os.listdir(folder)
        ['run.html']

    """
    return Recording(path)


def follow_environment() -> None:
    """Records the whole program if GRAMME_REPORT is set. Processes started by torchrun write a page each."""
    path = os.environ.get(REPORT)
    if not path:
        return
    rank = os.environ.get("RANK")
    page = pathlib.Path(path)
    recording = Recording(page if rank is None else page.with_name(f"{page.stem}.rank{rank}{page.suffix}"))
    recording._start(None)
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process:
            recording._stop()

    atexit.register(end)
