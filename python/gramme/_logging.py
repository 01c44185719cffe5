"""The logs of captures for TORCH_LOGS and torch._logging.set_logs.

The loggers are those of PyTorch's front end, so that settings, handlers and filters made for it apply. C++ calls a
function here only while one of its loggers is on (src/api/report.cpp).
"""

from __future__ import annotations

import dis
import linecache
import logging
import sys
import textwrap
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ._context import compile_id_of, context_of, name_of
from ._node_meta import assign_examples, tree_of
from ._stack import callers_of, is_shown, last_frame
from ._torch import names
from ._torch.names import CompileContext, compile_context, getArtifactLogger
from ._words import called_place, in_words, symbols

if TYPE_CHECKING:
    from . import _C
    from ._events import BreakRow, Id
    from ._torch.names import ShapeEnv

__all__ = [
    "LOGGERS",
    "break_text",
    "bytecode",
    "examples_on",
    "graph",
    "graph_break",
    "guards",
    "keep_examples",
    "line",
    "recompile",
    "sizes",
]

LOGGERS: dict[str, logging.Logger] = {
    name: getArtifactLogger(f"{names.DYNAMO}.{module}", name)
    for name, module in {
        "graph": "output_graph",
        "graph_code": "output_graph",
        "graph_sizes": "output_graph",
        "guards": "guards",
        "recompiles": "guards",
        "recompiles_verbose": "guards",
        "graph_breaks": "symbolic_convert",
        "trace_source": "symbolic_convert",
        "trace_call": "output_graph",
        "bytecode": "convert_frame",
    }.items()
}
LOGGERS["dynamic"] = logging.getLogger(names.SYMBOLIC_SHAPES)


def graph(graph_module: torch.fx.GraphModule, captured: _C.Captured) -> None:
    """Logs a captured graph, which its backend is about to get."""
    context = context_of(captured)
    name = name_of(context.compile_id)
    code, table, sizes = LOGGERS["graph_code"], LOGGERS["graph"], LOGGERS["graph_sizes"]
    with compile_context(context), examples_on(graph_module, captured):
        if LOGGERS["trace_call"].isEnabledFor(logging.DEBUG):
            _calls(graph_module)
        if table.isEnabledFor(logging.DEBUG):
            table.debug("%s", _tabular(name, graph_module))
        if code.isEnabledFor(logging.DEBUG):
            code.debug("%s", _code(name, graph_module))
        if sizes.isEnabledFor(logging.DEBUG):
            sizes.debug("%s", _sizes(name, graph_module))


def _calls(graph_module: torch.fx.GraphModule) -> None:
    """Logs each call of the graph with the program's expression that made it."""
    for node in graph_module.graph.nodes:
        frame = last_frame(node.meta.get("stack_trace")) if node.op.startswith("call_") else None
        if frame is not None:
            place = f"{frame.file}:{frame.line} in {frame.function}"
            name = node.meta["source_fn_stack"][-1][0]  # the name at creation: variables rename nodes later
            LOGGERS["trace_call"].debug("TRACE FX call %s from %s\n%s", name, place, frame.source.rstrip("\n"))


def line(code: types.CodeType, number: int, depth: int) -> None:
    """Logs a line of the program that is being captured. Called from C++."""
    inlined = f" (inline depth: {depth - 1})" if depth > 1 else ""
    source = linecache.getline(code.co_filename, number).rstrip()
    place = f"{code.co_filename}:{number} in {code.co_name} ({code.co_qualname}){inlined}"
    LOGGERS["trace_source"].debug("TRACE starts_line %s\n    %s", place, source)


def bytecode(code: types.CodeType) -> None:
    """Logs the instructions that are captured; unlike PyTorch's front end, gramme makes no others. Called from C++."""
    place = f"{code.co_name} {code.co_filename} line {code.co_firstlineno}"
    LOGGERS["bytecode"].debug("ORIGINAL BYTECODE %s \n%s\n", place, dis.Bytecode(code).dis())


@contextmanager
def examples_on(graph_module: torch.fx.GraphModule, captured: _C.Captured) -> Iterator[None]:
    """Puts fake tensors on the nodes while they are printed: backends must not see that."""
    given = keep_examples(graph_module, captured)
    try:
        yield
    finally:
        for node in given:  # those of a body that two nodes name are there twice
            node.meta.pop("example_value", None)


def keep_examples(graph_module: torch.fx.GraphModule, captured: _C.Captured) -> list[torch.fx.Node]:
    """Puts fake tensors on the nodes of a kept graph. Called from C++ too."""
    from ._torch.names import FakeTensorMode

    env, values = _symbols(captured)
    fakes = captured.examples().fakes(FakeTensorMode(shape_env=env), values)
    given = []
    for node, example in assign_examples(tree_of(graph_module), fakes):
        node.meta["example_value"] = example
        given.append(node)
    return given


