"""The report in a terminal: tables by rich if it is installed and the output is a terminal, else plain text."""

from __future__ import annotations

import importlib.util
import sys
from typing import TextIO

from .advice import Advice, advise
from .page import count_text, parts_of, time_text, totals_of
from .places import short
from .recorder import Recorded

__all__ = ["show", "text_of"]

_MOST = 20


def show(recorded: Recorded, stream: TextIO | None = None) -> None:
    """Writes the summary; to standard error, since standard output is the program's."""
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        _show_tables(recorded, stream)
    else:
        stream.write(text_of(recorded))


def text_of(recorded: Recorded) -> str:
    """The summary as plain text.

    Args:
        recorded: the run.

    """
    lines = [_head(recorded)]
    lines += [f"  {time_text(seconds):>8} {share:6.1%}  {words}" for words, seconds, share in _times(recorded)]
    advice = advise(recorded)
    lines += ["What to do:" if advice else "Nothing to do."]
    for number, each in enumerate(advice[:_MOST], 1):
        lines += [f"{number:3}. {line}" if i == 0 else f"     {line}" for i, line in enumerate(_told(each))]
    if len(advice) > _MOST:
        lines.append(f"     {len(advice) - _MOST} more cost less than these.")
    return "\n".join(lines) + "\n"


def _head(recorded: Recorded) -> str:
    counts = ", ".join(f"{number:,} {words}" for words, number, _ in totals_of(recorded))
    return f"gramme, in {time_text(recorded.seconds)}: {counts}"


def _times(recorded: Recorded) -> list[tuple[str, float, float]]:
    return [(part.words, part.seconds, part.share) for part in parts_of(recorded) if part.seconds]


def _told(advice: Advice) -> list[str]:
    place = f"{short(advice.file)}:{advice.line} " if advice.file else ""
    lines = [f"{place}{advice.what} ({time_text(advice.seconds)})"]
    if advice.code:
        lines.append(f"    {advice.code}")
    if advice.hint:
        lines.append(f"  -> {advice.hint}")
    return lines


def _show_tables(recorded: Recorded, stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream)
    console.print(Text(_head(recorded)))
    times = Table("part", "time", "share", box=None, header_style="dim")
    for words, seconds, share in _times(recorded):
        times.add_row(words, time_text(seconds), f"{share:.1%}")
    console.print(times)
    todo = Table("", "what to do", "cost", show_lines=True)
    advice = advise(recorded)
    for number, each in enumerate(advice[:_MOST], 1):
        todo.add_row(str(number), Text("\n".join(_told(each))), time_text(each.seconds))
    console.print(todo if advice else Text("Nothing to do."))
    if len(advice) > _MOST:
        console.print(Text(count_text(len(advice) - _MOST, "more thing")))
