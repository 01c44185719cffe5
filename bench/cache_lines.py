"""Cache lines that a hit touches when it finds the caches cold, counted by callgrind's model of a cache.

    .venv/bin/python bench/cache_lines.py              # BERT and GPT-2 of twelve layers
    .venv/bin/python bench/cache_lines.py --names llama

Before each hit a sweep over eight megabytes empties the model's last level (two megabytes, as a core has): what the hit
reads is then missing there once, in lines of 64 bytes. The backend returns a constant, so no kernel runs. Data and code
are told apart; a call of a plain function is taken off. What a machine makes of a missing line depends on how many it
fetches at once; `compare.py place` measures that. Needs valgrind and a C compiler.
"""

import argparse
import ctypes
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instructions import under_callgrind

HITS = 10
CACHES = ("--cache-sim=yes", "--D1=49152,12,64", "--LL=2097152,16,64", "--trace-children=yes")


def measure(library: str, names: list[str]) -> None:
    """The child: hits of each model, the caches swept before each."""
    import gc

    import corpus
    import gramme
    import torch

    torch.set_num_threads(1)
    switch = ctypes.PyDLL(library)

    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        results = graph(*inputs)
        return lambda *_: results

    def plain(*_: Any) -> None:
        return None

    with torch.no_grad():
        for name in names:
            function, make = corpus.HIT[name]()
            arguments = make()
            compiled = gramme.compile(function, backend=backend)
            for _ in range(15):
                compiled(*arguments)
            switch.start()
            gc.disable()
            for what, call in (("hit", compiled), ("plain", plain)):
                call(*arguments)
                switch.zero()
                for _ in range(HITS):
                    switch.sweep()
                    switch.toggle()
                    call(*arguments)
                    switch.toggle()
                switch.dump(f"{what}.{name}".encode())
            gc.enable()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="bert,gpt2")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = chosen.names.split(",")
    if chosen.child:
        measure(chosen.child, names)
        return 0
    if not shutil.which("valgrind"):
        print("cache_lines: NOT COUNTED: valgrind is not installed")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        counted = under_callgrind(__file__, ["--names", chosen.names], Path(folder), *CACHES)
    print(f"{'':16} {'lines of data':>14} {'lines of code':>14} {'instructions':>14}")
    for name in names:

        def above(*events: str, name: str = name) -> int:
            hit, plain = counted[f"hit.{name}"], counted[f"plain.{name}"]
            return sum(hit[event] - plain[event] for event in events) // HITS

        print(f"{name:16} {above('DLmr', 'DLmw'):>14,} {above('ILmr'):>14,} {above('Ir'):>14,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
