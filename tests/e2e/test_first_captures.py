"""The first captures of a process overlap in two threads: what is fetched once for all of them must not be waited for
with the GIL held. Each case is a process of its own, since there is one first time in each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = 4

SCRIPT = """
import collections, contextvars, faulthandler, functools, itertools, math, operator, random, sys, threading, types
import torch
from e2e import front

faulthandler.dump_traceback_later(90, exit=True)
seed = int(sys.argv[1])
Point = collections.namedtuple("Point", "x y")
variable = contextvars.ContextVar("variable", default=3)

def containers(x):
    d = collections.deque([x, x + 1], maxlen=3)
    d.append(x * 2)
    e = collections.defaultdict(list)
    e["a"].append(x)
    return sum(d) + e["a"][0], collections.OrderedDict(a=x), {1, 2} | {3}

def functions(x):
    add = functools.partial(torch.add, alpha=2)
    return functools.reduce(operator.add, [add(x, x), x.neg()]), sorted([3, 1, 2], key=lambda i: -i), max(1, 2)

def iterators(x):
    pairs = itertools.zip_longest(itertools.chain([1], [2]), itertools.product([3], [4]))
    groups = [list(g) for k, g in itertools.groupby([1, 1, 2])]
    return x * sum(i for i, p in pairs), groups, list(itertools.islice(itertools.count(), 3))

def modes(x):
    with torch.no_grad():
        y = x * 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = (x.reshape(1, -1) @ x.reshape(-1, 1)).float()
    return y + z.sum()

def breaks(x):
    y = x + 1
    front.graph_break()
    print(end="")
    return y * 2, y.shape[0]

def modules(x):
    return LINEAR(x) + torch.nn.functional.relu(x)

def objects(x):
    space = types.SimpleNamespace(a=x, b=Point(x, 1))
    return space.a + space.b.x, isinstance(space, collections.abc.Mapping), variable.get(), f"{math.pi:.2f}"

def tensors(x):
    y = torch.zeros_like(x).contiguous(memory_format=torch.contiguous_format)
    y[0] = 1.0
    return y.to(torch.float64).type(), y.is_quantized, torch.addcdiv(x, x, x + 1), torch.get_default_dtype(), y.shape

def vectorised(x):
    return torch.vmap(lambda row: row * 2)(x)

def raises(x):
    try:
        {}["a"]
    except KeyError as error:
        return x + len(str(error))

LINEAR = torch.nn.Linear(4, 4)
ALL = [containers, functions, iterators, modes, breaks, modules, objects, tensors, vectorised, raises]
order = random.Random(seed).sample(ALL, len(ALL))
backends = ["eager", "native"][seed % 2 :] + ["eager", "native"][: seed % 2]
failed = []

def run(barrier, function, backend):
    try:
        x = torch.arange(4.0)
        compiled = front.compile(function, backend=backend)
        barrier.wait(60)
        result, expected = compiled(x), function(x)
        if repr(result) != repr(expected):
            failed.append(f"{function.__name__}: {result} is not {expected}")
    except BaseException as error:
        failed.append(f"{function.__name__}: {error!r}")

sys.setswitchinterval(1e-6)
for first, second in zip(order[::2], order[1::2]):
    barrier = threading.Barrier(2)
    pair = [threading.Thread(target=run, args=(barrier, f, b)) for f, b in zip((first, second), backends)]
    for thread in pair: thread.start()
    for thread in pair: thread.join()
print(failed or "fine")
"""


def first_captures(seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    return done.stdout.strip() + (f" {done.returncode}: {done.stderr[-2000:]}" if done.returncode else "")


@pytest.mark.slow
def test_first_captures_of_two_threads(soak: bool) -> None:
    for seed in range(200 if soak else CASES):
        assert first_captures(seed) == "fine", seed


def test_first_captures_once() -> None:
    assert first_captures(1000) == "fine"


SETTINGS = """
import gramme, torch

def program(x):
    return x * x.sum().item()

def graphs():
    gramme.reset()
    return gramme.explain(program)(torch.ones(3)).graph_count

counts = [graphs(), graphs()]
import torch._dynamo.config as config
config.capture_scalar_outputs = True
counts.append(graphs())
with config.patch(capture_scalar_outputs=False):
    counts.append(graphs())
config.capture_scalar_outputs = False
counts.append(graphs())
print(counts)
"""


def test_settings_that_are_imported_later_count() -> None:
    done = subprocess.run([sys.executable, "-c", SETTINGS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[2, 2, 1, 2, 2]"


UNDER_WAY = """
import sys, types
from importlib.machinery import ModuleSpec
import torch, gramme
from gramme._torch import names

begun = sys.modules[names.DYNAMO_CONFIG] = types.ModuleType(names.DYNAMO_CONFIG)
begun.__spec__ = ModuleSpec(names.DYNAMO_CONFIG, None)
begun.__spec__._initializing = True
compiled = gramme.compile(lambda x: x, backend="eager")
print(names.loaded(names.DYNAMO_CONFIG), compiled(1))
del sys.modules[names.DYNAMO_CONFIG]
import torch._dynamo
print(names.loaded(names.DYNAMO_CONFIG) is torch._dynamo.config, compiled(2))
"""


def test_modules_that_are_being_imported_are_not_read() -> None:
    done = subprocess.run([sys.executable, "-c", UNDER_WAY], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["None 1", "True 2"], done.stderr
