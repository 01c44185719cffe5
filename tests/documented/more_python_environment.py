"""From library/contextvars, graphlib, os, functions: what a function finds around it."""

import contextvars
import graphlib
import io
import os
import pathlib

import torch

from documented import Between, documented, x
from documented.attempts import attempt

depth: contextvars.ContextVar = contextvars.ContextVar("depth", default=1)
bare: contextvars.ContextVar = contextvars.ContextVar("bare")
saved: list = []


def start_contexts():
    global bare
    bare = contextvars.ContextVar("bare")
    depth.set(1)
    saved.clear()


@documented(
    "library/contextvars: a token serves once and for its variable; run works on a copy's values; LookupError without default",
    lambda: [
        (x(), 2),
        Between(lambda: depth.set(10)),
        (x(), 3),
        Between(lambda: bare.set(x(1))),
        (x(), 4),
        Between(lambda: saved.append(contextvars.copy_context())),
        (x(), 5),
        (x(), 6),
    ],
    state=lambda: (depth.get(), bare.get("unset")),
    setup=start_contexts,
)
def context_small_print(t, n):
    token = depth.set(depth.get() * n)
    inside = contextvars.copy_context()
    inside.run(depth.set, 1000)
    out = attempt(
        lambda: token.old_value,
        lambda: token.var is depth,
        lambda: inside[depth],
        lambda: depth.get(),
        lambda: bare.get(0),
        lambda: bare.reset(token),
        lambda: saved[0].run(lambda: (depth.get(), t * depth.get())),
        lambda: inside.run(inside.run, print),
        lambda: depth in inside and inside.get(depth),
    )
    t = t * depth.get()
    depth.reset(token)
    out += attempt(lambda: depth.reset(token))
    return t + depth.get(), [o.split("<")[0] if isinstance(o, str) else o for o in out]


@documented(
    "library/graphlib: ready nodes come when all before them are done; cycles raise with the nodes; order of use is checked",
    lambda: [
        (x(), {"c": ["b"], "b": ["a"], "d": ["a", "c"]}),
        (x(), {1: {2}, 2: {1}}),
        (x(), {}),
        (x(), {"x": ()}),
        (x(), {"x": [[]]}),
        (x(), {3: [1, 2], 4: [3]}),
    ],
)
def sorted_graph(t, graph):
    try:
        s = graphlib.TopologicalSorter(graph)
        waves = []
        early = attempt(lambda: s.is_active(), lambda: s.done("x"))
        s.prepare()
        while s.is_active():
            ready = s.get_ready()
            t = t * 2 + len(ready)
            waves.append(ready)
            s.done(*ready)
        return t, waves, early, attempt(lambda: s.done("c"), lambda: s.prepare(), lambda: s.add("late"))
    except (graphlib.CycleError, TypeError) as error:
        return t, error.args


@documented(
    "library/os and functions: the environment as it is now, print's sep, end and file, exec and eval with namespaces, compile's errors",
    lambda: [
        (x(), "t * 2"),
        Between(lambda: os.environ.update(GRAMME_DOCUMENTED="set")),
        (x(), "t +"),
        Between(lambda: os.environ.pop("GRAMME_DOCUMENTED")),
        (x(), "[k for k in range(n)]"),
        (x(), "unknown"),
        (x(), "(n := 5) + n"),
        (x(), "print(n, t.shape[0], sep='-', end='!')"),
    ],
    setup=lambda: os.environ.pop("GRAMME_DOCUMENTED", None) and None,
)
def outside_world(t, source):
    n = len(os.environ.get("GRAMME_DOCUMENTED", ""))
    stream = io.StringIO()
    space = {"t": t, "n": n}
    print(n, t.shape, sep="|", end="\n\n", file=stream, flush=True)
    out = attempt(
        lambda: eval(source, {"t": t}, space),
        lambda: exec("made = t * 3\ndel n", space),
        lambda: os.getenv("GRAMME_DOCUMENTED", "unset"),
        lambda: os.environ["GRAMME_DOCUMENTED"],
        lambda: compile("x = ", "<made>", "exec"),
        lambda: pathlib.PurePosixPath("/a/b", "../c.tar.gz").suffixes,
        lambda: print(1, sep=2),
        lambda: print("plain", file=None),
        lambda: vars(5),
        lambda: getattr(t, 5),
        lambda: chr(-1) if n else ord("ab"),
        lambda: [bin(-5), oct(8), hex(True), ascii("é")],
        lambda: isinstance(t, (int, (str, torch.Tensor))),
        lambda: round(2.675, 2) + round(-0.5) + divmod(-7, 2)[1],
        lambda: sorted({"b": 1, "a": 2}.items(), key=lambda kv: kv[1], reverse=True),
    )
    return (
        space["made"] + n,
        [str(o) if isinstance(o, Exception) else o for o in out],
        stream.getvalue(),
        sorted(space)[:2],
    )
