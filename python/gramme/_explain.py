"""gramme.explain and gramme.captured: the segments, graphs and breaks of a call, or of all calls so far."""

from __future__ import annotations

import os
import pathlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any

import torch

from . import _C
from ._compile import compiled_form, entry_of
from ._native import native
from ._options import Options
from ._stack import is_shown
from ._torch import names
from ._words import Symbol, in_words, module_words, rank_words, symbols

if TYPE_CHECKING:
    from ._report.recorder import Recorded

__all__ = ["Break", "Explanation", "Segment", "captured", "explain"]


@dataclass
class Segment:
    """One segment of a captured function.

    Attributes:
        number: among the captures of the function, in their order.
        compile_id: what logs, profilers and tlparse call it: "3/1" is the second capture at the resume point that was
            the fourth to be captured. Empty for one that only goes on with another's break.
        begins: the first line of the program's own that it stands for; None if it is not known.
        function, file: qualified name and file of the function it begins in.
        start: line at which it begins.
        line: line of that function, or of the last it returns into, at which it ends; 0 for a return.
        returns_into: where it goes on after the function's return, the nearest caller first.
        operations: number of operations in its graph.
        graph: its graph, or None if it has no operations; captured() has None for graphs that are not kept, too.
        native: what the native executor made of it, or None.
        guards: conditions for its reuse, as text.
        check_seconds: what checking them took, the shortest of some times, if it was captured in a recording; else 0.
        check_costs: (what, seconds) of its parts, each alone: a variable with what is reached from it, or what else is
            looked at. They are less than check_seconds, which holds the way there and back.
        symbols: the sizes, strides, offsets and ints that may be others at its next run.
        sizes: conditions on those, as the program would write them, with the line that asked.
        effects: what it changes besides returning, as text, in order.
        exit: "return", "concrete" (one instruction runs in Python), "handover" or "yield".
        reason, hint: why it ended, and what to do about it.
        kind, subject: the reason for programs that read it: a name that stays when words change, and what it is about,
            "Tensor.item" perhaps. No kind where the program raises.
        frames: the calls that led to its end, the innermost line of the program's own first; empty for a return.
        module: path of the module that is called there, as far as the segment knows it.
        instruction: opcode that runs in Python; empty if none is.
        pushed: frames of callees that are made again to run it.
        goes_on: it is the rest of the call that the segment before it ends at.
        runs: how often it has run.
        unportable: the objects it holds that another process could not find again, and why; filled in by explain().

    """

    number: int
    compile_id: str
    function: str
    file: str
    start: int
    line: int
    returns_into: list[FrameSummary]
    operations: int
    graph: torch.fx.GraphModule | None
    native: Any
    guards: list[str]
    check_seconds: float
    check_costs: list[tuple[str, float]]
    symbols: list[Symbol]
    sizes: list[str]
    effects: list[str]
    exit: str
    reason: str
    kind: str
    subject: str
    hint: str
    frames: list[FrameSummary]
    module: str
    instruction: str
    pushed: int
    goes_on: bool
    runs: int
    begins: FrameSummary | None = None
    unportable: list[str] = field(default_factory=list)

    @property
    def tape(self) -> str:
        """The native executor's instructions for the graph, one a line; empty if it did not run."""
        return _C.native.tape(self.native) if self.native is not None else ""

    @classmethod
    def from_row(cls, row: dict[str, Any], recorded: Recorded | None = None) -> Segment:
        """Makes a segment from the extension's row; `recorded`: the recording in which it was captured."""
        begins = recorded.begins(row["recorded"]) if recorded is not None else None
        row = {key: value for key, value in row.items() if key != "recorded"}
        innermost = _summary(row.pop("innermost"))
        shown = [frame for frame in map(_summary, row.pop("frames")) if is_shown(frame.filename)]
        places = [(frame.filename, frame.lineno) for frame in shown]
        own = (innermost.filename, innermost.lineno)
        frames = shown[places.index(own) :] if own in places else shown or [innermost]
        frames = frames if innermost.filename else []
        row["symbols"], row["sizes"] = symbols(row["symbols"]), [*map(in_words, row["sizes"])]
        row["module"] = module_words(row["module"])
        made = cls(returns_into=[_summary(place) for place in row.pop("returns_into")], frames=frames, **row)
        if begins is not None:
            made.begins = _summary((begins[0].co_filename, begins[1], begins[0].co_qualname))
        return made


