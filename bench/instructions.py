"""Instructions of captures and hits, counted by callgrind: the same binary gives the same figures on a busy machine.

    .venv/bin/python bench/instructions.py            # prints figures beside the baseline; an error above +3 %
    .venv/bin/python bench/instructions.py --write    # makes them the baseline, with the commit
    .venv/bin/python bench/instructions.py --profile x_plus_1   # the functions in which a capture spends them

A capture counts from the call to the moment a backend has its graph, in a process that has captured the program
before: metadata is known. A hit is a call that the cache answers and whose backend returns a constant; a hundred are
counted, then a hundred in a recording (gramme.record). Needs valgrind and a C compiler. Other processors, compilers and
versions of PyTorch give other figures: the baseline says where it was made, and nothing is compared elsewhere.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).with_name("instructions.json")
LIMIT = 1.03
HITS = 100

# Requests to callgrind from inside the process: switch counting, set counters to zero, write them to a file. sweep()
# reads so much memory that nothing else is left in a cache of two megabytes.
SWITCH = """
#include <stdlib.h>
#include <valgrind/callgrind.h>
void on(void) { CALLGRIND_ZERO_STATS; CALLGRIND_TOGGLE_COLLECT; }
void off(const char* name) { CALLGRIND_TOGGLE_COLLECT; CALLGRIND_DUMP_STATS_AT(name); }
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void toggle(void) { CALLGRIND_TOGGLE_COLLECT; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
void sweep(void) {
  static volatile char* memory;
  if (!memory) memory = calloc(8, 1 << 20);
  for (int i = 0; i < 8 << 20; i += 64) ++memory[i];
}
"""


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    import corpus
    import torch

    class Nested(torch.nn.Module):
        def __init__(self, depth: int) -> None:
            super().__init__()
            self.inner = Nested(depth - 1) if depth else torch.nn.Linear(8, 8)
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.inner(x)) + x

    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    linears, arguments = corpus.CAPTURE["list_of_linears"]()
    return {
        "x_plus_1": (lambda x: x + 1, (torch.ones(4),)),
        "transformer_layer": (layer, (torch.randn(2, 6, 16),)),
        "twenty_linears": (linears, arguments()),
        "nested_module": (Nested(10), (torch.randn(2, 8),)),
    }


class Counter:
    """Switches callgrind's counting from within the process that it runs."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.counted: list[str] = []

    def start(self) -> None:
        self.library.start()

    def on(self) -> None:
        self.library.on()

    def off(self, name: str) -> None:
        self.library.off(name.encode())
        self.counted.append(name)


def measure(library: str, only: str | None) -> None:
    """The child: runs each program under callgrind and dumps its counts one by one."""
    import gc

    import gramme
    import torch

    torch.set_num_threads(1)
    counter = Counter(library)
    counting = ""

    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        nonlocal counting
        if counting:
            counter.off(counting)
            counting = ""
        with torch.no_grad():
            results = graph(*inputs)
        return lambda *_: results

    with torch.no_grad():
        for name, (function, arguments) in programs().items():
            if only not in (None, name):
                continue
            for _ in range(3):
                gramme.compile(function, backend=backend)(*arguments)
                gramme.reset()  # or the next one would use this one's captures
            compiled = gramme.compile(function, backend=backend)
            gc.collect()
            gc.disable()
            counter.start()
            counting = f"capture.{name}"
            counter.on()
            compiled(*arguments)
            for _ in range(10):
                compiled(*arguments)
            counter.on()
            for _ in range(HITS):
                compiled(*arguments)
            counter.off(f"hit.{name}")
            with gramme.record():
                compiled(*arguments)
                counter.on()
                for _ in range(HITS):
                    compiled(*arguments)
                counter.off(f"recorded.{name}")
            gc.enable()


def under_callgrind(script: str, arguments: list[str], work: Path, *options: str) -> dict[str, dict[str, int]]:
    """Runs `script --child LIBRARY arguments` under callgrind: for each name that it dumped, how often each event was
    counted. callgrind's files lie in `work`."""
    source, library = work / "switch.c", work / "switch.so"
    source.write_text(SWITCH)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", "--quiet", *options]
    child = [sys.executable, script, "--child", str(library), *arguments]
    subprocess.run(["setarch", "-R", *tool, f"--callgrind-out-file={work}/out.%p", *child], check=True, env=environment)
    figures = {}
    for dump in work.glob("out.*"):
        text = dump.read_text()
        what = re.search(r"^desc: Trigger: Client Request: (\S+)$", text, re.M)
        events = re.search(r"^events: (.+)$", text, re.M)
        totals = re.search(r"^(?:summary|totals): (.+)$", text, re.M)
        if what and events and totals:
            figures[what[1]] = dict(zip(events[1].split(), map(int, totals[1].split()), strict=False))
    return figures


def count(only: str | None = None, keep: Path | None = None) -> dict[str, int]:
    """Instructions by figure; `keep` receives callgrind's files."""
    with tempfile.TemporaryDirectory() as folder:
        dumps = under_callgrind(__file__, ["--only", only] if only else [], keep or Path(folder))
    figures = {what: events["Ir"] // (1 if what.startswith("capture.") else HITS) for what, events in dumps.items()}
    return dict(sorted(figures.items()))


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].strip() if found else platform.machine()


def place() -> dict[str, str]:
    """The environment that the figures depend on."""
    import torch

    compiler = subprocess.run(["cc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return {
        "processor": processor(),
        "compiler": compiler.stdout.strip(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the figures the baseline")
    parser.add_argument("--profile", metavar="PROGRAM", help="print where a capture of the program spends instructions")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        measure(chosen.child, chosen.only)
        return 0
    if not shutil.which("valgrind"):
        print("instructions: NOT COUNTED: valgrind is not installed")
        return 0
    if chosen.profile:
        with tempfile.TemporaryDirectory() as folder:
            count(chosen.profile, Path(folder))
            for dump in Path(folder).glob("out.*"):
                if f"capture.{chosen.profile}" in dump.read_text():
                    subprocess.run(["callgrind_annotate", "--threshold=80", dump], check=True)
        return 0
    try:
        figures = count()
    except subprocess.CalledProcessError as error:
        print(f"instructions: NOT COUNTED: {error}")
        return 0
    if chosen.write:
        made = {"commit": commit(), "where": place(), "instructions": figures}
        BASELINE.write_text(json.dumps(made, indent=1) + "\n")
    baseline = json.loads(BASELINE.read_text())
    print(f"{'instructions':30} {'now':>12} {baseline['commit']:>12}")
    above = 0
    for name, now in figures.items():
        before = baseline["instructions"].get(name, now)
        above += now > before * LIMIT
        print(f"{name:30} {now:12,} {before:12,} {now / before:6.3f}{'  ABOVE' if now > before * LIMIT else ''}")
    if baseline["where"] != place():
        print(f"instructions: NOT COMPARED: the baseline was made elsewhere: {baseline['where']}")
        return 0
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
