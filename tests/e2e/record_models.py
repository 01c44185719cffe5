"""Writes golden/dynamo_models.txt: what PyTorch's Dynamo records for each model of e2e/models.py.

Run from the folder above the tests: python tests/e2e/record_models.py
"""

import collections
import hashlib
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ["GRAMME_FRONT"] = "torch"

import torch  # noqa: E402

from e2e.front import target_name  # noqa: E402

GOLDEN = Path(__file__).with_name("golden") / "dynamo_models.txt"
HEADER = """\
# What Dynamo of torch {version} records for the models of e2e/models.py.
# name: operations and a hash of them in order; inputs with a hash of their names in order and of the same names sorted
#     how often each operation occurs
"""


def short_hash(words: list[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def input_names(graph: torch.fx.Graph) -> list[str]:
    """Names of the placeholders; those of `forward(**kwargs)` as if they had been named."""
    names = [str(node.target) for node in graph.nodes if node.op == "placeholder"]
    return [re.sub("^L_kwargs_", "L_", name) for name in names]


def summary(graph: torch.fx.GraphModule) -> str:
    """A few lines that differ if two graphs differ in an operation, in an input, or in the order of either."""
    ops = [target_name(node) for node in graph.graph.nodes if node.op.startswith("call_")]
    inputs = input_names(graph.graph)
    counts = " ".join(f"{op}*{n}" for op, n in sorted(collections.Counter(ops).items()))
    lines = textwrap.wrap(counts, 112, break_long_words=False, break_on_hyphens=False)
    head = f"{len(ops)} operations {short_hash(ops)}, "
    head += f"{len(inputs)} inputs {short_hash(inputs)} {short_hash(sorted(inputs))}"
    return "\n".join([head, *(f"    {line}" for line in lines)])


def sections(text: str) -> dict[str, str]:
    """Summaries by model."""
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    return dict(re.findall(r"^(\w+): (.+?)(?=^\w|\Z)", body, re.MULTILINE | re.DOTALL))


def main() -> None:
    from e2e.models import MODELS

    found = [HEADER.format(version=torch.__version__.split("+")[0])]
    for name, model in MODELS.items():
        graphs: list[torch.fx.GraphModule] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[Any], graphs: list[Any] = graphs) -> Any:
            graphs.append(graph)
            return graph.forward

        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(model.make(), backend=backend, fullgraph=True)(**model.arguments(0))
        found.append(f"{name}: {summary(graphs[0])}\n")
    GOLDEN.write_text("".join(found))


if __name__ == "__main__":
    main()
