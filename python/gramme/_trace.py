"""Writes captures to PyTorch's structured log (TORCH_TRACE, which tlparse reads).

It has the entries that PyTorch's front end writes, by the same names and compile ids; what backends write stands
between them under the same ids. C++ calls a function here while the log is written, as it calls a recording
(_events.py).
"""

from __future__ import annotations

import linecache
import time
import traceback
import types
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from . import _C
from ._context import compile_id_of, context_of
from ._explain import Segment
from ._logging import break_text, examples_on
from ._stack import callers_of, shown_place
from ._torch.names import CompileContext, compile_context, intern_string, trace_structured
from ._words import Change, in_words

if TYPE_CHECKING:
    from ._events import BreakRow, Id, Missed, Told

__all__ = ["captured", "failed", "graph", "limit", "recompiling", "shared"]


_COUNTS = ("graph_op_count", "graph_node_count", "graph_input_count")


@dataclass
class _Open:
    """A running capture with entries in the log: where it begins, and the size of its graph."""

    code: types.CodeType
    line: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    ready: int = 0  # when its backend got the graph, in nanoseconds


_open: dict[Id, _Open] = {}


def recompiling(*, compile_id: Id, reasons: list[Missed], **_: Any) -> None:
    """A capture follows despite existing segments: writes the failed guard of each."""
    texts = [f"{_name(missed)}{in_words(Change(*why).text)}" for missed, why in reasons]
    with _under(compile_id):
        _artifact("recompile_reasons", "json", texts[0] if len(texts) == 1 else texts)


def _name(compile_id: Id) -> str:
    return f"{compile_id_of(compile_id)}: " if compile_id[0] >= 0 else ""


def graph(
    *,
    module: torch.fx.GraphModule,
    captured: _C.Captured,
    code: types.CodeType,
    line: int,
    first: object = None,
    **_: Any,
) -> None:
    """The graph of the running capture, which its backend is about to get."""
    opened = _start(captured.compile_id, code, line, first)
    nodes = module.graph.nodes
    inputs = sum(node.op == "placeholder" for node in nodes)
    calls = sum(node.op.startswith("call_") for node in nodes)
    opened.counts = dict(zip(_COUNTS, (calls, len(nodes), inputs), strict=True))
    with compile_context(context_of(captured)), examples_on(module, captured):
        text = module.print_readable(print_output=False, include_stride=True, include_device=True)
        sizes = {node.name: _size(node.meta.get("example_value")) for node in nodes}
        known = {name: size for name, size in sizes.items() if size is not None}
        trace_structured("dynamo_output_graph", lambda: {"sizes": known}, payload_fn=lambda: text)
    opened.ready = time.time_ns()


def _size(value: Any) -> list[int | str] | None:
    if not isinstance(value, torch.Tensor):
        return None
    return [size if isinstance(size, int) else str(size) for size in value.size()]


def captured(
    *,
    code: types.CodeType,
    line: int,
    compile_id: Id,
    breaks: BreakRow | None,
    row: dict[str, Any] | None,
    elapsed: float,
    backend_seconds: float,
    first: object = None,
    taken: Id | None = None,
    **_: Any,
) -> None:
    """A capture has ended; `row`: its segment, None if the frame runs uncompiled."""
    times = _Times(elapsed, backend_seconds, _start(compile_id, code, line, first).ready)
    if row is None:
        _end(compile_id, times, fail_type="Unsupported", fail_reason="the function cannot be captured")
        return
    segment, attempt = Segment.from_row(row), int(breaks is not None)
    if breaks is not None:
        with _under(compile_id):
            _artifact("dynamo_graph_break_reason", "string", break_text(*breaks))
    with _under(compile_id, attempt):
        _artifact("gramme_segment", "string", _told(segment))
        if taken is not None:
            _artifact("gramme_graph_taken", "string", f"from the capture {taken[0]}/{taken[1]}")
        trace_structured("dynamo_cpp_guards_str", payload_fn=lambda: "\n".join(segment.guards) or "none")
    _end(
        compile_id,
        times,
        attempt,
        guard_count=len(segment.guards),
        shape_env_guard_count=len(segment.sizes),
        has_guarded_code=True,
        restart_reasons={_advised(segment)} if attempt else None,
        num_graph_breaks=attempt,
    )


def shared(*, code: types.CodeType, line: int, compile_id: Id, first: object = None, **_: Any) -> None:
    """Another compiled function takes the capture's segment: writes its place, the innermost frame first."""
    places = [shown_place(code, line, first), *callers_of(code)]
    text = "\n".join(f"{at.co_filename}:{number} in {at.co_qualname}" for at, number in places)
    with _under(compile_id):
        _artifact("gramme_segment_shared", "string", text)


def limit(
    *, code: types.CodeType, line: int, compile_id: Id, limit: int, reason: Told, first: object = None, **_: Any
) -> None:
    """A resume point has reached the recompile limit: calls that no segment serves run uncompiled."""
    _start(compile_id, code, line, first)
    text = f"recompile limit ({limit}) reached; last failing guard: {in_words(Change(*reason).text)}"
    _end(compile_id, _Times(0, 0, 0), fail_type="RecompileLimitExceeded", fail_reason=text)


