"""Tests that leave something behind in the process, whatever they put back, run in a fork of it."""

import functools
import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

_PASSED, _SKIPPED, _FAILED = 0, 3, 4


def in_a_child(test: Callable[..., None]) -> Callable[..., None]:
    """Operators run on one thread there: the others of their pool are not forked."""

    @functools.wraps(test)
    def forking(*args: Any, **kwargs: Any) -> None:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _run(lambda: test(*args, **kwargs), write)
        os.close(write)
        with os.fdopen(read) as told:
            text = told.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == _SKIPPED:
            pytest.skip(text)
        if code != _PASSED:
            pytest.fail(text or f"the child ended with {code}", pytrace=False)

    return forking


def _run(test: Callable[[], None], write: int) -> None:
    code, text = _FAILED, ""
    try:
        torch.set_num_threads(1)
        test()
        code = _PASSED
    except pytest.skip.Exception as skipped:
        code, text = _SKIPPED, str(skipped)
    except BaseException:  # noqa: BLE001  it is told
        text = traceback.format_exc()
    finally:
        os.write(write, text.encode()[-60_000:])
        os._exit(code)
