"""Writes golden/dynamo_ops_<category>.txt: the operations PyTorch's Dynamo records for each program,
and dynamo_breaks.txt: how much of the programs with breaks it runs in graphs.

Run from the folder above the tests: python tests/e2e/record_dynamo.py [category ...]
"""

import itertools
import logging
import os
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ["GRAMME_FRONT"] = "torch"

import torch  # noqa: E402
from programs import CATEGORIES, Program, programs  # noqa: E402

from e2e.front import Compiled, reset  # noqa: E402
from e2e.harness import observe  # noqa: E402

DIFFERS = "# the run differs from eager"


def recorded(program: Program) -> str:
    """What the golden file says of one program, not yet wrapped."""
    reset()
    compiled = Compiled(program.function, fullgraph=program.one_graph)
    eager, outcome = observe(program.function, program), observe(compiled, program)
    if outcome.exception and outcome.exception != eager.exception:
        reason = re.search(r"0: ['\"](.+?)(\\n|['\"]$)", outcome.exception, re.MULTILINE)
        return f"refused: {reason[1] if reason else outcome.exception.splitlines()[0]}"
    runs = [(op, len(list(same))) for op, same in itertools.groupby(compiled.recorder.ops)]
    words = " ".join(op if n == 1 else f"{op}*{n}" for op, n in runs)
    return words if str(outcome) == str(eager) else f"{words} {DIFFERS}"


def text(category: str) -> str:
    sections = [f"# Operations recorded by Dynamo of torch {torch.__version__.split('+')[0]}, `op*n` for n in a row.\n"]
    for program in programs(category):
        words = recorded(program)
        lines = textwrap.wrap(words.removesuffix(DIFFERS), 116, break_long_words=False, break_on_hyphens=False)
        lines += [DIFFERS] if words.endswith(DIFFERS) else []
        sections.append(f"{program.name}:\n" + "".join(f"    {line}\n" for line in lines))
    return "\n".join(sections)


def breaks_table() -> str:
    lines = [f"# {'program':36} {'operations run in graphs in a warm call':>40} {'graphs':>8} {'wrong':>6}"]
    for program in programs("breaks"):
        reset()
        compiled = Compiled(program.function)
        wrong = ""
        for _ in range(3):
            before = compiled.recorder.ops_run
            outcome = observe(compiled, program)
            if str(outcome) != str(observe(program.function, program)):
                wrong = "wrong"
        ran = compiled.recorder.ops_run - before
        lines.append(f"{program.name:38} {ran:40} {len(compiled.recorder.graphs):8} {wrong:>6}".rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    golden = Path(__file__).with_name("golden")
    for name in sys.argv[1:] or CATEGORIES:
        if name == "breaks":
            (golden / "dynamo_breaks.txt").write_text(breaks_table())
        elif name != "errors":
            (golden / f"dynamo_ops_{name}.txt").write_text(text(name))
