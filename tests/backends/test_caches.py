"""A second process finds what a first one compiled, on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, torch, gramme
from torch import nn
from torch._dynamo.utils import counters

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)
    def forward(self, x):
        y = self.linear(self.norm(x)).view(-1, 2, 4).transpose(1, 2)
        return x + y.contiguous().view(-1, 8).relu()

torch.manual_seed(0)
model, x = nn.Sequential(Block(), Block()), torch.randn(6, 8)
result = gramme.compile(model)(x)
result.sum().backward()
assert torch.allclose(result, model(x), atol=1e-5)
print(json.dumps({name: dict(counters[name]) for name in ("aot_autograd", "inductor")}))
"""


def counted(folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_second_process(tmp_path: Path) -> None:
    first, second = counted(tmp_path), counted(tmp_path)
    assert first["aot_autograd"]["autograd_cache_miss"] == 1
    assert first["aot_autograd"]["autograd_cache_saved"] == 1
    assert second["aot_autograd"]["autograd_cache_hit"] == 1
    assert "autograd_cache_miss" not in second["aot_autograd"]
    assert second["inductor"]["fxgraph_cache_hit"] == 2