@dataclass
class Break:
    """A place where graphs end, and its cost at each run.

    Attributes:
        reason, hint: why, and what to do about it.
        frames: the calls that led there, the innermost line of the program's own first.
        module: path of the module that is called there, as far as it is known.
        instruction: opcode of the instruction that runs in Python.
        instructions: how many are.
        pushed: frames of callees that are rebuilt to run them.

    """

    reason: str
    hint: str
    frames: list[FrameSummary]
    module: str
    instruction: str
    instructions: int
    pushed: int
    graph_break: bool = True

    @property
    def user_stack(self) -> list[FrameSummary]:
        """The frames, the outermost first."""
        return self.frames[::-1]

    def __str__(self) -> str:
        lines = [self.reason]
        for frame in self.frames:
            place = f'{frame.name} (File "{frame.filename}", line {frame.lineno})'
            lines.append(f"  {'called from' if len(lines) > 1 else 'at'} {place}{_code(frame)}")
        if self.module:
            lines.append(f"  in module {self.module}")
        cost = f"{self.instructions} instruction{'s' * (self.instructions > 1)} run in Python, from {self.instruction}"
        again = f", {self.pushed} frame{'s' * (self.pushed > 1)} rebuilt" if self.pushed else ""
        lines.append(f"  costs {cost}{again}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _summary(place: tuple[str, int, str]) -> FrameSummary:
    file, line, function = place
    return FrameSummary(file, line, function, lookup_line=False)


def _code(frame: FrameSummary) -> str:
    return f": {frame.line}" if frame.line else ""


@dataclass
class Explanation:
    """The segments of one call, or of all calls so far, in the order in which they were captured; prints as a summary.

    It has what ``torch._dynamo.explain`` gives, too.
    """

    segments: list[Segment] = field(default_factory=list)
    _recorded: Recorded | None = field(default=None, repr=False, compare=False)
    modes: tuple[str, ...] = ()
    """Classes of the torch function modes and torch dispatch modes that were active around the call."""
    rank: str = ""
    """Which process of a process group was called: "rank 0 of 2"."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a report of the call: the page that gramme.record writes.

        Raises:
            RuntimeError: explain was called inside a recording, whose report tells of the call.

        """
        if self._recorded is None:
            raise RuntimeError("the call is part of a recording that was under way: its report tells of it")
        self._recorded.save(pathlib.Path(path))

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        return [segment.graph for segment in self.segments if segment.graph is not None]

    @property
    def graph_count(self) -> int:
        """Also counts graphs that are not kept."""
        return sum(segment.graph is not None or segment.operations > 0 for segment in self.segments)

    @property
    def op_count(self) -> int:
        return sum(segment.operations for segment in self.segments)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """Targets of the calls in each graph."""
        return [[n.target for n in graph.graph.nodes if n.op.startswith("call_")] for graph in self.graphs]

    @property
    def out_guards(self) -> list[str]:
        return [guard for segment in self.segments for guard in segment.guards]

    @property
    def compile_times(self) -> str | None:
        return None

    @property
    def break_reasons(self) -> list[Break]:
        breaks: list[Break] = []
        for segment in self.segments:
            if segment.exit != "concrete":
                continue
            if segment.goes_on and breaks:
                breaks[-1].instructions += 1
                continue
            s = segment
            breaks.append(Break(s.reason, s.hint, s.frames, s.module, s.instruction, 1, s.pushed))
        return breaks

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    def __str__(self) -> str:
        breaks = self.break_reasons
        counts = {
            "segment": len(self.segments),
            "graph": self.graph_count,
            "operation": self.op_count,
            "break": len(breaks),
        }
        told = ", ".join(f"{count} {what}{'s' * (count != 1)}" for what, count in counts.items())
        head = f"{self.rank}: {told}" if self.rank else told
        rows = [line for segment in self.segments if not segment.goes_on for line in _rows(segment)]
        breaks_told = [f"break {i}{_times(count)}: {text}" for i, (text, count) in enumerate(_grouped(breaks), 1)]
        under = f"  runs uncompiled: {_under(self.modes)} when it was called"
        return "\n".join([head, *rows, *breaks_told, *([under] if self.modes and not self.segments else [])])


def _under(modes: tuple[str, ...]) -> str:
    return f"the mode{'s' * (len(modes) > 1)} {', '.join(modes)} {'were' if len(modes) > 1 else 'was'} active"


def _active_modes() -> tuple[str, ...]:
    functions = [names.get_function_stack_at(i) for i in range(names.len_torch_function_stack())]
    return tuple(type(mode).__name__ for mode in [*functions, *names.get_current_dispatch_mode_stack()])


_EXITS = {"return": "returns", "yield": "yields", "concrete": "breaks", "handover": "runs uncompiled from here"}


def _rows(segment: Segment) -> list[str]:
    """One line of the summary, and the sizes that vary."""
    begins = segment.begins
    begin = f"{begins.name}:{begins.lineno}" if begins is not None else f"{segment.function}:{segment.start}"
    shown = [frame for frame in segment.returns_into if is_shown(frame.filename)]
    callers = "".join(f", returns into {frame.name}:{frame.lineno}" for frame in shown)
    end = f" at line {segment.frames[0].lineno}" if segment.frames else ""
    reason = f": {segment.reason}" if segment.reason else ""
    held = f"{segment.operations} operations, {len(segment.guards)} guards"
    varies = [f"    {symbol}" for symbol in segment.symbols] + [f"    {size}" for size in segment.sizes]
    return [f"  {begin}{callers}: {held}, {_EXITS[segment.exit]}{end}{reason}", *varies]


def _grouped(breaks: list[Break]) -> list[tuple[str, int]]:
    """The text of each break, with the number of equal ones, for example in a model's layers."""
    return list(Counter(map(str, breaks)).items())


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def explain(
    function: Callable[..., Any], *, fullgraph: bool = False, dynamic: bool | None = None
) -> Callable[..., Explanation]:
    """Captures one call of a function and returns its segments, graphs, guards and graph breaks.

    It always captures, since it shows the graphs, even what another compiled function of equal code has captured.

    Args:
        function: what compile takes.
        fullgraph: as of compile. A number read from a tensor stays in the graph then, and does not break it; what
            breaks it raises CaptureError.
        dynamic: as of compile.

    Example:
        >>> import torch, gramme
        >>> found = gramme.explain(lambda x: x.sin() + 1)(torch.ones(2))
        >>> found.op_count
        2
        >>> print(found.segments[0].tape.splitlines()[1])
        %2 = aten::sin(%0)

    """
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {type(function).__name__}")
    if not isinstance(fullgraph, bool):
        raise TypeError(f"fullgraph: expected a bool, got {type(fullgraph).__name__}")

    def call(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compiled_form(function, Options(native, fullgraph, 64, keep_graphs=True, dynamic=dynamic))
        modes = _active_modes()
        recorded = _recorded(lambda: compiled(*args, **kwargs))
        return Explanation(_segments(entry_of(compiled), recorded), recorded, modes, rank_words())

    return call


def captured(compiled: Any) -> Explanation:
    """Returns what a compiled function has captured in its calls so far. It captures nothing and calls nothing.

    Graphs are made from the copies that gramme keeps to hand them to other backends. A segment of which no copy is kept
    has operations, but its graph is None. None is kept of graphs that only fit the call they were captured in (sizes or
    numbers read from data, tensors that wrap others, backends that specialised), of graphs above 4,096 nodes, where
    nothing is shared (isolate_recompiles, guard_filter_fn), and of the least recently used beyond 4 MB in the process.
    Nodes have no "example_value", and inputs no type: those belong to a call.

    Args:
        compiled: what compile returned.

    Raises:
        TypeError: compile did not return it.

    Example:
        >>> import torch, gramme
        >>> f = gramme.compile(lambda x: x.sin() + 1, backend="eager")
        >>> _ = f(torch.ones(2)), f(torch.ones(2))
        >>> found = gramme.captured(f)
        >>> found.graph_count, found.segments[0].runs
        (1, 2)
        >>> [node.name for node in found.graphs[0].graph.nodes]
        ['l_x_', 'sin', 'add', 'output']

    """
    return Explanation(_segments(entry_of(compiled), None, kept_graphs=True), rank=rank_words())


def _segments(entry: _C.Entry, recorded: Recorded | None, *, kept_graphs: bool = False) -> list[Segment]:
    unportable = _C.unportable(entry)
    rows = [row | {"unportable": unportable.get(row["number"], [])} for row in _C.segments(entry, kept_graphs)]
    return [Segment.from_row(row, recorded) for row in sorted(rows, key=lambda row: row["number"])]


def _recorded(call: Callable[[], Any]) -> Recorded | None:
    """Calls the function in a recording, unless one is running already."""
    from ._report.recorder import Recorder

    if Recorder.under_way is not None:
        call()
        return None
    recorder = Recorder(call.__code__)
    recorder.start()
    try:
        call()
    finally:
        recorded = recorder.stop()
    return recorded