def failed(
    *,
    code: types.CodeType,
    line: int,
    compile_id: Id,
    elapsed: float,
    error: BaseException,
    first: object = None,
    **_: Any,
) -> None:
    """A capture raises, or its backend did."""
    times = _Times(elapsed, 0, _start(compile_id, code, line, first).ready)
    text = "".join(traceback.format_exception(error))
    with _under(compile_id):
        _artifact("dynamo_error", "string", text)
    _end(
        compile_id,
        times,
        fail_type=type(error).__qualname__,
        fail_reason=str(error),
        fail_user_frame_filename=code.co_filename,
        fail_user_frame_lineno=line,
        exception_stack_trace=[text],
    )


# Entries that every capture has.


def _under(compile_id: Id, attempt: int = 0) -> Any:
    """Attributes entries in the scope to the capture."""
    context = CompileContext(compile_id_of(compile_id))
    context.attempt = attempt
    return compile_context(context)


def _artifact(name: str, encoding: str, payload: str | list[str]) -> None:
    trace_structured("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=lambda: payload)


def _start(compile_id: Id, code: types.CodeType, line: int, first: object) -> _Open:
    """Writes the capture's first entry, once: the program's place."""
    if compile_id in _open:
        return _open[compile_id]
    opened = _Open(*shown_place(code, line, first))
    stack = [*reversed(callers_of(code)), (opened.code, opened.line)]
    with _under(compile_id):
        trace_structured("dynamo_start", lambda: {"stack": [_frame(*place) for place in stack]})
    _open[compile_id] = opened
    return opened


def _frame(code: types.CodeType, line: int) -> dict[str, Any]:
    frame = {"line": line, "name": code.co_name, "filename": intern_string(code.co_filename)}
    source = linecache.getline(code.co_filename, line).strip()
    return {**frame, "loc": source} if source else frame


class _Times:
    """Start of a capture that ends now, and the time of its graph, in nanoseconds."""

    def __init__(self, elapsed: float, backend_seconds: float, ready: int) -> None:
        self.end = time.time_ns()
        self.start = self.end - int(elapsed * 1e9)
        self.backend = int(max(backend_seconds, 0.0) * 1e9)
        self.ready = ready

    def events(self) -> list[tuple[str, int, int]]:
        """Events with PyTorch's names, with begin and end."""
        rows = [("dynamo", self.start, self.end), ("entire_frame_compile", self.start, self.end)]
        if not self.ready:
            return [*rows, ("bytecode_tracing", self.start, self.end)]
        ended = min(self.ready + self.backend, self.end)
        rows += [("bytecode_tracing", self.start, self.ready), ("backend_compile", self.ready, ended)]
        return [*rows, ("build_guards", ended, self.end)]


def _end(compile_id: Id, times: _Times, attempt: int = 0, /, **more: Any) -> None:
    """The capture's last entries: its times and its counts."""
    from ._torch.names import CompilationMetrics

    opened = _open.pop(compile_id)
    total = (times.end - times.start) // 1000
    metrics = CompilationMetrics.create(
        {
            "compile_id": compile_id_of(compile_id),
            "frame_key": str(compile_id[0]),
            "co_name": opened.code.co_name,
            "co_filename": opened.code.co_filename,
            "co_firstlineno": opened.line,
            "cache_size": compile_id[1],
            "accumulated_cache_size": compile_id[1],
            **opened.counts,
            "start_time_us": times.start // 1000,
            "end_time_us": times.end // 1000,
            "duration_us": total,
            "dynamo_cumulative_compile_time_us": total,
            "aot_autograd_cumulative_compile_time_us": times.backend // 1000,
            "is_forward": True,
            "pytorch_version": torch.__version__,
            **more,
        }
    )
    fields = {name: list(value) if isinstance(value, set) else value for name, value in asdict(metrics).items()}
    with _under(compile_id, attempt):
        for name, begin, end in times.events():
            _timed(name, begin, "B", str(metrics.compile_id))
            _timed(name, end, "E", str(metrics.compile_id))
        trace_structured("compilation_metrics", lambda: fields)


def _timed(name: str, time: int, phase: str, compile_id: str) -> None:
    """An event of Chromium's format, in microseconds, as torch._dynamo.utils.ChromiumEventLogger writes it."""
    event = {
        "name": name,
        "ts": time / 1000,
        "args": {"compile_id": compile_id},
        "ph": phase,
        "cat": "dynamo_timed",
        "tid": 0,
        "pid": 0,
    }
    trace_structured("chromium_event", payload_fn=lambda: event)


def _advised(segment: Segment) -> str:
    return f"{segment.reason}\n  Hint: {segment.hint}" if segment.hint else segment.reason


def _told(segment: Segment) -> str:
    """Facts about the segment beside graph and guards."""
    frames = [f"  {frame.name} ({frame.filename}:{frame.lineno})" for frame in segment.frames]
    parts = {
        f"ends: {segment.exit}": [f"  {segment.reason}", *frames] if segment.reason else [],
        "varies:": [f"  {symbol}" for symbol in segment.symbols] + [f"  {size}" for size in segment.sizes],
        "effects:": [f"  {effect}" for effect in segment.effects],
    }
    return "\n".join("\n".join([head, *rows]) for head, rows in parts.items() if rows or head.startswith("ends"))
