"""The programs on side effects as a table: what is not captured says why, families known to go wrong have variants."""

import collections

from programs import programs

ROWS = [p for p in programs() if p.category.startswith("fx_")]


def test_what_is_not_captured_says_why() -> None:
    assert [p.name for p in ROWS if not p.one_graph and not p.why] == []


def test_known_families_have_three_variants() -> None:
    variants = collections.Counter(p.known for p in ROWS if p.known)
    assert [family for family, count in variants.items() if count < 3] == []
