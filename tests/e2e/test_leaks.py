"""Memory over many captures and many hits: reference counts, objects, the process's size."""

import collections
import contextlib
import gc
import io
import linecache
import os
import sys
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import ON_BREAKS, Program, Tensors, programs

from e2e import front
from e2e.front import Compiled
from e2e.harness import restored_modes

PAGE = os.sysconf("SC_PAGE_SIZE")


# AddressSanitizer keeps freed memory for a while, to tell of its use.
reads_memory = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps memory")


def resident() -> int:
    """Bytes of memory the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def forget_sources() -> None:
    """Collect garbage; PyTorch keeps sources of graphs in linecache, and why there were breaks."""
    linecache.clearcache()
    if (module := sys.modules.get("torch._dynamo.output_graph")) is not None:
        module.graph_break_reasons.clear()
    gc.collect()


class Layer:
    def __init__(self) -> None:
        self.weight = torch.ones(4)
        self.calls = 0
        self.log: list[Any] = []

    def run(self, x: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
        self.calls += 0
        self.log.append(options["name"])
        try:
            y = x * self.weight
            if options.get("fail"):
                raise ValueError("fail")
        except ValueError:
            y = x
        return sum([y * k for k in options["factors"]], start=y)  # type: ignore[return-value]


def call(function: Callable[..., Any], layer: Layer) -> None:
    function(layer, torch.ones(4), {"name": "n", "factors": [1, 2.5]})
    layer.log.clear()


def broken(layer: Layer, x: torch.Tensor, options: dict[str, Any]) -> Any:
    for k in options["factors"]:
        x = x * k + layer.weight
        front.graph_break()
        layer.log.append(x)
    return x


def raising(layer: Layer, x: torch.Tensor, options: dict[str, Any]) -> Any:
    y = x + layer.weight
    raise ValueError(y)


def returning_closure(layer: Layer, x: torch.Tensor, options: dict[str, Any]) -> Any:
    y = x + 1

    def f() -> Any:
        return y, f, options

    return f


FUNCTIONS = {f.__name__: f for f in (Layer.run, broken, raising, returning_closure)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hits(name: str, soak: bool) -> None:
    """No object and no reference is left over by a hit."""
    function, layer = Compiled(FUNCTIONS[name]).call, Layer()
    times = 100_000 if soak else 1_000

    def many(times: int) -> None:
        for _ in range(times):
            try:
                call(function, layer)
            except ValueError:
                pass

    many(50)
    gc.collect()
    watched = [layer, layer.weight, layer.log, Layer, Layer.run, broken.__code__, torch.Tensor, "factors", ValueError]
    watched += [FUNCTIONS[name], dict, list]
    before, objects, size = [sys.getrefcount(o) for o in watched], len(gc.get_objects()), resident()
    many(times)
    gc.collect()
    keys = 2 if os.environ.get("GRAMME_EVIDENCE") == "slots" else 0  # of dicts that are bound now, or were before
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(now - count) <= keys for now, count in zip(after, before, strict=True)), (before, after)
    assert len(gc.get_objects()) - objects < 20
    assert resident() - size < 8 << 20


@pytest.mark.parametrize("name", FUNCTIONS)
def test_immortal_values_do_not_drift(name: str) -> None:
    """None, True and small ints are shared by all: a reference lost on each hit would show here."""
    function, layer = Compiled(FUNCTIONS[name]).call, Layer()

    def many() -> None:
        for _ in range(500):
            try:
                call(function, layer)
            except ValueError:
                pass

    many()
    gc.collect()
    shared = [None, True, False, 0, 1, 2, (), ""]
    before = [sys.getrefcount(o) for o in shared]
    many()
    gc.collect()
    after = [sys.getrefcount(o) for o in shared]
    drift = [a - b for a, b in zip(after, before, strict=True)]
    assert all(abs(d) < 100 for d in drift), drift


@pytest.mark.parametrize("name", FUNCTIONS)
def test_captures(name: str, soak: bool) -> None:
    """Captures, each dropped again: what they held is freed at once, without the collector."""
    times = 1_000 if soak else 60 if front.GRAMME else 8
    graphs: list[weakref.ref[Any]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(weakref.ref(graph))
        return graph.forward

    def many(times: int) -> None:
        for _ in range(times):
            compiled, layer = front.compile(FUNCTIONS[name], backend=backend), Layer()
            try:
                call(compiled, layer)
            except ValueError:
                pass
            del compiled
            front.reset()

    many(5)
    forget_sources()
    objects, size = len(gc.get_objects()), resident()
    many(times)
    forget_sources()
    alive = sum(g() is not None for g in graphs)
    assert alive == 0, f"{alive} of {len(graphs)} graphs are alive"
    assert len(gc.get_objects()) - len(graphs) - objects < 40  # the list above holds a weakref for each graph
    assert resident() - size < (64 << 20 if soak else 32 << 20)


def test_arguments_die_without_the_collector() -> None:
    layer = Layer()
    compiled = Compiled(Layer.run)
    gc.disable()
    try:
        for _ in range(3):
            x, options = torch.ones(4), {"name": "n", "factors": [1, 2.5]}
            result = compiled(layer, x, options)
            watchers = [weakref.ref(x), weakref.ref(result)]
            del x, options, result
            assert [w() for w in watchers] == [None, None]
        watcher, layer_watcher = weakref.ref(layer.weight), weakref.ref(layer)
        del layer
        assert watcher() is None
        assert layer_watcher() is None
    finally:
        gc.enable()


def test_a_capture_keeps_no_argument_alive() -> None:
    gc.disable()
    try:
        x, layer = torch.ones(7), Layer()
        layer.weight = torch.ones(7)
        compiled = Compiled(Layer.run)
        compiled(layer, x, {"name": "n", "factors": [1, 2.5]})
        watchers = [weakref.ref(x), weakref.ref(layer), weakref.ref(layer.weight)]
        del x, layer
        assert [w() for w in watchers] == [None, None, None]
    finally:
        gc.enable()


@pytest.mark.slow
def test_many_functions_once(soak: bool) -> None:
    """New functions of new code, as notebooks make them: the entry dies with the function."""
    times = 1_000 if soak else 100 if front.GRAMME else 10

    def one(i: int) -> weakref.ref[Any]:
        scope: dict[str, Any] = {}
        exec(f"def f(x):\n    return x + {i} * len('{i}')\n", scope)
        compiled = front.compile(scope["f"], backend="eager")
        assert compiled(torch.zeros(1)).item() == i * len(str(i))
        return weakref.ref(scope["f"])

    watchers = [one(i) for i in range(times)]
    front.reset()
    gc.collect()
    assert sum(w() is not None for w in watchers) == 0


# What programs on side effects leave behind.

EFFECTS = [p for p in programs() if p.category.startswith("fx_") or p.category in ON_BREAKS]


def tracked(value: Any, found: dict[int, Any]) -> None:
    """All objects made by a program that can be referred to weakly, through containers and attributes."""
    if id(value) in found or isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        return
    found[id(value)] = value
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        parts = list(value)
    elif isinstance(value, types.FunctionType):
        parts = [c.cell_contents for c in value.__closure__ or () if c != types.CellType()]
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        tracked(part, found)


def left_alive(call: Callable[..., Any], program: Program) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """After one call: which of its objects outlive the caller, and what the collector then finds in cycles."""
    program.setup()
    gc.collect()
    gc.disable()
    try:
        tensors = Tensors(5)
        args, kwargs = program.make_args(tensors), program.make_kwargs(tensors)
        found: dict[int, Any] = {}
        quiet = io.StringIO()
        with restored_modes(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tracked(call(*args, **kwargs), found)
        tracked([args, kwargs, program.state()], found)
        watchers = [
            weakref.ref(o) for o in found.values() if type(o).__weakrefoffset__ and not isinstance(o, frozenset)
        ]
        del args, kwargs
        found.clear()
        program.setup()
        alive = collections.Counter(type(o).__qualname__ for o in (w() for w in watchers) if o is not None)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        cycles = collections.Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.garbage)
        return alive, cycles
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


@pytest.mark.skipif(not front.GRAMME, reason="Dynamo leaves cycles")
@pytest.mark.parametrize("program", EFFECTS, ids=lambda p: f"{p.category}-{p.name}")
def test_nothing_survives_a_capture(program: Program) -> None:
    """The objects of the call that captures die when eager's do, and no cycle of gramme's is left to the collector.

    What eager leaves in a cycle, of a closure with itself, may die at once: replay makes what escapes and no more.
    """
    compiled = Compiled(program.function)
    left_alive(program.function, program)  # what a library makes at its first use
    eager, captured = left_alive(program.function, program), left_alive(compiled.call, program)
    assert not captured[0] - eager[0]
    more = captured[1] - eager[1]
    assert not [name for name in more if name.partition(".")[0] in ("gramme", "programs") or name == "torch.Tensor"]
    before = compiled.captures
    hit = left_alive(compiled.call, program)
    assert not hit[0] - eager[0]
    if compiled.captures == before:
        assert not hit[1] - eager[1]


@pytest.mark.skipif(not front.GRAMME, reason="what PyTorch's own front end keeps")
def test_shape_environments_die_with_their_graphs() -> None:
    """PyTorch remembers calls of one of their methods without a limit."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    def alive() -> list[ShapeEnv]:
        gc.collect()
        return [o for o in gc.get_objects() if type(o) is ShapeEnv]

    def run() -> None:
        compiled = front.compile(lambda x, n: x.nonzero() * n + x.shape[0], backend="aot_eager", dynamic=True)
        for size in (3, 5):
            compiled(torch.ones(size), size)
        front.reset()

    run()
    before = {id(env) for env in alive()}
    for _ in range(3):
        run()
    for made in [env for env in alive() if id(env) not in before]:
        kept = [r for r in gc.get_referrers(made) if isinstance(r, tuple) and len(r) == 4]  # arguments of that method
        assert not kept
