"""Each new segment is described, and what the description leads to from the call takes the place of its objects, before
it is used for the first time. The program must not tell the difference, and nothing may be missing.
"""

from collections.abc import Iterator

import pytest
from e2e.front import GRAMME
from e2e.harness import check
from gramme import _C
from programs import Program, programs

portable = _C.testing.testing_portable  # type: ignore[attr-defined]
guards = _C.testing  # type: ignore[attr-defined]

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")


@pytest.fixture(autouse=True)
def _rebinding() -> Iterator[None]:
    """Guards rest on no stamps: what they stood for together has to be a fact of its own."""
    before = guards.evidence()
    assert guards.use_evidence("slots")
    portable.rebind(True)
    portable.rebound()
    yield
    portable.rebind(False)
    guards.use_evidence(before)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("program", programs(), ids=lambda p: f"{p.category}-{p.name}")
def test_a_segment_is_what_its_description_leads_to(program: Program) -> None:
    check(program, fullgraph=program.one_graph and program.category != "errors")
    came_to = portable.rebound()
    assert came_to["wrong"] == []
