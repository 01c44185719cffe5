"""Checks an installed gramme in less than a minute; tools/wheels.py runs it with each torch of a wheel.

python check_wheel.py 2.15    in a folder without a checkout
"""

import contextlib
import io
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import torch


class Loss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).square().mean()


def speak(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    for i in range(3):
        x = x.sin() + i
        print("step", i)
        log.append("step")
    return x.cos()


def gradients(model: torch.nn.Module, call: Any, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss = call(x)
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def check_the_package(gramme: Any, minor: str) -> None:
    assert "site-packages" in gramme.__file__, gramme.__file__
    assert Path(gramme._C.__file__).parent.name == minor.replace(".", "_")
    about = metadata.metadata("gramme")
    assert "# gramme" in (about.get_payload() or about["Description"]), "README is the description"
    (entry,) = [e for e in metadata.entry_points(group="torch_dynamo_backends") if e.name == "gramme_native"]
    assert entry.value == "gramme:gramme_native"


def check_captures_and_hits(gramme: Any) -> None:
    compiled = gramme.compile(lambda x: (x + 1).relu() * 2, backend="eager")
    x = torch.randn(5)
    for _ in range(4):
        assert torch.equal(compiled(x), (x + 1).relu() * 2)
    assert gramme.statistics(compiled).captures == 1
    assert gramme.statistics(compiled).hits == 3
    for size in (6, 7):
        assert compiled(torch.ones(size)).tolist() == [4.0] * size
    assert gramme.statistics(compiled).captures == 2


def check_native(gramme: Any) -> None:
    torch.manual_seed(0)
    model, x = Loss(), torch.randn(4, 8)
    eager, native = gradients(model, model, x), gradients(model, gramme.compile(model, backend="native"), x)
    for ours, theirs in zip(native, eager, strict=True):
        torch.testing.assert_close(ours, theirs)


def check_a_break(gramme: Any) -> None:
    x, ours, theirs = torch.ones(3), io.StringIO(), io.StringIO()
    ours_log: list[str] = []
    theirs_log: list[str] = []
    with contextlib.redirect_stdout(theirs):
        expected = speak(x, theirs_log)
    with contextlib.redirect_stdout(ours):
        assert torch.equal(gramme.compile(speak, backend="eager")(x, ours_log), expected)
        explained = gramme.explain(speak)(x, [])
    assert ours.getvalue() == theirs.getvalue() * 2
    assert ours_log == theirs_log == ["step"] * 3
    assert len(explained.segments) == 4
    assert "print" in str(explained)


def check_an_error(gramme: Any) -> None:
    said = ""
    try:
        gramme.compile(speak, backend="eager", fullgraph=True)(torch.ones(3), [])
    except gramme.CaptureError as error:
        said = str(error)
    assert "print" in said, said
    assert "check_wheel.py" in said, said


def main(minor: str) -> None:
    began = time.perf_counter()
    import gramme

    loaded = time.perf_counter()
    check_the_package(gramme, minor)
    for check in (check_captures_and_hits, check_native, check_a_break, check_an_error):
        check(gramme)
    done = time.perf_counter()
    print(f"torch {torch.__version__}: imported in {loaded - began:.1f} s, checked in {done - loaded:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])
