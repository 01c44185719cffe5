"""The list of what costs more captures than its limit, and why: a line goes when that is mended, its number only
falls."""

from pathlib import Path

FILE = Path(__file__).with_name("open_captures.txt")


def read() -> dict[str, int]:
    """Captures now, by name."""
    rows = (line.split(" | ") for line in FILE.read_text().splitlines())
    return {name: int(captures) for name, captures, why in rows if why}


OPEN = read()


def hold(name: str, captures: int, limit: int) -> None:
    """Fails if what costs this many captures is not in the list, or the list says another number."""
    listed = OPEN.get(name)
    if captures <= limit:
        assert listed is None, f"{name}: {captures} captures of at most {limit}: its line in {FILE.name} can go"
    elif listed is None:
        raise AssertionError(f"{name}: {captures} captures, at most {limit}")
    else:
        assert captures == listed, f"{name}: {captures} captures (limit {limit}), {FILE.name} says {listed}"
