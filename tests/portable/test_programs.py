"""Every program: are its segments portable, and if not, for the reason that is listed?

python -m portable.test_programs     # in tests: prints the table anew, and the share of portable segments
"""

import collections
import contextlib
import io
import warnings
from pathlib import Path

import gramme
import pytest
from e2e.front import GRAMME
from e2e.harness import MISS_N, observe
from gramme import _C
from gramme._compile import entry_of
from programs import Program, programs

portable = _C.testing.testing_portable  # type: ignore[attr-defined]

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

TABLE = Path(__file__).with_name("unportable.txt")
# program: reasons (rows of src/portable/unportable.def)
LISTED = dict(row.split(": ") for row in TABLE.read_text().splitlines() if row and not row.startswith("#"))


def reasons(program: Program) -> list[set[str]]:
    """Of each of its segments, of two calls, why it is not portable."""
    compiled = gramme.compile(program.function, backend="native")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observe(compiled, program, plain=True)
        observe(compiled, program, 2, MISS_N, plain=True)
    segments = portable.inventory(entry_of(compiled))
    return [{reason for _, _, _, reason, _ in rows if reason} - {"Artifact"} for rows in segments]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("program", programs(), ids=lambda p: f"{p.category}-{p.name}")
def test_what_is_not_portable_is_listed(program: Program) -> None:
    found = sorted(set().union(*reasons(program)))
    assert " ".join(found) == LISTED.get(program.name, "")


def test_the_list_is_short() -> None:
    names = {program.name for program in programs()}
    assert LISTED.keys() <= names
    assert len(LISTED) <= len(names) // 20


def main() -> None:
    counts: collections.Counter[str] = collections.Counter()
    total = 0
    for program in programs():
        segments = reasons(program)
        total += len(segments)
        for found in segments:
            counts.update(found or {"portable"})
        if found := sorted(set().union(*segments)):
            print(f"{program.name}: {' '.join(found)}")
    print(f"# {total} segments: {dict(counts.most_common())}")


if __name__ == "__main__":
    main()
