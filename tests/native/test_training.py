"""Training programs tell the same as eager, whatever they look at, with a recorded backward and without one."""

import warnings
from typing import Any

import gramme
import pytest
import torch

from native.training import graphs, hooks, states, writes  # noqa: F401
from native.training.scenario import SCENARIOS, Log, Scenario, Wrap

pytestmark = pytest.mark.usefixtures("fresh")

# What a recorded backward still tells otherwise.
OPEN = {
    "views_of_results": "results are no views",
}


def told(scenario: Scenario, wrap: Wrap) -> list[Any]:
    torch.manual_seed(0)
    log = Log()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenario(wrap, log)
    return log.told


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "engine"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_tells_the_same(name: str, recorded: bool, request: pytest.FixtureRequest) -> None:
    if recorded and name in OPEN:
        request.applymarker(pytest.mark.xfail(reason=OPEN[name], strict=True))
    options = {"recorded_backward": recorded}
    expected = told(SCENARIOS[name], lambda function: function)
    found = told(SCENARIOS[name], lambda function: gramme.compile(function, backend="native", options=options))
    for i, (e, f) in enumerate(zip(expected, found, strict=True)):
        assert f == e, f"what was told as {i} of {len(expected)}"
