"""The C++ part of gramme."""

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor

class Entry:
    """A compiled function: called like the function it wraps."""

    __wrapped__: FunctionType
    _torchdynamo_orig_callable: Callable[..., Any]
    _torchdynamo_wrapper_id: int
    _gramme_options: Any
    get_compiler_config: Callable[[], Any]
    aot_compile: Callable[..., Any]
    __prepare_scriptable__: Callable[[], Any]
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class ModuleCall:
    """A callable that passes a module and its arguments to an entry, unless one of the hook dicts has an item."""

    @classmethod
    def _tell_call(cls, function: Callable[..., Any], /) -> None: ...
    def _connect(self, entry: Entry | None, module: Any, hooks: tuple[dict[Any, Any], ...]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Examples:
    """What the nodes of a captured graph give, without data."""

    def fakes(self, mode: Any, values: list[Any]) -> list[Any]:
        """For each node a tensor of the FakeTensorMode, or a tuple of such; None where a node gives neither.

        For a body its own list; for an input of a body the place of the node around it; for an object of the program
        a tuple of it, in a list. Sizes that vary are computed of `values`, by symbol.
        """

class Captured:
    """A captured graph, while a backend compiles it; afterwards asking is an error."""

    @property
    def has_numbers(self) -> bool:
        """An int or float is an input of the graph that does not vary as sizes do."""
    @property
    def shares_regions(self) -> bool:
        """torch._dynamo.config.use_graph_deduplication."""

    @property
    def has_symbols(self) -> bool:
        """A size, stride, offset or int is an input of the graph that varies."""
    @property
    def has_unbacked(self) -> bool:
        """Numbers or sizes of the graph come out of data."""
    @property
    def writes_inputs(self) -> bool:
        """An input is written."""
    @property
    def has_aliased_writes(self) -> bool:
        """An input is written whose memory other inputs share, or the graph returns a view of a wrapper's memory."""
    @property
    def uses_what_it_writes(self) -> bool:
        """An input that is written is used otherwise, too."""
    @property
    def records_gradients(self) -> bool:
        """Autograd may record one of its operations."""
    def sources(self) -> tuple[list[tuple[str, int, Any, int, type | None]], list[int]]:
        """Rows of _sources.Row, and the row of each input."""
    def places_read_later(self) -> tuple[list[int], list[int]]: ...
    def names_read_later(self) -> list[tuple[Any, str | None]]:
        """(holder, name) of constants that a backward of the program reads: cells (no name), dicts and others."""
    def symbols(self) -> list[tuple[int, int, int | None, int | None, bool] | None]:
        """By symbol: the index of its input, value, lowest, highest, whether unbacked; None if it is no input."""
    def sizes(self, values: list[Any]) -> list[tuple[list[Any], list[Any], Any, list[Any]] | None]:
        """Sizes, strides, offset and parts of inputs whose sizes vary, computed of `values`, by symbol; else None.

        Where they cannot be computed, the symbols become constants.
        """
    def symbol_sources(self) -> tuple[list[tuple[str, int, Any, int, type | None]], list[int | None]]:
        """Rows of _sources.Row, and the row of each symbol; None for those that come out of data."""
    def guarded_sources(self) -> tuple[list[tuple[str, int, Any, int, type | None]], list[int]]:
        """Rows of _sources.Row, and those of the tensors and constants that the capture looked at."""
    def conditions(self, values: list[Any]) -> list[tuple[Any, str, str]]:
        """(what `values`, by symbol, make of it, the program's place, in words) for each that was decided by."""
    def reason(self) -> tuple[str | None, str, int, str]:
        """(why the segment ends before the function returns or None, file, line, function)."""
    def examples(self) -> Examples:
        """What the graph's nodes give; may be asked after the backend has returned."""
    @property
    def compile_id(self) -> tuple[int, int]:
        """(frame id, number at the frame): the graph's in logs, in metadata, for its compiler and in profiles."""
    @property
    def attempt(self) -> int:
        """1 if the graph ends at a break, up to which it was captured a second time."""
    def freeze(self, index: int) -> None:
        """The input of that index becomes part of the compiled code: the segment is for this very object."""
    def require(self, expressions: list[Any], names: dict[str, int]) -> None:
        """The compiled code is for calls where these hold, of sympy; `names` has the numbers of symbols.

        What cannot be a guard makes the symbols in it constants.
        """
    def require_range(self, symbol: int, lowest: int | None, highest: int | None) -> None:
        """The compiled code is for values of the symbol in these bounds."""
    def specialize(self, symbol: int) -> None:
        """The graph is needed with a constant instead of the symbol."""
    @property
    def has_constants(self) -> bool:
        """A symbol is needed as a constant."""
    def restart(self) -> None:
        """Forgets what was told of an earlier attempt."""

class Meter:
    """Counts what its thread does between open and close."""

    def open(self) -> None: ...
    def close(self) -> None: ...
    def read(self) -> dict[str, int]: ...

def capture_whole(
    function: FunctionType, *arguments: Any, backend: Callable[..., Any], varies: list[tuple[Any, int | None]]
) -> tuple[Any, list[tuple[str, Any, Any, list[Any], int]]]:
    """What the call would return, and what it would change: (kind of plan/replay.def, target, key, values, number).

    Nothing of it runs. The backend gives a function that is called once, for what stands for the graph's outputs.
    `varies`: patterns of sources, and the dimension of a tensor's size that does.
    """

def run_as_graph(function: Callable[..., Any], args: tuple[Any, ...]) -> Any: ...
def make_entry(
    function: FunctionType,
    *,
    backend: Callable[..., Any],
    fullgraph: bool,
    recompile_limit: int | None,
    keep_graphs: bool,
    contract: str = "",
    dynamic: bool | None = None,
    guard_filter: Callable[..., Any] | None = None,
    terms: int = ...,
    shares: bool = False,
    exact_numpy: bool = False,
) -> Entry: ...
def counters(entry: Entry) -> dict[str, int]: ...
def segments(entry: Entry, kept_graphs: bool = False) -> list[dict[str, Any]]: ...
def unportable(entry: Entry) -> dict[int, list[str]]: ...
def unbind(entry: Entry) -> None: ...
def reset() -> None: ...
def keep_nothing() -> None:
    """Segments end with their entries from now on."""

def let_threads_drop() -> None:
    """At the interpreter's end: waits until no thread drops a tensor's object; from now on threads keep it."""

def forget_terms(terms: int) -> None:
    """Nobody will compile with these terms again."""

def tensor_type(tensor: Tensor) -> tuple[int, int] | None:
    """What tells a tensor from others, but for its data: numbers of its type and keys; None if only its class knows."""

def start_recording(listener: Any) -> None:
    """The listener, an _events.Listener, hears of captures.

    It hears of places, too, where something is carried out for real, when they are met.
    """

def stop_recording(bins: int) -> dict[str, Any]:
    """Seconds of the recording, places, runs of segments by number, and what is in the caches."""

def set_guards_together(together: bool) -> None: ...
def set_stance(name: str) -> None: ...
def compile_backward(entry: Entry) -> None: ...
def set_forced(entry: Entry) -> None: ...
def interrupts(exception: BaseException) -> bool:
    """It is no Exception, or a handler of a signal raised it."""

def keeping_handlers(function: Callable[..., Any], *args: Any, **names: Any) -> Any:
    """Calls it; an Exception that a handler of a signal raises meanwhile comes at its end."""

def keeping_modes(function: Callable[..., Any], *args: Any) -> Any:
    """Calls it; if it raises, the thread is put back in the modes that it was in."""

class _Native:
    """The native executor."""

    def from_graph_module(self, graph_module: Any, *, caching_allocator: bool | None = None) -> Callable[..., Any]: ...
    def memory(self) -> dict[str, int]: ...
    def tape(self, graph: Any) -> str: ...
    def counters(self, graph: Any) -> dict[str, int]: ...
    def call_recomputing(
        self, graph: Any, inputs: tuple[Any, ...], arguments: tuple[int, ...], keeps_random: bool
    ) -> Any:
        """The results of a checkpointed body, with a recorded backward that runs it again; None if that cannot be."""

native: _Native

class Portal:
    """See gramme.torchgpipe.skip.portal."""

    def __init__(self, tensor: Tensor | None, tensor_life: int) -> None: ...
    @property
    def tensor(self) -> Tensor | None: ...
    @property
    def grad(self) -> Tensor | None: ...
    @property
    def tensor_life(self) -> int: ...
    def put_tensor(self, tensor: Tensor | None, tensor_life: int) -> None: ...
    def use_tensor(self) -> Tensor | None: ...
    def check_tensor_life(self) -> None: ...
    def put_grad(self, grad: Tensor) -> None: ...
    def use_grad(self) -> Tensor: ...
    def blue(self) -> Tensor: ...
    def orange(self, phony: Tensor) -> Tensor | None: ...
    def copy(self, prev_stream: Any, next_stream: Any, phony: Tensor) -> Tensor: ...

class Checkpoint:
    """What the two nodes of a checkpoint share."""

class Halves:
    """A backward in two halves, each a call of the engine; together they have the bits of a whole one."""

    #: The name of a node that would have to run twice and is not known to allow that; empty if there is none.
    refusal: str

    def __init__(self, roots: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """The graph between roots and inputs, which are results of nodes."""

    def run_inputs(self, roots: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """The gradients of the inputs; lets go what only they need."""

    def run_weights(self, roots: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """All other gradients. More roots, whose gradients come before those of the graph."""

class ThreadState:
    """The modes of the thread that makes it: grad mode, autocast and the like."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls it under these modes, on any thread."""

class _Pipeline:
    """The autograd nodes of pipelines, and what they are made by."""

    ForkBackward: type
    JoinBackward: type
    CopyBackward: type
    WaitBackward: type
    PortalBlueBackward: type
    PortalOrangeBackward: type
    PortalCopyBackward: type
    CheckpointBackward: type
    RecomputeBackward: type

    def get_phony(self, device: torch.device, *, requires_grad: bool) -> Tensor: ...
    def fork(self, input: Tensor) -> tuple[Tensor, Tensor]: ...  # noqa: A002
    def join(self, input: Tensor, phony: Tensor) -> Tensor: ...  # noqa: A002
    def copy(self, prev_stream: Any, next_stream: Any, *input: Tensor) -> tuple[Tensor, ...]: ...  # noqa: A002
    def wait(self, prev_stream: Any, next_stream: Any, *input: Tensor) -> tuple[Tensor, ...]: ...  # noqa: A002
    def wait_stream(self, source: Any, target: Any) -> None: ...
    def record_stream(self, tensor: Tensor, stream: Any) -> None: ...
    def blue(self, portal: Portal, tensor: Tensor) -> Tensor: ...
    def checkpoint(
        self, function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...]
    ) -> tuple[Checkpoint | None, tuple[Tensor, ...]]: ...
    def recompute(self, checkpoint: Checkpoint, phony: Tensor) -> Tensor: ...
    def is_checkpointing(self) -> bool: ...
    def is_recomputing(self) -> bool: ...
    def plan_cuts(
        self,
        *,
        cost: list[int],
        moving: list[int],
        last_use: list[int],
        memory: list[int],
        may_cut: list[bool],
        must_cut: list[bool],
        stages: int,
        micro_batches: int,
        most_memory: int | None = None,
    ) -> tuple[list[int], int]:
        """The first operation of each stage but the first, and the length of a step."""
    def set_runs(self, checkpointing: bool, recomputing: bool) -> tuple[bool, bool]:
        """Sets both for this thread, gives what they were."""

pipeline: _Pipeline

def instructions(code: CodeType) -> list[tuple[str, Any]]:
    """The code's instructions in gramme's vocabulary (src/opcode/opcodes.def), the same for every version of CPython.

    With each what its argument stands for: a name, a constant, else a number.
    """
