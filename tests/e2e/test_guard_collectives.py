"""With guard collectives all processes capture where one has to; without, each decides for itself."""

from pathlib import Path
from typing import Any

import gramme
import pytest
import torch

from e2e import guard_collectives
from e2e.front import GRAMME
from e2e.several_processes import run

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    return run(guard_collectives.run_all, tmp_path_factory.mktemp("together"), 2)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("what", guard_collectives.ARGUMENTS)
@pytest.mark.parametrize("name", guard_collectives.PROGRAMS)
def test_who_captures(name: str, what: str, backend: str, found: list[dict[Any, Any]]) -> None:
    (apart, together) = ([of_rank[t, name, what, backend] for of_rank in found] for t in (False, True))
    assert all(equal for equal, _ in (*apart, *together))
    captures = [counts for _, counts in together]
    assert captures[0] == captures[1]
    new = captures[0][3] - captures[0][2]
    alone = [counts[3] - counts[2] for _, counts in apart]
    assert (new > 0, alone[0], alone[1] > 0) == (what != "nothing", 0, what != "nothing")
    assert captures[0][-1] - captures[0][0] >= new


def test_the_setting_is_told(found: list[dict[Any, Any]]) -> None:
    assert [(of_rank["before"], of_rank["after"]) for of_rank in found] == [(False, (False, True))] * 2


def test_alone_nothing_changes() -> None:
    compiled = gramme.compile(guard_collectives.plain, backend="eager")
    torch.compiler.set_enable_guard_collectives(True)
    try:
        for number in (2, 2, 3, 2):
            x = torch.ones(2)
            assert torch.equal(compiled(x, number), guard_collectives.plain(x, number))
    finally:
        torch.compiler.set_enable_guard_collectives(False)
    assert gramme.statistics(compiled).captures == 2


def test_an_error_of_the_hook_reaches_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import eval_frame

    compiled = gramme.compile(guard_collectives.broken, backend="eager")
    x = torch.ones(2)
    compiled(x, 2)
    torch.compiler.set_enable_guard_collectives(True)

    def fail(hit: bool) -> bool:
        raise ConnectionError("the group is gone")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(eval_frame, "guard_collectives_hook", fail)
            with pytest.raises(ConnectionError, match="the group is gone"):
                compiled(x, 2)
        assert torch.equal(compiled(x, 2), guard_collectives.broken(x, 2))
    finally:
        torch.compiler.set_enable_guard_collectives(False)
