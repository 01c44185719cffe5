"""Where the CPU time of a training step goes: in kernels, in the operating system, and between kernels.

    .venv/bin/python bench/step_profile.py                  # all models of real_sizes.py that train, one thread
    .venv/bin/python bench/step_profile.py bert --symbols   # also what was counted as what

Linux's `perf` samples eager's steps and the native backend's, each in a process of its own. Eager's time without its
kernels' own is the most that a front end could save: the last column is how much of it is gone with native. It is CPU
time, so a busy machine changes little. Kernels are what symbols say: loops, products, convolutions, copies.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TRAINED = ("bert", "gpt2", "llama", "vit", "resnet50")
STEPS = 8

# In libtorch_cpu: what computes. Everything else of it dispatches, allocates, or builds autograd's graph.
KERNEL = re.compile(
    r"mkl|dnnl|xbyak|jit_|cpublas|gemm|\bdot\b|vectorized|Vectorized|loop2d|_loop|kernel_impl|_kernel<|_kernel\(|"
    r"at::native::\(anonymous namespace\)::|DEFAULT::|AVX2::|AVX512::|ZVECTOR::|parallel_for|sleef|Sleef|_avx|fill_|"
    r"memcpy|memset|memmove",
)


def step_forever(name: str, front: str) -> None:
    """The child: warms up, says how far it is, and goes on while it is sampled."""
    import gramme
    import real_sizes
    import torch

    torch.set_num_threads(1)
    made, inputs = real_sizes.MODELS[name][1]()
    made.train()
    call = gramme.compile(made, backend="native") if front == "native" else made
    for _ in range(6):
        made.zero_grad()
        real_sizes.train(call, inputs)
    print("warm", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    for _ in range(STEPS):
        made.zero_grad()
        real_sizes.train(call, inputs)
    print((time.process_time() - began) / STEPS, flush=True)
    sys.stdin.readline()


def sampled(name: str, front: str) -> tuple[float, Counter[tuple[str, str, str]]]:
    """Seconds a step, and samples by kind, shared object and symbol."""
    child = subprocess.Popen(
        [sys.executable, __file__, name, "--front", front],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "warm\n"
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        perf = subprocess.Popen(["perf", "record", "-q", "-F", "997", "-o", data, "-p", str(child.pid)])
        time.sleep(1)
        child.stdin.write("\n")
        child.stdin.flush()
        seconds = float(child.stdout.readline())
        perf.terminate()
        perf.wait()
        child.communicate("\n")
        shown = ["perf", "script", "-i", data, "-F", "ip,sym,dso"]
        lines = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.splitlines()
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        if found := re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line):
            symbol, shared = found[1], Path(found[2]).name
            counts[kind(symbol, shared), shared, symbol] += 1
    return seconds, counts


def kind(symbol: str, shared: str) -> str:
    if "kernel" in shared:
        return "OS"
    if shared.startswith(("libtorch_cpu", "libmkl")) and KERNEL.search(symbol):
        return "kernels"
    if shared.startswith(("perf-", "[anon", "//anon", "anon", "[unknown")):  # compiled at run time by oneDNN
        return "kernels"
    if shared.startswith("libc.so") and re.search("mem(cpy|move|set)", symbol):
        return "kernels"
    return "between"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="model", help="of bench/real_sizes.py; those that train without")
    parser.add_argument("--symbols", action="store_true")
    parser.add_argument("--front", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.front:
        step_forever(chosen.names[0], chosen.front)
        return
    columns = "ms | kernels | OS | between"
    print(f"| model | eager, {columns} | native, {columns} | outside of kernels, saved |")
    print("|---" * 10 + "|")
    reached = []
    for name in chosen.names or TRAINED:
        times = {}
        cells = ""
        for front in ("eager", "native"):
            seconds, counts = sampled(name, front)
            total = counts.total()
            by_kind = {k: sum(n for key, n in counts.items() if key[0] == k) for k in ("kernels", "OS", "between")}
            times[front] = seconds, {k: seconds * n / total for k, n in by_kind.items()}
            cells += f" {1e3 * seconds:.0f} |" + "".join(f" {1e3 * v:.0f} |" for v in times[front][1].values())
            if chosen.symbols:
                for (what, shared, symbol), n in counts.most_common(45):
                    print(f"{front} {what:8} {n / total:6.1%} {shared} {symbol[:110]}")
        outside = {front: parts["OS"] + parts["between"] for front, (_, parts) in times.items()}
        share = 1 - outside["native"] / outside["eager"]
        reached.append(share)
        print(f"| {name} |{cells} {share:.0%} |", flush=True)
    print(f"Mean of what is saved: {statistics.mean(reached):.0%}, least {min(reached):.0%}.")


if __name__ == "__main__":
    main()