def _symbols(captured: _C.Captured) -> tuple[ShapeEnv | None, list[Any]]:
    """A ShapeEnv of the symbols, if sizes vary, and the symbols."""
    if not captured.has_symbols:
        return None, []
    from ._sources import dynamo_sources
    from ._symbols import Symbols
    from ._torch.names import ShapeEnv

    env = ShapeEnv()
    return env, Symbols(env, captured, dynamo_sources(*captured.sources())).values


def _code(name: str, graph_module: torch.fx.GraphModule) -> str:
    text = graph_module.print_readable(print_output=False, include_stride=True, include_device=True, colored=True)
    return f"TRACED GRAPH\n ===== {name} =====\n {text}\n"


def _tabular(name: str, graph_module: torch.fx.GraphModule) -> str:
    headers = ["opcode", "name", "target", "args", "kwargs"]
    rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in graph_module.graph.nodes]
    try:
        from tabulate import tabulate  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return "tabulate is not installed, so the code instead:\n" + _code(name, graph_module)
    return f"TRACED GRAPH\n ===== {name} =====\n {tabulate(rows, headers=headers)}\n"


def _sizes(name: str, graph_module: torch.fx.GraphModule) -> str:
    tensors = {n.name: n.meta.get("example_value") for n in graph_module.graph.nodes}
    lines = [f"{node}: {tuple(tensor.shape)}\n" for node, tensor in tensors.items() if tensor is not None]
    return f"TRACED GRAPH TENSOR SIZES\n===== {name} =====\n" + "".join(lines)


def _under(numbers: Id) -> Any:
    """Attributes log entries in the scope to the capture: PyTorch's formatter writes its compile id."""
    return compile_context(CompileContext(compile_id_of(numbers) if numbers[0] >= 0 else None))


def guards(numbers: Id, code: types.CodeType, first: object, line: int, conditions: list[str]) -> None:
    """Logs the guards of a segment. `line`: where it starts."""
    text = textwrap.indent("\n".join(conditions), "- ", lambda _: True)
    with _under(numbers):
        LOGGERS["guards"].debug("GUARDS of %s\n%s", _place(code, first, line), text)


def sizes(
    numbers: Id,
    code: types.CodeType,
    first: object,
    line: int,
    rows: list[tuple[str, int | None, int | None]],
    conditions: list[str],
) -> None:
    """Logs the varying sizes of a segment, and the conditions on them."""
    logger = LOGGERS["dynamic"]
    with _under(numbers):
        for symbol in symbols(rows):
            logger.info("create_symbol %s (%s)", symbol, _place(code, first, line))
        for condition in conditions:
            logger.info("eval %s [guard added] (%s)", in_words(condition), _place(code, first, line))


def recompile(numbers: Id, code: types.CodeType, first: object, line: int, reasons: list[str]) -> None:
    """Logs a capture despite existing segments; `reasons`: the failed guard of each, the last used first."""
    failures = "\n".join(f"- {i}: {reason}" for i, reason in enumerate(dict.fromkeys(reasons)))
    callers = callers_of(code)[:1]
    called = "".join(f"\n    called from {at.co_filename}:{number}{_source(at, number)}" for at, number in callers)
    what = f"Recompiling function {_place(code, first, line)}{called}"
    message = f"{what}\n    triggered by the following guard failure(s):\n{textwrap.indent(failures, '    ')}"
    verbose = LOGGERS["recompiles_verbose"]
    logger = verbose if verbose.isEnabledFor(logging.DEBUG) else LOGGERS["recompiles"]
    with _under(numbers):
        logger.debug("%s", message)


def graph_break(numbers: Id, row: BreakRow) -> None:
    """Logs a segment that ends inside its function."""
    with _under(numbers):
        LOGGERS["graph_breaks"].debug("%s", break_text(*row))


def break_text(code: types.CodeType, file: str, line: int, reason: str, hint: str, stack: str) -> str:
    """The text about such a segment. `stack`: the frames from the captured one (of `code`) inwards."""
    parts = [f"Graph break in user code at {file}:{line}", f"Graph Break Reason: {reason}"]
    if hint:
        parts.append(f"  Hint: {hint}")
    parts.append("User code traceback:")
    return "\n".join(parts) + "\n" + _callers(code) + stack


def _callers(code: types.CodeType) -> str:
    """The frames outside the captured one, which is running."""
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
    codes = [frame.f_code for frame in frames]
    outside = frames[codes.index(code) + 1 :] if code in codes else frames
    frame = next((frame for frame in outside if is_shown(frame.f_code.co_filename)), None)
    shown = [entry for entry in traceback.extract_stack(frame) if is_shown(entry.filename)] if frame else []
    return "".join(traceback.format_list(shown))


def _place(code: types.CodeType, first: object, line: int) -> str:
    name, file, number = called_place(code, line, first)
    return f"{name} in {file}:{number}"


def _source(code: types.CodeType, line: int) -> str:
    text = linecache.getline(code.co_filename, line).strip()
    return f": {text}" if text else ""
