"""Tells the processes of a group which of them died, stopped or failed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .._torch.names import PrefixStore, get_default_store

__all__ = ["PeerError", "watched"]

_BEAT = 0.3  # seconds
_PATIENCE = timedelta(seconds=2)  # for a store that does not answer


class PeerError(RuntimeError):
    """Another process of the pipeline died, stopped or failed.

    Attributes:
        ranks: its number in the group, or theirs; empty if it cannot be told.

    """

    def __init__(self, message: str, ranks: tuple[int, ...]) -> None:
        super().__init__(message)
        self.ranks = ranks


class _Heart:
    """Tells the others that this process lives, by a number that grows."""

    def __init__(self, group: dist.ProcessGroup | None, run: int) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        members = ",".join(map(str, dist.get_process_group_ranks(group or dist.group.WORLD)))
        store: Any = get_default_store()
        self._store: Any = PrefixStore(f"gramme.pipeline/{members}/{run}", store.clone())
        self._store.set_timeout(_PATIENCE)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="gramme.pipeline.watched", daemon=True)

    def start(self) -> None:
        self._tell("0")  # also if the process dies before its thread runs
        self._thread.start()

    def stop(self, last_words: str) -> None:
        self._end.set()
        self._thread.join()
        self._tell(last_words)

    def _beat(self) -> None:
        beats = 0
        while True:
            beats += 1
            self._tell(str(beats))
            if self._end.wait(_BEAT):
                return

    def _tell(self, words: str) -> None:
        with contextlib.suppress(Exception):  # the store is gone: its process is, too
            self._store.set(f"{self.rank}", words)

    def told(self) -> dict[int, str]:
        """The last message of each process. Raises if the store does not answer."""
        keys = [f"{rank}" for rank in range(self.size)]
        return {rank: self._store.get(key).decode() for rank, key in enumerate(keys) if self._store.check([key])}

    def blamed(self) -> PeerError | None:
        """The process to blame for a failed message, and why."""
        try:
            before = self.told()
            time.sleep(4 * _BEAT)
            now = self.told()
        except Exception as error:
            return PeerError(f"the process that keeps the group's store died or stopped: {error}", ())
        others = [rank for rank in range(self.size) if rank != self.rank]
        silent = tuple(rank for rank in others if now.get(rank, "").isdigit() and before.get(rank) == now[rank])
        if silent:
            return PeerError(f"process {_listed(silent)} of {self.size} died or stopped", silent)
        failed = tuple(rank for rank in others if now.get(rank, "").startswith(_FAILED))
        first = [rank for rank in failed if not now[rank].startswith(_FAILED + PeerError.__name__)] or failed
        if not first:
            return None
        return PeerError(
            f"process {first[0]} of {self.size} failed: {now[first[0]].removeprefix(_FAILED)}", (first[0],)
        )


_FAILED = "failed: "
_runs = 0


def _listed(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks))


@contextlib.contextmanager
def watched(group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Inside, a failed message between the processes tells which process died, stopped or failed.

    All processes of the group enter it, around their steps: a thread in each tells the others that it lives. How long a
    message waits is the group's time limit (``init_process_group(timeout=...)``); a process that dies is noticed at
    once.

    Args:
        group: the processes of the pipeline, all by default.

    Raises:
        PeerError: another process died, stopped or failed; the exception of the message is its ``__cause__``.

    """
    global _runs
    _runs += 1
    heart = _Heart(group, _runs)
    heart.start()
    last_words = "left"
    try:
        yield
    except BaseException as error:
        if isinstance(error, RuntimeError) and (blamed := heart.blamed()):
            last_words = f"{_FAILED}{PeerError.__name__}: {blamed}"
            raise blamed from error
        last_words = f"{_FAILED}{type(error).__name__}: {error}"
        raise
    finally:
        heart.stop(last_words)
